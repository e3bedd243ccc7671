//! Counts of runs by status, per workflow.

use serde::Serialize;

use crate::{
    draft::{Decided, Draft, Missing},
    list::RunFilter,
    reads::Count,
    row::Workspace,
    run::lease::served,
    turn::Turn,
};

/// The runs of one version are counted up to this number, so that a query does not take longer if a
/// million runs wait. A larger count is only reported as "at least".
pub const MOST: u32 = 100_000;

/// Counts of a workspace's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Counts of all runs.
    #[serde(flatten)]
    pub all: Counts,
    /// Counts per version: of the versions that get new runs, and of older versions with live runs.
    pub by_workflow: Vec<VersionCounts>,
}

/// Counts of runs by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Runs that a worker drives. A cancelled run is counted until its worker has confirmed the
    /// stop, because it has its slot until then.
    pub in_flight: u64,
    /// Runs that were admitted and have not started, or wait for a slot.
    pub queued: u64,
    /// Queued runs that have entered all gates and wait for a worker.
    #[serde(skip_serializing_if = "none")]
    pub ready: u64,
    /// Runs that wait for a time, an event, a signal, a child or their next attempt.
    pub waiting: u64,
    /// Runs that a user has paused.
    pub paused: u64,
    /// Runs of all statuses whose version no live engine serves. They cannot continue.
    #[serde(skip_serializing_if = "none")]
    pub stranded: u64,
    /// Whether there are more runs than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn none(count: &u64) -> bool {
    *count == 0
}

/// Counts of one version's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VersionCounts {
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The version.
    pub version: u32,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Counts the runs of a workspace.
pub fn stats<E>(draft: &Draft, ws: &Workspace) -> Decided<Stats, E> {
    let catalog = draft.catalog(ws)?;
    let mut stats = Stats::default();
    let mut missing = Missing::default();
    let served = missing.note(served(draft))?.unwrap_or_default();
    for lane in catalog.lanes(&RunFilter::default()) {
        let Some(version) = catalog.lane(lane) else { continue };
        let mut count = |count| missing.note(draft.count(&count, MOST));
        let live = count(Count::Live(lane))?;
        let driven = count(Count::Driven(lane))?;
        let waiting = count(Count::Waiting(lane))?;
        let paused = count(Count::Paused(lane))?;
        let turn = Turn { workflow: version.turn, lane };
        let ready = count(Count::Ready(ws.clone(), turn))?;
        let (Some(live), Some(driven), Some(waiting), Some(paused), Some(ready)) =
            (live, driven, waiting, paused, ready)
        else {
            continue;
        };
        let counts = Counts {
            in_flight: driven.into(),
            queued: live.saturating_sub(driven).saturating_sub(waiting + paused).into(),
            ready: ready.into(),
            waiting: waiting.into(),
            paused: paused.into(),
            stranded: if served.contains(&lane) { 0 } else { live.into() },
            at_least: live >= MOST,
        };
        let def = &version.def;
        let entry = catalog.entry(&def.app, &def.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        if live == 0 && current.is_none_or(|current| current.version.lane != lane) {
            continue;
        }
        add(&mut stats.all, counts);
        stats.by_workflow.push(VersionCounts {
            app: def.app.clone(),
            workflow: def.name.clone(),
            version: def.version,
            counts,
        });
    }
    missing.settle()?;
    stats
        .by_workflow
        .sort_by(|a, b| (&a.app, &a.workflow, a.version).cmp(&(&b.app, &b.workflow, b.version)));
    Ok(stats)
}

fn add(sum: &mut Counts, more: Counts) {
    sum.in_flight += more.in_flight;
    sum.queued += more.queued;
    sum.ready += more.ready;
    sum.waiting += more.waiting;
    sum.paused += more.paused;
    sum.stranded += more.stranded;
    sum.at_least |= more.at_least;
}
