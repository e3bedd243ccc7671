//! Rows of engines, definitions and schedules, and counters of a workspace.

use serde::{Deserialize, Serialize};

use super::{EngineId, Workspace};
use crate::{
    id::{RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Process that drives runs. It counts as alive as long as its heartbeat changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// The engine's id, new at every start.
    pub id: EngineId,
    /// The heartbeat counter; each heartbeat increases it.
    pub beat: i64,
    /// Whether another engine has declared this one dead, because its heartbeat did not change for
    /// a whole lease. Never cleared.
    pub dead: bool,
    /// The lanes whose runs the engine leases, in all workspaces.
    pub serves: Vec<Seq>,
    /// The length of the engine's lease in milliseconds. Another engine declares this one dead only
    /// if it saw no heartbeat for this time. None in rows that an older build has written.
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
    /// The schedule's cron expression, and its time zone if that is not UTC.
    pub id: String,
    /// The planned time of the next occurrence; none if there is no further one.
    pub next: Option<Timestamp>,
    /// The planned time of the last occurrence that took place or was skipped.
    pub last: Option<Timestamp>,
    /// The outcome of that occurrence.
    pub outcome: Option<Occurred>,
    /// When a user paused the schedule. A paused schedule has no planned occurrence.
    pub paused_at: Option<Timestamp>,
}

/// Outcome of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Occurred {
    /// The word for the verdict on the occurrence, or `missed`.
    pub outcome: String,
    /// The occurrence's run, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Number of missed occurrences, including this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u32>,
}

/// The last global position that a workspace's streams have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The workspace.
    pub ws: Workspace,
    /// The highest position in use; 0 if there is none.
    pub pos: i64,
}

/// Epoch: counter that grows with every change of a workspace's definitions. The row with an empty
/// workspace name has another use: it stores the horizon of retention (`retention::horizon`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The workspace.
    pub ws: Workspace,
    /// The number of changes.
    pub n: i64,
}

/// One version of a workflow or an action, a reaction, or a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Def {
    /// The lane: the number by which the runs of this version are found.
    pub lane: Seq,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow's name, `flow/action`, or the name of the reaction or the pool.
    pub name: String,
    /// The version; 0 for a reaction.
    pub version: u32,
    /// The definition in its stored form.
    pub body: Payload,
    /// The number of this version's last release, counted over the workspace; none if it was never
    /// released. The version with the highest number is current.
    pub released: Option<i64>,
    /// Whether the version was registered by code without a version number; none in rows of older
    /// builds, which did not record it.
    pub assigned: Option<bool>,
    /// Whether the last release was part of a registration, and not a manual release.
    pub deployed: bool,
}
