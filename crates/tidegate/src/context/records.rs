//! Records as a handler sees them that decides by itself what they mean: a handler of a protocol,
//! whose code runs elsewhere and is called once for each part of a run.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    time::Duration,
};

use tidegate_core::{
    json::Payload,
    reads::{ReadSet, Scan},
    row::{Row, RunError, Step, StepKind, WaitOn},
    run::record::{NewStep, NewWait, NewWaitOn, Until},
    time::Timestamp,
};
use tokio::sync::watch;

use super::{
    Ctx, FromAnswer, Wait,
    replay::kind_of,
    state::{State, check_id, word},
    step::Executing,
    turn::Asks,
};
use crate::{
    load::MAX_STEPS,
    step_error::{Result, StepError},
};

/// A wait of a run that an earlier activation has begun and that has not ended, see
/// [`Ctx::pending`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingWait {
    /// Id of the step that waits.
    pub step: String,
    /// Kind of the step.
    pub kind: StepKind,
    /// Time at which the wait ends by itself: the end of a sleep, or the timeout.
    pub until: Option<Timestamp>,
}

/// Answers to waits of a run that is driven, see [`Ctx::answers`].
#[derive(Debug)]
pub struct Answers(Option<watch::Receiver<usize>>);

impl Answers {
    /// Completes when a wait has ended since the last call, also as it began. [`Ctx::recorded`] then
    /// has its answer, and completes the wait.
    pub async fn next(&mut self) {
        if let Some(answers) = &mut self.0
            && answers.changed().await.is_ok()
        {
            return;
        }
        // The run is not driven any more.
        std::future::pending::<()>().await;
    }
}

/// Records, for handlers that decide by themselves what they mean.
///
/// A typed handler replays: it requests its steps, and each returns its record. The handler of a
/// protocol has no such code. It reads the records, sends them to the code, which may be written in
/// any language, and records what the code has done:
///
/// ```
/// use serde_json::{Value, json};
/// use tidegate::{NewRecord, Payload, StepKind, prelude::*, testing::TestHarness};
///
/// /// The code elsewhere: it counts to three, one step per call.
/// fn call(records: usize) -> Option<Value> {
///     (records < 3).then(|| json!(records))
/// }
///
/// async fn drive(ctx: Ctx, _: Value) -> Result<usize> {
///     loop {
///         let records = ctx.recorded().await?.len();
///         let Some(value) = ctx.busy(async { call(records) }).await else { return Ok(records) };
///         let (id, kind) = (format!("step {records}"), StepKind::Run);
///         let result = Ok(Payload::from_value(&value));
///         ctx.remember(vec![NewRecord { id, kind, result }]).await?;
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let harness = TestHarness::new();
/// let engine = harness.engine().workflow(Workflow::new("count", drive)).start().await?;
/// let run = engine.start::<_, usize>("count", json!(null)).await?;
/// assert_eq!(run.output().await?, 3);
/// # Ok(())
/// # }
/// ```
impl Ctx {
    /// Returns the recorded steps of the run, in the order in which they were recorded.
    ///
    /// Every call but the first of an activation reads the store, so that it has the steps that
    /// other engines have recorded meanwhile for this run. Operations of the handler are durable
    /// before.
    ///
    /// From the first call on, the handler need not request recorded steps and waits again, and may
    /// request a step id twice. A requested step that is among the records returns its record.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be read, and with `TooManySteps` if the run has more than
    /// [`MAX_STEPS`](crate::MAX_STEPS).
    pub async fn recorded(&self) -> Result<Vec<Step>> {
        poll_fn(|cx| self.activation_state().poll_durable(cx)).await;
        if let Some(steps) = self.activation_state().waive() {
            return Ok(steps);
        }
        let _reading = Executing::read(self);
        let scan = Scan::Steps(self.run_id().seq);
        let reads = ReadSet::default().scan(scan.clone(), MAX_STEPS + 1);
        let snapshot = self.store().read(reads).await?;
        let rows = snapshot.found(&scan).into_iter();
        let steps =
            rows.filter_map(|row| if let Row::Step(step) = row { Some(step) } else { None });
        let mut steps: Vec<Step> = steps.cloned().collect();
        let mut state = self.activation_state();
        if steps.len() > MAX_STEPS as usize {
            return Err(state.too_many_steps());
        }
        steps.sort_by_key(|step| step.seq);
        state.learn(steps.clone());
        Ok(steps)
    }

    /// Records steps that have finished, in this order and in one report. They are durable when
    /// this returns. A step that is recorded already keeps its first result.
    ///
    /// Call [`Ctx::recorded`] before, in the same activation, and again to get the results that
    /// count.
    ///
    /// # Errors
    ///
    /// Fails with `BadStep` if an id or a kind is not allowed: operations on sessions and streams,
    /// settlements and compensations have methods of their own. Fails with `TooManySteps` above
    /// [`MAX_STEPS`](crate::MAX_STEPS).
    pub async fn remember(&self, steps: Vec<NewStep>) -> Result<()> {
        self.activation_state().remember(steps)?;
        poll_fn(|cx| self.activation_state().poll_durable(cx)).await;
        Ok(())
    }

    /// Returns the waits that earlier activations have begun and that have not ended, as far as
    /// [`Ctx::recorded`] has seen.
    pub fn pending(&self) -> Vec<PendingWait> {
        let state = self.activation_state();
        let waits = self.activation().run.waits.iter();
        let waits = waits.filter(|wait| state.replay.outcome(&wait.step).is_none());
        let pending = waits.filter_map(|wait| {
            let (step, until) = (wait.step.clone(), wait.until);
            Some(PendingWait { step, kind: kind_of(&wait.on)?, until })
        });
        pending.collect()
    }

    /// Waits on for the end of a [pending](Ctx::pending) wait, whose deadline stays as it is.
    ///
    /// As with every wait, the run is suspended while the handler can do nothing else, and the
    /// handler is called again at the end.
    ///
    /// # Errors
    ///
    /// Fails with `NoWait` if the run does not wait for this step, and has no record of it.
    pub fn resume(&self, step: impl Into<String>) -> Wait<Payload> {
        let step = step.into();
        let recorded = self.activation_state().replay.kind(&step);
        let waits = &self.activation().run.waits;
        let wait = waits.iter().find(|wait| wait.step == step);
        let kind = recorded.or_else(|| kind_of(&wait?.on));
        let on = kind.map(|_| NewWaitOn::Registered).ok_or_else(|| {
            StepError::coded("NoWait", format!("the run does not wait for step `{step}`")).fatal()
        });
        Wait::new(self, step, kind.unwrap_or(StepKind::Sleep), on, None)
    }

    /// Returns the steps that have failed and have no record yet, with the number of their failed
    /// attempts.
    pub fn failed_attempts(&self) -> BTreeMap<String, u32> {
        self.activation_state().failed_attempts()
    }

    /// Returns the token of this activation's lease, with which code that the handler calls can
    /// record steps at any engine, with [`Engine::record_in`](crate::Engine::record_in).
    pub fn lease_token(&self) -> String {
        let run = &self.activation().run;
        self.0.shared.share(run);
        format!("{:x}-{}", run.owner.unwrap_or_default(), run.fence)
    }

    /// Returns the answers to the run's waits that arrive while it is driven: of waits of earlier
    /// activations, and of those that began beside a step that still executes.
    pub fn answers(&self) -> Answers {
        let mut answers = self.0.shared.answers(self.run_id().seq);
        if let Some(answers) = &mut answers
            && *answers.borrow() > 0
        {
            answers.mark_changed();
        }
        Answers(answers)
    }

    /// Awaits a wait, whose time passes also while a step or another future of the handler executes.
    ///
    /// The store ends waits of runs that wait. While this run is driven, its handler has to. Call
    /// [`Ctx::recorded`] before, in the same activation: the end of the time is a record.
    pub async fn timed<T: FromAnswer>(&self, wait: Wait<T>) -> Result<T::Value> {
        let (step, kind) = (wait.step.clone(), wait.kind);
        let Some(delay) = self.delay_of(&wait) else { return wait.await };
        let timer = self.timer();
        let over = timer.sleep_until(timer.elapsed().saturating_add(delay));
        tokio::select! {
            biased;
            value = wait => return value,
            () = over => {}
        }
        let result = match kind {
            StepKind::Invoke => {
                Err(RunError::of("timed_out", "the called workflow did not end in time".to_owned()))
            }
            _ => Ok(Payload::null()),
        };
        self.remember(vec![NewStep { id: step.clone(), kind, result }]).await?;
        // The answer may have been faster.
        let missing = || StepError::coded("BadRecord", format!("step `{step}` has no record"));
        let outcome = self.record_of(&step).await?.ok_or_else(missing)?;
        T::from_answer(&step, outcome.map_err(|fault| StepError::recorded(&fault))?)
    }

    /// Returns the time until a wait ends by itself.
    fn delay_of<T>(&self, wait: &Wait<T>) -> Option<Duration> {
        let begun = self.activation().run.waits.iter().find(|begun| begun.step == wait.step);
        match begun.map_or(wait.until, |begun| begun.until.map(Until::At))? {
            Until::In(ms) => Some(Duration::from_millis(ms)),
            Until::At(at) => Some(Duration::from_millis(self.0.shared.clock.now().ms_until(at))),
        }
    }

    /// Counts a failed attempt of a step, or of the handler itself, whose id is empty. Completes when
    /// the next attempt may begin: in this activation, or after a suspension, in the next one.
    ///
    /// # Errors
    ///
    /// Returns the error if no attempt is left. Nothing is recorded then.
    pub async fn backoff(&self, step: &str, error: StepError) -> Result<()> {
        match self.next_attempt(step, None, &error) {
            Some(wait) => {
                let until = wait.until;
                self.back_off(wait, until).await;
                Ok(())
            }
            None => Err(error.after_record()),
        }
    }

    /// Returns the end of the backoff of a step, or of the handler itself, that an earlier activation
    /// has begun and that is not over: something else has woken the run. `None` if there is none.
    pub fn backing_off(&self, step: &str) -> Option<Timestamp> {
        let waits = &self.activation().run.waits;
        let wait = waits.iter().find(|wait| wait.step == step && wait.on == WaitOn::Retry);
        wait?.until.filter(|until| *until > self.0.shared.clock.now())
    }

    /// Waits for the end of a backoff that an earlier activation has begun, if it is not over.
    pub async fn resume_backoff(&self, step: &str) {
        if let Some(until) = self.backing_off(step) {
            let (step, until) = (step.to_owned(), Some(Until::At(until)));
            let wait = NewWait { step, on: NewWaitOn::Registered, until };
            self.back_off(wait, until).await;
        }
    }

    /// Awaits a future that is no step. Until it is ready the run is not suspended, whatever else
    /// the handler waits for.
    pub async fn busy<T>(&self, future: impl Future<Output = T>) -> T {
        let _executing = Executing::begin(self);
        future.await
    }
}

impl State {
    /// Queues finished steps for the next report, except those that are known to be recorded.
    fn remember(&mut self, mut steps: Vec<NewStep>) -> Result<()> {
        if !self.replay.is_waived() {
            let message = "`remember` needs the records: call `recorded` first".to_owned();
            return Err(self.break_off("BadStep", message));
        }
        steps.retain(|step| self.replay.outcome(&step.id).is_none());
        for step in &steps {
            check_record(step).map_err(|message| self.break_off("BadStep", message))?;
        }
        if self.replay.len() + steps.len() > MAX_STEPS as usize {
            return Err(self.too_many_steps());
        }
        for step in steps {
            self.finish(step);
        }
        Ok(())
    }
}

/// Checks a step that other code has finished. The error describes the rule that it breaks.
pub(crate) fn check_record(NewStep { id, kind, .. }: &NewStep) -> Result<(), String> {
    match kind {
        StepKind::Run
        | StepKind::Sleep
        | StepKind::Event
        | StepKind::Signal
        | StepKind::Invoke
        | StepKind::Send => check_id(id, Asks { kind: *kind, patch: false }),
        StepKind::State | StepKind::Compensate | StepKind::Commit | StepKind::Settle => {
            Err(format!("step `{id}` is {}, which other code cannot record", word(*kind)))
        }
    }
}
