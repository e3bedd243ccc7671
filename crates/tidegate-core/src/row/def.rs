//! The rows about who serves what: engines, definitions, and the heads that order them.

use serde::{Deserialize, Serialize};

use super::{EngineId, Workspace};
use crate::{
    id::{RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// A process that drives runs, alive as long as its beat changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Fresh at every start.
    pub id: EngineId,
    /// Grows with every renewal.
    pub beat: i64,
    /// Set once by whoever saw no beat for a whole lease; never cleared.
    pub dead: bool,
    /// The lanes that it takes runs from, in all workspaces.
    pub serves: Vec<Seq>,
    /// The length of its lease in milliseconds: others wait at least that long after the last
    /// change of its beat that they saw. None in rows that an older binary has written.
    pub lease_ms: Option<u32>,
}

impl Engine {
    /// An engine at its first beat.
    pub fn new(id: EngineId, lease_ms: u32) -> Self {
        Self { id, beat: 1, dead: false, serves: Vec::new(), lease_ms: Some(lease_ms) }
    }
}

/// A schedule of a workflow, with what it plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The workspace.
    pub ws: Workspace,
    /// The workflow's app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// Its expression, and its time zone where that is not UTC.
    pub id: String,
    /// When the next occurrence is planned for; none after the last.
    pub next: Option<Timestamp>,
    /// When the last one that took place or was passed over had been planned for.
    pub last: Option<Timestamp>,
    /// What became of that one.
    pub outcome: Option<Occurred>,
    /// Since when nothing is planned, because somebody said so.
    pub paused_at: Option<Timestamp>,
}

/// What became of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Occurred {
    /// The word of its verdict, or `missed`.
    pub outcome: String,
    /// Its run, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// How many were missed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u32>,
}

/// The last global position that a workspace's streams have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The workspace.
    pub ws: Workspace,
    /// The greatest position in use; 0 when none is.
    pub pos: i64,
}

/// Grows with every change of a workspace's definitions. That of no workspace is the horizon of
/// retention (`retention::horizon`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The workspace.
    pub ws: Workspace,
    /// How many changes there have been.
    pub n: i64,
}

/// One version of a workflow, an action or a reaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Def {
    /// The number that runs of this version are found by when they are ready.
    pub lane: Seq,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow's name, `flow/action`, or the reaction's name.
    pub name: String,
    /// The version; 0 for a reaction.
    pub version: u32,
    /// The definition as data.
    pub body: Payload,
    /// Grows with each release in the workspace; none before the first. The greatest is current.
    pub released: Option<i64>,
    /// Whether code without a version number has registered it; none in rows of a schema that
    /// did not record it.
    pub assigned: Option<bool>,
    /// Whether its last release came with a registration, and not by hand.
    pub deployed: bool,
}
