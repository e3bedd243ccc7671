//! Compensations: what undoes the effects of a run that did not end well.
//!
//! A compensation is code, so it cannot be kept in a store. What is kept is that it was
//! registered. The run that undoes is a run of its own: it replays the handler on the old run's
//! records, as far as they go, which gives the closures back, and does them newest first.

use std::{fmt, future::Future};

use tidegate_core::{json::Payload, row::StepKind, run::record::NewStep};

use super::Ctx;
use crate::{
    step_error::{Result, StepError},
    timer::BoxFuture,
};

/// A registered compensation.
pub(crate) struct Undo {
    id: String,
    run: Box<dyn FnOnce() -> BoxFuture<Result<()>> + Send>,
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Undo").field(&self.id).finish()
    }
}

impl Ctx {
    /// Registers what undoes the effects so far, should the run fail, be cancelled or be
    /// replaced. Each is a step of a run of its own, `undo:` and the id; the newest comes first.
    pub async fn compensate<F, Fut>(&self, id: impl Into<String>, undo: F) -> Result<()>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let id = id.into();
        let recorded = self.turn(&id, StepKind::Compensate).await?;
        let undo = Undo { id: id.clone(), run: Box::new(move || Box::pin(undo())) };
        let mut state = self.state();
        if recorded.is_none() {
            let result = Ok(Payload::null());
            state.finish(NewStep { id, kind: StepKind::Compensate, result });
        }
        state.register(undo);
        Ok(())
    }
}

/// Undoes what was registered, newest first. One that fails for good does not keep the others
/// from being done, and fails the run at the end.
pub(crate) async fn undo_all(ctx: Ctx, registered: Vec<Undo>) -> Result<Payload> {
    let mut failed: Option<StepError> = None;
    for Undo { id, run } in registered.into_iter().rev() {
        if let Err(fault) = ctx.step(format!("undo:{id}"), run).await {
            failed.get_or_insert(fault);
        }
    }
    failed.map_or(Ok(Payload::null()), Err)
}
