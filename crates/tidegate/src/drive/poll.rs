//! Polling a handler until it can advance neither by itself nor on recorded results.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use tidegate_core::json::Payload;

use crate::{
    context::{Ctx, Next},
    fault::{Fault, Result},
    quiet::Watched,
    timer::BoxFuture,
};

/// How long a replay that has come to a halt waits for something that its handler awaits outside
/// of its operations, before it takes the code for changed. To stop a run late does no harm; to
/// stop one whose code is the same cannot be undone.
const SETTLE_LIMIT: Duration = Duration::from_mins(1);

/// A handler under way.
pub(crate) struct Polled {
    handler: BoxFuture<Result<Payload>>,
    watched: Option<Watched>,
    /// The end that a handler would come to, and the time until then.
    settling: Option<(Fault, BoxFuture<()>)>,
}

/// What a handler has come to.
pub(crate) enum Reached {
    /// Its end.
    End(Result<Payload>),
    /// A point where its driver has something to do. Never [`Next::Wait`] or [`Next::Again`].
    Next(Next),
}

impl Polled {
    pub(crate) fn new(handler: BoxFuture<Result<Payload>>) -> Self {
        Self { handler, watched: None, settling: None }
    }

    /// Drops the handler: nothing of it goes on after this.
    pub(crate) fn stop(&mut self) {
        *self = Self::new(Box::pin(std::future::pending()));
    }

    /// The end that the handler comes to unless something outside of its operations wakes it.
    pub(crate) fn halted(&self) -> Option<Fault> {
        self.settling.as_ref().map(|(fault, _)| fault.clone())
    }

    pub(crate) fn poll(&mut self, ctx: &Ctx, cx: &mut Context<'_>) -> Poll<Reached> {
        loop {
            if let Poll::Ready(result) = self.poll_handler(ctx, cx) {
                return Poll::Ready(Reached::End(result));
            }
            let woken = self.watched.as_ref().is_some_and(Watched::is_woken);
            let next = ctx.state().next(cx, woken);
            match next {
                Next::Again => self.settling = None,
                Next::Wait => return Poll::Pending,
                Next::Changed(fault) if self.may_settle(&fault, ctx, cx) => return Poll::Pending,
                Next::Changed(fault) => return Poll::Ready(Reached::Next(Next::Stop(fault))),
                next => return Poll::Ready(Reached::Next(next)),
            }
        }
    }

    /// Polls it, watched for as long as operations wait for the end of the replay.
    fn poll_handler(&mut self, ctx: &Ctx, cx: &mut Context<'_>) -> Poll<Result<Payload>> {
        if !ctx.state().holds_back() {
            self.watched = None;
            return self.handler.as_mut().poll(cx);
        }
        let watched = Watched::renewed(self.watched.take(), cx);
        watched.start();
        let polled = self.handler.as_mut().poll(&mut Context::from_waker(watched.waker()));
        self.watched = Some(watched);
        polled
    }

    /// Whether something outside of the handler's operations may still let it go on.
    fn may_settle(&mut self, fault: &Fault, ctx: &Ctx, cx: &mut Context<'_>) -> bool {
        let Some(watched) = &self.watched else { return false };
        let known = ctx.state().wakers(watched.waker());
        if !watched.is_awaited_by_more_than(known) {
            return false;
        }
        let limit = || ctx.timer().sleep_until(ctx.timer().elapsed() + SETTLE_LIMIT);
        let (_, limit) = self.settling.get_or_insert_with(|| (fault.clone(), limit()));
        limit.as_mut().poll(cx).is_pending()
    }
}
