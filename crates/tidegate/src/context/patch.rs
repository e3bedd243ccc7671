//! Patches: deliberate changes to the code of a workflow that has live runs.

use tidegate_core::{json::Payload, row::StepKind, run::record::NewStep};

use super::{Ctx, replay::PATCH};
use crate::step_error::Result;

impl Ctx {
    /// Returns whether the run takes the new path of the code.
    ///
    /// Returns `true` to a run that reaches this point for the first time, and records that.
    /// Returns `false` to a run that passed this point before the patch was in the code: it replays
    /// its recorded steps on the old path.
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
    /// When all runs from before the patch have ended, the call and the old path can be removed.
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
