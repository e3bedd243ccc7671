//! The chore row: work that is too large for one transaction and is done in chunks.

use serde::{Deserialize, Serialize};

use super::{GateKey, Workspace};
use crate::{
    id::{ChoreId, Seq},
    key::Key,
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
    /// The name of the event, if the chore wakes waiting runs: chores with the same name are done in
    /// order. Empty if the chore delivers an event: so those of a workspace are listed.
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
        matches!(self.work, Work::ExpireOverride { .. } | Work::Deliver(_))
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
    /// Lets the unstarted runs of a workflow give their turns and executing places back, because an
    /// override has paused them.
    HoldBack {
        /// The target of the override.
        target: Target,
        /// The position from which the next transaction continues.
        from: LanePlace,
    },
    /// Delivers a deferred event or request. The chore has the number and the salt of the event.
    Deliver(Deferred),
}

/// A deferred event or request, as its chore needs it for the delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deferred {
    /// The name of the event, or of the action.
    pub name: String,
    /// The delay, if it was not given as a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The deduplication id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_id: Option<String>,
    /// The properties of a request; none for an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<DeferredRequest>,
}

/// Properties of a deferred request that its input does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeferredRequest {
    /// The app.
    pub app: String,
    /// The result of the policy's key function, if it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_key: Option<Key>,
    /// Maximum time in the queue, if the policy `queue` has no `maxWaitMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
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

/// Position among the runs of a workflow, lane by lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanePlace {
    /// The number of the version whose runs come next.
    pub lane: Seq,
    /// The last run of the lane that was processed.
    pub after: Seq,
}

impl LanePlace {
    /// The position before all runs.
    pub const FIRST: Self = Self { lane: Seq(i64::MIN), after: Seq(i64::MIN) };
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
