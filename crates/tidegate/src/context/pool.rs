//! Steps that pass pools: their settings, and their places in this activation.

use std::{
    collections::BTreeMap,
    fmt,
    future::{IntoFuture, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tidegate_core::{
    definition::Retry,
    flow::step_pool::{PoolAnswer, PoolAsk, key_of},
    row::{RunError, StepKind},
    run::record::{NewAsk, NewStep, NewWait, NewWaitOn},
};

use super::{Ctx, State, Step};
use crate::step_error::{Result, StepError};

/// Pools that a step passes, or the first mistake in their settings.
pub(super) type StepPools = Result<Vec<PoolAsk>>;

/// A step that passes a pool before each of its attempts. [`Step::pool`] creates it.
///
/// ```
/// use tidegate::{Ctx, Pool, Result};
///
/// # async fn complete(prompt: &str) -> Result<String> { Ok(prompt.to_uppercase()) }
/// async fn answer(ctx: Ctx, prompt: String) -> Result<String> {
///     // Over all workflows and engines, at most as many calls for `acme` are under way as the
///     // pool allows.
///     let ask = ctx.step("ask", || complete(&prompt));
///     ask.pool("openai").key("acme").cost(2).await
/// }
///
/// let openai = Pool::new("openai");
/// # let _ = openai;
/// ```
#[must_use = "a step runs when it is awaited"]
pub struct PooledStep<'a, T> {
    step: Step<'a, T>,
}

impl<T> fmt::Debug for PooledStep<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PooledStep").field(&self.step).finish()
    }
}

impl<'a, T> PooledStep<'a, T> {
    pub(super) fn new(mut step: Step<'a, T>, pool: String) -> Self {
        if let Ok(pools) = &mut step.pools {
            pools.push(PoolAsk { pool, key: None, cost: 1, fair_by: None });
        }
        Self { step }
    }

    /// Sets the key of the step at every part of the pool named last: a string, a number or a
    /// boolean, or a list of 2 to 8 of them for a pool with a key of several paths.
    ///
    /// A pool whose limits have a key needs one. At a pool without a key of its own, the step gets
    /// a limit for its key.
    pub fn key(mut self, key: impl Serialize) -> Self {
        let key = serde_json::to_value(key).ok().and_then(|key| key_of(&key));
        let pool = self.step.pools.as_mut().ok().and_then(|pools| pools.last_mut());
        match (key, pool) {
            (Some(key), Some(pool)) => pool.key = Some(key),
            (None, Some(pool)) => {
                let message = format!(
                    "step `{}`: the key at pool `{}` needs a string, number or boolean, or 2 to 8 \
                     of them",
                    self.step.id, pool.pool
                );
                self.step.pools = Err(StepError::coded("PoolKey", message).fatal());
            }
            (_, None) => {}
        }
        self
    }

    /// Sets the units that the step takes of the pool named last, from 1 to 1,000,000. Defaults to
    /// 1.
    pub fn cost(mut self, units: u32) -> Self {
        if let Some(pool) = self.step.pools.as_mut().ok().and_then(|pools| pools.last_mut()) {
            pool.cost = units;
        }
        self
    }

    /// Sets the value that takes turns where the pool named last is [fair](crate::Fair): a string, a
    /// number or a boolean, or a list of 2 to 8 of them. It has the type of the values in the data
    /// of runs that use the pool. Without it, and with `None`, the step waits as the one value of
    /// all runs and steps without a value.
    ///
    /// A gate that the run itself uses keeps the value of the run.
    pub fn fair_by(mut self, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).ok();
        let missing = value.as_ref().is_some_and(Value::is_null);
        let value = value.as_ref().and_then(key_of);
        let pool = self.step.pools.as_mut().ok().and_then(|pools| pools.last_mut());
        let Some(pool) = pool else { return self };
        if missing || value.is_some() {
            pool.fair_by = value;
        } else {
            let message = format!(
                "step `{}`: the value of `fair_by` at pool `{}` needs a string, number or boolean, \
                 or 2 to 8 of them",
                self.step.id, pool.pool
            );
            self.step.pools = Err(StepError::coded("PoolKey", message).fatal());
        }
        self
    }

    /// Adds a pool that the step passes, too. It begins when it has its place in all of them.
    pub fn pool(self, pool: impl Into<String>) -> Self {
        Self::new(self.step, pool.into())
    }

    /// Sets the retry policy, see [`Step::retry`].
    pub fn retry(self, retry: Retry) -> Self {
        Self { step: self.step.retry(retry) }
    }

    /// Sets the timeout of one attempt, see [`Step::timeout`]. The wait for the pool does not
    /// count.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { step: self.step.timeout(timeout) }
    }
}

impl<'a, T> IntoFuture for PooledStep<'a, T>
where
    T: Serialize + DeserializeOwned + Send + 'a,
{
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        self.step.into_future()
    }
}

/// State of one step that passes pools.
#[derive(Debug)]
enum Stage {
    /// It has asked, and has no answer yet.
    Asked(NewAsk, Option<Waker>),
    /// It has no place: the run parks for it when it can only wait.
    Waits(NewAsk, Option<Waker>),
    /// The run was queued for it and has its place, which it has not claimed yet.
    Granted,
    /// It has its place.
    Entered,
    /// It fails.
    Refused(RunError),
}

/// Steps of this activation that pass pools.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, Stage>);

impl Places {
    /// Creates the places that a run has at its lease: it was queued for these steps.
    pub(super) fn new(steps: &[String]) -> Self {
        Self(steps.iter().map(|step| (step.clone(), Stage::Granted)).collect())
    }

    /// Whether a step has asked and has no answer yet.
    pub(super) fn is_asking(&self) -> bool {
        self.0.values().any(|stage| matches!(stage, Stage::Asked(..)))
    }

    /// Returns the steps that have a place and have not claimed it.
    fn granted(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter(|(_, stage)| matches!(stage, Stage::Granted)).map(|(step, _)| step)
    }
}

impl State {
    /// Polls the place of a step in its pools. Ready when the step may begin, or when it fails.
    fn poll_place(
        &mut self,
        step: &str,
        pools: &[PoolAsk],
        cx: &Context<'_>,
    ) -> Poll<Result<(), RunError>> {
        match self.places.0.get_mut(step) {
            Some(stage @ Stage::Granted) => {
                *stage = Stage::Entered;
                return Poll::Ready(Ok(()));
            }
            Some(Stage::Entered) => return Poll::Ready(Ok(())),
            Some(Stage::Refused(error)) => return Poll::Ready(Err(error.clone())),
            Some(Stage::Asked(_, waker) | Stage::Waits(_, waker)) => {
                *waker = Some(cx.waker().clone());
            }
            None => {
                let ask = NewAsk { step: step.to_owned(), pools: pools.to_vec() };
                self.ask_pools(ask, Some(cx.waker().clone()));
            }
        }
        Poll::Pending
    }

    /// Asks for the place of a step in the next report.
    fn ask_pools(&mut self, ask: NewAsk, waker: Option<Waker>) {
        self.places.0.insert(ask.step.clone(), Stage::Asked(ask.clone(), waker));
        self.ops.ask(ask);
        self.wake_driver();
    }

    /// Records the answers of a durable report.
    pub(crate) fn answered(&mut self, answers: Vec<(String, PoolAnswer)>) {
        for (step, answer) in answers {
            let Some(stage) = self.places.0.remove(&step) else {
                // The step was dropped meanwhile: it gives its place back.
                self.ops.leave(step);
                continue;
            };
            let (stage, waker) = match (stage, answer) {
                (Stage::Asked(_, waker), PoolAnswer::Entered) => (Stage::Entered, waker),
                (Stage::Asked(_, waker), PoolAnswer::Refused(error)) => {
                    (Stage::Refused(error), waker)
                }
                (Stage::Asked(ask, waker), PoolAnswer::Waits) => {
                    let on = NewWaitOn::Pools(ask.pools.clone());
                    self.waits
                        .insert(step.clone(), NewWait { step: step.clone(), on, until: None });
                    (Stage::Waits(ask, waker), None)
                }
                (stage, _) => (stage, None),
            };
            self.places.0.insert(step, stage);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends the place of a step whose attempt is over. If the attempt has no record, the next report
    /// says so. Steps that wait for a place ask again: it may be this one.
    pub(super) fn end_place(&mut self, step: &str, recorded: bool) {
        let had_place = match self.places.0.remove(step) {
            Some(Stage::Granted | Stage::Entered) => true,
            Some(Stage::Asked(..)) => return self.ops.unask(step),
            Some(Stage::Waits(..)) => {
                self.waits.remove(step);
                false
            }
            Some(Stage::Refused(_)) | None => false,
        };
        if !had_place {
            return;
        }
        if !recorded {
            self.ops.leave(step.to_owned());
        }
        let waits = |stage: &Stage| matches!(stage, Stage::Waits(..));
        let waiting: Vec<_> = self.places.0.extract_if(.., |_, stage| waits(stage)).collect();
        for (step, stage) in waiting {
            if let Stage::Waits(ask, waker) = stage {
                self.waits.remove(&step);
                self.ask_pools(ask, waker);
            }
        }
        self.wake_driver();
    }

    /// Gives the place of a step back that its code has dropped before it could begin.
    pub(super) fn leave_granted(&mut self, step: &str) {
        if self.places.granted().any(|granted| granted == step) {
            self.end_place(step, false);
        }
    }

    /// Gives the places back for which the run was queued, but which its code does not request any
    /// more, once another step runs: meanwhile the run may have received an answer that it went on
    /// with.
    pub(super) fn leave_unclaimed(&mut self) {
        if self.executing == 0 || self.replay.holds_back() {
            return;
        }
        let unclaimed = self.places.granted().filter(|step| !self.asked.contains_key(*step));
        for step in unclaimed.cloned().collect::<Vec<_>>() {
            self.end_place(&step, false);
        }
    }
}

/// Place of a step during one attempt. It ends when this value is dropped: with the attempt, or
/// with the future of the step.
pub(super) struct Place<'a> {
    ctx: &'a Ctx,
    step: &'a str,
    recorded: bool,
}

impl Place<'_> {
    /// Queues the record of the step for the next report, which ends its place, too.
    pub(super) fn finish(mut self, step: NewStep) {
        self.ctx.activation_state().finish(step);
        self.recorded = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.ctx.activation_state().end_place(self.step, self.recorded);
    }
}

impl Ctx {
    /// Waits for the place of a step in its pools.
    pub(super) async fn enter<'a>(
        &'a self,
        step: &'a str,
        pools: StepPools,
    ) -> (Option<Place<'a>>, Result<()>) {
        let pools = match pools {
            Ok(pools) if pools.is_empty() => return (None, Ok(())),
            Ok(pools) => pools,
            Err(fault) => return (None, Err(fault)),
        };
        if let Some(outer) = self.activation_state().scope() {
            let message = format!(
                "step `{step}` passes a pool inside of step `{outer}`: the run would wait for the \
                 pool until `{outer}` has ended; request it after that step"
            );
            return (None, Err(StepError::coded("NestedPools", message).fatal()));
        }
        let place = Place { ctx: self, step, recorded: false };
        let entered = poll_fn(|cx| self.activation_state().poll_place(step, &pools, cx)).await;
        (Some(place), entered.map_err(|error| StepError::recorded(&error)))
    }

    /// Queues the record of a step, and ends its place.
    pub(super) fn record_step(&self, place: Option<Place<'_>>, step: NewStep) {
        debug_assert_eq!(step.kind, StepKind::Run, "only steps with a closure pass pools");
        match place {
            Some(place) => place.finish(step),
            None => self.activation_state().finish(step),
        }
    }
}
