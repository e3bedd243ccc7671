//! Who may ask, and what was told to those who ask again.

use super::Workspace;
use crate::{id::Seq, json::Payload, time::Timestamp};

/// What a request under an idempotency key came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The workspace.
    pub ws: Workspace,
    /// Stands for the request's method, path and key.
    pub id: String,
    /// Its place among all, by which the old are found.
    pub seq: Seq,
    /// When the request came first.
    pub at: Timestamp,
    /// Stands for all else of the request.
    pub hash: String,
    /// What its effect came to, written with the effect; none where there was none.
    pub answer: Option<Payload>,
    /// What its sender was told, once that is known.
    pub response: Option<Payload>,
}

/// A key of the API. The secret itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part.
    pub id: String,
    /// The workspace that it opens.
    pub ws: Workspace,
    /// What people call it.
    pub name: String,
    /// The SHA-256 of the whole key, in hex.
    pub hash: String,
    /// Whether it only lets look.
    pub read_only: bool,
    /// When it was made.
    pub made_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, roughly.
    pub used_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}
