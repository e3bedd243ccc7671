//! Admission: the one order in which controls decide (spec A1).
//!
//! On arrival: required keys, idempotency, open folds, rate limit. On creation: the claim, handoff,
//! gates that refuse or replace. Towards the start: the gates of the plan, one after another.
//! Idempotency comes before the rate limit, so that a repeat spends no token. Joining a fold comes
//! before the rate limit, so that all events of a window spend one token. The rate limit comes
//! before creation, so that a dropped event leaves only its receipt.

use super::{
    control, fold, gate, handoff, idempotency,
    meter::{self, Ahead},
    plan::{Candidate, GateStep, WhenFull},
    priority, queue,
    rate_limit::{self, Spend},
    verdict::{By, Verdict},
};
use crate::{
    catalog::Limit,
    draft::{Decided, Draft, QUEUE_COUNTED, Stop},
    id::RunId,
    row::{
        Class, Gate, GateKey, GateState, Given, Phase, Place, PlannedGate, Rank, Run, Source, Span,
    },
    run::{
        end::{self, Replaced},
        listen, wait,
    },
    time::Timestamp,
};

/// Decides on one input for one workflow.
///
/// `Refused` has the verdict of the control that refused the input. The caller undoes the changes
/// of the other controls (spec A2).
pub fn admit(draft: &mut Draft, candidate: &Candidate<'_>) -> Decided<Verdict, Verdict> {
    let spends = check(draft, candidate)?;
    let is_collected = !candidate.arrives() || candidate.is_collected()?;
    if candidate.arrives() {
        if let Some(verdict) = fold::join(draft, candidate)? {
            return Ok(verdict);
        }
        if let Some(dropped) = rate_limit::spend(draft, &spends)? {
            return Ok(dropped);
        }
        if let Some(verdict) = fold::open(draft, candidate)? {
            return Ok(verdict);
        }
    }
    if !is_collected {
        return fold::alone(draft, candidate, candidate.promised());
    }
    create(draft, candidate, candidate.promised(), Source::Event(candidate.event.id))
}

/// Refuses an input before it reaches a fold: it lacks a required key, has a cost or limit that
/// cannot be read or never fits, or repeats a claimed event. Returns what it spends of the rate
/// limit.
pub(super) fn check(draft: &Draft, candidate: &Candidate<'_>) -> Decided<Vec<Spend>, Verdict> {
    candidate.plan()?; // required keys present, costs readable
    if candidate.arrives() {
        candidate.is_collected()?;
    }
    if let Some(rejected) = too_costly(draft, candidate)? {
        return Err(Stop::Refused(rejected));
    }
    let spends =
        if candidate.arrives() { rate_limit::spends(draft, candidate)? } else { Vec::new() };
    idempotency::check(draft, candidate)?;
    Ok(spends)
}

/// Rejects a run that would never fit into one of its gates. Checked at arrival only: after a limit
/// was lowered, a run with a higher cost enters its gate alone.
pub(super) fn too_costly(
    draft: &Draft,
    candidate: &Candidate<'_>,
) -> Decided<Option<Verdict>, Verdict> {
    for need in candidate.plan()?.iter().map(|step| &step.planned) {
        let PlannedGate { gate, costs, given, .. } = need;
        // Most gates have no cost, and need not be decoded.
        let Some(scope) = Some(gate).filter(|_| !costs.is_one()).and_then(GateKey::scope) else {
            continue;
        };
        let (control, cost) = (scope.class.control(), costs.one());
        let stored = match given {
            Some(_) => draft.gate(gate)?.and_then(|gate| gate.state.given()),
            None => None,
        };
        let given = Given::newest(stored, given.as_ref());
        if let Limit::Slots(limit) = draft.catalog(&scope.ws)?.limit_of_costs(&scope, given.into())
            && cost > limit
        {
            let owner = match scope.pool() {
                Some(pool) => format!("pool `{pool}`"),
                None => control.to_owned(),
            };
            let reason = format!("cost {cost} exceeds limit {limit} of {owner}");
            return Ok(Some(Verdict::Rejected { control, reason }));
        }
    }
    Ok(None)
}

/// Creates the run, at arrival or at the flush of a fold.
pub fn create(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    id: Option<RunId>,
    source: Source,
) -> Decided<Verdict, Verdict> {
    let steps = candidate.plan()?;
    let mut plan: Vec<_> = steps.iter().map(|step| step.planned.clone()).collect();
    let fresh = id.is_none();
    let id = id.map_or_else(|| draft.new_run_id(), Ok)?;
    let claim = match source {
        Source::Event(_) => idempotency::take(draft, candidate, id)?,
        Source::Batch(_) => None, // each member took its own when it joined
    };
    refuse_ancestors(draft, candidate, steps)?;
    let superseded = handoff::meet(draft, candidate, steps, id)?;
    let queued_at = queued_at(draft, steps)?;
    // The id of a fold's run is as old as the fold, but the run is ranked by the time of the flush.
    let arrival = if fresh { id.seq } else { draft.next_seq()? };
    let room = make_room(draft, candidate, id, &mut plan, superseded)?;
    let (workflow, version) = (candidate.workflow(), &candidate.current.version);
    let rank = Rank { at: priority::shifted(candidate, queued_at)?, seq: arrival };
    let replay = candidate.replay();
    let (before, replaced_on) = room.place.unzip();
    let name = (workflow.app.clone(), workflow.name.clone());
    let (turn, version) = (version.turn, (version.number, version.lane));
    let rank = room.rank.unwrap_or(rank);
    let mut run = Run {
        turn: (turn != version.1).then_some(turn),
        plan,
        parent: candidate.parent.clone(),
        replaced: before,
        replaced_on,
        claim,
        gives_up_at: candidate.gives_up_at(queued_at),
        expires_at: control::expiry(workflow).map(|(_, ms)| queued_at.plus_ms(ms)),
        replay_of: replay.map(|replay| replay.of),
        compensations: replay.map_or(0, |replay| replay.compensations),
        effect_run: replay.and_then(|replay| replay.effects),
        batch_of: replay.and_then(|replay| replay.batch),
        batch_costs: candidate.batch.clone().filter(|_| control::costs(workflow).next().is_some()),
        ..Run::new(id, candidate.ws.clone(), name, version, source, queued_at, rank)
    };
    run.wanted = !candidate.after().is_empty() && candidate.is_wanted();
    wait::start_after(draft, &mut run, candidate.after())?;
    listen::begin(draft, &mut run, candidate)?;
    // Before the run advances: its data may set the limits of its gates.
    let given = gate::give(draft, &run.plan)?;
    gate::advance(draft, run)?;
    // Only now, after the new run is queued: it may get the freed slot before runs that were queued
    // earlier.
    gate::hand_on(draft, room.freed.into_iter().chain(given).collect())?;
    queue::check(draft, candidate, id)?;
    match room.replaced {
        Some((by, replaced)) => Ok(Verdict::Replaced { run: id, by, replaced }),
        None => standing(draft, id),
    }
}

/// The result of [`make_room`]: what the new run takes over from the runs that it replaces.
#[derive(Default)]
struct Room {
    /// The best rank of the replaced runs that had not started.
    rank: Option<Rank>,
    /// The replaced run, and the gate.
    replaced: Option<(By, RunId)>,
    /// The run whose position in the queue the new run takes, and the gate.
    place: Option<(RunId, GateKey)>,
    /// The gates that have freed slots to hand on.
    freed: Vec<GateKey>,
}

/// Applies the gates of the plan at which a new run is refused or replaces other runs.
fn make_room(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    id: RunId,
    plan: &mut [PlannedGate],
    superseded: Option<(By, RunId)>,
) -> Decided<Room, Verdict> {
    let place = superseded.as_ref().map(|(by, old)| (*old, by.gate.clone()));
    let mut room = Room { replaced: superseded, place, ..Room::default() };
    for (n, step) in candidate.plan()?.iter().enumerate() {
        let gate = &step.planned.gate;
        let replaced = match step.when_full {
            WhenFull::Wait => None,
            WhenFull::Refuse => match gate::busy(draft, gate)? {
                Some(holder) => {
                    let by = By::from(step);
                    return Err(Stop::Refused(Verdict::Skipped { by, holder }));
                }
                None => None,
            },
            WhenFull::Replace => match gate::busy(draft, gate)? {
                Some(_) => end::replace(draft, gate, id)?,
                None => None,
            },
            WhenFull::Displace => end::displace(draft, candidate.workflow(), step, id)?,
        };
        if let Some(Replaced { old, freed, tier }) = replaced {
            let inherited = Some(old.rank).filter(|_| !old.started);
            room.rank = room.rank.into_iter().chain(inherited).min();
            room.place = Some(old.place(gate, plan));
            room.replaced = Some((By::from(step), old.id));
            room.freed.extend(freed);
            plan[n].tier = tier.unwrap_or(plan[n].tier);
        }
    }
    Ok(room)
}

/// Returns the verdict of a run that was just created: queued or started.
fn standing(draft: &Draft, id: RunId) -> Decided<Verdict, Verdict> {
    let run = draft.run(id.seq)?.expect("create() has written the run");
    for need in run.plan.iter().filter(|need| need.gate.class().is_some_and(Class::is_throttle)) {
        draft.expect_length(&need.gate, QUEUE_COUNTED);
    }
    match (run.phase, run.plan.get(run.entered)) {
        (Phase::Queued { place, .. }, Some(need)) => {
            let start_at = own_turn(draft, id, place, need)?;
            Ok(Verdict::Queued { run: id, by: By::gate(&need.gate), start_at })
        }
        _ => Ok(Verdict::Started { run: id }),
    }
}

/// Returns when the turn of a run in a throttle's queue is due, as `why` does.
fn own_turn(
    draft: &Draft,
    id: RunId,
    place: Place,
    need: &PlannedGate,
) -> Decided<Option<Timestamp>, Verdict> {
    // Where values take turns, runs that come later may be served before it.
    if place.is_shared() {
        return Ok(None);
    }
    let PlannedGate { gate: key, costs, .. } = need;
    let (Some(gate), Some(scope)) = (draft.gate(key)?, key.scope()) else { return Ok(None) };
    let limit = draft.catalog(&scope.ws)?.limit(&scope, gate.state.numbers());
    let (GateState::Turns(turns), Limit::Rates(rates)) = (&gate.state, limit) else {
        return Ok(None);
    };
    let queued = draft.ahead_in_queue(gate, id.seq, QUEUE_COUNTED)? as u64;
    let ahead = Ahead { through: &turns.pending, queued };
    let turn = meter::all_conform(&turns.meters, &rates, ahead, costs, draft.now());
    let opens = turns.closed.map(|closed| closed.until).filter(|until| *until > draft.now());
    Ok(turn.map_or_else(|turn| turn.map(|at| opens.map_or(at, |opens| at.max(opens))), |()| opens))
}

/// Refuses a run if one of its ancestors holds a run gate of its plan (spec G8): they would wait
/// for each other. Executing gates are no problem: an ancestor that waits for its child holds none.
fn refuse_ancestors(
    draft: &Draft,
    candidate: &Candidate<'_>,
    steps: &[GateStep],
) -> Decided<(), Verdict> {
    let Some(parent) = &candidate.parent else { return Ok(()) };
    for step in steps.iter().filter(|step| step.planned.span == Span::Run) {
        let Some(Gate { state: GateState::Slots(slots), .. }) = draft.gate(&step.planned.gate)?
        else {
            continue;
        };
        let holder = slots.holders.iter().find(|hold| parent.ancestors.contains(&hold.run.seq));
        if let Some(hold) = holder {
            let (by, holder) = (By::from(step), hold.run);
            return Err(Stop::Refused(Verdict::HeldByAncestor { by, holder }));
        }
    }
    Ok(())
}

/// Returns the queue time of a run: now, or the latest time that one of its gates has seen, if
/// that is later.
fn queued_at(draft: &Draft, steps: &[GateStep]) -> Decided<Timestamp, Verdict> {
    let mut at = draft.now();
    for step in steps {
        at = draft.gate(&step.planned.gate)?.map_or(at, |gate| at.max(gate.at));
    }
    Ok(at)
}
