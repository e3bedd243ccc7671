//! Manual control of runs: cancel, pause, resume, signal.

use super::{end, wait};
use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    flow::{fold, gate},
    id::RunId,
    json::Payload,
    row::{GateKey, Phase, Row, RowKey, Run, Signal, WaitOn, Workspace},
};

/// Finds a run of this workspace that has not ended.
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

/// A run, or the window or buffer that will become it.
enum Found {
    Run(Box<Run>),
    Fold(GateKey),
}

fn find_any(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Found> {
    match find(draft, ws, id) {
        Err(Stop::Refused(Refusal::NoRun(_))) => match fold::of_run(draft, ws, id)? {
            Some(gate) => Ok(Found::Fold(gate.key.clone())),
            None => Err(Stop::Refused(Refusal::NoRun(id))),
        },
        run => Ok(Found::Run(Box::new(run?))),
    }
}

/// Refuses where a fold that was found without its lock has changed since.
fn done_or_gone(done: bool, id: RunId) -> Decided<()> {
    if done { Ok(()) } else { Err(Stop::Refused(Refusal::NoRun(id))) }
}

/// Cancels a run that has not ended, in any state: also in a window or a buffer.
pub fn cancel(draft: &mut Draft, ws: &Workspace, id: RunId, reason: &str) -> Decided<()> {
    match find_any(draft, ws, id)? {
        Found::Run(run) => end::cancel(draft, *run, reason.to_owned(), None),
        Found::Fold(key) => done_or_gone(fold::cancel(draft, &key, id, reason)?, id),
    }
}

/// Pauses a run: at once if it is not driven, else at its next boundary. Idempotent. A window or
/// buffer that will become the run stays open, with all of its parts.
pub fn pause(draft: &mut Draft, ws: &Workspace, id: RunId) -> Decided<()> {
    let mut run = match find_any(draft, ws, id)? {
        Found::Run(run) => *run,
        Found::Fold(key) => return done_or_gone(fold::pause(draft, &key, id, true)?, id),
    };
    match run.phase {
        Phase::Driven => {
            run.pausing = true;
            draft.put(run);
        }
        // A run that stays in a queue is paused once it is admitted.
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

/// Resumes a paused run where it was: waiting, or on its way to a start. For a run that was paused
/// after engine deaths, the count of deaths starts from zero.
pub fn resume(draft: &mut Draft, ws: &Workspace, id: RunId) -> Decided<()> {
    let mut run = match find_any(draft, ws, id)? {
        Found::Run(run) => *run,
        Found::Fold(key) => return done_or_gone(fold::pause(draft, &key, id, false)?, id),
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

/// Sends a signal: it answers a wait for it, or is kept until there is one.
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
