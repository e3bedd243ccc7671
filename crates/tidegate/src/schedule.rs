//! Schedules: plans their occurrences and starts each when its time has come, once over all
//! engines.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tidegate_core::{
    command::Command,
    reads::{ReadSet, Scan},
    row::{Row, Schedule, Workspace},
    schedule::Occurrence,
    time::Timestamp,
    workflow::{Overlap, Trigger},
};

use crate::{
    cron::{CatchUp, Cron, Turn},
    engine::Shared,
    error::Error,
};

/// How many schedules are looked at in one go, the earliest first.
const SCHEDULES: u32 = 1000;

/// A schedule that this engine serves.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) cron: Cron,
    pub(crate) skip_overlap: bool,
}

/// What a schedule is known by: workspace, app, workflow and its own id.
pub(crate) type ScheduleKey = (Workspace, String, String, String);

/// A definition's schedules, by id. The definitions have been checked.
pub(crate) fn of(triggers: &[Trigger]) -> impl Iterator<Item = (String, Served)> {
    triggers.iter().filter_map(|trigger| {
        let Trigger::Cron { cron, time_zone, on_overlap } = trigger else { return None };
        let cron = Cron::parse(cron, time_zone).ok()?;
        let skip_overlap = *on_overlap == Overlap::Skip;
        Some((trigger.schedule()?, Served { cron, skip_overlap }))
    })
}

/// Starts what is planned, for as long as the engine lives.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let (mut epochs, mut known) = (BTreeMap::new(), BTreeMap::new());
    loop {
        let served = shared.schedules();
        if !served.keys().eq(known.keys()) {
            // What is new here may be older than what was last planned for.
            epochs.clear();
            known.clone_from(&served);
        }
        if served.is_empty() && shared.stored.code_for.is_none() {
            return;
        }
        let next = match look(shared, &served, &mut epochs).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "schedules could not be looked at");
                None
            }
        };
        let wait = next.unwrap_or(shared.options.poll).min(shared.options.poll);
        shared.timer.sleep_until(shared.timer.elapsed() + wait).await;
    }
}

/// Does what is due; says how long it is until the next.
async fn look(
    shared: &Arc<Shared>,
    served: &BTreeMap<ScheduleKey, Served>,
    epochs: &mut BTreeMap<Workspace, i64>,
) -> Result<Option<Duration>, Error> {
    let reads = ReadSet::default().scan(Scan::Schedules, SCHEDULES);
    let snapshot = shared.store.read(reads).await?;
    let now = snapshot.now;
    if plan(shared, served, epochs, now).await? {
        // What was planned is not in this snapshot.
        return Ok(Some(Duration::ZERO));
    }
    let mut next: Option<Timestamp> = None;
    for row in snapshot.found(&Scan::Schedules) {
        let Row::Schedule(row) = row else { continue };
        let Some(planned_at) = row.next else { continue };
        let key = (row.ws.clone(), row.app.clone(), row.workflow.clone(), row.id.clone());
        let Some(Served { cron, skip_overlap }) = served.get(&key) else { continue };
        let command = match cron.turn(planned_at, now, CatchUp::default()) {
            Turn::Wait => {
                next = next.map(|next| next.min(planned_at)).or(Some(planned_at));
                continue;
            }
            Turn::Start { next } => Command::Occur {
                occurrence: occurrence(row, planned_at, next),
                skip_overlap: *skip_overlap,
            },
            Turn::Miss { next } => {
                tracing::warn!(
                    schedule = row.id,
                    workflow = row.workflow,
                    "occurrences were missed"
                );
                Command::Miss { occurrence: occurrence(row, planned_at, next) }
            }
        };
        shared.ask(command).await?;
        // What comes after it may be due as well.
        next = Some(now);
    }
    let until = |at: Timestamp| at.micros().saturating_sub(now.micros()).max(0).unsigned_abs();
    Ok(next.map(|at| Duration::from_micros(until(at))))
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

/// Plans what is not planned yet: at the start, and whenever definitions have changed. Says
/// whether there was anything to plan.
async fn plan(
    shared: &Arc<Shared>,
    served: &BTreeMap<ScheduleKey, Served>,
    epochs: &mut BTreeMap<Workspace, i64>,
    now: Timestamp,
) -> Result<bool, Error> {
    let catalogs = shared.store.catalogs();
    let mut planned = false;
    for ((ws, app, workflow, schedule), Served { cron, .. }) in served {
        let epoch = catalogs.get(ws).map_or(0, |catalog| catalog.epoch);
        if epochs.get(ws) == Some(&epoch) {
            continue;
        }
        let Some(next) = cron.next(now) else { continue };
        let (ws, app, workflow) = (ws.clone(), app.clone(), workflow.clone());
        let schedule = schedule.clone();
        shared.ask(Command::Plan { ws, app, workflow, schedule, next }).await?;
        planned = true;
    }
    for (ws, catalog) in catalogs {
        epochs.insert(ws, catalog.epoch);
    }
    Ok(planned)
}
