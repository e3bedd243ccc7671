//! The run rows: one that has not ended, one that has, and the steps of both.

use serde::{Deserialize, Serialize};

use super::{Class, EngineId, GateKey, Workspace};
use crate::{
    id::{EventId, RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// The order in which waiting runs are served: queued at less the priority shift, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Queued at, less the shift.
    pub at: Timestamp,
    /// Breaks ties by arrival.
    pub seq: Seq,
}

/// A place in a line: releases first where versions hand over, then rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// 0, or the release whose runs stand together in the line of a handoff.
    pub tier: i64,
    /// The rank that counts in this line.
    pub rank: Rank,
}

/// How long a run keeps a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Span {
    /// Until the run has ended.
    Run,
    /// Until its first start: a throttle's turn.
    Start,
    /// Only while it is driven.
    Executing,
}

/// One gate that a run has to pass, in the order of SPEC G9.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The gate.
    pub gate: GateKey,
    /// How long it is kept.
    pub span: Span,
    /// The release that counts in the line of a handoff; 0 elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier: i64,
}

/// What needs no mention in a body that is written with every change of a run.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a run was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// One input.
    Event(EventId),
    /// A batch: its items are filed under the run.
    Batch(EventId),
}

impl Source {
    /// The event, for a batch the first.
    pub fn first(self) -> EventId {
        match self {
            Self::Event(id) | Self::Batch(id) => id,
        }
    }
}

/// Who waits for a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    pub run: Seq,
    /// Its step.
    pub step: String,
    /// The run and all its own ancestors.
    pub line: Vec<Seq>,
}

/// Where a run that has not ended is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// In the line of the gate it needs next.
    Line {
        /// The gate's number.
        gate: Seq,
        /// The place.
        place: Place,
    },
    /// Has all that it needs; any engine that serves it may lease it.
    Ready,
    /// Leased to an engine.
    Driven,
    /// Waits for a time, an event, a signal or a child.
    Waiting,
    /// Stopped by hand until resumed.
    Paused,
    /// Cancelled while driven; its worker has not confirmed the stop yet.
    Stopping,
}

/// What a waiting run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitOn {
    /// A moment.
    Time,
    /// The next attempt of a step.
    Retry,
    /// An event; all fields must match. It is filed under the first.
    Event {
        /// The event's name.
        name: String,
        /// Path and encoded value, each.
        matches: Vec<(String, Vec<u8>)>,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
    },
    /// A child's end.
    Child {
        /// The child.
        run: RunId,
    },
}

/// One thing that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The step that gets the answer.
    pub step: String,
    /// For what.
    pub on: WaitOn,
    /// Until when: the moment itself, or a time-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When the wait began: an earlier event does not satisfy it.
    pub since: Seq,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow, or `flow/action`.
    pub workflow: String,
    /// The version; fixed once the run has started.
    pub version: u32,
    /// The number of that version's definition.
    pub lane: Seq,
    /// What it was started with.
    pub source: Source,
    /// When it was admitted, or flushed; kept through everything that follows.
    pub queued_at: Timestamp,
    /// Its order among others.
    pub rank: Rank,
    /// What it has to pass, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
    /// How many of them it has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has: usize,
    /// Where it is.
    pub phase: Phase,
    /// Who drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EngineId>,
    /// Grows with every lease.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// When the sweep has to look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Leased at least once: its version stays, its throttle turn is spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Failed attempts of the step that is being retried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u32,
    /// Leases lost in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub losses: u32,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Steps that were answered while it was driven, so that its worker looks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// Asked to pause at the next boundary. Once it is paused: has something to do besides what it
    /// waits for, so that it goes on when it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// Who waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// The run that it is a new go at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// The idempotency claim it gives back if it is replaced before its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<GateKey>,
    /// The place of the last chunk that it has emitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chunks: u32,
    /// How far it says that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// How far a run says that it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The part that is done, in thousandths.
    pub permille: u32,
    /// What it is at.
    pub text: String,
}

impl Run {
    /// The place of the first need that is kept only while the run is driven.
    pub fn executing(&self) -> usize {
        let first = self.needs.iter().position(|need| need.span == Span::Executing);
        first.unwrap_or(self.needs.len())
    }

    /// Has this run got the gate?
    pub fn holds(&self, gate: &GateKey) -> bool {
        self.needs.iter().take(self.has).any(|need| need.gate == *gate)
    }

    /// Has this run still to pass a gate of this kind?
    pub fn lacks(&self, class: Class) -> bool {
        self.needs.iter().skip(self.has).any(|need| need.gate.class() == Some(class))
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Ending {
    /// With an output.
    Completed {
        /// What the handler returned.
        output: Payload,
    },
    /// With an error.
    Failed {
        /// What went wrong.
        error: Fault,
    },
    /// From outside.
    Cancelled {
        /// Why.
        reason: String,
        /// The run that took its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<RunId>,
    },
}

impl Ending {
    /// The state's name.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}

/// An error that a run or a step ended with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable name, such as `HeldByAncestor`.
    pub code: String,
    /// What people read.
    pub message: String,
}

/// A run that has ended. Final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its id.
    pub id: RunId,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The version.
    pub version: u32,
    /// What it was started with.
    pub source: Source,
    /// When it was admitted.
    pub queued_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How.
    pub ending: Ending,
    /// Who waited for it.
    pub parent: Option<Seq>,
    /// The run that it was a new go at.
    pub replay_of: Option<RunId>,
}

/// What a remembered step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// Ran a closure.
    Run,
    /// Slept.
    Sleep,
    /// Waited for an event.
    Event,
    /// Waited for a signal.
    Signal,
    /// Called a child.
    Invoke,
    /// Sent an event.
    Send,
}

/// A remembered part of a run: written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The run.
    pub run: Seq,
    /// The step's id, unique in the run.
    pub id: String,
    /// What it did.
    pub kind: StepKind,
    /// The fence that it was written under.
    pub fence: i64,
    /// When.
    pub at: Timestamp,
    /// What came of it.
    pub result: Result<Payload, Fault>,
}

/// Something that a run has emitted: written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The run.
    pub run: Seq,
    /// The step that emitted it; empty for the handler itself.
    pub step: String,
    /// The step's attempt.
    pub attempt: u32,
    /// Its place in that attempt, from 0.
    pub n: u32,
    /// Its place among all that the run has emitted, from 1.
    pub seq: u32,
    /// What it is.
    pub data: Payload,
}
