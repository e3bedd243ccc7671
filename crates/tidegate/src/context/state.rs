//! State of one activation, shared by its handler and its driver.

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    flow::{adaptive::NewOverload, close::NewClose},
    row::{self, Progress, Run, StepKind},
    run::{
        output::NewChunk,
        record::{NewCommit, NewSend, NewStep, NewWait},
    },
    session::NewSessionOp,
};

use super::{
    ops::{Op, Ops, Unreported},
    pool::Places,
    replay::{Outcome, PATCH, Proceeds, Replay, Settled},
    turn::Asks,
    undo::Undo,
};
use crate::{
    handler::check_name,
    load::MAX_STEPS,
    step_error::{Result, StepError},
};

/// State shared by the handler and the driver of an activation.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Replay of earlier activations.
    pub(super) replay: Replay,
    /// Ids and kinds of the operations that this activation has requested.
    pub(super) asked: BTreeMap<String, StepKind>,
    /// Operations that the driver has to report.
    pub(super) ops: Unreported,
    /// Steps that pass pools.
    pub(super) places: Places,
    /// Whether a report is in flight.
    reporting: bool,
    /// Registered waits of the handler.
    pub(super) waits: BTreeMap<String, NewWait>,
    /// Number of step closures that are executing.
    pub(super) executing: usize,
    /// Id of the step whose closure is being polled.
    scope: Option<String>,
    /// Number of chunks that each step has emitted, by step id; the handler's own are under the
    /// empty id.
    emitted: BTreeMap<String, u32>,
    /// Registered compensations, oldest first.
    undo: Vec<Undo>,
    /// Error that fails the run even if the handler ignores it.
    broken: Option<StepError>,
    /// Steps that wait until all completed operations are durable.
    sleepers: Vec<Waker>,
    driver: Option<Waker>,
}

/// The driver's next action.
#[derive(Debug)]
pub(crate) enum Next {
    /// Report the completed operations.
    Report,
    /// Suspend the run until one of these waits is answered.
    Suspend(Vec<NewWait>),
    /// Poll the handler again: it received a record.
    Again,
    /// Fail the run.
    Stop(StepError),
    /// This record is unclaimed. Call [`State::proceed`], unless the handler awaits something
    /// outside of its operations and may continue when that is ready.
    Halted(String),
    /// Fail the run: the code no longer requests a recorded operation.
    Changed(StepError),
    /// The dry replay is over: the handler requests an operation without a record.
    Fresh,
    /// Wait: the handler is busy.
    Wait,
}

impl State {
    pub(crate) fn new(run: &Run, steps: Vec<row::Step>) -> Self {
        let places = Places::new(&run.in_pools);
        Self { replay: Replay::new(run, steps), places, ..Self::default() }
    }

    /// Creates the state of a dry replay: operations without a record never begin.
    pub(crate) fn past(run: &Run, steps: Vec<row::Step>) -> Self {
        Self { replay: Replay::new(run, steps).dry(), ..Self::default() }
    }

    /// Requests an operation. Returns `true` if it has a record.
    pub(super) fn ask(&mut self, id: &str, Asks { kind, patch }: Asks) -> Result<bool> {
        if let Err(rule) = check_name(id) {
            return Err(self.break_off("BadStep", format!("a step's id {rule}")));
        }
        if id.starts_with(PATCH) && !patch {
            let message = format!(
                "step `{id}` ({}) has an id that begins with `{PATCH}`, which only the markers of \
                 `ctx.patched` may: give it another",
                word(kind)
            );
            return Err(self.break_off("BadStep", message));
        }
        if self.asked.len() >= MAX_STEPS as usize {
            let message = format!("a run has at most {MAX_STEPS} steps: split the work over runs");
            return Err(self.break_off("TooManySteps", message));
        }
        if let Some(before) = self.asked.insert(id.to_owned(), kind) {
            let message = format!(
                "step `{id}` ({}) is requested twice, first as {}: ids are unique in a run, \
                 add a number in loops",
                word(kind),
                word(before)
            );
            return Err(self.break_off("DuplicateStep", message));
        }
        self.replay.claim(id, kind).map_err(|before| {
            let (before, now) = (word(before), word(kind));
            let message =
                format!("step `{id}` is recorded as {before}, but requested as {now}: {ADVICE}");
            self.break_off("ChangedWorkflow", message)
        })
    }

    /// Polls the turn of a requested operation. Ready with its record, or with `None` when an
    /// operation without a record may begin.
    pub(super) fn poll_turn(
        &mut self,
        id: &str,
        asks: Asks,
        cx: &Context<'_>,
    ) -> Poll<Option<Outcome>> {
        if self.broken.is_some() {
            return Poll::Pending;
        }
        let before = self.replay.waiting();
        let turn = self.replay.poll_turn(id, asks, cx);
        // A task that the handler has spawned may make requests while the driver is not polling.
        if self.replay.waiting() > before {
            self.wake_driver();
        }
        turn
    }

    /// Removes a requested operation whose future was dropped before its turn.
    pub(crate) fn withdraw(&mut self, id: &str) {
        self.replay.withdraw(id);
        self.leave_granted(id);
    }

    /// Fails the run because the current code cannot read a record. The run fails even if the
    /// handler ignores the error.
    pub(crate) fn unreadable(&mut self, fault: &StepError) -> StepError {
        self.break_off("ChangedWorkflow", format!("{}: {ADVICE}", fault.message()))
    }

    fn break_off(&mut self, code: &str, message: String) -> StepError {
        let fault = StepError::coded(code, message).fatal();
        self.broken.get_or_insert_with(|| fault.clone());
        fault
    }

    /// Returns whether the code is replaying: it has not yet requested all operations of the
    /// earlier activations.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replay.is_under_way()
    }

    /// Returns whether operations without a record wait until the replay is over.
    pub(crate) fn holds_back(&self) -> bool {
        self.replay.holds_back()
    }

    /// Returns the number of wakers of a task that are registered for operations waiting for their
    /// turn.
    pub(crate) fn wakers(&self, of: &Waker) -> usize {
        self.replay.wakers(of)
    }

    /// Returns the error that fails the run whatever its handler returns, for example because an id
    /// is requested twice.
    pub(crate) fn broken(&self) -> Option<StepError> {
        self.broken.clone()
    }

    /// Returns an error if the code has not requested a recorded effect.
    pub(crate) fn lost(&self) -> Option<StepError> {
        self.replay.lost_effect().map(|lost| self.changed(lost, &[]))
    }

    fn changed(&self, lost: &str, new: &[String]) -> StepError {
        let been = match self.replay.outcome(lost) {
            Some(_) => "recorded",
            None => "a registered wait",
        };
        let message = if new.is_empty() {
            let asked: Vec<_> = self.asked.keys().map(|id| format!("`{id}`")).collect();
            let asked = if asked.is_empty() { "none".to_owned() } else { asked.join(", ") };
            format!("requested steps: {asked}")
        } else {
            let new = new.iter().take(MAX_NAMED).map(|id| {
                let kind = self.asked.get(id).map_or("a step", |kind| word(*kind));
                format!("`{id}` ({kind})")
            });
            let new = new.collect::<Vec<_>>().join(" and ");
            format!("the code requests {new} instead, which is not recorded")
        };
        let message = format!("step `{lost}` is {been}, but no longer requested; {message}");
        StepError::coded("ChangedWorkflow", format!("{message}: {ADVICE}")).fatal()
    }

    /// Queues a completed step for the next report.
    pub(crate) fn finish(&mut self, step: NewStep) {
        self.ops.push(Op::Step(step));
        self.wake_driver();
    }

    /// Queues a step that sends an event or a signal for the next report.
    pub(crate) fn send(&mut self, send: NewSend) {
        self.ops.push(Op::Send(send));
        self.wake_driver();
    }

    /// Queues the closing of a gate for the next report.
    pub(crate) fn close(&mut self, close: NewClose) {
        self.ops.close(close);
        self.wake_driver();
    }

    /// Queues an overload of a service for the next report.
    pub(crate) fn overload(&mut self, overload: NewOverload) {
        self.ops.overload(overload);
        self.wake_driver();
    }

    /// Queues a step that commits to a stream for the next report.
    pub(crate) fn commit(&mut self, commit: NewCommit) {
        self.ops.push(Op::Commit(commit));
        self.wake_driver();
    }

    /// Queues a step that operates on a session for the next report.
    pub(crate) fn change_session(&mut self, op: NewSessionOp) {
        self.ops.push(Op::Session(op));
        self.wake_driver();
    }

    /// Sets the step that further chunks belong to; `None` for the handler itself. Returns the
    /// previous value.
    pub(crate) fn enter(&mut self, scope: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.scope, scope)
    }

    pub(crate) fn scope(&self) -> Option<String> {
        self.scope.clone()
    }

    /// Returns the number of a step's next chunk.
    pub(crate) fn next_chunk(&mut self, step: &str) -> u32 {
        let count = self.emitted.entry(step.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// Queues an emitted chunk for the next report.
    pub(crate) fn emit(&mut self, chunk: NewChunk) {
        if self.replay.is_dry() {
            return;
        }
        self.ops.emit(chunk);
        self.wake_driver();
    }

    /// Queues the run's progress for the next report.
    pub(crate) fn set_progress(&mut self, progress: Progress) {
        if self.replay.is_dry() {
            return;
        }
        self.ops.set_progress(progress);
        self.wake_driver();
    }

    /// Registers a compensation.
    pub(crate) fn register(&mut self, undo: Undo) {
        self.undo.push(undo);
    }

    /// Returns the registered compensations when all recorded ones are registered again; `None`
    /// before.
    pub(crate) fn collected(&mut self) -> Option<Vec<Undo>> {
        let recorded = self.replay.count(StepKind::Compensate);
        (self.undo.len() >= recorded).then(|| std::mem::take(&mut self.undo))
    }

    /// Records that the closure of a step starts.
    pub(crate) fn begin(&mut self) {
        self.executing += 1;
    }

    /// Records that the closure of a step ended or was dropped.
    pub(crate) fn end(&mut self) {
        self.executing -= 1;
        self.wake_driver();
    }

    /// Registers a wait of the handler.
    pub(crate) fn wait(&mut self, wait: NewWait) {
        self.waits.insert(wait.step.clone(), wait);
        self.wake_driver();
    }

    /// Removes a wait that the handler has dropped.
    pub(crate) fn forget(&mut self, step: &str) {
        self.waits.remove(step);
        self.replay.withdraw(step);
    }

    /// Ready when all completed operations are durable.
    pub(crate) fn poll_durable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ops.is_empty() && !self.reporting && self.broken.is_none() {
            return Poll::Ready(());
        }
        self.sleepers.push(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the driver's next action while the handler is pending. `woken` says that the handler
    /// can continue by itself.
    pub(crate) fn next(&mut self, cx: &Context<'_>, woken: bool) -> Next {
        self.driver = Some(cx.waker().clone());
        if self.reporting {
            return Next::Wait;
        }
        if let Some(fault) = &self.broken {
            // Closures that are executing when the run fails may complete, and are recorded.
            if self.executing == 0 {
                return Next::Stop(fault.clone());
            }
        } else {
            // A step that was allowed to begin waits for the report: that is no sign of changed
            // code.
            let waits = !self.sleepers.is_empty() || self.places.is_asking();
            let begins = waits && !self.ops.is_empty();
            match self.replay.settle(self.executing == 0 && !woken && !begins) {
                Settled::Advanced => return Next::Again,
                Settled::Halted(lost) if self.ops.is_empty() => return Next::Halted(lost),
                Settled::Halted(_) => return Next::Report,
                Settled::Fresh => return Next::Fresh,
                Settled::Over | Settled::Stuck => {}
            }
        }
        self.leave_unclaimed();
        // While a step waits for the report, the handler is not idle: the step begins after it.
        let begins = !self.sleepers.is_empty() || self.places.is_asking();
        let quiet = self.executing == 0 && !begins && !woken;
        let idle = quiet && !self.waits.is_empty();
        if idle && let Some(lost) = self.replay.lost_effect() {
            return Next::Halted(lost.to_owned());
        }
        match (self.ops.is_empty(), idle) {
            (_, true) => Next::Suspend(self.waits.values().cloned().collect()),
            (false, false) => Next::Report,
            (true, false) => Next::Wait,
        }
    }

    /// Returns the next action after [`Next::Halted`], when the time given to the handler is over.
    pub(crate) fn proceed(&mut self) -> Next {
        match self.replay.proceed() {
            Proceeds::Advanced => Next::Again,
            Proceeds::Fresh => Next::Fresh,
            Proceeds::Changed { lost, new } => Next::Changed(self.changed(&lost, &new)),
        }
    }

    /// Returns the id of the first unclaimed operation, if any.
    pub(crate) fn unclaimed(&self) -> Option<String> {
        Some(self.replay.first_unclaimed()).filter(|id| !id.is_empty())
    }

    /// Takes the operations of the next report. Returns `true` if it contains all that were left.
    pub(crate) fn take(&mut self) -> (Ops, bool) {
        self.reporting = true;
        let ops = self.ops.split();
        (ops, self.ops.is_empty())
    }

    /// Drops what steps have asked for: the run is released, and its steps ask again.
    pub(crate) fn drop_asks(&mut self) {
        self.ops.drop_asks();
    }

    /// Records that the report taken last is durable.
    pub(crate) fn reported(&mut self) {
        self.reporting = false;
        for sleeper in self.sleepers.drain(..) {
            sleeper.wake();
        }
    }

    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}

/// Maximum number of operations that an error message lists.
const MAX_NAMED: usize = 5;

/// Advice for errors about changed code.
const ADVICE: &str = "the code has changed since the run started; give changed code a new \
                      version, or mark the change with `ctx.patched`";

/// Describes a step's kind in error texts.
fn word(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Run => "a step",
        StepKind::Sleep => "a sleep",
        StepKind::Event => "a wait for an event",
        StepKind::Signal => "a wait for a signal",
        StepKind::Invoke => "a call of a workflow",
        StepKind::Send => "a message sent",
        StepKind::State => "an operation on a session",
        StepKind::Compensate => "a compensation",
        StepKind::Commit => "a commit to a stream",
        StepKind::Settle => "a settlement with a pool",
    }
}
