//! The input rows: events, batches, waits, signals and receipts.

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::{EventId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Where an input came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Posted: listed, and wakes waiters.
    Event,
    /// A call of an action.
    Request,
    /// A schedule's occurrence.
    Cron,
    /// A parent's call.
    Invoke,
}

/// An immutable input: a posted event, a request, an occurrence or a parent's call.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// The workspace.
    pub ws: Workspace,
    /// Where it came from.
    pub kind: Kind,
    /// The event's name, or what was called.
    pub name: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// When the sender says that it happened.
    pub ts: Option<Timestamp>,
    /// The data, as it was sent.
    pub data: Payload,
}

/// An event's place in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The run that will carry it.
    pub run: Seq,
    /// Its place, from 0.
    pub n: u32,
    /// The event.
    pub event: EventId,
}

/// A run that waits for an event of a name, filed under one field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path to the field; empty when any event of the name will do.
    pub path: String,
    /// The encoded value wanted there.
    pub value: Vec<u8>,
    /// The run.
    pub run: Seq,
    /// Its step.
    pub step: String,
}

/// A path that waits for this name are filed under, so that an event knows what to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPath {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path; empty for waits without a match.
    pub path: String,
}

/// A signal kept until its run asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The run.
    pub run: Seq,
    /// The signal's name.
    pub name: String,
    /// Its place in the inbox.
    pub seq: Seq,
    /// What it carries.
    pub data: Payload,
}

/// The durable record of a verdict other than a plain start.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// Its number.
    pub seq: Seq,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The key that the deciding control saw, as people read it.
    pub key: String,
    /// The event that was decided on.
    pub event: Seq,
    /// When.
    pub at: Timestamp,
    /// The verdict as the caller was told it.
    pub verdict: serde_json::Value,
}
