//! Purge: cancels the runs that wait at the gates of a target.
//!
//! A target names a queue in the same words as an override: the queues of a limit or of a pool, of
//! one key, of the keys with a prefix or of all, or the runs of a workflow that have not started.
//! The cancellation is a bulk operation, so that it continues in chunks on any engine.

use serde::{Deserialize, Serialize};

use super::{Limited, OverrideRefusal, Target, check_epoch, check_target, refused};
use crate::{
    draft::{Decided, Draft, Stop},
    id::ChoreId,
    observe,
    row::{BulkFilter, BulkWhat, RowKind, Workspace},
    run::chore,
};

/// Result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Purged {
    /// The bulk operation that cancels the runs.
    pub id: ChoreId,
    /// Number of runs that wait at the target.
    pub waiting: u32,
    /// Whether there may be more runs than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The epoch of definitions and overrides, for `ifEpoch`.
    pub epoch: i64,
}

/// Cancels all runs that wait at the gates of a target now.
pub fn purge(
    draft: &mut Draft,
    ws: &Workspace,
    target: &Target,
    reason: &str,
    if_epoch: Option<i64>,
) -> Decided<Purged> {
    let target = target.clone().normal();
    let catalog = draft.catalog(ws)?;
    let epoch = catalog.epoch;
    check_epoch(epoch, if_epoch)?;
    check_target(draft, ws, &target)?;
    if target.control == Some(Limited::RateLimit) {
        let problem = "`rateLimit` has no queue: it drops events".to_owned();
        return refused(OverrideRefusal::BadTarget(problem));
    }
    if target.value.is_some() {
        let problem = "leave out `value`: a queue is purged by `key`, or as a whole".to_owned();
        return refused(OverrideRefusal::BadTarget(problem));
    }
    if target.position != 0 {
        let problem = "leave out `position`: limits with one key share one queue".to_owned();
        return refused(OverrideRefusal::BadTarget(problem));
    }
    if draft.has_written(RowKind::Run) {
        // Runs that an earlier command of the transaction has queued are counted in the next one.
        return Err(Stop::Full);
    }
    let (waiting, at_least) = observe::overrides::waiting(draft, ws, &target)?;
    let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    let (app, workflow) = (named(&target.app), named(&target.workflow));
    let filter = BulkFilter { app, workflow, waits_at: Some(target), ..BulkFilter::default() };
    let id = chore::bulk(draft, ws, &BulkWhat::Cancel { reason: reason.to_owned() }, &filter)?;
    Ok(Purged { id, waiting, at_least, epoch })
}
