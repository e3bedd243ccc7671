//! Waits for a time, an event, a signal or a child, and their results.
//!
//! A wait stays registered until it ends, even if another wait has ended and the run is driven. So
//! no event or signal is missed.

use sha2::{Digest, Sha256};

use super::{end, lifecycle, listen, named, record::HANDLER};
use crate::{
    draft::{Decided, Draft, Stop},
    flow::{Verdict, gate},
    id::{RunId, Seq},
    json::Payload,
    key::{Key, MAX_VALUE_BYTES, Path, Scalar},
    reads::{Latch, Mode, Scan},
    row::{
        Ending, Event, Phase, Row, RowKey, Run, RunError, Signal, Step, StepKind, Wait, WaitOn,
        WaitPath, WaitRow, Workspace,
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
        run.failures.remove(HANDLER);
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
                run.waits.push(Wait { step, on, until, within_ms, pool: None, since });
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
/// ends at once, because its signal or its event is already in the run's inbox.
pub fn register<E>(draft: &mut Draft, run: &mut Run, wait: Wait) -> Decided<bool, E> {
    let arrived = match &wait.on {
        WaitOn::Signal { name } => {
            let signal = take_signal(draft, run.id.seq, name)?;
            signal.map(|signal| (StepKind::Signal, signal.data))
        }
        WaitOn::Event { name, .. } => {
            listen::take(draft, run, name, &wait.on)?.map(|data| (StepKind::Event, data))
        }
        WaitOn::Named { .. }
        | WaitOn::Time
        | WaitOn::Retry
        | WaitOn::Child { .. }
        | WaitOn::Before { .. } => None,
    };
    if let Some((kind, data)) = arrived {
        let (id, at, fence, seq) = (wait.step, draft.now(), run.fence, draft.next_seq()?);
        draft.put(Step { run: run.id.seq, id, kind, fence, at, result: Ok(data), seq });
        return Ok(true);
    }
    if let Some((topic, first)) = indexed(&wait.on) {
        file(draft, run, topic, first, wait.step.clone())?;
    }
    run.waits.push(wait);
    Ok(false)
}

/// Writes the row by which an event finds a wait of a run.
///
/// A post at the same time takes the latches of its values on the paths in use, which it reads
/// under the latch of the name. So the first use of a path takes the latch of the name, and all
/// other waits only the latch of their value: they do not hold up events with other values.
fn file<E>(
    draft: &mut Draft,
    run: &Run,
    name: &str,
    (path, value): (String, Vec<u8>),
    step: String,
) -> Decided<(), E> {
    let (ws, name) = (run.ws.clone(), name.to_owned());
    draft.latch(Latch::matching(&ws, &name, &path, &value), Mode::Exclusive)?;
    use_path(draft, &ws, &name, &path)?;
    draft.put(WaitRow { ws, name, path, value, run: run.id.seq, step });
    Ok(())
}

/// Writes the row by which an event finds a path on which runs wait for it, if there is none.
pub(super) fn use_path<E>(
    draft: &mut Draft,
    ws: &Workspace,
    name: &str,
    path: &str,
) -> Decided<(), E> {
    let (ws, name, path) = (ws.clone(), name.to_owned(), path.to_owned());
    if draft.is_absent(&RowKey::WaitPath(ws.clone(), name.clone(), path.clone()))? {
        draft.latch(Latch::Topic(ws.clone(), name.clone()), Mode::Exclusive)?;
        lifecycle::awaited(draft, &ws, &name)?;
        draft.put(WaitPath { ws, name, path });
    }
    Ok(())
}

/// Returns the children that a run waits for.
pub fn children(run: &Run) -> Vec<RunId> {
    let child = |wait: &Wait| match &wait.on {
        WaitOn::Child { run } => Some(*run),
        WaitOn::Time
        | WaitOn::Retry
        | WaitOn::Event { .. }
        | WaitOn::Named { .. }
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

/// Removes all waits and listeners of a run.
pub fn forget(draft: &mut Draft, run: &mut Run) {
    for wait in std::mem::take(&mut run.waits) {
        unfile(draft, run, &wait);
    }
    listen::forget(draft, run);
}

/// Whether an event ends a wait.
pub(super) fn is_ended_by(wait: &Wait, event: &Event) -> bool {
    let WaitOn::Event { name, .. } = &wait.on else { return false };
    *name == event.name && event.number() >= wait.since && is_met_by(&wait.on, event)
}

/// Whether an event of the name that a wait is for has its values and meets its condition.
pub(super) fn is_met_by(on: &WaitOn, event: &Event) -> bool {
    let WaitOn::Event { matches, filter, .. } = on else { return false };
    has_values(&event.data, matches) && filter.as_ref().is_none_or(|filter| filter.holds(event))
}

/// Returns the answer of an event to a wait.
pub(super) fn answer_of(on: &WaitOn, event: &Event) -> Payload {
    if matches!(on, WaitOn::Event { whole: true, .. }) { event.whole() } else { event.data.clone() }
}

/// Returns the topic, and the path and the value by which a wait is found in the index.
pub(crate) fn indexed(on: &WaitOn) -> Option<(&str, (String, Vec<u8>))> {
    match on {
        WaitOn::Event { name, matches, .. } => {
            Some((name, matches.first().cloned().unwrap_or_default()))
        }
        WaitOn::Named { name } => Some((named::TOPIC, named::place(name))),
        WaitOn::Time
        | WaitOn::Retry
        | WaitOn::Signal { .. }
        | WaitOn::Child { .. }
        | WaitOn::Before { .. } => None,
    }
}

/// Whether the data has all these encoded values.
pub(super) fn has_values(data: &Payload, matches: &[(String, Vec<u8>)]) -> bool {
    matches.iter().all(|(path, value)| encoded(data, path).as_ref() == Some(value))
}

/// Encodes the value at `path`. The rows of waits for events are found by this encoded value. Empty
/// for an empty path; `None` if there is no scalar at the path. For several paths, joined by
/// [`JOINT`], the values follow each other.
pub fn encoded(data: &Payload, path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for path in path.split(JOINT).filter(|_| !path.is_empty()) {
        let scalar = data.scalar(&Path::parse(path).ok()?).ok()??;
        Key::Value(scalar).encode_into(&mut bytes);
    }
    Some(fit(bytes, path))
}

/// Encodes a value as [`encoded`] does for the value at a path.
pub fn encoded_scalar(value: Scalar) -> Vec<u8> {
    let mut bytes = Vec::new();
    Key::Value(value).encode_into(&mut bytes);
    bytes
}

/// Joins paths in the index of waits. No path of an author has this character.
pub const JOINT: char = '\u{1}';

/// Replaces several values that are too long for the index by their digest.
pub(crate) fn fit(bytes: Vec<u8>, path: &str) -> Vec<u8> {
    if path.contains(JOINT) && bytes.len() > MAX_VALUE_BYTES {
        return Sha256::digest(&bytes).to_vec();
    }
    bytes
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
    if let Some((topic, first)) = indexed(&wait.on) {
        draft.delete_known(filed(run, topic, first, wait.step.clone()));
    }
}

/// Returns the key of the row by which an event finds a wait of a run, or a listener after its first.
pub(crate) fn filed(
    run: &Run,
    name: &str,
    (path, value): (String, Vec<u8>),
    step: String,
) -> RowKey {
    RowKey::Wait(run.ws.clone(), name.to_owned(), path, value, run.id.seq, step)
}

fn kind(on: &WaitOn) -> Option<StepKind> {
    match on {
        WaitOn::Time => Some(StepKind::Sleep),
        WaitOn::Event { .. } => Some(StepKind::Event),
        WaitOn::Signal { .. } | WaitOn::Named { .. } => Some(StepKind::Signal),
        WaitOn::Child { .. } => Some(StepKind::Invoke),
        WaitOn::Retry | WaitOn::Before { .. } => None,
    }
}
