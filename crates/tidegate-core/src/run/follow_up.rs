//! Follow-up runs of a run that failed or was cancelled: the compensating run, and the run of the
//! failure handler.
//!
//! Both are created in the transaction after which the old run has ended and is no longer driven.
//! So they never execute at the same time as the old run, and each is created exactly once.

use crate::{
    definition::COMPENSATE_TIMEOUT_MS,
    draft::{Decided, Draft},
    flow::gate,
    row::{Ended, Ending, GateState, PlannedGate, Purpose, Rank, Row, RowKey, Run, Span},
};

/// Creates the follow-up runs. A compensating run takes over the gates that a run holds until its
/// end. Other runs wait for it there, at most for `compensateTimeoutMs` of the workflow.
pub fn follow<E>(draft: &mut Draft, run: &mut Run, ended: &Ended) -> Decided<(), E> {
    let handled = match ended.ending {
        Ending::Completed { .. } => return Ok(()),
        Ending::Failed { .. } => has_handler(draft, run)?,
        Ending::Cancelled { .. } => false,
    };
    if run.compensations > 0 && !matches!(run.purpose, Purpose::Compensates(_)) {
        compensate(draft, run, ended)?;
    }
    if handled {
        let next = follower(draft, ended, Purpose::OnFailure(run.id))?;
        draft.put(next);
    }
    Ok(())
}

/// As [`follow`], for a run that was cancelled or timed out while it was driven. Its end is already
/// written.
pub fn follow_stopped<E>(draft: &mut Draft, run: &mut Run) -> Decided<(), E> {
    if run.compensations == 0 && !has_handler(draft, run)? {
        return Ok(());
    }
    let Some(Row::Ended(ended)) = draft.row(&RowKey::Ended(run.id.seq))?.cloned() else {
        return Ok(());
    };
    follow(draft, run, &ended)
}

/// Releases the gates that a compensating run took over, after `compensateTimeoutMs`. The run
/// continues without them.
pub fn let_go<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    let (phase, entered) = (run.phase, run.entered);
    // Places of its steps stay: they end with their attempts.
    let taken_over = run.plan.iter().take_while(|need| need.span == Span::Run).count();
    let places = run.plan.split_off(taken_over);
    run.entered = entered.min(taken_over);
    let freed = gate::vacate(draft, &mut run, 0)?;
    (run.phase, run.entered) = (phase, entered.saturating_sub(taken_over));
    (run.plan, run.gives_up_at) = (places, None);
    draft.put(run);
    gate::hand_on(draft, freed)
}

/// Whether the workflow has a failure handler for this run.
fn has_handler<E>(draft: &Draft, run: &Run) -> Decided<bool, E> {
    let catalog = draft.catalog(&run.ws)?;
    let handled = catalog.definition(run.lane).is_some_and(|workflow| workflow.handles_failure());
    Ok(handled && run.purpose == Purpose::Ordinary)
}

fn compensate<E>(draft: &mut Draft, run: &mut Run, ended: &Ended) -> Decided<(), E> {
    let catalog = draft.catalog(&run.ws)?;
    let definition = catalog.definition(run.lane);
    let wait_ms =
        definition.map_or(COMPENSATE_TIMEOUT_MS, |definition| definition.compensate_timeout_ms);
    let mut undo = follower(draft, ended, Purpose::Compensates(run.id))?;
    undo.plan = take_over(draft, run, &undo)?;
    undo.entered = undo.plan.len();
    undo.gives_up_at = Some(draft.now().plus_ms(wait_ms));
    draft.put(undo);
    Ok(())
}

/// Transfers the holds on all gates that a run holds until its end to the run `by`.
///
/// The holds are marked as draining, like those of a run that is being stopped: no new run is
/// refused because of them, and none replaces the holder. A run that would replace it is first in
/// the queue.
fn take_over<E>(draft: &mut Draft, run: &mut Run, by: &Run) -> Decided<Vec<PlannedGate>, E> {
    let held = run.plan.drain(..run.entered);
    let (kept, rest): (Vec<PlannedGate>, Vec<PlannedGate>) =
        held.partition(|need| need.span == Span::Run);
    run.entered = rest.len();
    run.plan.splice(..0, rest);
    for need in &kept {
        let Some(gate) = draft.gate(&need.gate)? else { continue };
        let mut gate = gate.clone();
        if let GateState::Slots(slots) = &mut gate.state {
            for hold in slots.holders.iter_mut().filter(|hold| hold.run == run.id) {
                (hold.run, hold.draining) = (by.id, true);
            }
            // Folds that waited for the end of this run can be flushed now.
            if !slots.folds.is_empty() {
                gate.due = Some(draft.now());
            }
        }
        draft.put(gate);
    }
    Ok(kept)
}

/// Creates a run with the same version and input as `old` and an empty gate plan.
pub fn follower<E>(draft: &mut Draft, old: &Ended, purpose: Purpose) -> Decided<Run, E> {
    let (id, now) = (draft.new_run_id()?, draft.now());
    let (rank, version) = (Rank { at: now, seq: id.seq }, (old.version, old.lane));
    let name = (old.app.clone(), old.workflow.clone());
    let mut run = Run::new(id, old.ws.clone(), name, version, old.source, now, rank);
    if let Some(version) = draft.catalog(&old.ws)?.lane(old.lane) {
        run.set_version(version);
    }
    Ok(Run { purpose, batch_of: Some(old.batch()), ..run })
}
