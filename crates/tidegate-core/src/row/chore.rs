//! The chore row: work that is too large for one transaction and is done in chunks.

use serde::{Deserialize, Serialize};

use super::{GateKey, Workspace};
use crate::{
    id::{ChoreId, Seq},
    overrides::Target,
    time::Timestamp,
};

/// Chore: work that is done in later transactions than the one that requested it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chore {
    /// The chore's id. Rows with a higher number are not part of the work.
    pub id: ChoreId,
    /// The workspace.
    pub ws: Workspace,
    /// The name of the event, if the chore wakes waiting runs. Chores with the same name are done
    /// in order.
    pub topic: Option<String>,
    /// When the sweep has to process the chore: to do the next chunk, or to delete the row.
    pub due: Option<Timestamp>,
    /// The work and its progress.
    pub work: Work,
}

impl Chore {
    /// Whether the work is finished, so that only the row has to be deleted.
    pub fn is_over(&self) -> bool {
        matches!(&self.work, Work::Bulk(Bulk { ended_at: Some(_), .. }))
    }

    /// Whether the work must not begin before the due time.
    pub fn is_scheduled(&self) -> bool {
        matches!(self.work, Work::ExpireOverride { .. })
    }
}

/// Work of a chore and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Work {
    /// Wakes the runs that were waiting for an event when it arrived.
    Wake {
        /// The event.
        event: Seq,
        /// The last wait that was processed.
        after: WaitPlace,
    },
    /// Cancels the children of a run that was cancelled.
    Orphans {
        /// The reason.
        reason: String,
        /// The children that are left.
        runs: Vec<Seq>,
    },
    /// Applies the current limits to the gates of ranges: after one key, up to another.
    Renumber {
        /// The ranges that are left.
        rest: Vec<(GateKey, GateKey)>,
    },
    /// Applies one action to many runs.
    Bulk(Bulk),
    /// Ends an override when it expires.
    ExpireOverride {
        /// The number of the override's row.
        lane: Seq,
    },
    /// Marks the gates of an override's target as due, because their limit may be higher.
    MarkGates {
        /// The target.
        target: Target,
        /// The ranges of gate keys that are left.
        ranges: Vec<(GateKey, GateKey)>,
    },
}

/// Position of a wait among the waits for one event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WaitPlace {
    /// The path on which the wait matches.
    pub path: String,
    /// The waiting run.
    pub run: Seq,
    /// The run's step.
    pub step: String,
}

impl WaitPlace {
    /// Returns the position before all waits under a path.
    pub fn first(path: String) -> Self {
        Self { path, run: Seq(i64::MIN), step: String::new() }
    }
}

/// One action that is applied to many runs. Its row exists for a day after its end, so that users
/// can read the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    /// The action.
    pub what: BulkWhat,
    /// The filter, applied to the runs that were admitted before the operation.
    pub filter: BulkFilter,
    /// The lanes whose runs are not processed yet.
    pub lanes: Vec<Seq>,
    /// The last processed run of the first of these lanes.
    pub after: Seq,
    /// The results so far.
    pub counts: BulkCounts,
    /// When the operation was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Action applied to each run of a bulk operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkWhat {
    /// Cancels the run.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// Pauses the run.
    Pause,
    /// Resumes the run, if it is paused.
    Resume,
}

/// Filter of a bulk operation; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkFilter {
    /// Runs of this app.
    pub app: Option<String>,
    /// Runs of this workflow, or of this action (`flow/action`).
    pub workflow: Option<String>,
    /// Runs of this version.
    pub version: Option<u32>,
    /// Runs that are in this state when they are processed.
    pub state: Option<LiveState>,
    /// Runs that were admitted before this time.
    pub queued_before: Option<Timestamp>,
    /// Runs that wait at the gates of this target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_at: Option<Target>,
}

/// User-visible states of runs that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum LiveState {
    /// The run was admitted and has not started, or waits for a slot.
    Queued,
    /// A worker drives the run.
    Running,
    /// The run waits for a time, an event, a signal, a child or a retry.
    Waiting,
    /// The run is paused.
    Paused,
}

/// Results of a bulk operation so far, as numbers of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCounts {
    /// Number of runs to which the action was applied.
    pub done: u32,
    /// Number of runs to which it was not applied: they had ended already, or have too many related
    /// rows for one transaction.
    pub refused: u32,
}
