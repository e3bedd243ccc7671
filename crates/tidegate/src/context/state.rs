//! What one activation has asked for so far, shared between its handler and its driver.

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    definition::MAX_NAME_CHARS,
    json::Payload,
    row::{self, Progress, StepKind},
    run::{
        output::NewChunk,
        record::{NewSend, NewStep, NewWait},
    },
    session::NewSessionOp,
};

use super::undo::Undo;
use crate::{
    fault::{Fault, Result},
    load::MAX_STEPS,
};

/// What a recorded step came to.
pub(crate) type Outcome = std::result::Result<Payload, row::Fault>;

/// Finished and not yet reported.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    pub(crate) steps: Vec<NewStep>,
    pub(crate) sends: Vec<NewSend>,
    pub(crate) session: Vec<NewSessionOp>,
    pub(crate) chunks: Vec<NewChunk>,
    pub(crate) progress: Option<Progress>,
}

impl Ops {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { steps, sends, session, chunks, progress } = self;
        let quiet = chunks.is_empty() && progress.is_none();
        steps.is_empty() && sends.is_empty() && session.is_empty() && quiet
    }
}

/// The handler's side and the driver's side meet here.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What earlier activations, and this one, have done.
    recorded: BTreeMap<String, (StepKind, Outcome)>,
    /// What this activation has asked for.
    asked: BTreeMap<String, StepKind>,
    /// What the driver has to report.
    ops: Ops,
    /// A report is on its way.
    reporting: bool,
    /// What the handler waits for.
    waits: BTreeMap<String, NewWait>,
    /// How many closures run.
    executing: usize,
    /// The step whose closure is being polled.
    scope: Option<String>,
    /// How many chunks each step has emitted; the handler itself under the empty name.
    emitted: BTreeMap<String, u32>,
    /// What undoes the effects so far, oldest first.
    undo: Vec<Undo>,
    /// Something that no handler may swallow.
    broken: Option<Fault>,
    /// Steps that wait for the report to be durable.
    sleepers: Vec<Waker>,
    driver: Option<Waker>,
}

/// What the driver does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Report what is finished.
    Report,
    /// Let go of the run until one of these is answered.
    Suspend(Vec<NewWait>),
    /// The handler is busy.
    Wait,
}

impl State {
    pub(crate) fn new(steps: Vec<row::Step>) -> Self {
        let recorded = steps.into_iter().map(|step| (step.id, (step.kind, step.result))).collect();
        Self { recorded, ..Self::default() }
    }

    /// The handler comes to a step: what is recorded of it, if anything.
    pub(crate) fn ask(&mut self, id: &str, kind: StepKind) -> Result<Option<Outcome>> {
        if id.is_empty() || id.chars().count() > MAX_NAME_CHARS {
            let message = format!("a step's id has 1 to {MAX_NAME_CHARS} characters, got `{id}`");
            return Err(self.break_off("BadStep", message));
        }
        if self.asked.len() >= MAX_STEPS as usize {
            let message = format!("a run has at most {MAX_STEPS} steps: split the work over runs");
            return Err(self.break_off("TooManySteps", message));
        }
        if let Some(before) = self.asked.insert(id.to_owned(), kind) {
            let message = format!(
                "step `{id}` ({}) is asked for twice, first as {}: ids are unique in a run, \
                 add a number in loops",
                word(kind),
                word(before)
            );
            return Err(self.break_off("DuplicateStep", message));
        }
        match self.recorded.get(id) {
            Some((recorded, outcome)) if *recorded == kind => Ok(Some(outcome.clone())),
            Some((recorded, _)) => {
                let message = format!(
                    "step `{id}` is recorded as {} and asked for as {}: the code has changed \
                     under the run; give changed code a new version",
                    word(*recorded),
                    word(kind)
                );
                Err(self.break_off("ChangedWorkflow", message))
            }
            None => Ok(None),
        }
    }

    fn break_off(&mut self, code: &str, message: String) -> Fault {
        let fault = Fault::coded(code, message).fatal();
        self.broken.get_or_insert_with(|| fault.clone());
        fault
    }

    /// Whether something recorded is still to be asked for.
    pub(crate) fn is_replaying(&self) -> bool {
        self.recorded.keys().any(|id| !self.asked.contains_key(id))
    }

    /// What makes the run fail whatever its handler says: a wrong id, or an effect on record that
    /// the code does not know any more.
    pub(crate) fn broken(&self) -> Option<Fault> {
        let lost = || {
            let effects = [StepKind::Run, StepKind::Send, StepKind::State, StepKind::Compensate];
            let lost =
                |id: &&String, kind| effects.contains(&kind) && !self.asked.contains_key(*id);
            let mut recorded = self.recorded.iter();
            let (id, _) = recorded.find(|(id, (kind, _))| lost(id, *kind))?;
            let asked: Vec<_> = self.asked.keys().map(|id| format!("`{id}`")).collect();
            let message = format!(
                "step `{id}` is recorded and not asked for any more; asked for were {}: the code \
                 has changed under the run; give changed code a new version",
                if asked.is_empty() { "none".to_owned() } else { asked.join(", ") }
            );
            Some(Fault::coded("ChangedWorkflow", message).fatal())
        };
        self.broken.clone().or_else(lost)
    }

    /// A step has finished.
    pub(crate) fn finish(&mut self, step: NewStep) {
        self.ops.steps.push(step);
        self.wake_driver();
    }

    /// A step sends something.
    pub(crate) fn send(&mut self, send: NewSend) {
        self.ops.sends.push(send);
        self.wake_driver();
    }

    /// A step works on a session's state.
    pub(crate) fn change_session(&mut self, op: NewSessionOp) {
        self.ops.session.push(op);
        self.wake_driver();
    }

    /// Whose output comes now: a step's, or the handler's own. Gives back whose it was before.
    pub(crate) fn enter(&mut self, scope: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.scope, scope)
    }

    pub(crate) fn scope(&self) -> Option<String> {
        self.scope.clone()
    }

    /// The place of the next chunk of a step.
    pub(crate) fn next_chunk(&mut self, step: &str) -> u32 {
        let count = self.emitted.entry(step.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    /// Something is emitted.
    pub(crate) fn emit(&mut self, chunk: NewChunk) {
        self.ops.chunks.push(chunk);
        self.wake_driver();
    }

    /// The run is so far by now.
    pub(crate) fn set_progress(&mut self, progress: Progress) {
        self.ops.progress = Some(progress);
        self.wake_driver();
    }

    /// A compensation is registered.
    pub(crate) fn register(&mut self, undo: Undo) {
        self.undo.push(undo);
    }

    /// What has been registered, once all that is on record has been asked for again.
    pub(crate) fn collected(&mut self) -> Option<Vec<Undo>> {
        let recorded = self.recorded.values().filter(|(kind, _)| *kind == StepKind::Compensate);
        (self.undo.len() >= recorded.count()).then(|| std::mem::take(&mut self.undo))
    }

    /// Whether the handler has come to something that is not on record.
    pub(crate) fn goes_on(&self) -> bool {
        !self.ops.is_empty() || !self.waits.is_empty() || self.executing > 0
    }

    /// What is recorded of a step.
    pub(crate) fn outcome(&self, id: &str) -> Option<Outcome> {
        self.recorded.get(id).map(|(_, outcome)| outcome.clone())
    }

    /// A closure begins.
    pub(crate) fn begin(&mut self) {
        self.executing += 1;
    }

    /// A closure has ended, or was dropped.
    pub(crate) fn end(&mut self) {
        self.executing -= 1;
        self.wake_driver();
    }

    /// The handler waits for something.
    pub(crate) fn wait(&mut self, wait: NewWait) {
        self.waits.insert(wait.step.clone(), wait);
        self.wake_driver();
    }

    /// The handler does not wait for it any more.
    pub(crate) fn forget(&mut self, step: &str) {
        self.waits.remove(step);
    }

    /// Ready when all that has finished is durable.
    pub(crate) fn poll_durable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ops.is_empty() && !self.reporting {
            return Poll::Ready(());
        }
        self.sleepers.push(cx.waker().clone());
        Poll::Pending
    }

    /// What there is to do for the driver, whose handler is busy.
    pub(crate) fn next(&mut self, cx: &Context<'_>) -> Next {
        self.driver = Some(cx.waker().clone());
        if self.reporting {
            return Next::Wait;
        }
        let idle = self.executing == 0 && !self.waits.is_empty();
        match (self.ops.is_empty(), idle) {
            (_, true) => Next::Suspend(self.waits.values().cloned().collect()),
            (false, false) => Next::Report,
            (true, false) => Next::Wait,
        }
    }

    /// Takes what has to be reported.
    pub(crate) fn take(&mut self) -> Ops {
        self.reporting = true;
        std::mem::take(&mut self.ops)
    }

    /// What was taken is durable.
    pub(crate) fn reported(&mut self) {
        self.reporting = false;
        for sleeper in self.sleepers.drain(..) {
            sleeper.wake();
        }
    }

    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}

/// A step's kind as people read it.
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
    }
}
