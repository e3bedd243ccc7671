//! The turn of an operation: the moment at which it receives its record, or may begin.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tidegate_core::row::StepKind;

use super::{Ctx, Outcome};
use crate::step_error::Result;

/// Future of an operation's turn. Ready with the operation's record when the replay delivers it, or
/// with `None` when the operation may begin.
pub(super) struct Turn<'a> {
    ctx: &'a Ctx,
    id: &'a str,
    asks: Asks,
    stage: Stage,
}

/// Kind of an operation that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub(super) kind: StepKind,
    /// Whether the operation is the marker of a patch.
    pub(super) patch: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Asked,
    Over,
}

impl Ctx {
    /// Requests an operation. Returns the future of its turn.
    pub(super) fn turn<'a>(&'a self, id: &'a str, kind: StepKind) -> Turn<'a> {
        Turn { ctx: self, id, asks: Asks { kind, patch: false }, stage: Stage::New }
    }
}

impl Turn<'_> {
    /// Marks the operation as a patch: if the run passed this point before the patch was in the
    /// code, the outcome is `false`.
    pub(super) fn patch(mut self) -> Self {
        self.asks.patch = true;
        self
    }
}

impl Future for Turn<'_> {
    type Output = Result<Option<Outcome>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = this.ctx.activation_state();
        if this.stage == Stage::New {
            state.ask(this.id, this.asks)?;
            this.stage = Stage::Asked;
        }
        let outcome = ready!(state.poll_turn(this.id, this.asks, cx));
        this.stage = Stage::Over;
        Poll::Ready(Ok(outcome))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.stage == Stage::Asked {
            self.ctx.activation_state().withdraw(self.id);
        }
    }
}
