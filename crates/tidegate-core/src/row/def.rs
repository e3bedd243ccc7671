//! Engine, definition and schedule rows, and the counters that order them.

use serde::{Deserialize, Serialize};

use super::{EngineId, Workspace};
use crate::{
    id::{RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Process that drives runs, alive as long as its heartbeat changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// The engine's id, new at every start.
    pub id: EngineId,
    /// The heartbeat counter; grows with every renewal.
    pub beat: i64,
    /// Set once by the engine that saw no heartbeat for a whole lease; never cleared.
    pub dead: bool,
    /// The lanes that the engine takes runs from, in all workspaces.
    pub serves: Vec<Seq>,
    /// The length of the engine's lease in milliseconds: others wait at least that long after the
    /// last heartbeat change that they saw. None in rows that an older binary has written.
    pub lease_ms: Option<u32>,
}

impl Engine {
    /// Creates an engine with its first heartbeat.
    pub fn new(id: EngineId, lease_ms: u32) -> Self {
        Self { id, beat: 1, dead: false, serves: Vec::new(), lease_ms: Some(lease_ms) }
    }
}

/// Schedule of a workflow, with its planned occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The workspace.
    pub ws: Workspace,
    /// The workflow's app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The schedule's expression, and its time zone where that is not UTC.
    pub id: String,
    /// The planned time of the next occurrence; none after the last.
    pub next: Option<Timestamp>,
    /// The planned time of the last occurrence that took place or was skipped.
    pub last: Option<Timestamp>,
    /// The outcome of that occurrence.
    pub outcome: Option<Occurred>,
    /// When the schedule was paused by hand; nothing is planned while it is paused.
    pub paused_at: Option<Timestamp>,
}

/// Outcome of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Occurred {
    /// The code of its verdict, or `missed`.
    pub outcome: String,
    /// The occurrence's run, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// How many occurrences were missed, this one included.
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

/// Counter that grows with every change of a workspace's definitions. The epoch of the empty
/// workspace name is the horizon of retention (`retention::horizon`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The workspace.
    pub ws: Workspace,
    /// The number of changes.
    pub n: i64,
}

/// One version of a workflow, an action or a reaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Def {
    /// The number by which ready runs of this version are found.
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
    /// Whether the version was registered by code without a version number; none in rows of a
    /// schema that did not record it.
    pub assigned: Option<bool>,
    /// Whether the last release came with a registration, and not by hand.
    pub deployed: bool,
}
