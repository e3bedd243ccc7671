//! Compensations: code that undoes the effects of a run that failed, was cancelled or was replaced.
//!
//! A compensation is code, which a store cannot persist; the store persists only that it was
//! registered. A separate run compensates: it replays the handler on all records of the old run,
//! which recreates the closures, and then executes the closures, newest first.

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
    /// Registers a compensation, which runs if the run fails, is cancelled or is replaced.
    ///
    /// Each compensation is a step of a separate run, with the id `undo:` and this id; the newest
    /// runs first.
    pub async fn compensate<F, Fut>(&self, id: impl Into<String>, undo: F) -> Result<()>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let id = id.into();
        let recorded = self.turn(&id, StepKind::Compensate).await?;
        let undo = Undo { id: id.clone(), run: Box::new(move || Box::pin(undo())) };
        let mut state = self.activation_state();
        if recorded.is_none() {
            let result = Ok(Payload::null());
            state.finish(NewStep { id, kind: StepKind::Compensate, result });
        }
        state.register(undo);
        Ok(())
    }
}

/// Executes the registered compensations, newest first. If one fails permanently, the remaining
/// ones are still executed, and the run fails at the end.
pub(crate) async fn undo_all(ctx: Ctx, registered: Vec<Undo>) -> Result<Payload> {
    let mut failed: Option<StepError> = None;
    for Undo { id, run } in registered.into_iter().rev() {
        if let Err(fault) = ctx.step(format!("undo:{id}"), run).await {
            failed.get_or_insert(fault);
        }
    }
    failed.map_or(Ok(Payload::null()), Err)
}
