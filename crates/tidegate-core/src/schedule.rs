//! Schedules. Each has a row with the time of its next planned occurrence.
//!
//! The engine, which has a calendar, computes the times. This module makes sure that each
//! occurrence happens once over all engines: it starts only if it is still planned in the row, and
//! the next one is planned in the same transaction (spec schedules, I34).

use serde_json::{Value, json};

use crate::{
    catalog::Entry,
    command::Refusal,
    definition::{Definition, MAX_TRIGGERS, Overlap},
    draft::{Decided, Draft, Stop},
    event::Outcome,
    flow::plan::IN_PLACE,
    json::Payload,
    reads::Scan,
    request,
    row::{
        Class, Ended, Event, Kind, Occurred, Purpose, Receipt, Row, RowKey, Run, Schedule,
        Workspace,
    },
    time::Timestamp,
};

/// Name of the control in the verdict on missed occurrences. It has no gates.
pub const CATCH_UP: &str = "catchUp";

/// Planned occurrence, with the time of the next one.
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
    /// The planned time.
    pub planned_at: Timestamp,
    /// The time of the next occurrence; none if this is the last one.
    pub next: Option<Timestamp>,
}

/// Number of missed occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The number of missed occurrences.
    pub count: u32,
    /// Whether there may be more, because counting stops at a limit.
    pub at_least: bool,
}

impl Occurrence {
    fn key(&self) -> RowKey {
        let (app, workflow) = (self.app.clone(), self.workflow.clone());
        RowKey::Schedule(self.ws.clone(), app, workflow, self.schedule.clone())
    }
}

/// Plans the first occurrence of a schedule of the current release, if it has no row yet.
///
/// An existing row is not changed, because its planned occurrence may be due and must not be lost.
pub fn plan<E>(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    id: &str,
    next: Timestamp,
) -> Decided<bool, E> {
    let wanted = overlap(draft, ws, app, workflow, id)?.is_some();
    let row = Schedule { next: Some(next), ..unplanned(ws, app, workflow, id) };
    let row = Row::from(row);
    let plan = draft.row(&row.key())?.is_none() && wanted;
    if plan {
        draft.put(row);
    }
    Ok(plan)
}

/// Starts an occurrence, if it is still planned and is due.
///
/// `None` means that another engine has started it, or that the schedule does not exist any more.
pub fn occur(draft: &mut Draft, occurrence: &Occurrence) -> Decided<Option<Outcome>> {
    let Some(row) = moved_on(draft, occurrence)? else { return Ok(None) };
    let Occurrence { ws, app, workflow, schedule, planned_at, .. } = occurrence;
    let Some(overlap) = overlap(draft, ws, app, workflow, schedule)? else {
        draft.delete(occurrence.key());
        return Ok(None);
    };
    let outcome = request::occur(draft, ws, app, workflow, schedule, overlap, *planned_at)?;
    let (word, run_id) = (outcome.verdict.outcome().to_owned(), outcome.verdict.run());
    let occurred = Occurred { outcome: word, run_id, missed: None };
    draft.put(Schedule { outcome: Some(occurred), ..row });
    Ok(Some(outcome))
}

/// Skips an occurrence that is too late, and all others before `next`. Records the skipped
/// occurrence and the number of missed ones.
pub fn miss(draft: &mut Draft, occurrence: &Occurrence, missed: Missed) -> Decided<bool> {
    let Some(row) = moved_on(draft, occurrence)? else { return Ok(false) };
    let Missed { count, at_least } = missed;
    let occurred = Occurred { outcome: "missed".to_owned(), run_id: None, missed: Some(count) };
    draft.put(Schedule { outcome: Some(occurred), ..row });
    let Occurrence { ws, app, workflow, schedule, planned_at, next } = occurrence;
    let (id, at) = (draft.new_event_id()?, draft.now());
    let data = json!({ "schedule": schedule, "plannedAt": planned_at.rfc3339() });
    draft.put(Event {
        id,
        ws: ws.clone(),
        kind: Kind::Cron,
        name: workflow.clone(),
        at,
        ts: None,
        data: Payload::from_value(&data),
        delivery: None,
        attributes: None,
    });
    let mut verdict = json!({
        "outcome": "skipped",
        "skipped": true,
        "control": CATCH_UP,
        "key": schedule,
        "missed": count,
        "plannedAt": planned_at.rfc3339(),
        "next": next.map(Timestamp::rfc3339),
    });
    if at_least {
        verdict["atLeast"] = true.into();
    }
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

/// Pause or resume of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Pauses the schedule: no occurrence is planned.
    Pause,
    /// Resumes the schedule, with this next occurrence.
    Resume(Option<Timestamp>),
}

/// Pauses or resumes a schedule of the current release. Returns `false` if this has no effect.
///
/// A paused schedule has no planned occurrence, so that the sweep does not find it and no missed
/// occurrence is started later. Runs that exist continue.
pub fn hold(
    draft: &mut Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    id: &str,
    hold: Hold,
) -> Decided<bool> {
    let row = unplanned(ws, app, workflow, id);
    let known = draft.row(&Row::from(row.clone()).key())?.cloned();
    if overlap::<Refusal>(draft, ws, app, workflow, id)?.is_none() {
        return Err(Stop::Refused(Refusal::NoSchedule(id.to_owned())));
    }
    let row = if let Some(Row::Schedule(known)) = known { known } else { row };
    let row = match (hold, row.paused_at) {
        (Hold::Pause, None) => Schedule { next: None, paused_at: Some(draft.now()), ..row },
        // The caller has read the row before its last occurrence: it must read it again.
        (Hold::Resume(next), Some(_)) if next.is_some() && next <= row.last => return Ok(false),
        (Hold::Resume(next), Some(_)) => Schedule { next, paused_at: None, ..row },
        (Hold::Pause, Some(_)) | (Hold::Resume(_), None) => return Ok(false),
    };
    draft.put(row);
    Ok(true)
}

/// Whether `onOverlap` of the run's schedule is `restart`. Then the next occurrence replaces the
/// run, and its session operations are staged.
pub(crate) fn is_restarted(run: &Run) -> bool {
    let mut needs = run.plan.iter();
    needs.any(|need| need.gate.class() == Some(Class::Schedule) && need.tier == IN_PLACE)
}

/// As [`is_restarted`], for a run that has ended. A replay or a follow-up run has the same input
/// and does not count as an occurrence.
pub(crate) fn was_restarted<E>(draft: &Draft, run: &Ended) -> Decided<bool, E> {
    if run.replay_of.is_some() || run.purpose != Purpose::Ordinary {
        return Ok(false);
    }
    let Some(Row::Event(input)) = draft.row(&RowKey::Event(run.source.first().seq))? else {
        return Ok(false);
    };
    let data: Value = serde_json::from_str(input.data.as_str()).unwrap_or_default();
    let catalog = draft.catalog(&run.ws)?;
    let Some(workflow) = catalog.definition(run.lane).filter(|_| input.kind == Kind::Cron) else {
        return Ok(false);
    };
    // The input of an action is the document of a request.
    let data = if workflow.flow.is_some() { &data["input"] } else { &data };
    let overlap = data["schedule"].as_str().and_then(|schedule| workflow.overlap(schedule));
    Ok(overlap == Some(Overlap::Restart))
}

/// Returns the `onOverlap` setting of a schedule in the current release; none if the release does
/// not have the schedule.
fn overlap<E>(
    draft: &Draft,
    ws: &Workspace,
    app: &str,
    workflow: &str,
    id: &str,
) -> Decided<Option<Overlap>, E> {
    let catalog = draft.catalog(ws)?;
    let current = catalog.entry(app, workflow).and_then(Entry::open);
    Ok(current.and_then(|current| current.workflow.overlap(id)))
}

fn unplanned(ws: &Workspace, app: &str, workflow: &str, id: &str) -> Schedule {
    let (app, workflow, id) = (app.to_owned(), workflow.to_owned(), id.to_owned());
    let (next, last, outcome, paused_at) = (None, None, None, None);
    Schedule { ws: ws.clone(), app, workflow, id, next, last, outcome, paused_at }
}

/// Replaces the planned occurrence of the row by the next one. Returns `None` if the row plans
/// another occurrence, or it is not due.
fn moved_on<E>(draft: &mut Draft, occurrence: &Occurrence) -> Decided<Option<Schedule>, E> {
    let Some(Row::Schedule(row)) = draft.row(&occurrence.key())?.cloned() else {
        return Ok(None);
    };
    let planned = occurrence.planned_at;
    let forward = occurrence.next.is_none_or(|next| next > planned);
    if row.next != Some(planned) || planned > draft.now() || !forward {
        return Ok(None);
    }
    let row = Schedule { next: occurrence.next, last: Some(planned), ..row };
    draft.put(row.clone());
    Ok(Some(row))
}

/// Deletes the rows of schedules that a new release of their workflow no longer has.
pub fn prune<E>(draft: &mut Draft, ws: &Workspace, workflow: &Definition) -> Decided<(), E> {
    let (app, name) = (workflow.app.clone(), workflow.name.clone());
    let scan = Scan::SchedulesOf(ws.clone(), app, name);
    let most = u32::try_from(MAX_TRIGGERS).unwrap_or(u32::MAX);
    let rows = draft.found_all(&scan, most.saturating_add(1))?.into_iter();
    let stale: Vec<RowKey> = rows
        .filter(|row| matches!(row, Row::Schedule(it) if workflow.schedule(&it.id).is_none()))
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
        let row = Row::from(Schedule { next, ..unplanned(&ws, &app, &workflow, &id) });
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
            let moved = world.decide(|draft| moved_on::<()>(draft, &occurrence)).unwrap();
            assert_eq!(moved.is_some(), moves, "row at {row:?}, occurrence {occurrence:?}");
            let Some(Row::Schedule(now)) = world.rows.get(&occurrence.key()) else { panic!() };
            let next = if moves { occurrence.next } else { row.map(Timestamp::from_ms) };
            assert_eq!((now.next, now.last), (next, moves.then_some(occurrence.planned_at)));
        }
    }
}
