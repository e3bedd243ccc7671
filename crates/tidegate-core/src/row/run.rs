//! Run rows: live runs, ended runs, and the steps of both.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{BatchCosts, Class, Costs, EngineId, GateKey, Trail, Workspace};
use crate::{
    catalog::Version,
    id::{EventId, RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Order in which waiting runs are served: queue time minus the priority shift, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Queue time minus the priority shift.
    pub at: Timestamp,
    /// Breaks ties by arrival.
    pub seq: Seq,
}

/// Position in a gate's queue: by release where versions hand off, then by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// 0, or the release by which runs are grouped in the queue of a handoff.
    pub tier: i64,
    /// The rank that applies in this queue.
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
    /// Only while the run is driven.
    Executing,
}

/// One gate that a run has to pass, in the order of spec G9.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedGate {
    /// The gate.
    pub gate: GateKey,
    /// How long the gate is kept.
    pub span: Span,
    /// The release that applies in the queue of a handoff; 0 elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tier: i64,
    /// The units of the gate's limits that the run takes.
    #[serde(default, skip_serializing_if = "Costs::is_one")]
    pub costs: Costs,
}

impl PlannedGate {
    /// Creates the step for a gate of which the run takes one unit.
    pub fn new(gate: GateKey, span: Span) -> Self {
        Self { gate, span, tier: 0, costs: Costs::default() }
    }
}

/// Whether a field can be left out of a body that is written with every change of a run.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Input of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// One input.
    Event(EventId),
    /// A batch: its items are filed under the run.
    Batch(EventId),
}

impl Source {
    /// Returns the event; for a batch, its first event.
    pub fn first(self) -> EventId {
        match self {
            Self::Event(id) | Self::Batch(id) => id,
        }
    }
}

/// Parent of a child run, and the step that waits for the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent run.
    pub run: Seq,
    /// The parent's step.
    pub step: String,
    /// The parent and all of its ancestors.
    #[serde(rename = "line")]
    pub ancestors: Vec<Seq>,
}

/// Reason why a run exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Started by an input.
    #[default]
    Ordinary,
    /// Compensates the steps of this run, newest first (spec replace).
    Compensates(RunId),
    /// Runs the failure handler for this run (spec steps).
    OnFailure(RunId),
}

/// State of a run that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// In the queue of the next gate of its plan.
    #[serde(rename = "line")]
    Queued {
        /// The gate's number.
        gate: Seq,
        /// The position in the queue.
        place: Place,
    },
    /// Has entered all gates of its plan; any engine that serves the run may lease it.
    Ready,
    /// Leased to an engine.
    Driven,
    /// Waits for a time, an event, a signal or a child.
    Waiting,
    /// Paused by hand until resumed.
    Paused,
    /// Ended from outside while driven; its worker has not confirmed the stop yet.
    Stopping,
}

/// Whether the handler of a leased run is recorded as running.
///
/// An engine that dies with a run may not have called the handler yet, and then the run did not
/// cause the death. Recording each call would cost every run a transaction; calls are recorded from
/// the first death on, until the run makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Begun {
    /// No engine has died with the run since its last progress.
    #[default]
    Untracked,
    /// An engine has died: the next engine reports before it calls the handler.
    No,
    /// The engine that has the lease has reported.
    Yes,
}

/// Condition that a waiting run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitOn {
    /// A point in time.
    Time,
    /// The next attempt of a step.
    Retry,
    /// An event; all fields must match. The wait is filed under the first field.
    Event {
        /// The event's name.
        name: String,
        /// Pairs of path and encoded value.
        matches: Vec<(String, Vec<u8>)>,
    },
    /// A signal.
    Signal {
        /// The signal's name.
        name: String,
    },
    /// A child's end.
    Child {
        /// The child.
        run: RunId,
    },
    /// The end of a predecessor run. The run starts when no predecessor is left, and is cancelled
    /// if none of them completed.
    Before {
        /// The predecessor.
        run: RunId,
    },
}

/// One wait of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The step that gets the answer.
    pub step: String,
    /// The condition.
    pub on: WaitOn,
    /// The end of the wait: the wake-up time itself, or a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The duration from the start of the wait to `until`, where a duration was given: it caps
    /// `until` after the clock has stepped back. None for a time that the author named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// The start of the wait: an earlier event does not satisfy it.
    pub since: Seq,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The run's id.
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
    /// The number that all versions of the workflow share, where it is not the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The run's input.
    pub source: Source,
    /// When the run was admitted, or flushed; never changed afterwards.
    pub queued_at: Timestamp,
    /// The run's order among waiting runs.
    pub rank: Rank,
    /// The gate plan: the gates that the run has to pass, in order.
    #[serde(default, rename = "needs", skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedGate>,
    /// How many gates of the plan the run has entered.
    #[serde(default, rename = "has", skip_serializing_if = "is_default")]
    pub entered: usize,
    /// The run's state.
    pub phase: Phase,
    /// The engine that drives the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EngineId>,
    /// Grows with every lease.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// Whether the run was leased at least once: its version is fixed, its throttle turn is spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Failed attempts of steps that have not been recorded yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
    /// Consecutive engine deaths while the handler was running. Progress resets the count.
    #[serde(default, rename = "losses", skip_serializing_if = "is_default")]
    pub deaths: u32,
    /// Whether the handler is recorded as running.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun: Begun,
    /// The reason for a pause that was not by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// How many times the run was taken over from an engine that died.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
    /// The run's current waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Steps that were answered while the run was driven, so that its worker reads the answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// A pause was requested for the next boundary. Once the run is paused: it has something to do
    /// besides its waits, so that it continues when it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// The parent that waits for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The successor that starts when this run has completed: it has a [`WaitOn::Before`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<RunId>,
    /// While the run has a [`WaitOn::Before`]: whether another predecessor has completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wanted: bool,
    /// The run that it replaced, or whose position it inherits from others that never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// The gate on which it took that position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_on: Option<GateKey>,
    /// The run that this one replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// The idempotency claim to release if the run is replaced before its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<GateKey>,
    /// The number of the last chunk that the run has emitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub chunks: u32,
    /// The progress that the handler has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How many session operations the run has staged, under `restart`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub staged: u32,
    /// The reason why the run exists.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    /// How many compensations the run has registered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compensations: u32,
    /// When the run fails with a timeout; set at its first lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When the run gives up its position in its session's queue. For a compensating run: when it
    /// leaves the gates that it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_at: Option<Timestamp>,
    /// When the run is cancelled as expired, unless it was leased before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The run whose id prefixes the effect keys, where it is another run: the first of a chain of
    /// retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_run: Option<RunId>,
    /// The run that the batch items are filed under, where it is another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_of: Option<RunId>,
    /// The sums of its batch's costs, where its workflow has costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_costs: Option<BatchCosts>,
    /// The history of the run's states.
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
}

/// Progress that a handler reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Progress {
    /// The completed part, in thousandths.
    pub permille: u32,
    /// The current activity.
    pub text: String,
}

impl Run {
    /// Creates a run with an empty gate plan and no history.
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
            expires_at: None,
            effect_run: None,
            batch_of: None,
            batch_costs: None,
            trail: Trail::default(),
            chunks: 0,
            progress: None,
        }
    }

    /// Returns the number under which the workflow takes turns with others.
    pub fn turn(&self) -> Seq {
        self.turn.unwrap_or(self.lane)
    }

    /// Moves the run to this version.
    pub(crate) fn set_version(&mut self, version: &Version) {
        (self.version, self.lane) = (version.number, version.lane);
        self.turn = (version.turn != version.lane).then_some(version.turn);
    }

    /// Records progress: engine deaths are counted from zero again.
    pub(crate) fn made_progress(&mut self) {
        (self.deaths, self.begun) = (0, Begun::Untracked);
    }

    /// Returns when the sweep has to process the run: the earliest of all its deadlines.
    pub fn due(&self) -> Option<Timestamp> {
        let gives_up = match (self.purpose, self.phase) {
            (Purpose::Compensates(_), _) => self.entered > 0,
            (_, Phase::Queued { .. }) => self.lacks(Class::Policy) || self.lacks(Class::Schedule),
            _ => false,
        };
        let waits = self.waits.iter().filter(|_| self.phase == Phase::Waiting);
        let times = waits.filter_map(|wait| wait.until).chain(self.deadline);
        let times = times.chain(self.gives_up_at.filter(|_| gives_up)).chain(self.expiry());
        times.min().filter(|_| self.phase != Phase::Stopping)
    }

    /// Returns when the run expires; none once it has started.
    pub fn expiry(&self) -> Option<Timestamp> {
        self.expires_at.filter(|_| !self.started)
    }

    /// Whether the run has expired: it must not be leased for the first time any more.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiry().is_some_and(|at| at <= now)
    }

    /// Returns the run whose id prefixes the effect keys: `run_id:step_id`.
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// Returns the run that the batch items are filed under.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }

    /// Whether the run's version is fixed: it has started, or it continues from steps that were
    /// recorded under that version.
    pub fn keeps_version(&self) -> bool {
        self.started || self.effect_run.is_some()
    }

    /// Returns the ended run whose steps, items or input this run relies on.
    pub fn past(&self) -> Option<Seq> {
        let follows = match self.purpose {
            Purpose::Ordinary => None,
            Purpose::Compensates(run) | Purpose::OnFailure(run) => Some(run),
        };
        self.batch_of.or(follows).or(self.replay_of).map(|run| run.seq)
    }

    /// Returns the index of the first planned gate that is kept only while the run is driven.
    pub fn executing(&self) -> usize {
        let first = self.plan.iter().position(|need| need.span == Span::Executing);
        first.unwrap_or(self.plan.len())
    }

    /// Returns how many planned gates the run keeps while it waits or is paused: not its slots, and
    /// before its start not the throttle turn either.
    pub fn kept(&self) -> usize {
        let first = self.plan.iter().position(|need| match need.span {
            Span::Run => false,
            Span::Start => !self.started,
            Span::Executing => true,
        });
        first.unwrap_or(self.plan.len())
    }

    /// Returns the position that a replacing run takes on a gate, and the gate it belongs to: this
    /// run's own position, or, while this run has not started, the position that it took itself, if
    /// the newcomer passes that gate too. A newcomer that does not would not wait for the first run
    /// to stop.
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

    /// Whether the run has entered the gate.
    pub fn holds(&self, gate: &GateKey) -> bool {
        self.plan.iter().take(self.entered).any(|need| need.gate == *gate)
    }

    /// Whether the run has still to pass a gate of this class.
    pub fn lacks(&self, class: Class) -> bool {
        self.plan.iter().skip(self.entered).any(|need| need.gate.class() == Some(class))
    }
}

/// Final outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Ending {
    /// Completed with an output.
    Completed {
        /// The handler's return value.
        output: Payload,
    },
    /// Failed with an error.
    Failed {
        /// The error.
        error: RunError,
    },
    /// Cancelled from outside.
    Cancelled {
        /// The reason.
        reason: String,
        /// The run that replaced it, or that has its idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<RunId>,
    },
}

impl Ending {
    /// Reason of a run that was cancelled before it started because another run has its idempotency
    /// key.
    pub const DEDUPED: &str = "deduped";

    /// Reason of a run that was cancelled because it was not leased in time.
    pub const EXPIRED: &str = "expired";

    /// Reason of a run that was cancelled before it started because a newer one took its place.
    pub const DISPLACED: &str = "displaced";

    /// Returns the state's name.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns the run that has the idempotency key, where this run was cancelled for that reason.
    pub fn deduped_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::DEDUPED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => None,
        }
    }

    /// Returns the run that took this run's place before it started: callers follow that one.
    pub fn displaced_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::DISPLACED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => None,
        }
    }

    /// Returns the result of a step that waited for the run.
    pub fn result(&self) -> Result<Payload, RunError> {
        match self {
            Self::Completed { output } => Ok(output.clone()),
            Self::Failed { error } => Err(error.clone()),
            Self::Cancelled { reason, .. } if reason == Self::EXPIRED => {
                Err(RunError { code: "Expired".to_owned(), message: reason.clone() })
            }
            Self::Cancelled { reason, .. } if reason == Self::DISPLACED => {
                Err(RunError { code: "Displaced".to_owned(), message: reason.clone() })
            }
            Self::Cancelled { reason, .. } => {
                Err(RunError { code: "Cancelled".to_owned(), message: reason.clone() })
            }
        }
    }
}

/// Error of a run or a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Fault"))]
pub struct RunError {
    /// A stable name, such as `HeldByAncestor`.
    pub code: String,
    /// The message for people.
    pub message: String,
}

impl RunError {
    /// Creates the error of a step or a run from a refusal. Its codes are words: `SessionConflict`.
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
    /// The run's id.
    pub id: RunId,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The version.
    pub version: u32,
    /// The run's input.
    pub source: Source,
    /// When the run was admitted.
    pub queued_at: Timestamp,
    /// When the run ended.
    pub ended_at: Timestamp,
    /// The outcome.
    pub ending: Ending,
    /// The parent that waited for it.
    pub parent: Option<Seq>,
    /// The successor that started when this run had completed, or that was cancelled.
    pub then: Option<RunId>,
    /// The run that this one replayed.
    pub replay_of: Option<RunId>,
    /// The number of its version's definition.
    pub lane: Seq,
    /// The reason why the run existed.
    pub purpose: Purpose,
    /// The run whose id prefixed the effect keys, where it is another run.
    pub effect_run: Option<RunId>,
    /// The run that the batch items are filed under, where it is another run.
    pub batch_of: Option<RunId>,
    /// The sums of its batch's costs, where its workflow has costs.
    pub batch_costs: Option<BatchCosts>,
    /// The history of the run's states.
    pub trail: Trail,
    /// How many times the run was taken over from an engine that died.
    pub takeovers: u32,
}

impl Ended {
    /// Returns the run whose id prefixed the effect keys.
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// Returns the run that the batch items are filed under.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }
}

/// Kind of a recorded step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
    /// Whether the step performed an effect, as opposed to a wait.
    pub fn is_effect(self) -> bool {
        match self {
            Self::Run | Self::Send | Self::State | Self::Compensate | Self::Commit => true,
            Self::Sleep | Self::Event | Self::Signal | Self::Invoke => false,
        }
    }
}

/// Recorded step of a run: written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The run.
    pub run: Seq,
    /// The step's id, unique in the run.
    pub id: String,
    /// The step's kind.
    pub kind: StepKind,
    /// The fence of the lease under which the step was recorded.
    pub fence: i64,
    /// When the step was recorded.
    pub at: Timestamp,
    /// The step's result.
    pub result: Result<Payload, RunError>,
    /// The step's order: grows with every step of the run.
    pub seq: Seq,
}

impl Step {
    /// Sorts the steps of a run into the order in which its code first received them. An answer
    /// that arrived during an activation is seen by the next activation, after everything that this
    /// one recorded. Steps copied from another run have no fences, and are already in this order.
    pub fn sort(steps: &mut [Self]) {
        steps.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
        let same = |a: &Self, b: &Self| a.fence == b.fence && a.fence != 0;
        for activation in steps.chunk_by_mut(same) {
            activation.sort_by_key(|step| (!step.kind.is_effect(), step.seq));
        }
    }
}

/// Chunk of output that a run has emitted: written once, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The run.
    pub run: Seq,
    /// The step that emitted it; empty for the handler itself.
    pub step: String,
    /// The step's attempt.
    pub attempt: u32,
    /// The chunk's position in that attempt, from 0.
    pub n: u32,
    /// The chunk's position among all chunks of the run, from 1.
    pub seq: u32,
    /// The payload.
    pub data: Payload,
}

impl Chunk {
    /// Deserializes the payload.
    pub fn get<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        self.data.get()
    }
}

impl fmt::Display for Chunk {
    /// Writes the payload: a text without its quotes, any other value as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get::<String>() {
            Ok(text) => f.write_str(&text),
            Err(_) => self.data.fmt(f),
        }
    }
}
