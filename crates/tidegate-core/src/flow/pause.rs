//! Pause: keeps the runs whose first start an override pauses (spec L25).
//!
//! An unstarted run keeps its run gates and waits before its throttle, for no turn and no executing
//! place. Its queue is a gate of the class `Pause`, which is in the plan of a run only while the
//! run waits at it: other runs have no row and no read for it. A throttle of which all runs are
//! paused is closed itself, so that a long queue need not move.
//!
//! Acts before the start, between run gates and throttle. On overflow: wait in the queue.

use super::{
    control::{Control, Moment},
    gate,
};
use crate::{
    catalog::Limit,
    draft::{Decided, Draft},
    row::{Class, GateKey, Phase, PlannedGate, RowNumbers, Run, Scope, Span},
};

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
    let keep = run.kept().min(run.entered);
    let freed = gate::vacate(draft, &mut run, keep)?;
    let throttle = run.plan.get(keep).filter(|need| need.gate.class() == Some(Class::Throttle));
    let closed = match throttle.and_then(|need| need.gate.scope()) {
        Some(scope) => {
            draft.catalog(&run.ws)?.limit(&scope, RowNumbers::default()) == Limit::Closed
        }
        None => false,
    };
    if !closed {
        run.plan.insert(keep, PlannedGate::new(GateKey::new(pause), Span::Start));
    }
    gate::queue_up(draft, run)?;
    gate::hand_on(draft, freed)
}
