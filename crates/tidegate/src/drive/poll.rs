//! Polling of a handler until it can advance neither by itself nor with recorded results.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tidegate_core::json::Payload;

use crate::{
    context::{Ctx, Next},
    quiet::Watched,
    step_error::Result,
    timer::{BoxFuture, Timer},
};

/// Time that a halted replay waits for something that its handler awaits outside of its operations.
/// After that, the code counts as changed and the run fails. The limit is long because a run with
/// unchanged code must not fail, while a late failure does no harm.
const SETTLE_LIMIT: Duration = Duration::from_mins(1);

/// Limits of the wait for a record that the handler has not requested.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) limit: Duration,
    /// Whether to wait although the handler awaits nothing outside of its operations: tasks that it
    /// has spawned may still request the record.
    pub(crate) for_tasks: bool,
}

impl Patience {
    pub(crate) fn new(timer: Arc<dyn Timer>, for_tasks: bool) -> Self {
        Self { timer, limit: SETTLE_LIMIT, for_tasks }
    }
}

/// A handler that is being polled.
pub(crate) struct Polled {
    handler: BoxFuture<Result<Payload>>,
    patience: Patience,
    watched: Option<Watched>,
    settling: Option<Settling>,
}

/// Wait for one unclaimed record.
struct Settling {
    lost: String,
    /// Timer of the time limit; `None` when the limit is over.
    limit: Option<BoxFuture<()>>,
}

/// Result of polling a handler.
pub(crate) enum Reached {
    /// The handler returned.
    End(Result<Payload>),
    /// The driver has to do this. Never [`Next::Wait`], [`Next::Again`] or [`Next::Halted`].
    Next(Next),
}

impl Polled {
    pub(crate) fn new(handler: BoxFuture<Result<Payload>>, patience: Patience) -> Self {
        Self { handler, patience, watched: None, settling: None }
    }

    /// Drops the handler: none of its code runs after this.
    pub(crate) fn stop(&mut self) {
        *self = Self::new(Box::pin(std::future::pending()), self.patience.clone());
    }

    /// Returns whether the replay waits for tasks that the handler has spawned.
    pub(crate) fn waits_for_tasks(&self) -> bool {
        self.patience.for_tasks
    }

    pub(crate) fn poll(&mut self, ctx: &Ctx, cx: &mut Context<'_>) -> Poll<Reached> {
        loop {
            if let Poll::Ready(result) = self.poll_handler(ctx, cx) {
                return Poll::Ready(Reached::End(result));
            }
            let woken = self.is_woken(ctx, cx);
            let mut next = ctx.activation_state().next(cx, woken);
            if let Next::Halted(lost) = &next {
                if self.may_settle(lost, ctx, cx) {
                    return Poll::Pending;
                }
                next = ctx.activation_state().proceed();
            }
            match next {
                Next::Again => {}
                Next::Wait => return Poll::Pending,
                next => return Poll::Ready(Reached::Next(next)),
            }
        }
    }

    /// Polls the handler. While operations wait for the end of the replay, the handler gets a
    /// watched waker.
    fn poll_handler(&mut self, ctx: &Ctx, cx: &mut Context<'_>) -> Poll<Result<Payload>> {
        if !ctx.activation_state().holds_back() {
            self.watched = None;
            return self.handler.as_mut().poll(cx);
        }
        let watched = Watched::renewed(self.watched.take(), cx);
        watched.start();
        let polled = self.handler.as_mut().poll(&mut Context::from_waker(watched.waker()));
        self.watched = Some(watched);
        polled
    }

    /// Returns whether the handler can continue by itself. A handler that wakes itself all the time
    /// counts only until the time limit.
    fn is_woken(&mut self, ctx: &Ctx, cx: &mut Context<'_>) -> bool {
        if !self.watched.as_ref().is_some_and(Watched::is_woken) {
            return false;
        }
        let lost = ctx.activation_state().unclaimed().unwrap_or_default();
        self.is_in_time(&lost, cx)
    }

    /// Returns whether something outside of the handler's operations may still make the handler
    /// continue.
    fn may_settle(&mut self, lost: &str, ctx: &Ctx, cx: &mut Context<'_>) -> bool {
        let awaited = self.watched.as_ref().is_some_and(|watched| {
            watched.is_awaited_by_more_than(ctx.activation_state().wakers(watched.waker()))
        });
        (awaited || self.patience.for_tasks) && self.is_in_time(lost, cx)
    }

    /// Returns whether the time limit of the wait for this record is not over.
    fn is_in_time(&mut self, lost: &str, cx: &mut Context<'_>) -> bool {
        let Patience { timer, limit, .. } = &self.patience;
        if self.settling.as_ref().is_none_or(|settling| settling.lost != lost) {
            let limit = Some(timer.sleep_until(timer.elapsed() + *limit));
            self.settling = Some(Settling { lost: lost.to_owned(), limit });
        }
        let Some(Settling { limit, .. }) = &mut self.settling else { return false };
        if limit.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
            *limit = None;
        }
        limit.is_some()
    }
}
