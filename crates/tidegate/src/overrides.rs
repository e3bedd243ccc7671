//! Overrides of limits, pauses, and the audit log.

use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    definition::DEFAULT_APP,
    observe::{
        Newest, Part,
        audit::{self, AuditFilter},
        overrides::{Effect, drained, preview},
    },
    overrides::{Fields, Overridden, Override, OverrideChange, Purged, Target},
    reads::ReadSet,
    row::Audit,
    time::Timestamp,
};
use tidegate_store::look;

use crate::{
    api::{Engine, unexpected},
    error::Error,
};

/// Overrides: limits and pauses that take effect without a release.
///
/// An override is in force on all engines from its commit on. It survives releases and restarts,
/// ends at its `expires_at` or when it is removed, and evicts no run.
impl Engine {
    /// Puts an override in force, in place of the last one of the same target.
    ///
    /// ```
    /// use tidegate::{Limited, OverrideFields, OverrideTarget, prelude::*, testing::TestHarness};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let sync = Workflow::new("sync", async |_: Ctx, _: String| Ok(()))
    ///     .concurrency(Concurrency::limit(10));
    /// let harness = TestHarness::new();
    /// let engine = harness.engine().workflow(sync).start().await?;
    /// let target = OverrideTarget {
    ///     workflow: "sync".to_owned(),
    ///     control: Some(Limited::Concurrency),
    ///     ..OverrideTarget::default()
    /// };
    /// let fields = OverrideFields { limit: Some(2), ..OverrideFields::default() };
    /// engine.set_override(target.clone(), fields, Some("the database is slow"), None).await?;
    /// engine.undo_override(target).await?;
    /// assert!(engine.overrides().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_override(
        &self,
        target: Target,
        fields: Fields,
        reason: Option<&str>,
        expires_at: Option<Timestamp>,
    ) -> Result<Overridden, Error> {
        let reason = reason.map(str::to_owned);
        let change = OverrideChange::Set { target, fields, reason, expires_at };
        self.change_override(change, None).await
    }

    /// Ends the override of a target.
    pub async fn remove_override(&self, target: Target) -> Result<Overridden, Error> {
        self.change_override(OverrideChange::Remove(target), None).await
    }

    /// Undoes the latest change of a target's override: restores exactly what was in force before.
    pub async fn undo_override(&self, target: Target) -> Result<Overridden, Error> {
        self.change_override(OverrideChange::Undo(target), None).await
    }

    /// Changes an override. With `if_epoch`, the change is refused if definitions or overrides have
    /// changed since that epoch.
    pub async fn change_override(
        &self,
        change: OverrideChange,
        if_epoch: Option<i64>,
    ) -> Result<Overridden, Error> {
        let answer = self.ask(self.command(change, if_epoch)).await?;
        // Other engines may have work now: a limit may be higher.
        self.store().wake();
        overridden(answer)
    }

    /// Returns the result that a change of an override would have, without making it.
    pub async fn would_override(
        &self,
        change: OverrideChange,
        if_epoch: Option<i64>,
    ) -> Result<Overridden, Error> {
        overridden(self.would(self.command(change, if_epoch)).await?)
    }

    /// Returns how many of the runs that wait now would enter, and how many would go on waiting,
    /// with this override of a target in force, or with none.
    pub async fn override_effect(
        &self,
        target: &Target,
        after: Option<&Override>,
    ) -> Result<Effect, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| preview(draft, &ws, target, after)).await?)
    }

    /// Cancels all runs that wait at the gates of a target now, in chunks: those in the queues of a
    /// limit or a pool, or without a control those of a workflow that have not started.
    ///
    /// [`Engine::bulk_progress`] reports the progress. With `if_epoch`, the purge is refused if
    /// definitions or overrides have changed since that epoch.
    pub async fn purge(
        &self,
        target: Target,
        reason: &str,
        if_epoch: Option<i64>,
    ) -> Result<Purged, Error> {
        purged(self.ask(self.purging(target, reason, if_epoch)).await?)
    }

    /// Returns the result that a purge would have, without cancelling a run.
    pub async fn would_purge(
        &self,
        target: Target,
        if_epoch: Option<i64>,
    ) -> Result<Purged, Error> {
        purged(self.would(self.purging(target, "", if_epoch)).await?)
    }

    fn purging(&self, target: Target, reason: &str, if_epoch: Option<i64>) -> Command {
        let (target, reason) = (Box::new(in_app(target)), reason.to_owned());
        Command::Purge { ws: self.ws(), target, reason, if_epoch }
    }

    fn command(&self, change: OverrideChange, if_epoch: Option<i64>) -> Command {
        let of = in_app;
        let change = Box::new(match change {
            OverrideChange::Set { target, fields, reason, expires_at } => {
                OverrideChange::Set { target: of(target), fields, reason, expires_at }
            }
            OverrideChange::Remove(target) => OverrideChange::Remove(of(target)),
            OverrideChange::Undo(target) => OverrideChange::Undo(of(target)),
        });
        Command::Override { ws: self.ws(), change, by: Author::clone(self.author()), if_epoch }
    }

    /// Returns the overrides in force, by target.
    pub async fn overrides(&self) -> Result<Vec<Override>, Error> {
        Ok(self.overrides_with_epoch().await?.0)
    }

    /// Returns the overrides in force, by target, and the epoch of definitions and overrides.
    pub async fn overrides_with_epoch(&self) -> Result<(Vec<Override>, i64), Error> {
        let ws = self.ws();
        let snapshot = self.store().read(ReadSet::default().catalog(&ws)).await?;
        let catalog = snapshot.catalogs.get(&ws);
        let all = catalog.into_iter().flat_map(|catalog| catalog.overrides().iter());
        Ok((all.map(|it| Override::clone(it)).collect(), catalog.map_or(0, |it| it.epoch)))
    }

    /// Says for each of these overrides whether its target has drained: no started run of a paused
    /// workflow lives, or nobody is inside the gates of a paused pool or of a closed limit.
    ///
    /// None for an override that neither pauses nor closes, and if more than 1,000 live runs or
    /// gates would have to be read.
    pub async fn drained(&self, overrides: &[Override]) -> Result<Vec<Option<bool>>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| drained(draft, &ws, overrides)).await?)
    }

    /// Returns a page of the audit log, newest first. The changes of one override are its history.
    pub async fn audit(&self, which: &AuditFilter, part: Part) -> Result<Newest<Audit>, Error> {
        let ws = self.ws();
        Ok(look(&**self.store(), &ws, |draft| audit::list(draft, &ws, which, part)).await?)
    }
}

/// Adds the default app to the target of a workflow without one.
fn in_app(target: Target) -> Target {
    if target.pool.is_some() || !target.app.is_empty() {
        return target;
    }
    Target { app: DEFAULT_APP.to_owned(), ..target }
}

fn purged(answer: Answer) -> Result<Purged, Error> {
    match answer {
        Answer::Purged(purged) => Ok(purged),
        other => Err(unexpected(&other)),
    }
}

fn overridden(answer: Answer) -> Result<Overridden, Error> {
    match answer {
        Answer::Overridden(overridden) => Ok(*overridden),
        other => Err(unexpected(&other)),
    }
}
