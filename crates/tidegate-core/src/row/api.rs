//! API keys and stored answers of idempotent requests.

use super::Workspace;
use crate::{id::Seq, json::Payload, time::Timestamp};

/// Stored answer of a request with an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The workspace.
    pub ws: Workspace,
    /// A digest of the request's method, path and key.
    pub id: String,
    /// The row's number, by which old rows are found.
    pub seq: Seq,
    /// When the request first arrived.
    pub at: Timestamp,
    /// A digest of all other parts of the request.
    pub hash: String,
    /// The answer to the request's command, written with its effect; none if it had no effect.
    pub answer: Option<Payload>,
    /// The response that was sent; none until it is known.
    pub response: Option<Payload>,
}

/// API key. The secret itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part of the key.
    pub id: String,
    /// The workspace that the key gives access to.
    pub ws: Workspace,
    /// The display name.
    pub name: String,
    /// The SHA-256 of the whole key, in hex.
    pub hash: String,
    /// Whether the key is read-only.
    pub read_only: bool,
    /// When the key was created.
    pub made_at: Timestamp,
    /// When the key expires.
    pub expires_at: Option<Timestamp>,
    /// The approximate time when the key was last used.
    pub used_at: Option<Timestamp>,
    /// When the key was revoked.
    pub revoked_at: Option<Timestamp>,
}
