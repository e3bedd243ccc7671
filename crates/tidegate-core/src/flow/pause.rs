//! Pause: keeps the runs whose first start an override pauses (spec L25).
//!
//! An unstarted run keeps its run gates and waits before its throttle, for no turn and no executing
//! place. Its queue is a gate of the class `Pause`, which is in the plan of a run only while the
//! run waits at it: other runs have no row and no read for it. A throttle of which all runs are
//! paused is closed itself, so that a long queue need not move.
//!
//! A chore of the change that puts a pause in force moves the runs that had gone further. One that
//! it has not reached yet is moved when it is the next one in its queue, or would be leased.
//!
//! Acts before the start, between run gates and throttle. On overflow: wait in the queue.

use super::{
    control::{Control, Moment},
    gate,
};
use crate::{
    catalog::Limit,
    draft::{Decided, Draft, Missing},
    id::Seq,
    overrides::Target,
    reads::Scan,
    row::{
        Chore, Class, Gate, GateKey, LanePlace, Phase, PlannedGate, Row, RowNumbers, Run, Scope,
        Span,
    },
};

/// Number of runs that one transaction examines after a pause was put in force.
const EXAMINED: u32 = 256;

/// Row in the table of controls. A pause is an override, not a field of a definition.
pub(super) const CONTROL: Control = Control {
    name: "pause",
    acts: Moment::Start,
    on_overflow: "wait in the queue",
    classes: &[Class::Pause],
    ..Control::NONE
};

/// Returns the gate of the pause that keeps a run from its first start.
pub(crate) fn of<E>(draft: &Draft, run: &Run) -> Decided<Option<Scope>, E> {
    if run.started {
        return Ok(None);
    }
    Ok(draft.catalog(&run.ws)?.overrides().pause_of(run))
}

/// Whether the first run of a gate's queue has to leave it because of a pause. A closed throttle
/// keeps its queue.
pub(super) fn displaces<E>(draft: &Draft, run: &Run, limit: &Limit) -> Decided<Option<Scope>, E> {
    let at = run.plan.get(run.entered);
    let applies = at.is_some_and(|need| need.span != Span::Run) && *limit != Limit::Closed;
    if applies { of(draft, run) } else { Ok(None) }
}

/// Removes the gate of a pause from a run's plan, if it is the next one.
pub(super) fn leave(run: &mut Run) {
    if run.plan.get(run.entered).is_some_and(|need| need.gate.class() == Some(Class::Pause)) {
        run.plan.remove(run.entered);
    }
}

/// Queues an unstarted run until its pause is over. It gives its turn and its executing places
/// back.
pub(crate) fn wait<E>(draft: &mut Draft, mut run: Run, pause: &Scope) -> Decided<(), E> {
    run.phase = Phase::Waiting;
    leave(&mut run);
    let freed = retreat(draft, run, pause)?;
    gate::hand_on(draft, freed)
}

/// Lets the next unstarted runs of a workflow give back what their pause does not leave them, of
/// the runs that were admitted before the chore. Returns the position from which another
/// transaction continues.
///
/// Runs that come later see the pause themselves, at the first gate after their run gates. The
/// gates that become free are due: the sweep admits the next runs in the order of the gates.
pub(crate) fn hold_back<E>(
    draft: &mut Draft,
    chore: &Chore,
    target: &Target,
    from: LanePlace,
) -> Decided<Option<LanePlace>, E> {
    let catalog = draft.catalog(&chore.ws)?;
    let (app, name) = target.owner();
    let entry = catalog.entry(app, name);
    let lanes = entry.into_iter().flat_map(|entry| entry.versions.values());
    let Some(lane) = lanes.map(|it| it.lane).filter(|lane| *lane >= from.lane).min() else {
        return Ok(None);
    };
    let after = if lane == from.lane { from.after } else { LanePlace::FIRST.after };
    let found = draft.found_still(&Scan::Lane(lane, after), EXAMINED, |_| true)?;
    let runs: Vec<Run> = found.into_iter().filter_map(Row::as_run).cloned().collect();
    let last = runs.last().filter(|_| runs.len() >= EXAMINED as usize).map(|run| run.id.seq);
    let mut missing = Missing::default();
    let mut paused = Vec::new();
    for run in runs.iter().filter(|run| run.id.seq < chore.id.seq) {
        if let Some(pause) = retreats(draft, run)? {
            missing.note(draft.run(run.id.seq).map(|_| ()))?;
            expect_gates(draft, &mut missing, run, &pause)?;
            paused.push(run.id.seq);
        }
    }
    missing.settle()?;
    let mut done = after;
    for seq in paused {
        if draft.is_crowded() {
            return Ok(Some(LanePlace { lane, after: done }));
        }
        done = seq;
        let Some(run) = draft.run(seq)?.cloned() else { continue };
        let Some(pause) = retreats(draft, &run)? else { continue };
        for key in retreat(draft, run, &pause)? {
            if let Some(gate) = draft.gate(&key)?.cloned() {
                draft.put(Gate { due: Some(draft.now()), ..gate });
            }
        }
    }
    // Without more runs of this lane, the next lane follows.
    Ok(Some(match last {
        Some(after) => LanePlace { lane, after },
        None => LanePlace { lane: Seq(lane.0 + 1), after: LanePlace::FIRST.after },
    }))
}

/// Notes the rows of the gates that a run will leave, and of the gate of its pause.
fn expect_gates<E>(
    draft: &Draft,
    missing: &mut Missing,
    run: &Run,
    pause: &Scope,
) -> Decided<(), E> {
    let left = run.plan.iter().take(run.entered + 1).skip(run.kept());
    let shares = left.clone().filter_map(|need| need.gate.share(&need.share.as_ref()?.value));
    let keys = left.map(|need| need.gate.clone()).chain(shares);
    for key in keys.chain([GateKey::new(pause)]) {
        missing.note(draft.gate(&key).map(|_| ()))?;
    }
    Ok(())
}

/// Returns the pause of a run that has something to give back, or waits behind the gate of the
/// pause.
fn retreats<E>(draft: &Draft, run: &Run) -> Decided<Option<Scope>, E> {
    let waits = match run.phase {
        Phase::Ready => true,
        Phase::Queued { .. } => {
            run.plan.get(run.entered).is_some_and(|need| need.span != Span::Run)
        }
        Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => false,
    };
    let Some(pause) = (if waits { of(draft, run)? } else { None }) else { return Ok(None) };
    let at = run.plan.get(run.entered).filter(|_| run.entered == run.kept());
    let there = match at {
        Some(need) if need.gate.class() == Some(Class::Pause) => true,
        Some(need) => is_closed_throttle(draft, run, need)?,
        None => false,
    };
    Ok((!there).then_some(pause))
}

/// Moves an unstarted run back into the queue of its pause, or of its throttle if that is closed.
/// Returns the gates at which the caller admits the next runs.
fn retreat<E>(draft: &mut Draft, mut run: Run, pause: &Scope) -> Decided<Vec<GateKey>, E> {
    let keep = run.kept().min(run.entered);
    let freed = gate::vacate(draft, &mut run, keep)?;
    let closed = match run.plan.get(keep) {
        Some(need) => is_closed_throttle(draft, &run, need)?,
        None => false,
    };
    if !closed {
        run.plan.insert(keep, PlannedGate::new(GateKey::new(pause), Span::Start));
    }
    gate::queue_up(draft, run)?;
    Ok(freed)
}

/// Whether a gate of a run's plan is the workflow's throttle, and no run starts through it now.
fn is_closed_throttle<E>(draft: &Draft, run: &Run, need: &PlannedGate) -> Decided<bool, E> {
    let Some(scope) = need.gate.scope().filter(|scope| scope.class == Class::Throttle) else {
        return Ok(false);
    };
    let catalog = draft.catalog(&run.ws)?;
    Ok(catalog.limit(&scope, RowNumbers::default()) == Limit::Closed)
}
