//! The ways out: completed, failed, cancelled, replaced.

use super::wait;
use crate::{
    draft::{Decided, Draft},
    flow::{claim, gate, needs::Passage},
    id::RunId,
    row::{Ended, Ending, Fault, Gate, GateState, Phase, RowKey, Run},
};

/// The tier of a run that takes another's place: before all who wait in the ordinary way.
const IN_PLACE: i64 = -1;

/// Ends a run: frees what it holds at once and hands it on.
pub fn end<E>(draft: &mut Draft, mut run: Run, ending: Ending) -> Decided<(), E> {
    wait::forget(draft, &mut run);
    gate::release(draft, &mut run, 0)?;
    draft.delete(RowKey::Run(run.id.seq));
    record(draft, &run, ending)
}

/// Cancels a run. It is cancelled at once; one that is being driven keeps its holds until its
/// worker confirms the stop or its lease ends (SPEC G7).
pub fn cancel<E>(
    draft: &mut Draft,
    mut run: Run,
    reason: String,
    by: Option<RunId>,
) -> Decided<(), E> {
    let ending = Ending::Cancelled { reason, by };
    match run.phase {
        Phase::Stopping => Ok(()),
        Phase::Driven => {
            wait::forget(draft, &mut run);
            gate::drain(draft, &run)?;
            run.phase = Phase::Stopping;
            run.due = None;
            draft.put(run.clone());
            record(draft, &run, ending)
        }
        Phase::Line { .. } | Phase::Ready | Phase::Waiting | Phase::Paused => {
            end(draft, run, ending)
        }
    }
}

/// Lets go of a cancelled run: its worker has stopped, or can write nothing any more.
pub fn stopped<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    gate::release(draft, &mut run, 0)?;
    draft.delete(RowKey::Run(run.id.seq));
    Ok(())
}

/// Takes the place of whoever is inside, or was about to be; returns it as it was.
///
/// Where the old one is still being stopped, the newcomer stands before all others in line. If
/// only such others stand there, none of them is replaced.
pub fn replace<E>(
    draft: &mut Draft,
    passage: &mut Passage,
    newcomer: RunId,
) -> Decided<Option<Run>, E> {
    let key = passage.need.gate.clone();
    passage.need.tier = IN_PLACE;
    let Some(Gate { state: GateState::Slots(slots), .. }) = draft.gate(&key)? else {
        return Ok(None);
    };
    let inside = slots.holders.iter().find(|hold| !hold.draining).map(|hold| hold.run.seq);
    let old = match inside {
        Some(seq) => Some(seq),
        None => {
            let gate = draft.gate(&key)?.expect("read a line above");
            let first = draft.head_of_line(gate)?;
            first.filter(|(place, _)| place.tier == IN_PLACE).map(|(_, seq)| seq)
        }
    };
    let Some(old) = old.map(|seq| draft.run(seq)).transpose()?.flatten().cloned() else {
        return Ok(None);
    };
    if let Some(claim) = old.claim.as_ref().filter(|_| !old.started) {
        claim::give_back(draft, claim, old.id)?;
    }
    cancel(draft, old.clone(), "replaced".to_owned(), Some(newcomer))?;
    Ok(Some(old))
}

/// Writes how it ended, and tells whoever waits for it.
fn record<E>(draft: &mut Draft, run: &Run, ending: Ending) -> Decided<(), E> {
    let result = match &ending {
        Ending::Completed { output } => Ok(output.clone()),
        Ending::Failed { error } => Err(error.clone()),
        Ending::Cancelled { reason, .. } => {
            Err(Fault { code: "Cancelled".to_owned(), message: reason.clone() })
        }
    };
    draft.put(Ended {
        id: run.id,
        ws: run.ws.clone(),
        app: run.app.clone(),
        workflow: run.workflow.clone(),
        version: run.version,
        source: run.source,
        queued_at: run.queued_at,
        ended_at: draft.now(),
        ending,
        parent: run.parent.as_ref().map(|parent| parent.run),
        replay_of: run.replay_of,
    });
    if let Some(parent) = &run.parent
        && let Some(waiting) = draft.run(parent.run)?.cloned()
    {
        wait::answer(draft, waiting, &parent.step, result)?;
    }
    Ok(())
}
