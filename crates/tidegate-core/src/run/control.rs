//! Commands of users on runs: cancel, pause, resume, signal.

use super::{end, wait};
use crate::{
    command::Refusal,
    delivery,
    draft::{Decided, Draft, Stop},
    flow::{fold, gate},
    id::RunId,
    json::Payload,
    row::{GateKey, Phase, Row, RowKey, Run, Signal, WaitOn, Workspace},
    time::Timestamp,
};

/// Returns a live run of this workspace.
fn find(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Run> {
    match draft.run(id.seq)? {
        Some(run) if run.id == id && run.ws == *ws && run.phase != Phase::Stopping => {
            Ok(run.clone())
        }
        _ => match draft.row(&RowKey::Ended(id.seq))? {
            Some(Row::Ended(ended)) if ended.id == id && ended.ws == *ws => {
                let state = ended.ending.state();
                Err(Stop::Refused(Refusal::Ended { run: id, state }))
            }
            _ => Err(Stop::Refused(Refusal::NoRun(id))),
        },
    }
}

/// A run, or the window, the buffer or the deferred request that will create it.
enum Found {
    Run(Box<Run>),
    Fold(GateKey),
    Deferred(Timestamp),
}

fn find_any(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Found> {
    match find(draft, ws, id) {
        Err(Stop::Refused(Refusal::NoRun(_))) => {
            if let Some(at) = delivery::of_run(draft, ws, id)? {
                return Ok(Found::Deferred(at));
            }
            match fold::of_run(draft, ws, id)? {
                Some(gate) => Ok(Found::Fold(gate.key.clone())),
                None => Err(Stop::Refused(Refusal::NoRun(id))),
            }
        }
        run => Ok(Found::Run(Box::new(run?))),
    }
}

/// Returns a refusal if `done` is false: the fold was found without a lock and has changed since.
fn done_or_gone(done: bool, id: RunId) -> Decided<()> {
    if done { Ok(()) } else { Err(Stop::Refused(Refusal::NoRun(id))) }
}

/// Cancels a run that has not ended, in any state. If a window or buffer will create the run, it is
/// not created. A deferred request is not delivered.
pub fn cancel(draft: &mut Draft, ws: &Workspace, id: RunId, reason: &str) -> Decided<()> {
    match find_any(draft, ws, id)? {
        Found::Run(run) => end::cancel(draft, *run, reason.to_owned(), None),
        Found::Fold(key) => done_or_gone(fold::cancel(draft, &key, id, reason)?, id),
        Found::Deferred(_) => delivery::cancel(draft, ws, delivery::event_of(id), reason).map(drop),
    }
}

/// Pauses a run: a driven run at its next report, any other run at once. If a window or buffer will
/// create the run, it stays open and is not flushed. Pausing a paused run has no effect.
pub fn pause(draft: &mut Draft, ws: &Workspace, id: RunId) -> Decided<()> {
    let mut run = match find_any(draft, ws, id)? {
        Found::Run(run) => *run,
        Found::Fold(key) => return done_or_gone(fold::pause(draft, &key, id, true)?, id),
        Found::Deferred(at) => return Err(Stop::Refused(Refusal::Deferred { run: id, at })),
    };
    match run.phase {
        Phase::Driven => {
            run.pausing = true;
            draft.put(run);
        }
        // A run in the queue of a run gate stays there, and is paused when it is admitted.
        Phase::Queued { .. } | Phase::Ready => {
            if gate::hold_back(draft, &mut run)? {
                run.phase = Phase::Paused;
            }
            run.pausing = true;
            draft.put(run);
        }
        Phase::Waiting => {
            run.phase = Phase::Paused;
            draft.put(run);
        }
        Phase::Paused | Phase::Stopping => {}
    }
    Ok(())
}

/// Resumes a paused run: it waits again, or continues to its next gate. If the run was paused
/// because of engine deaths, their number is reset.
pub fn resume(draft: &mut Draft, ws: &Workspace, id: RunId) -> Decided<()> {
    let mut run = match find_any(draft, ws, id)? {
        Found::Run(run) => *run,
        Found::Fold(key) => return done_or_gone(fold::pause(draft, &key, id, false)?, id),
        Found::Deferred(at) => return Err(Stop::Refused(Refusal::Deferred { run: id, at })),
    };
    let going = std::mem::take(&mut run.pausing);
    if run.pause_reason.take().is_some() {
        run.made_progress();
    }
    match run.phase {
        Phase::Paused if going => gate::advance(draft, run),
        Phase::Paused => {
            run.phase = Phase::Waiting;
            draft.put(run);
            Ok(())
        }
        Phase::Queued { .. } | Phase::Ready | Phase::Driven | Phase::Waiting | Phase::Stopping => {
            draft.put(run);
            Ok(())
        }
    }
}

/// Sends a signal. It ends a wait for it, or is stored until there is one.
pub fn signal(
    draft: &mut Draft,
    ws: &Workspace,
    id: RunId,
    name: &str,
    data: &Payload,
) -> Decided<()> {
    let run = find(draft, ws, id)?;
    let waits = |on: &WaitOn| matches!(on, WaitOn::Signal { name: wanted } if wanted == name);
    let step = run.waits.iter().find(|wait| waits(&wait.on)).map(|wait| wait.step.clone());
    if let Some(step) = step {
        return wait::answer(draft, run, &step, Ok(data.clone()));
    }
    let seq = draft.next_seq()?;
    draft.put(Signal { run: id.seq, name: name.to_owned(), seq, data: data.clone() });
    Ok(())
}
