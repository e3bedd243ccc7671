//! Schedules: plans occurrences, and starts each one at its time, once over all engines.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tidegate_core::{
    catalog::{Catalog, Entry},
    command::Command,
    definition::Trigger,
    observe::schedules::ScheduleView,
    reads::{ReadSet, Scan},
    row::{Row, Schedule, Workspace},
    schedule::Occurrence,
    time::Timestamp,
};

use crate::{
    cron::{CatchUp, Cron, Turn},
    engine::Shared,
    error::Error,
};

/// Maximum number of schedules checked at a time, the earliest first.
const SCHEDULES: u32 = 1000;

/// Number of future occurrences that the view of a schedule shows.
const FORESEEN: usize = 5;

/// Key of a schedule: workspace, app, workflow and schedule id.
pub(crate) type ScheduleKey = (Workspace, String, String, String);

/// Returns the schedules of a definition that has been checked, by schedule id.
pub(crate) fn of(triggers: &[Trigger]) -> impl Iterator<Item = (String, Cron)> {
    triggers.iter().filter_map(|trigger| {
        let Trigger::Cron { cron, time_zone, .. } = trigger else { return None };
        Some((trigger.schedule()?, Cron::parse(cron, time_zone).ok()?))
    })
}

/// Returns the first occurrence of a schedule after a time.
pub(crate) fn next_of(shown: &ScheduleView, after: Timestamp) -> Option<Timestamp> {
    Cron::parse(&shown.cron, &shown.time_zone).ok()?.next(after)
}

/// Adds the future occurrences to the view of a schedule. A paused schedule has none.
pub(crate) fn foresee(shown: &mut ScheduleView, now: Timestamp) {
    let Ok(cron) = Cron::parse(&shown.cron, &shown.time_zone) else { return };
    if shown.paused {
        return;
    }
    let first = shown.next.first().copied().or_else(|| cron.next(now));
    shown.next = std::iter::successors(first, |at| cron.next(*at)).take(FORESEEN).collect();
}

/// Starts planned occurrences until the engine stops.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let (mut epochs, mut known) = (BTreeMap::new(), BTreeMap::new());
    let mut wakes = shared.store.wakes();
    loop {
        let served = shared.schedules();
        if !served.keys().eq(known.keys()) {
            // A schedule that is newly served here may belong to an epoch that was planned already,
            // so plan all of them again.
            epochs.clear();
            known.clone_from(&served);
        }
        if served.is_empty() {
            if !shared.stored.follows() {
                return;
            }
            shared.served.notified().await;
            continue;
        }
        let next = match look(shared, &served, &mut epochs).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "reading schedules failed");
                None
            }
        };
        tokio::select! {
            biased;
            () = shared.served.notified() => {}
            _ = shared.rest(&mut wakes, next) => {}
        }
    }
}

/// Starts the due occurrences. Returns the time until the next occurrence.
async fn look(
    shared: &Arc<Shared>,
    served: &BTreeMap<ScheduleKey, Cron>,
    epochs: &mut BTreeMap<Workspace, i64>,
) -> Result<Option<Duration>, Error> {
    let reads = ReadSet::default().scan(Scan::Schedules, SCHEDULES);
    let snapshot = shared.store.read(reads).await?;
    let now = snapshot.now;
    let (planned, mut failed) = plan(shared, served, epochs, now).await;
    if planned {
        // The snapshot does not contain the new plans: look again at once.
        return Ok(Some(Duration::ZERO));
    }
    let catalogs = shared.store.catalogs();
    let mut next: Option<Timestamp> = None;
    for row in snapshot.found(&Scan::Schedules) {
        let Row::Schedule(row) = row else { continue };
        let Some(planned_at) = row.next else { continue };
        let key = (row.ws.clone(), row.app.clone(), row.workflow.clone(), row.id.clone());
        let Some(cron) = served.get(&key) else { continue };
        let command = match cron.turn(planned_at, now, catch_up(&catalogs, row)) {
            Turn::Wait => {
                next = next.map(|next| next.min(planned_at)).or(Some(planned_at));
                continue;
            }
            Turn::Start { next } => {
                Command::Occur { occurrence: occurrence(row, planned_at, next) }
            }
            Turn::Miss { next, missed } => {
                let (schedule, workflow) = (&row.id, &row.workflow);
                tracing::warn!(
                    schedule,
                    workflow,
                    missed.count,
                    "scheduled occurrences were missed"
                );
                Command::Miss { occurrence: occurrence(row, planned_at, next), missed }
            }
        };
        match shared.ask(command).await {
            // Look again at once: the following occurrence may be due as well.
            Ok(_) => next = Some(now),
            // An occurrence that fails must not delay the others.
            Err(error) => {
                let (schedule, workflow) = (&row.id, &row.workflow);
                tracing::warn!(%error, schedule, workflow, "starting occurrence failed, retrying");
                failed = true;
            }
        }
    }
    let until = |at: Timestamp| at.micros().saturating_sub(now.micros()).max(0).unsigned_abs();
    let next = next.map(|at| Duration::from_micros(until(at)));
    let retry = failed.then(|| shared.retry_pause());
    Ok(next.into_iter().chain(retry).min())
}

/// Returns the catch-up limits of a schedule from the released version.
fn catch_up(catalogs: &BTreeMap<Workspace, Arc<Catalog>>, row: &Schedule) -> CatchUp {
    let entry = catalogs.get(&row.ws).and_then(|it| it.entry(&row.app, &row.workflow));
    let trigger = entry.and_then(Entry::open).and_then(|open| open.workflow.schedule(&row.id));
    match trigger {
        Some(Trigger::Cron { catch_up_ms: Some(window_ms), .. }) => {
            CatchUp { window_ms: *window_ms, ..CatchUp::default() }
        }
        _ => CatchUp::default(),
    }
}

fn occurrence(row: &Schedule, planned_at: Timestamp, next: Option<Timestamp>) -> Occurrence {
    Occurrence {
        ws: row.ws.clone(),
        app: row.app.clone(),
        workflow: row.workflow.clone(),
        schedule: row.id.clone(),
        planned_at,
        next,
    }
}

/// Plans the next occurrence of all schedules, at the start of the engine and whenever definitions
/// have changed. Returns whether a new plan must be read, and whether a plan failed and has to be
/// retried.
async fn plan(
    shared: &Arc<Shared>,
    served: &BTreeMap<ScheduleKey, Cron>,
    epochs: &mut BTreeMap<Workspace, i64>,
    now: Timestamp,
) -> (bool, bool) {
    let catalogs = shared.store.catalogs();
    let (mut planned, mut failed) = (false, BTreeSet::new());
    for ((ws, app, workflow, schedule), cron) in served {
        let epoch = catalogs.get(ws).map_or(0, |catalog| catalog.epoch);
        if epochs.get(ws) == Some(&epoch) {
            continue;
        }
        let Some(next) = cron.next(now) else { continue };
        let command = Command::Plan {
            ws: ws.clone(),
            app: app.clone(),
            workflow: workflow.clone(),
            schedule: schedule.clone(),
            next,
        };
        match shared.ask(command).await {
            Ok(_) => planned = true,
            Err(error) => {
                tracing::warn!(%error, schedule, workflow, "planning schedule failed, retrying");
                failed.insert(ws.clone());
            }
        }
    }
    for (ws, catalog) in catalogs.into_iter().filter(|(ws, _)| !failed.contains(ws)) {
        epochs.insert(ws, catalog.epoch);
    }
    // After a failure all are planned again: doing so at once would loop forever.
    (planned && failed.is_empty(), !failed.is_empty())
}
