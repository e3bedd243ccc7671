//! Waits: for a time, an event, a signal or another workflow.
//!
//! A wait never ends while its handler runs. The wait is registered and the run releases its
//! worker; when the answer arrives, it is recorded, and the handler is started again.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tidegate_core::{
    json::Payload,
    row::StepKind,
    run::{
        record::{NewWait, NewWaitOn, Until},
        wait::encoded,
    },
};

use super::{Ctx, step::read, turn::Asks};
use crate::{
    handler::write,
    step_error::{Result, StepError},
};

/// A wait; its answer is converted to the caller's type.
#[must_use = "a wait begins when it is awaited"]
pub struct Wait<T> {
    ctx: Ctx,
    step: String,
    kind: StepKind,
    on: Result<NewWaitOn>,
    until: Option<Until>,
    stage: Stage,
    answer: PhantomData<fn() -> T>,
}

/// Stage of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not requested yet.
    New,
    /// Unanswered: the run waits for it.
    Registered,
    /// Its answer is recorded.
    Answered,
    /// Its answer was delivered to the handler.
    Over,
}

impl<T> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("step", &self.step)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}

impl<T> Wait<T> {
    pub(super) fn new(
        ctx: &Ctx,
        step: String,
        kind: StepKind,
        on: Result<NewWaitOn>,
        until: Option<Until>,
    ) -> Self {
        let (ctx, stage) = (ctx.clone(), Stage::New);
        Self { ctx, step, kind, on, until, stage, answer: PhantomData }
    }

    /// Sets the timeout.
    ///
    /// After the timeout, a wait for an event or a signal returns `None`, and a call of a workflow
    /// fails with `TimedOut`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.until = Some(in_time(timeout));
        self
    }

    /// Accepts only events that have this value at this path.
    ///
    /// If this is called several times, all conditions must match.
    pub fn matching(mut self, path: &str, value: impl Serialize) -> Self {
        let document = write(&json!({ "it": value }));
        let found = document.map(|document| encoded(&document, "it"));
        let value = found.and_then(|value| {
            value.ok_or_else(|| {
                let message = format!("a match on `{path}` needs a string, number or boolean");
                StepError::coded("BadMatch", message).fatal()
            })
        });
        match (&mut self.on, value) {
            (Ok(NewWaitOn::Event { matches, .. }), Ok(value)) => {
                matches.push((path.to_owned(), value));
            }
            (Ok(_), Ok(_)) => {
                let message = format!("step `{}` does not wait for an event", self.step);
                self.on = Err(StepError::coded("BadMatch", message).fatal());
            }
            (Ok(_), Err(fault)) => self.on = Err(fault),
            (Err(_), _) => {}
        }
        self
    }
}

pub(super) fn in_time(duration: Duration) -> Until {
    Until::In(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Conversion of a recorded answer into the caller's type.
pub trait FromAnswer {
    /// Type of the converted answer.
    type Value;

    /// Reads the recorded answer of a step.
    fn from_answer(step: &str, answer: Payload) -> Result<Self::Value>;
}

/// Answer of a wait for an event or a signal: a value, or `None` after the timeout.
impl<T: DeserializeOwned> FromAnswer for Option<T> {
    type Value = Self;

    fn from_answer(step: &str, answer: Payload) -> Result<Self> {
        read(step, answer)
    }
}

/// Answer of a sleep.
impl FromAnswer for () {
    type Value = ();

    fn from_answer(_step: &str, _answer: Payload) -> Result<Self> {
        Ok(())
    }
}

/// Answer of a called workflow: its output. A timeout is an error here, not `None`.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<fn() -> T>);

impl<T: DeserializeOwned> FromAnswer for Returned<T> {
    type Value = T;

    fn from_answer(step: &str, answer: Payload) -> Result<T> {
        read(step, answer)
    }
}

impl<T: FromAnswer> Future for Wait<T> {
    type Output = Result<T::Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let asks = Asks { kind: this.kind, patch: false };
        let mut state = this.ctx.activation_state();
        if this.stage == Stage::New {
            if state.ask(&this.step, asks)? {
                this.stage = Stage::Answered;
            } else {
                let on = this.on.clone()?;
                this.stage = Stage::Registered;
                state.wait(NewWait { step: this.step.clone(), on, until: this.until });
            }
        }
        if this.stage == Stage::Registered {
            return Poll::Pending;
        }
        let outcome = ready!(state.poll_turn(&this.step, asks, cx));
        this.stage = Stage::Over;
        drop(state);
        let outcome = outcome.unwrap_or_else(|| Ok(Payload::null()));
        let answer = outcome.map_err(|fault| StepError::recorded(&fault))?;
        Poll::Ready(T::from_answer(&this.step, answer))
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Registered | Stage::Answered) {
            self.ctx.activation_state().forget(&self.step);
        }
    }
}
