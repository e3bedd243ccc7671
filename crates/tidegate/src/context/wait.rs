//! Waits: for a time, an event, a signal or another workflow.
//!
//! The wait of a typed handler never ends while the handler runs. The wait is registered and the run
//! releases its worker; when the answer arrives, it is recorded, and the handler is started again. A
//! handler that reads its records itself gets the answers that arrive meanwhile, too.

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
    expr::{Expr, ExprError, Mode, Value},
    json::Payload,
    key::Path,
    row::{StepKind, WaitFilter},
    run::{
        record::{NewWait, NewWaitOn, Until},
        wait::{encoded, encoded_scalar},
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
    pub(super) step: String,
    pub(super) kind: StepKind,
    on: Result<NewWaitOn>,
    pub(super) until: Option<Until>,
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

    /// Sets the end of the wait without an answer, as [`Wait::timeout`] does: a duration, or a time
    /// of the store's clock.
    pub fn until(mut self, until: impl Into<Until>) -> Self {
        self.until = Some(until.into());
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
                self.on = Err(self.no_event());
            }
            (Ok(_), Err(fault)) => self.on = Err(fault),
            (Err(_), _) => {}
        }
        self
    }
}

impl<T> Wait<T> {
    /// Answers a wait for an event with the whole event, and not only with its data: an object with
    /// `id`, `name`, `data`, `ts` in milliseconds, and the members of its
    /// [attributes](crate::NewEvent::attributes).
    pub fn whole_event(mut self) -> Self {
        match &mut self.on {
            Ok(NewWaitOn::Event { whole, .. }) => *whole = true,
            Ok(_) => self.on = Err(self.no_event()),
            Err(_) => {}
        }
        self
    }

    /// Accepts only events for which this [expression](tidegate_core::expr) is true. The event is
    /// `async` in it, and the event that has started the run is `event`.
    ///
    /// Events for which the expression cannot be evaluated are not accepted. An equality of a path
    /// of the event and a value is looked up in an index, as that of [`Wait::matching`].
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::{Ctx, Result};
    ///
    /// async fn order(ctx: Ctx, _: Value) -> Result<Option<Value>> {
    ///     let condition = "async.data.id == event.data.id && async.data.cents >= 100";
    ///     ctx.wait_for_event("paid", "order.paid").only_if(condition).await
    /// }
    /// ```
    pub fn only_if(self, condition: &str) -> Self {
        self.filtered(condition, Mode::Strict)
    }

    /// Accepts only events for which this expression is true in lenient mode: a missing value is
    /// the zero of the other side, and every value can be a condition. See [`Wait::only_if`].
    pub fn only_if_lenient(self, condition: &str) -> Self {
        self.filtered(condition, Mode::Lenient)
    }

    fn filtered(mut self, condition: &str, mode: Mode) -> Self {
        let own = self.ctx.event().whole();
        let error = match &mut self.on {
            Ok(NewWaitOn::Event { matches, filter, .. }) => {
                let narrowed = narrow(matches, filter, condition, &own, mode);
                let error = narrowed.err().map(|error| format!("`{condition}`: {error}"));
                error.map(|message| StepError::coded("BadMatch", message).fatal())
            }
            Ok(_) => Some(self.no_event()),
            Err(_) => None,
        };
        if let Some(error) = error {
            self.on = Err(error);
        }
        self
    }

    /// Ends the wait of another step for the same [named
    /// signal](Ctx::wait_for_signal_by_name), as if its time were over.
    pub fn replacing(mut self) -> Self {
        if let Ok(NewWaitOn::Named { replace, .. }) = &mut self.on {
            *replace = true;
        }
        self
    }

    fn no_event(&self) -> StepError {
        let message = format!("step `{}` does not wait for an event", self.step);
        StepError::coded("BadMatch", message).fatal()
    }
}

/// Path and encoded value of an equality, and the text of the remaining condition.
type Bound = (Option<(String, Vec<u8>)>, Option<String>);

/// Adds a condition to those of a wait. The error describes the rule that it breaks.
fn narrow(
    matches: &mut Vec<(String, Vec<u8>)>,
    filter: &mut Option<WaitFilter>,
    condition: &str,
    own: &Payload,
    mode: Mode,
) -> Result<(), String> {
    let lenient = mode == Mode::Lenient;
    let (equality, rest) = bind(condition, own, mode).map_err(|error| error.to_string())?;
    matches.extend(equality);
    let Some(rest) = rest else { return Ok(()) };
    let expr = match filter.take() {
        None => rest,
        Some(first) if first.lenient != lenient => {
            return Err("`only_if` and `only_if_lenient` cannot be combined".to_owned());
        }
        Some(first) => format!("({}) && ({rest})", first.expr),
    };
    Expr::parse_bound(&expr).map_err(|error| error.to_string())?;
    *filter = Some(WaitFilter { expr, lenient });
    Ok(())
}

/// Binds the run's own event in a condition.
fn bind(condition: &str, own: &Payload, mode: Mode) -> Result<Bound, ExprError> {
    let expr = Expr::parse(condition)?.bind("event", &Value::of(own), mode)?;
    let Some(found) = expr.indexed_equality(WaitFilter::EVENT, mode) else {
        return Ok((None, Some(expr.to_string())));
    };
    let path = found.path.to_string();
    // The index has the texts of paths.
    if Path::parse(&path).ok().as_ref() != Some(&found.path) {
        return Ok((None, Some(expr.to_string())));
    }
    let rest = found.rest.map(|rest| rest.to_string());
    Ok((Some((path, encoded_scalar(found.value))), rest))
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

/// Answer of any wait, as it is recorded.
impl FromAnswer for Payload {
    type Value = Self;

    fn from_answer(_step: &str, answer: Payload) -> Result<Self> {
        Ok(answer)
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
            ready!(state.poll_answered(&this.step, cx));
            this.stage = Stage::Answered;
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
