//! What one activation has asked for so far, shared between its handler and its driver.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll, Waker},
};

use tidegate_core::{
    id::Seq,
    json::Payload,
    row::{self, Progress, Run, StepKind},
    run::{
        output::NewChunk,
        record::{NewCommit, NewSend, NewStep, NewWait},
    },
    session::NewSessionOp,
    stream,
};

use super::undo::Undo;
use crate::{
    fault::{Fault, Result},
    handler::check_name,
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
    pub(crate) commits: Vec<NewCommit>,
    pub(crate) chunks: Vec<NewChunk>,
    pub(crate) progress: Option<Progress>,
}

impl Ops {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { steps, sends, session, commits, chunks, progress } = self;
        let quiet = chunks.is_empty() && progress.is_none();
        let quiet = quiet && commits.is_empty();
        steps.is_empty() && sends.is_empty() && session.is_empty() && quiet
    }

    /// As much of it as fits into one transaction, whatever else goes into it.
    fn split(&mut self) -> Self {
        let mut room = MAX_OPS_BYTES;
        let mut fits = |size: usize| {
            let fits = room > 0;
            room = room.saturating_sub(size + MAX_OPS_BYTES / MAX_OPS);
            fits
        };
        let size = |step: &NewStep| step.result.as_ref().map_or(0, |value| value.as_str().len());
        let steps = self.steps.iter().take_while(|step| fits(size(step))).count();
        let session = self.session.iter().take_while(|_| fits(0)).count();
        let sends = self.sends.iter().take_while(|it| fits(it.what.data().as_str().len())).count();
        let commits = self.commits.iter().take_while(|it| fits(room_of(it))).count();
        let chunks = self.chunks.iter().take_while(|it| fits(it.data.as_str().len())).count();
        Self {
            steps: first(&mut self.steps, steps),
            session: first(&mut self.session, session),
            sends: first(&mut self.sends, sends),
            commits: first(&mut self.commits, commits),
            chunks: first(&mut self.chunks, chunks),
            progress: self.progress.take(),
        }
    }
}

/// The most operations in one report: a transaction holds 4,000 rows, and each may change several.
const MAX_OPS: usize = 500;

/// The most bytes in one report, give or take one value.
const MAX_OPS_BYTES: usize = 8 * 1024 * 1024;

/// What a commit takes of a report: each of its events is a row.
fn room_of(asked: &NewCommit) -> usize {
    let events = &asked.commit.events;
    events.iter().map(stream::size).sum::<usize>() + events.len() * (MAX_OPS_BYTES / MAX_OPS)
}

fn first<T>(from: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = from.split_off(count.min(from.len()));
    std::mem::replace(from, rest)
}

/// A step on record.
#[derive(Debug)]
struct Known {
    kind: StepKind,
    outcome: Outcome,
    seq: Seq,
}

/// The handler's side and the driver's side meet here.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// What earlier activations, and this one, have done.
    recorded: BTreeMap<String, Known>,
    /// What this activation has asked for.
    asked: BTreeMap<String, StepKind>,
    /// What an earlier activation has asked for, and this one has not yet.
    unasked: BTreeSet<String>,
    /// The answers among these, in the order in which they came.
    unheard: BTreeSet<Seq>,
    /// Waits whose answer came after one that is not asked for yet.
    held: Vec<Waker>,
    /// Some of these have been woken and not polled since.
    roused: bool,
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
    pub(crate) fn new(run: &Run, steps: Vec<row::Step>) -> Self {
        let known = |step: row::Step| {
            let row::Step { id, kind, result: outcome, seq, .. } = step;
            (id, Known { kind, outcome, seq })
        };
        let recorded: BTreeMap<String, Known> = steps.into_iter().map(known).collect();
        let failed = run.failures.keys().filter(|step| !step.is_empty());
        let waits = run.waits.iter().map(|wait| &wait.step).filter(|step| !step.is_empty());
        let own = recorded.iter().filter(|(id, known)| !is_outside(id, known.kind));
        let unasked = own.map(|(id, _)| id).chain(failed).chain(waits).cloned().collect();
        let answers = recorded.values().filter(|known| !EFFECTS.contains(&known.kind));
        let unheard = answers.map(|known| known.seq).collect();
        Self { recorded, unasked, unheard, ..Self::default() }
    }

    /// The state of a run that is over: what is not on record never begins.
    pub(crate) fn past(run: &Run, steps: Vec<row::Step>) -> Self {
        Self { reporting: true, ..Self::new(run, steps) }
    }

    /// The handler comes to a step: what is recorded of it, if anything.
    pub(crate) fn ask(&mut self, id: &str, kind: StepKind) -> Result<Option<Outcome>> {
        if let Err(rule) = check_name(id) {
            return Err(self.break_off("BadStep", format!("a step's id {rule}")));
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
        self.unasked.remove(id);
        if let Some(known) = self.recorded.get(id) {
            self.unheard.remove(&known.seq);
            self.roused |= !self.held.is_empty();
            self.held.drain(..).for_each(Waker::wake);
        }
        match self.recorded.get(id) {
            Some(known) if known.kind == kind => Ok(Some(known.outcome.clone())),
            Some(known) => {
                let message = format!(
                    "step `{id}` is recorded as {} and asked for as {}: the code has changed \
                     under the run; give changed code a new version",
                    word(known.kind),
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

    /// Whether the code has been here before: it has not come to all that was asked for then.
    pub(crate) fn is_replaying(&self) -> bool {
        !self.unasked.is_empty()
    }

    /// Ready when all answers that came before this one have been asked for: a race between waits
    /// ends on every replay as it ended the first time.
    pub(crate) fn poll_turn(&mut self, id: &str, cx: &Context<'_>) -> Poll<()> {
        let Some(known) = self.recorded.get(id) else { return Poll::Ready(()) };
        if self.unheard.first().is_none_or(|first| *first > known.seq) {
            return Poll::Ready(());
        }
        self.held.push(cx.waker().clone());
        Poll::Pending
    }

    /// Whether a wait may go on, so that the handler has to be polled again. Where nothing else
    /// goes on, those are let go too that wait for an answer that the code has stopped asking for.
    pub(crate) fn rouse(&mut self, still: bool) -> bool {
        if still && !self.roused && !self.held.is_empty() {
            self.unheard.clear();
            self.held.drain(..).for_each(Waker::wake);
            return true;
        }
        std::mem::take(&mut self.roused)
    }

    /// What makes the run fail whatever its handler says: a wrong id, or an effect on record that
    /// the code does not know any more.
    pub(crate) fn broken(&self) -> Option<Fault> {
        let lost = || {
            let effect = |id: &str| self.recorded.get(id).map(|known| known.kind);
            let effect = |id: &&String| effect(id).is_some_and(|kind| EFFECTS.contains(&kind));
            let id = self.unasked.iter().find(effect)?;
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

    /// A step commits to a stream.
    pub(crate) fn commit(&mut self, commit: NewCommit) {
        self.ops.commits.push(commit);
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
        let recorded = self.recorded.values().filter(|it| it.kind == StepKind::Compensate);
        (self.undo.len() >= recorded.count()).then(|| std::mem::take(&mut self.undo))
    }

    /// Whether the handler has come to something that is not on record.
    pub(crate) fn goes_on(&self) -> bool {
        let Ops { steps, sends, session, commits, .. } = &self.ops;
        let new = !steps.is_empty() || !sends.is_empty() || !session.is_empty();
        new || !commits.is_empty() || !self.waits.is_empty() || !self.sleepers.is_empty()
    }

    /// What is recorded of a step.
    pub(crate) fn outcome(&self, id: &str) -> Option<Outcome> {
        self.recorded.get(id).map(|known| known.outcome.clone())
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
        if self.rouse(self.executing == 0 && self.ops.is_empty()) {
            return Next::Wait;
        }
        // A step that waits for the report is about to begin.
        let idle = self.executing == 0 && self.sleepers.is_empty() && !self.waits.is_empty();
        match (self.ops.is_empty(), idle) {
            (_, true) => Next::Suspend(self.waits.values().cloned().collect()),
            (false, false) => Next::Report,
            (true, false) => Next::Wait,
        }
    }

    /// Takes what has to be reported next; `true` if that is all.
    pub(crate) fn take(&mut self) -> (Ops, bool) {
        self.reporting = true;
        let ops = self.ops.split();
        (ops, self.ops.is_empty())
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

/// What the code does, as opposed to what it waits for.
const EFFECTS: [StepKind; 5] =
    [StepKind::Run, StepKind::Send, StepKind::State, StepKind::Compensate, StepKind::Commit];

/// What the ids of steps begin with that those have asked for whom the handler has called
/// ([`Engine::change_session_in`](crate::Engine::change_session_in)): no code comes to them.
pub(crate) const OUTSIDE: &str = "session:";

fn is_outside(id: &str, kind: StepKind) -> bool {
    kind == StepKind::State && id.starts_with(OUTSIDE)
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
        StepKind::Commit => "a commit to a stream",
    }
}
