//! The run rows: one that has not ended, one that has, and the steps of both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Class, EngineId, GateKey, Trail, Workspace};
use crate::{
    catalog::Version,
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

/// One gate that a run has to pass, in the order of spec G9.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedGate {
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
    #[serde(rename = "line")]
    pub ancestors: Vec<Seq>,
}

/// Why there is a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Something came in.
    #[default]
    Ordinary,
    /// Undoes what this run did, newest first (spec replace).
    Compensates(RunId),
    /// Runs the failure handler for this run (spec steps).
    OnFailure(RunId),
}

/// Where a run that has not ended is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// In the line of the gate it needs next.
    #[serde(rename = "line")]
    Queued {
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
    /// Ended from outside while driven; its worker has not confirmed the stop yet.
    Stopping,
}

/// Whether it is on record that the handler of a leased run is under way.
///
/// An engine that dies with a run may not have called the handler yet, and then the run had no part
/// in the death. To record each call would cost every run a transaction; it is recorded from the
/// first death on, until there is progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Begun {
    /// No engine has died with the run since its last progress.
    #[default]
    Untracked,
    /// One has: the next engine reports before it calls the handler.
    No,
    /// The engine that has the lease has reported.
    Yes,
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
    /// The end of a run that goes before it. It starts when none of those is left, and is
    /// cancelled if none of them completed.
    Before {
        /// That run.
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
    /// The time from its beginning to `until`, where that was given: `until` is capped by it after
    /// the clock has stepped back. None for a moment that the author named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
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
    /// The number that the versions of its workflow share, where that is not the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// What it was started with.
    pub source: Source,
    /// When it was admitted, or flushed; kept through everything that follows.
    pub queued_at: Timestamp,
    /// Its order among others.
    pub rank: Rank,
    /// What it has to pass, in order.
    #[serde(default, rename = "needs", skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedGate>,
    /// How many of them it has.
    #[serde(default, rename = "has", skip_serializing_if = "is_default")]
    pub entered: usize,
    /// Where it is.
    pub phase: Phase,
    /// Who drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EngineId>,
    /// Grows with every lease.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// Leased at least once: its version stays, its throttle turn is spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Failed attempts of steps that have not been recorded yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
    /// Deaths of engines in a row with its handler under way. Progress resets them.
    #[serde(default, rename = "losses", skip_serializing_if = "is_default")]
    pub deaths: u32,
    /// Whether it is on record that its handler is under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun: Begun,
    /// Why it was paused, where that was not by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// How many times it was taken over from an engine that died.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
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
    /// The run that starts when this one has completed: it has a [`WaitOn::Before`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<RunId>,
    /// While it has a [`WaitOn::Before`]: whether another run before it has completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wanted: bool,
    /// The run that it replaced, or whose place it has from others that never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// The gate on which it took that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_on: Option<GateKey>,
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
    /// How many operations on sessions it has staged, under `restart`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub staged: u32,
    /// Why there is this run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    /// How many compensations it has registered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compensations: u32,
    /// When it has failed for taking too long; from its first lease on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When it gives up its place in the line of its session. For a compensating run: when it
    /// lets go of the gates that it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_at: Option<Timestamp>,
    /// The run whose id its effect keys begin with, where that is another: the first of a chain
    /// of retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_run: Option<RunId>,
    /// The run that the items of its batch are filed under, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_of: Option<RunId>,
    /// Where it has been.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
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
    /// A run that nothing has happened to yet and that needs nothing.
    pub fn new(
        id: RunId,
        ws: Workspace,
        (app, workflow): (String, String),
        (version, lane): (u32, Seq),
        source: Source,
        queued_at: Timestamp,
        rank: Rank,
    ) -> Self {
        Self {
            id,
            ws,
            app,
            workflow,
            version,
            lane,
            turn: None,
            source,
            queued_at,
            rank,
            plan: Vec::new(),
            entered: 0,
            phase: Phase::Ready,
            owner: None,
            fence: 0,
            started: false,
            failures: BTreeMap::new(),
            staged: 0,
            deaths: 0,
            begun: Begun::Untracked,
            pause_reason: None,
            takeovers: 0,
            waits: Vec::new(),
            answered: Vec::new(),
            pausing: false,
            parent: None,
            then: None,
            wanted: false,
            replaced: None,
            replaced_on: None,
            replay_of: None,
            claim: None,
            purpose: Purpose::Ordinary,
            compensations: 0,
            deadline: None,
            gives_up_at: None,
            effect_run: None,
            batch_of: None,
            trail: Trail::default(),
            chunks: 0,
            progress: None,
        }
    }

    /// The number under which its workflow has its turn among others.
    pub fn turn(&self) -> Seq {
        self.turn.unwrap_or(self.lane)
    }

    /// It is of this version from now on.
    pub(crate) fn set_version(&mut self, version: &Version) {
        (self.version, self.lane) = (version.number, version.lane);
        self.turn = (version.turn != version.lane).then_some(version.turn);
    }

    /// It has made progress: deaths of engines are counted anew.
    pub(crate) fn made_progress(&mut self) {
        (self.deaths, self.begun) = (0, Begun::Untracked);
    }

    /// When the sweep has to look at it: the first of all that time alone decides.
    pub fn due(&self) -> Option<Timestamp> {
        let gives_up = match (self.purpose, self.phase) {
            (Purpose::Compensates(_), _) => self.entered > 0,
            (_, Phase::Queued { .. }) => self.lacks(Class::Policy) || self.lacks(Class::Schedule),
            _ => false,
        };
        let waits = self.waits.iter().filter(|_| self.phase == Phase::Waiting);
        let times = waits.filter_map(|wait| wait.until).chain(self.deadline);
        let times = times.chain(self.gives_up_at.filter(|_| gives_up));
        times.min().filter(|_| self.phase != Phase::Stopping)
    }

    /// The run whose id its effect keys begin with: `run_id:step_id`.
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// The run that the items of its batch are filed under.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }

    /// Whether it belongs to its version for good: it has started, or it goes on from steps that
    /// were recorded under that version.
    pub fn keeps_version(&self) -> bool {
        self.started || self.effect_run.is_some()
    }

    /// The ended run whose steps, items or input it relies on.
    pub fn past(&self) -> Option<Seq> {
        let follows = match self.purpose {
            Purpose::Ordinary => None,
            Purpose::Compensates(run) | Purpose::OnFailure(run) => Some(run),
        };
        self.batch_of.or(follows).or(self.replay_of).map(|run| run.seq)
    }

    /// The place of the first need that is kept only while the run is driven.
    pub fn executing(&self) -> usize {
        let first = self.plan.iter().position(|need| need.span == Span::Executing);
        first.unwrap_or(self.plan.len())
    }

    /// How many of its needs it keeps while it waits or is paused: not its slots, and before its
    /// start not the turn of a throttle either.
    pub fn kept(&self) -> usize {
        let first = self.plan.iter().position(|need| match need.span {
            Span::Run => false,
            Span::Start => !self.started,
            Span::Executing => true,
        });
        first.unwrap_or(self.plan.len())
    }

    /// Whose place one has that replaces this run on a gate, and on which gate it has it: this
    /// run's own, or while this run has not started the place that it took itself, if the newcomer
    /// passes that gate too. One that does not would not wait for the first to stop.
    pub fn place(&self, gate: &GateKey, newcomer: &[PlannedGate]) -> (RunId, GateKey) {
        let passes = |on: &&GateKey| newcomer.iter().any(|need| need.gate == **on);
        let taken = self.replaced.zip(self.replaced_on.as_ref().filter(passes));
        let (run, gate) = taken.filter(|_| !self.started).unwrap_or((self.id, gate));
        (run, gate.clone())
    }

    /// Whether another run has to end before this one may start.
    pub fn is_after(&self) -> bool {
        self.waits.iter().any(|wait| matches!(wait.on, WaitOn::Before { .. }))
    }

    /// Has this run got the gate?
    pub fn holds(&self, gate: &GateKey) -> bool {
        self.plan.iter().take(self.entered).any(|need| need.gate == *gate)
    }

    /// Has this run still to pass a gate of this kind?
    pub fn lacks(&self, class: Class) -> bool {
        self.plan.iter().skip(self.entered).any(|need| need.gate.class() == Some(class))
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
        error: RunError,
    },
    /// From outside.
    Cancelled {
        /// Why.
        reason: String,
        /// The run that took its place, or has its idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<RunId>,
    },
}

impl Ending {
    /// Why a run was cancelled before it started: another run has its idempotency key.
    pub const DEDUPED: &str = "deduped";

    /// The state's name.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// The run that has the idempotency key, where that is why this one was cancelled.
    pub fn deduped_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::DEDUPED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => None,
        }
    }
}

/// An error that a run or a step ended with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A stable name, such as `HeldByAncestor`.
    pub code: String,
    /// What people read.
    pub message: String,
}

impl RunError {
    /// A refusal as the error of a step or a run, whose codes are words: `SessionConflict`.
    pub fn of(code: &str, message: String) -> Self {
        let capital = |word: &str| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        };
        Self { code: code.split('_').map(capital).collect(), message }
    }
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
    /// The run that started when it had completed, or was cancelled.
    pub then: Option<RunId>,
    /// The run that it was a new go at.
    pub replay_of: Option<RunId>,
    /// The number of its version's definition.
    pub lane: Seq,
    /// Why there was this run.
    pub purpose: Purpose,
    /// The run whose id its effect keys began with, where that is another.
    pub effect_run: Option<RunId>,
    /// The run that the items of its batch are filed under, where that is another.
    pub batch_of: Option<RunId>,
    /// Where it was.
    pub trail: Trail,
    /// How many times it was taken over from an engine that died.
    pub takeovers: u32,
}

impl Ended {
    /// The run whose id its effect keys began with.
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// The run that the items of its batch are filed under.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }
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
    /// Read or wrote the state of a session.
    State,
    /// Registered a compensation.
    Compensate,
    /// Committed to a stream.
    Commit,
}

impl StepKind {
    /// Whether the code did something, as opposed to what it waited for.
    pub fn is_effect(self) -> bool {
        match self {
            Self::Run | Self::Send | Self::State | Self::Compensate | Self::Commit => true,
            Self::Sleep | Self::Event | Self::Signal | Self::Invoke => false,
        }
    }
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
    pub result: Result<Payload, RunError>,
    /// Its order: grows with every step of the run.
    pub seq: Seq,
}

impl Step {
    /// Sorts the steps of a run into the order in which its code got them first. An answer that
    /// came while an activation was under way is seen by the next one, after all that this one
    /// recorded. Copies out of another run have no fences, and stand in this order already.
    pub fn sort(steps: &mut [Self]) {
        steps.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
        let same = |a: &Self, b: &Self| a.fence == b.fence && a.fence != 0;
        for activation in steps.chunk_by_mut(same) {
            activation.sort_by_key(|step| (!step.kind.is_effect(), step.seq));
        }
    }
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
