//! Waits for a time, an event, a signal or a child, and their results.
//!
//! A wait stays registered until it ends, even if another wait has ended and the run is driven. So
//! no event or signal is missed.

use super::end;
use crate::{
    draft::{Decided, Draft, Stop},
    flow::{Verdict, gate},
    id::{RunId, Seq},
    json::Payload,
    key::{Key, Path},
    reads::Scan,
    row::{
        Ending, Phase, Row, RowKey, Run, RunError, Signal, Step, StepKind, Wait, WaitOn, WaitPath,
        WaitRow,
    },
};

/// Interval at which a run checks whether its predecessors still exist.
const RECHECK_MS: u64 = 60_000;

/// Ends a wait with a result, and wakes the run if it is waiting.
pub fn answer<E>(
    draft: &mut Draft,
    mut run: Run,
    step: &str,
    result: Result<Payload, RunError>,
) -> Decided<(), E> {
    let Some(at) = run.waits.iter().position(|wait| wait.step == step) else { return Ok(()) };
    let wait = run.waits.remove(at);
    unfile(draft, &run, &wait);
    if let Some(kind) = kind(&wait.on) {
        let (id, at, seq) = (wait.step.clone(), draft.now(), draft.next_seq()?);
        draft.put(Step { run: run.id.seq, id, kind, fence: run.fence, at, result, seq });
    }
    match run.phase {
        Phase::Waiting => wake(draft, run),
        Phase::Driven => {
            run.answered.push(wait.step);
            draft.put(run);
            Ok(())
        }
        Phase::Paused => {
            run.pausing = true;
            draft.put(run);
            Ok(())
        }
        Phase::Queued { .. } | Phase::Ready | Phase::Stopping => {
            draft.put(run);
            Ok(())
        }
    }
}

/// Makes a run that has not started wait for those of its predecessors that have not ended. If all
/// have ended and none has completed, the run is refused.
pub fn start_after(draft: &mut Draft, run: &mut Run, before: &[RunId]) -> Decided<(), Verdict> {
    for id in before {
        match completed(draft, *id)? {
            Some(completed) => run.wanted |= completed,
            None => {
                let (on, since) = (WaitOn::Before { run: *id }, draft.next_seq()?);
                let until = Some(draft.now().plus_ms(RECHECK_MS));
                let (step, within_ms) = (id.to_string(), Some(RECHECK_MS));
                run.waits.push(Wait { step, on, until, within_ms, since });
            }
        }
    }
    match before.last() {
        Some(last) if !run.wanted && !run.is_after() => {
            let (control, reason) = ("policy", format!("{last} did not complete"));
            Err(Stop::Refused(Verdict::Rejected { control, reason }))
        }
        _ => Ok(()),
    }
}

/// Ends the wait of a run for a predecessor that has ended. If it was the last predecessor and none
/// has completed, the run is cancelled.
pub fn ended_before<E>(
    draft: &mut Draft,
    mut run: Run,
    before: RunId,
    completed: bool,
) -> Decided<(), E> {
    let step = before.to_string();
    let others = run.waits.iter().filter(|wait| wait.step != step).count();
    if others == run.waits.len() {
        return Ok(());
    }
    run.wanted |= completed;
    if others == 0 && !run.wanted {
        return end::cancel(draft, run, format!("{before} did not complete"), None);
    }
    answer(draft, run, &step, Ok(Payload::null()))
}

/// Checks whether the predecessors have ended. Normally their end ends the wait, but an engine of
/// an older build does not do this.
pub fn recheck<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    for wait in &run.waits {
        if let WaitOn::Before { run: before } = wait.on
            && let Some(completed) = completed(draft, before)?
        {
            return ended_before(draft, run, before, completed);
        }
    }
    for wait in &mut run.waits {
        wait.until = Some(draft.now().plus_ms(RECHECK_MS));
    }
    draft.put(run);
    Ok(())
}

/// Whether a run has completed; none if it has not ended. A run that retention has deleted counts
/// as completed.
pub fn completed<E>(draft: &Draft, run: RunId) -> Decided<Option<bool>, E> {
    if draft.run(run.seq)?.is_some_and(|run| run.phase != Phase::Stopping) {
        return Ok(None);
    }
    let failed = match draft.row(&RowKey::Ended(run.seq))? {
        Some(Row::Ended(ended)) => !matches!(ended.ending, Ending::Completed { .. }),
        _ => false,
    };
    Ok(Some(!failed))
}

/// Wakes a waiting run: it enters its executing gates again, or is queued for them.
pub fn wake<E>(draft: &mut Draft, run: Run) -> Decided<(), E> {
    gate::advance(draft, run)
}

/// Whether a step already has its result, so that it needs no wait.
pub fn is_answered<E>(draft: &Draft, run: &Run, step: &String) -> Decided<bool, E> {
    let record = RowKey::Step(run.id.seq, step.clone());
    Ok(run.answered.contains(step) || draft.row(&record)?.is_some())
}

/// Registers the wait of a step that has neither a wait nor a result. Returns `true` if the wait
/// ends at once, because its signal is already there.
pub fn register<E>(draft: &mut Draft, run: &mut Run, wait: Wait) -> Decided<bool, E> {
    if let WaitOn::Signal { name } = &wait.on
        && let Some(signal) = take_signal(draft, run.id.seq, name)?
    {
        let (id, at, fence) = (wait.step, draft.now(), run.fence);
        let (kind, result, seq) = (StepKind::Signal, Ok(signal.data), draft.next_seq()?);
        draft.put(Step { run: run.id.seq, id, kind, fence, at, result, seq });
        return Ok(true);
    }
    if let WaitOn::Event { name, matches } = &wait.on {
        let (path, value) = matches.first().cloned().unwrap_or_default();
        let (ws, name, step) = (run.ws.clone(), name.clone(), wait.step.clone());
        let known = RowKey::WaitPath(ws.clone(), name.clone(), path.clone());
        if draft.row(&known)?.is_none() {
            draft.put(WaitPath { ws: ws.clone(), name: name.clone(), path: path.clone() });
        }
        draft.put(WaitRow { ws, name, path, value, run: run.id.seq, step });
    }
    run.waits.push(wait);
    Ok(false)
}

/// Returns the children that a run waits for.
pub fn children(run: &Run) -> Vec<RunId> {
    let child = |wait: &Wait| match &wait.on {
        WaitOn::Child { run } => Some(*run),
        WaitOn::Time
        | WaitOn::Retry
        | WaitOn::Event { .. }
        | WaitOn::Signal { .. }
        | WaitOn::Before { .. } => None,
    };
    run.waits.iter().filter_map(child).collect()
}

/// Removes the wait of a step, if it has one.
pub fn drop_one(draft: &mut Draft, run: &mut Run, step: &str) {
    if let Some(at) = run.waits.iter().position(|wait| wait.step == step) {
        let wait = run.waits.remove(at);
        unfile(draft, run, &wait);
    }
}

/// Removes all waits of a run.
pub fn forget(draft: &mut Draft, run: &mut Run) {
    for wait in std::mem::take(&mut run.waits) {
        unfile(draft, run, &wait);
    }
}

/// Encodes the value at `path`. The rows of waits for events are found by this encoded value. Empty
/// for an empty path; `None` if there is no scalar at the path.
pub fn encoded(data: &Payload, path: &str) -> Option<Vec<u8>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    let scalar = data.scalar(&Path::parse(path).ok()?).ok()??;
    let mut bytes = Vec::new();
    Key::Value(scalar).encode_into(&mut bytes);
    Some(bytes)
}

fn take_signal<E>(draft: &mut Draft, run: Seq, name: &str) -> Decided<Option<Signal>, E> {
    let inbox = Scan::Inbox(run, name.to_owned());
    let key = |seq| RowKey::Signal(run, name.to_owned(), seq);
    let stored = draft.found_still(&inbox, 1, |_| true)?;
    let written = draft.written(key(Seq(i64::MIN)), key(Seq(i64::MAX)));
    let first = stored
        .into_iter()
        .chain(written)
        .find_map(|row| if let Row::Signal(signal) = row { Some(signal.clone()) } else { None });
    if let Some(signal) = &first {
        draft.delete(key(signal.seq));
    }
    Ok(first)
}

fn unfile(draft: &mut Draft, run: &Run, wait: &Wait) {
    if let WaitOn::Event { name, matches } = &wait.on {
        let (path, value) = matches.first().cloned().unwrap_or_default();
        let (ws, name, step) = (run.ws.clone(), name.clone(), wait.step.clone());
        draft.delete_known(RowKey::Wait(ws, name, path, value, run.id.seq, step));
    }
}

fn kind(on: &WaitOn) -> Option<StepKind> {
    match on {
        WaitOn::Time => Some(StepKind::Sleep),
        WaitOn::Event { .. } => Some(StepKind::Event),
        WaitOn::Signal { .. } => Some(StepKind::Signal),
        WaitOn::Child { .. } => Some(StepKind::Invoke),
        WaitOn::Retry | WaitOn::Before { .. } => None,
    }
}
