//! Run rows: live runs, ended runs, and the steps of both.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    BatchCosts, Class, Ending, EngineId, GateKey, Listener, PlannedGate, Trail, Wait, WaitOn,
    Workspace,
};
use crate::{
    catalog::Version,
    id::{EventId, RunId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Rank: the order in which runs are admitted and leased. By queue time minus the priority shift,
/// then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Queue time minus the priority shift.
    pub at: Timestamp,
    /// The number of the arrival, for runs with the same time.
    pub seq: Seq,
}

/// Position in a gate's queue: by tier, then by rank. In the queue of a fair gate it is made of the
/// tag of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The tier: the release in the queue of a handoff, and 0 in other queues. A run that replaces
    /// another run has the tier -1, so that it comes first.
    pub tier: i64,
    /// The rank that applies in this queue.
    pub rank: Rank,
}

/// How long a run holds a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Span {
    /// Until the run has ended.
    Run,
    /// Until the first lease of the run: the turn of a throttle. The turn of a step is held until
    /// the next lease.
    Start,
    /// Only while the run is driven.
    Executing,
}

/// Whether a field has its default value. Such a field is not stored, because the whole body is
/// written with every change of a run.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Input of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// One event or other input.
    Event(EventId),
    /// A batch, with its first event. The other events are item rows of the run.
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
    /// The numbers of the parent and all of its ancestors.
    #[serde(rename = "line")]
    pub ancestors: Vec<Seq>,
}

/// Reason why a run exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// An input started the run.
    #[default]
    Ordinary,
    /// The run compensates the steps of another run, newest first (spec replace).
    Compensates(RunId),
    /// The run executes the failure handler for another run (spec steps).
    OnFailure(RunId),
}

/// State of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The run is in the queue of the next gate of its plan.
    #[serde(rename = "line")]
    Queued {
        /// The gate's number.
        gate: Seq,
        /// The position in the queue.
        place: Place,
    },
    /// The run has entered all gates of its plan. Any engine that serves its version may lease it.
    Ready,
    /// The run is leased to an engine.
    Driven,
    /// The run waits for a time, an event, a signal, a child, a retry or the end of another run.
    Waiting,
    /// The run is paused until it is resumed.
    Paused,
    /// The run was ended by another command while it was driven, and its worker has not confirmed
    /// the stop yet.
    Stopping,
}

/// Whether it is recorded that the handler of a leased run was called.
///
/// If an engine dies that has not called the handler of a run yet, the run did not cause the death.
/// Recording each call would cost every run a transaction. So calls are recorded only after the
/// first death, until the run makes progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Begun {
    /// Calls are not recorded: no engine has died with this run since its last progress.
    #[default]
    Untracked,
    /// An engine has died. The next engine reports before it calls the handler, and has not done so
    /// yet.
    No,
    /// The engine that has the lease has reported that it calls the handler.
    Yes,
}

/// A live run: it has not ended, or its worker has not confirmed its stop.
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
    /// The lane: the number of the version's definition.
    pub lane: Seq,
    /// The number that all versions of the workflow share for turns, if it is not equal to the
    /// lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The run's input.
    pub source: Source,
    /// When the run was admitted, or its fold was flushed. It never changes.
    pub queued_at: Timestamp,
    /// The run's rank in queues.
    pub rank: Rank,
    /// The gate plan: the gates that the run has to enter, in order.
    #[serde(default, rename = "needs", skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedGate>,
    /// Number of gates of the plan that the run has entered.
    #[serde(default, rename = "has", skip_serializing_if = "is_default")]
    pub entered: usize,
    /// The run's state.
    pub phase: Phase,
    /// The engine that drives the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EngineId>,
    /// The fence; it grows with every lease.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: i64,
    /// Whether the run was leased at least once. Then its version is fixed and its throttle turn is
    /// spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
    /// Steps that have passed their pools and whose attempts have not ended, or for which the run
    /// is queued (spec L7). Empty while the run waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_pools: Vec<String>,
    /// Number of failed attempts of each step that is not recorded yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
    /// Number of attempts of each step that is not recorded yet that have closed a gate. They are
    /// not counted as failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deferrals: BTreeMap<String, u32>,
    /// Number of consecutive engine deaths while the handler was running. Progress resets it.
    #[serde(default, rename = "losses", skip_serializing_if = "is_default")]
    pub deaths: u32,
    /// Whether it is recorded that the handler was called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun: Begun,
    /// The reason of the pause; none if a user paused the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Number of times that the run was taken over from a dead engine.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
    /// The run's current waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The run's listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// Steps whose waits ended while the run was driven. The worker has to read their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// For a run that is not paused yet: whether it is to be paused at its next report or
    /// admission. For a paused run: whether it continues when it is resumed, even if its waits have
    /// not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pausing: bool,
    /// The parent that waits for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The successor: a run that starts when this run has completed. It has a [`WaitOn::Before`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<RunId>,
    /// While the run has a [`WaitOn::Before`]: whether it starts even if none of the remaining
    /// predecessors completes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wanted: bool,
    /// The run whose position this run has: the run that it replaced, or an earlier one, if the
    /// replaced run had not started and had its position from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// The gate at which this run took that position.
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
    /// Number of session operations that the run has staged (policy `restart`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub staged: u32,
    /// The reason why the run exists.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    /// Number of compensations that the run has registered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compensations: u32,
    /// When the run fails with a timeout; set at the first lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When the run is cancelled if it is still in the queue of its session or schedule. For a
    /// compensating run: when it releases the gates that it took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up_at: Option<Timestamp>,
    /// When the run is cancelled as expired, unless it was leased before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The run whose id is the prefix of effect keys, if it is not this run: the first run of a
    /// chain of retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_run: Option<RunId>,
    /// The run to which the batch items belong, if it is not this run.
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
            in_pools: Vec::new(),
            failures: BTreeMap::new(),
            deferrals: BTreeMap::new(),
            staged: 0,
            deaths: 0,
            begun: Begun::Untracked,
            pause_reason: None,
            takeovers: 0,
            waits: Vec::new(),
            listeners: Vec::new(),
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

    /// Returns the number of the workflow for turns.
    pub fn turn(&self) -> Seq {
        self.turn.unwrap_or(self.lane)
    }

    /// Moves the run to this version.
    pub(crate) fn set_version(&mut self, version: &Version) {
        (self.version, self.lane) = (version.number, version.lane);
        self.turn = (version.turn != version.lane).then_some(version.turn);
    }

    /// Records progress: resets the number of engine deaths.
    pub(crate) fn made_progress(&mut self) {
        (self.deaths, self.begun) = (0, Begun::Untracked);
    }

    /// Returns when the sweep has to process the run: the earliest of its deadlines.
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

    /// Returns when the run expires; none if it has started.
    pub fn expiry(&self) -> Option<Timestamp> {
        self.expires_at.filter(|_| !self.started)
    }

    /// Whether the run has expired, so that it must not start any more.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiry().is_some_and(|at| at <= now)
    }

    /// Returns the run whose id is the prefix of effect keys (`run_id:step_id`).
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// Returns the run to which the batch items belong.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }

    /// Whether the run's version is fixed: it has started, or it continues from steps that were
    /// recorded under that version.
    pub fn keeps_version(&self) -> bool {
        self.started || self.effect_run.is_some()
    }

    /// Returns the ended run whose steps, items or input this run needs; none if there is none.
    pub fn past(&self) -> Option<Seq> {
        let follows = match self.purpose {
            Purpose::Ordinary => None,
            Purpose::Compensates(run) | Purpose::OnFailure(run) => Some(run),
        };
        self.batch_of.or(follows).or(self.replay_of).map(|run| run.seq)
    }

    /// Returns the number of the run's first listener. Stores find the run by it, so that most
    /// listeners need no row of their own.
    pub fn listens(&self) -> Option<i64> {
        let first = self.listeners.first().filter(|it| it.first)?;
        Some(Listener::number(&self.ws, &first.name, &first.path, &first.value))
    }

    /// Returns the index of the first gate of the plan that is held only while the run is driven.
    pub fn executing(&self) -> usize {
        let first = self.plan.iter().position(|need| need.span == Span::Executing);
        first.unwrap_or(self.plan.len())
    }

    /// Returns the number of gates of the plan that the run holds while it waits or is paused. It
    /// does not hold executing gates then, nor, before its start, the throttle turn, nor the turn
    /// of a step.
    pub fn kept(&self) -> usize {
        let first = self.plan.iter().position(|need| match need.span {
            Span::Run => false,
            Span::Start => !self.started || need.is_of_steps(),
            Span::Executing => true,
        });
        first.unwrap_or(self.plan.len())
    }

    /// Returns the run whose position a replacing run takes, and the gate. This is this run and
    /// `gate`. But if this run has not started and has itself replaced a run, it is that run, whose
    /// worker may still have to stop, if the new run also has that gate in its plan.
    pub fn place(&self, gate: &GateKey, newcomer: &[PlannedGate]) -> (RunId, GateKey) {
        let passes = |on: &&GateKey| newcomer.iter().any(|need| need.gate == **on);
        let taken = self.replaced.zip(self.replaced_on.as_ref().filter(passes));
        let (run, gate) = taken.filter(|_| !self.started).unwrap_or((self.id, gate));
        (run, gate.clone())
    }

    /// Whether another run has to end before this run may start.
    pub fn is_after(&self) -> bool {
        self.waits.iter().any(|wait| matches!(wait.on, WaitOn::Before { .. }))
    }

    /// Whether the run has entered the gate.
    pub fn holds(&self, gate: &GateKey) -> bool {
        self.plan.iter().take(self.entered).any(|need| need.gate == *gate)
    }

    /// Whether the plan has a gate of this class that the run has not entered yet.
    pub fn lacks(&self, class: Class) -> bool {
        self.plan.iter().skip(self.entered).any(|need| need.gate.class() == Some(class))
    }
}

/// Error of a run or a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Fault"))]
pub struct RunError {
    /// A stable name, such as `HeldByAncestor`.
    pub code: String,
    /// The message, for people.
    pub message: String,
    /// What else is known of the error, as its language has it: name, stack, cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl RunError {
    /// Creates an error without details.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    /// Creates the error of a step or a run from the code of a refusal. `session_conflict` becomes
    /// `SessionConflict`.
    pub fn of(code: &str, message: String) -> Self {
        let capital = |word: &str| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        };
        Self::new(code.split('_').map(capital).collect::<String>(), message)
    }
}

/// A run that has ended. The row never changes.
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
    /// The parent that waited for this run.
    pub parent: Option<Seq>,
    /// The successor that started when this run had completed, or that was cancelled.
    pub then: Option<RunId>,
    /// The run that this one replayed.
    pub replay_of: Option<RunId>,
    /// The lane: the number of the version's definition.
    pub lane: Seq,
    /// The reason why the run existed.
    pub purpose: Purpose,
    /// The run whose id is the prefix of effect keys, if it is not this run.
    pub effect_run: Option<RunId>,
    /// The run to which the batch items belong, if it is not this run.
    pub batch_of: Option<RunId>,
    /// The sums of its batch's costs, where its workflow has costs.
    pub batch_costs: Option<BatchCosts>,
    /// The history of the run's states.
    pub trail: Trail,
    /// Number of times that the run was taken over from a dead engine.
    pub takeovers: u32,
}

impl Ended {
    /// Returns the run whose id is the prefix of effect keys.
    pub fn effects(&self) -> RunId {
        self.effect_run.unwrap_or(self.id)
    }

    /// Returns the run to which the batch items belong.
    pub fn batch(&self) -> RunId {
        self.batch_of.unwrap_or(self.id)
    }
}

/// Kind of a recorded step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// The step ran a closure.
    Run,
    /// The step slept.
    Sleep,
    /// The step waited for an event.
    Event,
    /// The step waited for a signal.
    Signal,
    /// The step called a child run.
    Invoke,
    /// The step sent an event.
    Send,
    /// The step read or wrote the state of a session.
    State,
    /// The step registered a compensation.
    Compensate,
    /// The step committed events to a stream.
    Commit,
    /// The step settled a reservation at a pool.
    Settle,
}

impl StepKind {
    /// Whether the step had an effect. The other steps only waited.
    pub fn is_effect(self) -> bool {
        match self {
            Self::Run
            | Self::Send
            | Self::State
            | Self::Compensate
            | Self::Commit
            | Self::Settle => true,
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
    /// The position of the step in the order of recording.
    pub seq: Seq,
}

impl Step {
    /// Sorts the steps of a run into the order in which its code first received their results. A
    /// result that arrives while the run is driven is received by the next activation, after all
    /// steps that the current activation records. Steps copied from another run have no fences, and
    /// are already in this order.
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
    /// The step that emitted the chunk; empty if the handler emitted it outside all steps.
    pub step: String,
    /// The step's attempt.
    pub attempt: u32,
    /// The chunk's position in the attempt, from 0.
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
    /// Writes the payload: a text without quotes, any other value as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get::<String>() {
            Ok(text) => f.write_str(&text),
            Err(_) => self.data.fmt(f),
        }
    }
}
