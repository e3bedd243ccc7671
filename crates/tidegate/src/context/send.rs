//! Events that a run posts.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use tidegate_core::{
    delivery::MAX_DELAY_MS, event::NewEvent, row::StepKind, run::record::NewSend, time::Timestamp,
};

use super::Ctx;
use crate::{
    handler::check_name,
    step_error::{Result, StepError},
};

/// An event that a run posts, when it is awaited. [`Ctx::send_event`] creates it.
#[must_use = "the event is posted when it is awaited"]
pub struct SendEvent {
    ctx: Ctx,
    step: String,
    event: Result<NewEvent>,
}

impl fmt::Debug for SendEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendEvent").field("step", &self.step).finish_non_exhaustive()
    }
}

impl SendEvent {
    pub(super) fn new(ctx: Ctx, step: String, event: Result<NewEvent>) -> Self {
        Self { ctx, step, event }
    }

    /// Delivers the event after a delay: until then it wakes and starts nothing. The delay begins
    /// when the step is recorded; at most 365 days.
    pub fn delay(self, delay: Duration) -> Self {
        let event = self.event.and_then(|event| match u64::try_from(delay.as_millis()) {
            Ok(..=MAX_DELAY_MS) => Ok(event.delay(delay)),
            _ => Err(StepError::coded(
                "TooFarAhead",
                format!("step `{}`: delay must be at most 365 days, got {delay:?}", self.step),
            )
            .fatal()),
        });
        Self { event, ..self }
    }

    /// Delivers the event at a time: until then it wakes and starts nothing. At most 365 days
    /// ahead; a time that has passed means at once.
    pub fn deliver_at(self, at: Timestamp) -> Self {
        Self { event: self.event.map(|event| event.deliver_at(at)), ..self }
    }

    async fn send(self) -> Result<()> {
        let Self { ctx, step, event } = self;
        let event = event?;
        if let Some(recorded) = ctx.turn(&step, StepKind::Send).await? {
            return recorded.map(drop).map_err(|fault| StepError::recorded(&fault));
        }
        check_name(&event.name).map_err(|rule| {
            StepError::coded("BadName", format!("step `{step}`: the event's name {rule}")).fatal()
        })?;
        // Only a time may be refused when the step is recorded. Then the step fails.
        let may_fail = event.deliver.is_some();
        ctx.activation_state().send(NewSend::event(step.clone(), event));
        if may_fail {
            let recorded = ctx.outcome_of(&step).await?;
            return recorded.map(drop).map_err(|fault| StepError::recorded(&fault));
        }
        Ok(())
    }
}

impl IntoFuture for SendEvent {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
