//! Steps: named, recorded parts of a run.

use std::{
    fmt,
    future::{Future, IntoFuture, pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    definition::Retry,
    flow::close::{self, MAX_DEFERRALS},
    json::Payload,
    row::StepKind,
    run::record::{NewStep, NewWait, Until},
};
use tracing::Instrument;

use super::{
    Ctx, Outcome,
    pool::{PooledStep, StepPools},
};
use crate::{
    handler::write,
    step_error::{Result, RetryDecision, StepError},
    telemetry,
};

/// Future of a step's closure.
type StepFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Closure of a step.
enum Attempts<'a, T> {
    Once(Option<Box<dyn FnOnce() -> StepFuture<'a, T> + Send + 'a>>),
    Many(Box<dyn FnMut() -> StepFuture<'a, T> + Send + 'a>),
}

impl<'a, T> Attempts<'a, T> {
    /// Returns the closure of the next attempt; `None` if the next activation has to make it.
    fn next(&mut self) -> Option<Box<dyn FnOnce() -> StepFuture<'a, T> + Send + '_>> {
        match self {
            Self::Once(run) => run.take().map(|run| run as _),
            Self::Many(run) => Some(Box::new(run)),
        }
    }
}

/// A step, which runs when it is awaited.
#[must_use = "a step runs when it is awaited"]
pub struct Step<'a, T> {
    ctx: Ctx,
    pub(super) id: String,
    run: Attempts<'a, T>,
    pub(super) pools: StepPools,
    retry: Option<Retry>,
    timeout: Option<Duration>,
}

impl<T> fmt::Debug for Step<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'a, T> Step<'a, T> {
    pub(super) fn new<F, Fut>(ctx: Ctx, id: String, run: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let run = Attempts::Once(Some(Box::new(|| Box::pin(run()) as StepFuture<'a, T>)));
        Self { ctx, id, run, pools: Ok(Vec::new()), retry: None, timeout: None }
    }

    pub(super) fn repeatable<F, Fut>(ctx: Ctx, id: String, mut run: F) -> Self
    where
        F: FnMut() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let run = Attempts::Many(Box::new(move || Box::pin(run()) as StepFuture<'a, T>));
        Self { ctx, id, run, pools: Ok(Vec::new()), retry: None, timeout: None }
    }

    /// Sets the retry policy. Defaults to the retry policy of the workflow.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets the timeout of one attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets every attempt of the step pass a pool: it begins when it has a place there, beside the
    /// steps and runs of all workflows, and gives it back at its end.
    ///
    /// If there is no room, and the run can do nothing else, the run waits in the pool's queue
    /// without a worker. Steps that pass pools do not nest. The pool's `concurrency` needs the span
    /// `executing`.
    ///
    /// # Errors
    ///
    /// The step fails, without a retry, with `UnknownPool`, with `PoolSpan`, with `PoolKey` if the
    /// pool has a key and the step has none, with `CostExceedsLimit` if its cost is above a limit,
    /// with `BadCost`, with `TooManyPools` and with `NestedPools`.
    pub fn pool(self, pool: impl Into<String>) -> PooledStep<'a, T> {
        PooledStep::new(self, pool.into())
    }
}

impl<'a, T> IntoFuture for Step<'a, T>
where
    T: Serialize + DeserializeOwned + Send + 'a,
{
    type Output = Result<T>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> StepFuture<'a, T> {
        Box::pin(self.take())
    }
}

impl<'a, T> Step<'a, T>
where
    T: Serialize + DeserializeOwned + Send + 'a,
{
    async fn take(self) -> Result<T> {
        let Self { ctx, id, mut run, pools, retry, timeout } = self;
        if let Some(outcome) = ctx.turn(&id, StepKind::Run).await? {
            return ctx.read_record(&id, outcome);
        }
        ctx.resume_backoff(&id).await;
        let is_repeatable = matches!(run, Attempts::Many(_));
        let (place, result) = loop {
            let Some(attempt) = run.next() else { return pending().await };
            let (place, entered) = ctx.enter(&id, pools.clone()).await;
            poll_fn(|cx| ctx.activation_state().poll_durable(cx)).await;
            let span = telemetry::step_span(&id, ctx.attempt(&id));
            let outcome = match entered {
                Ok(()) => ctx.execute(&id, timeout, attempt).instrument(span).await,
                Err(fault) => Err(fault),
            };
            // The value is serialized and read back, so that the first execution returns the same
            // value as every replay.
            match outcome.and_then(|value| write_back::<T>(&id, &value)) {
                Ok(written) => break (place, Ok(written)),
                Err(fault) => match ctx.next_attempt(&id, retry.as_ref(), &fault) {
                    Some(wait) => {
                        drop(place);
                        let until = wait.until.filter(|_| is_repeatable);
                        ctx.back_off(wait, until).await;
                    }
                    None => break (place, Err(fault)),
                },
            }
        };
        let (recorded, value) = match result {
            Ok((payload, value)) => (Ok(payload), Ok(value)),
            Err(fault) => (Err(fault.to_row()), Err(fault.after_record())),
        };
        let step = NewStep { id: id.clone(), kind: StepKind::Run, result: recorded };
        ctx.record_step(place, step);
        value
    }
}

/// Serializes a value and reads it back, as a replay will. If it cannot be read back, the step
/// fails before anything is recorded.
pub(super) fn write_back<T: Serialize + DeserializeOwned>(
    id: &str,
    value: &T,
) -> Result<(Payload, T)> {
    let payload = write(value)?;
    let value = read(id, payload.clone())?;
    Ok((payload, value))
}

/// Deserializes a recorded value into the caller's type.
pub(super) fn read<T: DeserializeOwned>(id: &str, value: Payload) -> Result<T> {
    serde_json::from_str(value.as_str()).map_err(|error| {
        let wanted = std::any::type_name::<T>();
        let message = format!("the record of step `{id}` cannot be read as {wanted}: {error}");
        StepError::coded("BadRecord", message).fatal()
    })
}

impl Ctx {
    /// Returns a step's recorded value in the caller's type. If it cannot be read as this type, the
    /// run fails: the code has changed, and must have no further effects.
    pub(super) fn read_record<T: DeserializeOwned>(&self, id: &str, outcome: Outcome) -> Result<T> {
        let value = outcome.map_err(|fault| StepError::recorded(&fault))?;
        read(id, value).map_err(|fault| self.activation_state().unreadable(&fault))
    }

    /// Executes the closure of a step: counts it as executing, applies the timeout, and catches
    /// panics.
    async fn execute<'a, T>(
        &self,
        id: &str,
        timeout: Option<Duration>,
        run: impl FnOnce() -> StepFuture<'a, T>,
    ) -> Result<T> {
        let _executing = Executing::begin(self);
        let started = std::panic::catch_unwind(AssertUnwindSafe(run));
        let mut future = started.map_err(|payload| StepError::panicked(payload.as_ref()))?;
        let timer = self.timer();
        let mut deadline = timeout.map(|timeout| timer.sleep_until(timer.elapsed() + timeout));
        poll_fn(|cx| {
            let before = self.activation_state().enter(Some(id.to_owned()));
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
            self.activation_state().enter(before);
            match polled {
                Err(payload) => return Poll::Ready(Err(StepError::panicked(payload.as_ref()))),
                Ok(Poll::Ready(outcome)) => return Poll::Ready(outcome),
                Ok(Poll::Pending) => {}
            }
            if let Some(deadline) = &mut deadline
                && pin!(deadline).poll(cx).is_ready()
            {
                let limit = timeout.unwrap_or_default().as_millis();
                let message = format!("step `{id}` took longer than {limit} ms");
                return Poll::Ready(Err(StepError::coded("TimedOut", message).overload()));
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the wait until the next attempt; `None` if there is none.
    pub(crate) fn next_attempt(
        &self,
        step: &str,
        retry: Option<&Retry>,
        fault: &StepError,
    ) -> Option<NewWait> {
        if let Some(overload) = fault.overload_of(step) {
            self.activation_state().overload(overload);
        }
        if let Some(wait) = self.close_and_wait(step, fault) {
            return Some(wait);
        }
        let retry = retry.unwrap_or(&self.activation().definition.retry);
        let failures = self.activation_state().failures(step) + 1;
        let delay_ms = retry.delay_ms(failures, self.chance())?;
        let delay_ms = match fault.again() {
            RetryDecision::Never => return None,
            RetryDecision::Retry => delay_ms,
            RetryDecision::After(delay) => u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        };
        tracing::debug!(step, failures, delay_ms, %fault, "step failed, retrying");
        Some(self.activation_state().failed(step, Until::In(delay_ms)))
    }

    /// Waits for the next attempt of a step: until this time, or for the next activation. The wait
    /// is durable before a closure begins and while one executes. If the handler can do nothing
    /// else, the run is suspended.
    pub(super) async fn back_off(&self, wait: NewWait, until: Option<Until>) {
        let _backoff = Backoff { ctx: self, step: wait.step.clone() };
        self.activation_state().wait(wait);
        let delay = match until {
            Some(Until::In(ms)) => Duration::from_millis(ms),
            Some(Until::At(at)) => {
                let now = self.0.shared.clock.now();
                let micros = at.micros().saturating_sub(now.micros());
                Duration::from_micros(u64::try_from(micros).unwrap_or_default())
            }
            None => pending().await,
        };
        let timer = self.timer();
        timer.sleep_until(timer.elapsed().saturating_add(delay)).await;
    }
}

/// Guard of a wait for the next attempt. The wait ends with it, also if the step is dropped.
struct Backoff<'a> {
    ctx: &'a Ctx,
    step: String,
}

impl Drop for Backoff<'_> {
    fn drop(&mut self) {
        self.ctx.activation_state().end_wait(&self.step);
    }
}

impl Ctx {
    /// Reports the closing of a gate, if the error of a step asks for it and the run has the gate.
    /// Returns the wait until its end; none if the attempt counts as failed.
    fn close_and_wait(&self, step: &str, fault: &StepError) -> Option<NewWait> {
        let run = &self.activation().run;
        let new = fault.closes()?.clone();
        if let Err(error) = close::gates(run, &new.gate) {
            tracing::warn!(run = %run.id, step, reason = error.message, "closing of a gate ignored");
            return None;
        }
        let deferrals = self.activation_state().deferrals(step);
        let until = match new.until {
            Until::In(ms) => Until::In(ms.min(new.max_ms)),
            Until::At(at) => {
                let now = self.0.shared.clock.now();
                let ms = u64::try_from(at.micros().saturating_sub(now.micros())).unwrap_or(0);
                Until::In((ms / 1000 + u64::from(ms % 1000 > 0)).min(new.max_ms))
            }
        };
        tracing::debug!(step, deferrals, gate = new.gate.to_text(), "step closes a gate");
        self.activation_state().close(new);
        (deferrals < MAX_DEFERRALS).then(|| self.activation_state().deferred(step, until))
    }
}

/// Guard that counts a closure while it executes, or a read of the store.
pub(super) struct Executing<'a> {
    ctx: &'a Ctx,
    closures: usize,
}

impl<'a> Executing<'a> {
    pub(super) fn begin(ctx: &'a Ctx) -> Self {
        Self::count(ctx, 1)
    }

    pub(super) fn read(ctx: &'a Ctx) -> Self {
        Self::count(ctx, 0)
    }

    fn count(ctx: &'a Ctx, closures: usize) -> Self {
        let mut state = ctx.activation_state();
        state.executing += 1;
        state.closures += closures;
        Self { ctx, closures }
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut state = self.ctx.activation_state();
        state.executing -= 1;
        state.closures -= self.closures;
        state.wake_driver();
    }
}
