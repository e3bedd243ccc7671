//! The audit log: one row for each change by an operator.

use super::Workspace;
use crate::{id::Seq, json::Payload, time::Timestamp};

/// Row of the audit log. It is written in the transaction of the change and never changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The row's number.
    pub seq: Seq,
    /// The workspace.
    pub ws: Workspace,
    /// When the change was made.
    pub at: Timestamp,
    /// The name of the API key that made the change; none without keys, and for the engine.
    pub author: Option<String>,
    /// The network address of the caller, if there is one.
    pub address: Option<String>,
    /// The name of the operation, as in the `OpenAPI` document.
    pub operation: String,
    /// The object of the change. For an override it is the target as JSON.
    pub subject: String,
    /// The state before the change, if the operation records it.
    pub before: Option<Payload>,
    /// The state after the change, or the arguments of the operation.
    pub after: Option<Payload>,
}
