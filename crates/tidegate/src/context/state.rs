//! State of one activation, shared by its handler and its driver.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    flow::{adaptive::NewOverload, close::NewClose},
    row::{self, Progress, Run, StepKind},
    run::{
        output::NewChunk,
        record::{HANDLER, NewCommit, NewSend, NewStep, NewWait, NewWaitOn, Until},
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
    /// Waits of the handler. Those that the run's row has are [`NewWaitOn::Registered`].
    pub(super) waits: BTreeMap<String, NewWait>,
    /// Steps of the waits that earlier activations have registered.
    registered: BTreeSet<String>,
    /// Number of closures that are executing, and of reads.
    pub(super) executing: usize,
    /// Number of closures that are executing.
    pub(super) closures: usize,
    /// Id of the step whose closure is being polled.
    scope: Option<String>,
    /// Number of failed attempts of each step without a record; the handler's own are under the
    /// empty id.
    failures: BTreeMap<String, u32>,
    /// Number of attempts of such steps that have closed a gate.
    deferrals: BTreeMap<String, u32>,
    /// Whether steps may have been recorded since the records were read.
    is_stale: bool,
    /// Number of chunks that each step has emitted, by step id; the handler's own are under the
    /// empty id.
    emitted: BTreeMap<String, u32>,
    /// Registered compensations, oldest first.
    undo: Vec<Undo>,
    /// Error that fails the run even if the handler ignores it.
    broken: Option<StepError>,
    /// Steps that wait until all completed operations are durable.
    sleepers: Vec<Waker>,
    /// Registered waits, which complete when their answers are read.
    waiters: Vec<Waker>,
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
        let registered = run.waits.iter().map(|wait| wait.step.clone()).collect();
        let (failures, deferrals) = (run.failures.clone(), run.deferrals.clone());
        let (replay, places) = (Replay::new(run, steps), Places::new(&run.in_pools));
        Self { replay, places, registered, failures, deferrals, ..Self::default() }
    }

    /// Creates the state of a dry replay: operations without a record never begin.
    pub(crate) fn past(run: &Run, steps: Vec<row::Step>) -> Self {
        Self { replay: Replay::new(run, steps).dry(), ..Self::default() }
    }

    /// Requests an operation. Returns `true` if it has a record.
    pub(super) fn ask(&mut self, id: &str, Asks { kind, patch }: Asks) -> Result<bool> {
        if let Err(message) = check_id(id, Asks { kind, patch }) {
            return Err(self.break_off("BadStep", message));
        }
        if self.asked.len() >= MAX_STEPS as usize {
            return Err(self.too_many_steps());
        }
        let before = self.asked.insert(id.to_owned(), kind);
        if let Some(before) = before.filter(|_| !self.replay.is_waived()) {
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

    pub(super) fn too_many_steps(&mut self) -> StepError {
        let message = format!("a run has at most {MAX_STEPS} steps: split the work over runs");
        self.break_off("TooManySteps", message)
    }

    pub(super) fn break_off(&mut self, code: &str, message: String) -> StepError {
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

    /// Returns the number of failed attempts of a step without a record.
    pub(crate) fn failures(&self, step: &str) -> u32 {
        self.failures.get(step).copied().unwrap_or_default()
    }

    /// Returns the number of attempts of a step without a record that have closed a gate.
    pub(crate) fn deferrals(&self, step: &str) -> u32 {
        self.deferrals.get(step).copied().unwrap_or_default()
    }

    /// Counts an attempt that has failed. Returns the wait for the next one.
    pub(super) fn failed(&mut self, step: &str, until: Until) -> NewWait {
        *self.failures.entry(step.to_owned()).or_default() += 1;
        let attempt = self.failures(step) + self.deferrals(step);
        let on = NewWaitOn::Retry { attempt };
        NewWait { step: step.to_owned(), on, until: Some(until) }
    }

    /// Counts an attempt that has closed a gate. Returns the wait for the next one.
    pub(super) fn deferred(&mut self, step: &str, until: Until) -> NewWait {
        *self.deferrals.entry(step.to_owned()).or_default() += 1;
        let attempt = self.failures(step) + self.deferrals(step);
        let on = NewWaitOn::Deferred { attempt };
        NewWait { step: step.to_owned(), on, until: Some(until) }
    }

    /// Returns the steps that have failed and have no record, with their failed attempts.
    pub(super) fn failed_attempts(&self) -> BTreeMap<String, u32> {
        let is_step = |(step, _): &(&String, &u32)| !step.is_empty();
        self.failures.iter().filter(is_step).map(|(step, n)| (step.clone(), *n)).collect()
    }

    /// Counts a record: the failures of the step, and those of the handler before it, are over.
    pub(super) fn progressed(&mut self, step: &str) {
        self.failures.remove(step);
        self.deferrals.remove(step);
        self.failures.remove(HANDLER);
    }

    /// Returns the records that are at hand, unless steps may have been recorded since they were
    /// read. From then on the handler decides by itself what the records mean.
    pub(super) fn waive(&mut self) -> Option<Vec<row::Step>> {
        if !self.replay.is_waived() {
            self.replay.waive();
        }
        let is_stale = std::mem::replace(&mut self.is_stale, true);
        (!is_stale).then(|| self.replay.steps())
    }

    /// Adds the records that were read. Waits that have one now complete.
    pub(super) fn learn(&mut self, steps: Vec<row::Step>) {
        for step in self.replay.add(steps) {
            self.progressed(&step);
        }
        for waiter in std::mem::take(&mut self.waiters) {
            waiter.wake();
        }
    }

    /// Polls a registered wait: ready if its answer has been read since.
    pub(super) fn poll_answered(&mut self, step: &str, cx: &Context<'_>) -> Poll<()> {
        if self.replay.is_waived() && self.replay.outcome(step).is_some() {
            self.waits.remove(step);
            return Poll::Ready(());
        }
        if self.replay.is_waived() && !self.waiters.iter().any(|it| it.will_wake(cx.waker())) {
            self.waiters.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Queues a completed step for the next report.
    pub(crate) fn finish(&mut self, step: NewStep) {
        self.progressed(&step.id);
        self.ops.push(Op::Step(step));
        self.wake_driver();
    }

    /// Queues a step that sends an event or a signal for the next report.
    pub(crate) fn send(&mut self, send: NewSend) {
        self.progressed(&send.step);
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
        self.progressed(&op.step);
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

    /// Begins a wait of the handler.
    pub(crate) fn wait(&mut self, wait: NewWait) {
        let is_attempt = matches!(wait.on, NewWaitOn::Retry { .. } | NewWaitOn::Deferred { .. });
        let on = match wait.on {
            _ if !is_attempt && self.registered.contains(&wait.step) => NewWaitOn::Registered,
            on => on,
        };
        self.waits.insert(wait.step.clone(), NewWait { on, ..wait });
        self.wake_driver();
    }

    /// Ends a wait of the handler whose time has come while the run is driven.
    pub(super) fn end_wait(&mut self, step: &str) {
        self.waits.remove(step);
    }

    /// Returns whether waits have begun that the store does not know yet.
    fn has_unreported_waits(&self) -> bool {
        !self.replay.holds_back() && self.waits.values().any(is_unreported)
    }

    /// Removes a wait that the handler has dropped.
    pub(crate) fn forget(&mut self, step: &str) {
        self.waits.remove(step);
        self.replay.withdraw(step);
    }

    /// Ready when all completed operations are durable.
    pub(crate) fn poll_durable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_empty = self.ops.is_empty() && !self.has_unreported_waits();
        if is_empty && !self.reporting && self.broken.is_none() {
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
            let begins = waits && (!self.ops.is_empty() || self.has_unreported_waits());
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
        // Waits begin in the store before a closure does, and while one executes: an event that
        // arrives meanwhile must not be missed.
        let begun = (begins || self.closures > 0) && self.has_unreported_waits();
        match (self.ops.is_empty() && !begun, idle) {
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

    /// Takes the operations of the next report, after which the handler goes on, and the waits that
    /// have begun.
    pub(crate) fn take_on(&mut self) -> Ops {
        let (mut ops, _) = self.take();
        for wait in self.waits.values_mut().filter(|wait| is_unreported(wait)) {
            let reported = NewWait { on: NewWaitOn::Registered, until: None, ..wait.clone() };
            ops.waits.push(std::mem::replace(wait, reported));
        }
        ops
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
        (self.reporting, self.is_stale) = (false, true);
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

/// Checks the id of a step. The error describes the rule that it breaks.
pub(super) fn check_id(id: &str, Asks { kind, patch }: Asks) -> Result<(), String> {
    check_name(id).map_err(|rule| format!("a step's id {rule}"))?;
    if id.starts_with(PATCH) && !patch {
        let word = word(kind);
        return Err(format!(
            "step `{id}` ({word}) has an id that begins with `{PATCH}`, which only the markers of \
             `ctx.patched` may: give it another"
        ));
    }
    Ok(())
}

/// Returns whether the store does not know this wait. A wait for pools is known by its ask.
fn is_unreported(wait: &NewWait) -> bool {
    !matches!(wait.on, NewWaitOn::Registered | NewWaitOn::Pools(_))
}

/// Maximum number of operations that an error message lists.
const MAX_NAMED: usize = 5;

/// Advice for errors about changed code.
const ADVICE: &str = "the code has changed since the run started; give changed code a new \
                      version, or mark the change with `ctx.patched`";

/// Describes a step's kind in error texts.
pub(super) fn word(kind: StepKind) -> &'static str {
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
