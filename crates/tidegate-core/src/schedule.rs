//! Schedules: one row each, with the moment of the next planned occurrence.
//!
//! The moments themselves come from the engine, which knows calendars. Here is what makes each
//! occurrence happen once over all engines: it takes place only if the row still plans it, and the
//! row moves on in the same transaction (SPEC 6, I34).

use serde_json::json;

use crate::{
    catalog::Entry,
    draft::{Decided, Draft},
    event::Outcome,
    json::Payload,
    reads::Scan,
    request,
    row::{Event, Kind, Receipt, Row, RowKey, Schedule, Workspace},
    time::Timestamp,
    workflow::{MAX_TRIGGERS, Workflow},
};

/// One planned occurrence, and what is planned after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The workspace.
    pub ws: Workspace,
    /// The workflow's app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The schedule.
    pub schedule: String,
    /// When it was planned for.
    pub planned_at: Timestamp,
    /// The occurrence after it; none if it was the last.
    pub next: Option<Timestamp>,
}

impl Occurrence {
    fn key(&self) -> RowKey {
        let (app, workflow) = (self.app.clone(), self.workflow.clone());
        RowKey::Schedule(self.ws.clone(), app, workflow, self.schedule.clone())
    }
}

/// Plans the first occurrence of a schedule that the current release has and that has no row yet.
///
/// A row that is there is kept: what it plans may be due, and must not be lost.
pub fn plan<E>(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    id: &str,
    next: Timestamp,
) -> Decided<bool, E> {
    let current = draft.catalog(ws)?;
    let current = current.entry(app, workflow).and_then(Entry::open);
    let wanted = current.is_some_and(|current| current.workflow.has_schedule(id));
    let row = Schedule {
        ws: ws.clone(),
        app: app.to_owned(),
        workflow: workflow.to_owned(),
        id: id.to_owned(),
        next: Some(next),
        last: None,
    };
    let row = Row::from(row);
    let plan = draft.row(&row.key())?.is_none() && wanted;
    if plan {
        draft.put(row);
    }
    Ok(plan)
}

/// Starts an occurrence, if it is still the one that the schedule plans and its time has come.
///
/// `None` means that it was somebody else's, or that the schedule is gone.
pub fn occur(
    draft: &mut Draft,
    occurrence: &Occurrence,
    skip_overlap: bool,
) -> Decided<Option<Outcome>> {
    if !move_on(draft, occurrence)? {
        return Ok(None);
    }
    let Occurrence { ws, app, workflow, schedule, planned_at, .. } = occurrence;
    request::occur(draft, ws, app, workflow, schedule, skip_overlap, *planned_at).map(Some)
}

/// Passes over an occurrence, and all before `next`, that came too late to be caught up with.
/// What was passed over is recorded.
pub fn miss(draft: &mut Draft, occurrence: &Occurrence) -> Decided<bool> {
    if !move_on(draft, occurrence)? {
        return Ok(false);
    }
    let Occurrence { ws, app, workflow, schedule, planned_at, next } = occurrence;
    let (id, at) = (draft.new_event_id()?, draft.now());
    let data = json!({ "schedule": schedule, "plannedAt": planned_at });
    draft.put(Event {
        id,
        ws: ws.clone(),
        kind: Kind::Cron,
        name: workflow.clone(),
        at,
        ts: None,
        data: Payload::from_value(&data),
    });
    let verdict = json!({
        "outcome": "skipped",
        "skipped": true,
        "control": "catchUp",
        "key": schedule,
        "plannedAt": planned_at,
        "next": next,
    });
    let seq = draft.next_seq()?;
    draft.put(Receipt {
        seq,
        ws: ws.clone(),
        app: app.clone(),
        workflow: workflow.clone(),
        key: schedule.clone(),
        event: id.seq,
        at,
        verdict,
    });
    Ok(true)
}

/// Takes an occurrence out of the row's hands; `false` if it does not plan it, or not yet.
fn move_on<E>(draft: &mut Draft, occurrence: &Occurrence) -> Decided<bool, E> {
    let Some(Row::Schedule(row)) = draft.row(&occurrence.key())?.cloned() else {
        return Ok(false);
    };
    let planned = occurrence.planned_at;
    let forward = occurrence.next.is_none_or(|next| next > planned);
    if row.next != Some(planned) || planned > draft.now() || !forward {
        return Ok(false);
    }
    draft.put(Schedule { next: occurrence.next, last: Some(planned), ..row });
    Ok(true)
}

/// Removes the schedules that a new release of their workflow no longer has.
pub fn prune<E>(draft: &mut Draft, ws: &Workspace, workflow: &Workflow) -> Decided<(), E> {
    let (app, name) = (workflow.app.clone(), workflow.name.clone());
    let scan = Scan::SchedulesOf(ws.clone(), app, name);
    let most = u32::try_from(MAX_TRIGGERS).unwrap_or(u32::MAX);
    let rows = draft.found_all(&scan, most.saturating_add(1))?.into_iter();
    let stale: Vec<RowKey> = rows
        .filter(|row| matches!(row, Row::Schedule(it) if !workflow.has_schedule(&it.id)))
        .map(Row::key)
        .collect();
    for key in stale {
        if draft.row(&key)?.is_some() {
            draft.delete(key);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, ws};

    fn planned(at: i64, next: Option<i64>) -> Occurrence {
        Occurrence {
            ws: ws(),
            app: "default".to_owned(),
            workflow: "report".to_owned(),
            schedule: "@daily".to_owned(),
            planned_at: Timestamp::from_ms(at),
            next: next.map(Timestamp::from_ms),
        }
    }

    fn world(next: Option<i64>) -> World {
        let mut world = World::at_ms(100);
        let Occurrence { ws, app, workflow, schedule: id, .. } = planned(0, None);
        let next = next.map(Timestamp::from_ms);
        let row = Row::from(Schedule { ws, app, workflow, id, next, last: None });
        world.rows.insert(row.key(), row);
        world
    }

    #[test]
    fn a_row_moves_on_only_from_what_it_plans() {
        let table = [
            (Some(50), planned(50, Some(150)), true),
            (Some(100), planned(100, Some(150)), true),
            (Some(50), planned(50, None), true),
            (Some(50), planned(49, Some(150)), false),
            (Some(50), planned(51, Some(150)), false),
            (Some(101), planned(101, Some(150)), false),
            (Some(50), planned(50, Some(50)), false),
            (Some(50), planned(50, Some(40)), false),
            (None, planned(50, Some(150)), false),
        ];
        for (row, occurrence, moves) in table {
            let mut world = world(row);
            let moved = world.decide(|draft| move_on::<()>(draft, &occurrence)).unwrap();
            assert_eq!(moved, moves, "{row:?}: {occurrence:?}");
            let Some(Row::Schedule(now)) = world.rows.get(&occurrence.key()) else { panic!() };
            let next = if moves { occurrence.next } else { row.map(Timestamp::from_ms) };
            assert_eq!((now.next, now.last), (next, moves.then_some(occurrence.planned_at)));
        }
    }
}
