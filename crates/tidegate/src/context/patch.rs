//! Patches: intended code changes in a workflow that has live runs.

use tidegate_core::{json::Payload, row::StepKind, run::record::NewStep};

use super::{Ctx, replay::PATCH};
use crate::step_error::Result;

impl Ctx {
    /// Returns whether the run takes the changed path of its code.
    ///
    /// `true` for a run that gets here for the first time, which is recorded; `false` for a run
    /// that passed this point before the patch was in the code, so that it replays the steps it has
    /// recorded.
    ///
    /// ```
    /// # use tidegate::{Ctx, Result};
    /// # async fn order(ctx: Ctx, _: ()) -> Result<()> {
    /// if ctx.patched("check the stock").await? {
    ///     ctx.step("check", || async { Ok(()) }).await?;
    /// }
    /// ctx.step("charge", || async { Ok(()) }).await
    /// # }
    /// ```
    ///
    /// The call can be removed, with the old path, when no run from before the patch is left.
    pub async fn patched(&self, id: impl Into<String>) -> Result<bool> {
        let id = format!("{PATCH}{}", id.into());
        if let Some(outcome) = self.turn(&id, StepKind::Run).patch().await? {
            return self.read_record(&id, outcome);
        }
        let result = Ok(Payload::from_value(&true.into()));
        self.activation_state().finish(NewStep { id, kind: StepKind::Run, result });
        Ok(true)
    }
}
