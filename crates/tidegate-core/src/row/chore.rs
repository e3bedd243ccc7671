//! The chore row: work that is too much for one transaction and is done in chunks.

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::{ChoreId, Seq},
    time::Timestamp,
};

/// What is left to do after the transaction that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chore {
    /// Its id; what has a later number came too late for it.
    pub id: ChoreId,
    /// The workspace.
    pub ws: Workspace,
    /// The name of the event that it wakes waiters of. Those of one name are done in order.
    pub topic: Option<String>,
    /// When the sweep has to look at it: for its next chunk, or to forget it.
    pub due: Option<Timestamp>,
    /// What there is to do, and how far it is.
    pub work: Work,
}

impl Chore {
    /// Whether nothing is left to do but to forget it.
    pub fn is_over(&self) -> bool {
        matches!(&self.work, Work::Bulk(Bulk { ended_at: Some(_), .. }))
    }
}

/// What there is to do, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Work {
    /// Wakes those who waited for an event when it came.
    Wake {
        /// The event.
        event: Seq,
        /// The last wait that was looked at.
        after: WaitPlace,
    },
    /// Cancels the children of a run that was cancelled.
    Orphans {
        /// Why.
        reason: String,
        /// Those that are left.
        runs: Vec<Seq>,
    },
    /// Does one thing to many runs.
    Bulk(Bulk),
}

/// Where a wait stands among those for one event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WaitPlace {
    /// The path that it is filed under.
    pub path: String,
    /// The run.
    pub run: Seq,
    /// Its step.
    pub step: String,
}

impl WaitPlace {
    /// Before all others under a path.
    pub fn first(path: String) -> Self {
        Self { path, run: Seq(i64::MIN), step: String::new() }
    }
}

/// One thing that is done to many runs. It stays readable for a day after its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    /// What is done to them.
    pub what: BulkWhat,
    /// To which of those that had been admitted by then.
    pub filter: BulkFilter,
    /// The definitions whose runs are left to look at.
    pub lanes: Vec<Seq>,
    /// The last run of the first of them that was looked at.
    pub after: Seq,
    /// What has come of it so far.
    pub counts: BulkCounts,
    /// When all was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// What is done to each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkWhat {
    /// It is cancelled.
    Cancel {
        /// Why.
        reason: String,
    },
    /// It is paused.
    Pause,
    /// It goes on, if it is paused.
    Resume,
}

/// Which runs are meant; what is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct BulkFilter {
    /// Of this app.
    pub app: Option<String>,
    /// Of this workflow, or `flow/action`.
    pub workflow: Option<String>,
    /// Of this version.
    pub version: Option<u32>,
    /// In this state when it is their turn.
    pub state: Option<LiveState>,
    /// Admitted before this moment.
    pub queued_before: Option<Timestamp>,
}

/// The states that users see of runs that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LiveState {
    /// Admitted and not started, or waiting for a slot.
    Queued,
    /// Driven.
    Running,
    /// Waiting for a time, an event, a signal, a child or a retry.
    Waiting,
    /// Paused.
    Paused,
}

/// What has come of a bulk operation so far, run by run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCounts {
    /// It was done.
    pub done: u32,
    /// The run had ended by then, or is too entangled for one transaction.
    pub refused: u32,
}
