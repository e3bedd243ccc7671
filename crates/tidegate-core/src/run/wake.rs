//! Wake-ups: an event ends all waits that it matches, each of them once.
//!
//! An event wakes a limited number of runs in its own transaction. If there are more, it creates a
//! chore, which wakes them in chunks, in the order of the waits. An event does not end waits that
//! began after it. Until the chore is finished, later events of the same name wait for it, so that
//! every wait gets the first event that matches it.

use super::{
    chore,
    listen::{self, Heard},
    wait,
};
use crate::{
    draft::{Decided, Draft},
    id::Seq,
    reads::{Latch, Mode, Scan},
    row::{Chore, Event, Listener, Row, RowKey, RowKind, Run, WaitPlace, Work},
};

/// Maximum number of runs that one transaction wakes for an event. Waking a run changes about five
/// rows, and the event may also start workflows.
pub const WOKEN_AT_ONCE: usize = 256;

/// Number of paths of one event name that are read at first.
const PATHS_READ: u32 = 64;

/// Runs on which an event had an effect, in its own transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Number of runs that it woke.
    pub woke: u32,
    /// Number of runs that it cancelled.
    pub cancelled: u32,
    /// Whether a chore will reach more.
    pub more: bool,
}

/// Wakes the runs that wait for this event, and cancels those that it ends.
pub fn post<E>(draft: &mut Draft, event: &Event) -> Decided<Reached, E> {
    let start = WaitPlace::first(String::new());
    draft.latch(Latch::Topic(event.ws.clone(), event.name.clone()), Mode::Shared)?;
    let paths = paths(draft, event)?;
    for path in &paths {
        if let Some(value) = wait::encoded(&event.data, path) {
            let latch = Latch::matching(&event.ws, &event.name, path, &value);
            draft.latch(latch, Mode::Shared)?;
        }
    }
    let found = waiting(draft, event, &start, paths)?;
    if found.is_empty() {
        return Ok(Reached::default());
    }
    let behind = is_behind(draft, event, Seq(i64::MAX))?;
    let (reached, after) =
        if behind { (Reached::default(), Some(start)) } else { wake(draft, event, start, found)? };
    let more = after.is_some();
    if let Some(after) = after {
        let topic = Some(event.name.clone());
        chore::leave(draft, &event.ws, topic, Work::Wake { event: event.id.seq, after })?;
    }
    Ok(Reached { more, ..reached })
}

/// Whether a run waits for an event of this name and one of these values, or listens for it. Its
/// further conditions are not checked.
pub(super) fn is_awaited<E>(draft: &Draft, event: &Event) -> Decided<bool, E> {
    let start = WaitPlace::first(String::new());
    Ok(!waiting(draft, event, &start, paths(draft, event)?)?.is_empty())
}

/// Wakes the next runs that wait for an event. Returns the remaining work; none if it is finished.
pub fn go_on<E>(
    draft: &mut Draft,
    chore: &Chore,
    event: Seq,
    after: WaitPlace,
) -> Decided<Option<Work>, E> {
    let Some(Row::Event(row)) = draft.row(&RowKey::Event(event))?.cloned() else {
        return Ok(None);
    };
    if is_behind(draft, &row, chore.id.seq)? {
        return Ok(Some(Work::Wake { event, after }));
    }
    let found = waiting(draft, &row, &after, paths(draft, &row)?)?;
    let (_, after) = wake(draft, &row, after, found)?;
    Ok(after.map(|after| Work::Wake { event, after }))
}

/// Ends as many of these waits as fit into the transaction. Returns the numbers of runs, and the
/// last processed wait if there are more.
fn wake<E>(
    draft: &mut Draft,
    event: &Event,
    mut after: WaitPlace,
    found: Vec<WaitPlace>,
) -> Decided<(Reached, Option<WaitPlace>), E> {
    let mut reached = Reached::default();
    for (n, place) in found.into_iter().enumerate() {
        if n >= WOKEN_AT_ONCE || draft.is_crowded() {
            return Ok((reached, Some(after)));
        }
        match deliver(draft, event, place.run, &place.step)? {
            Heard::Passed => {}
            Heard::Woke => reached.woke += 1,
            Heard::Cancelled => reached.cancelled += 1,
        }
        after = place;
    }
    Ok((reached, None))
}

/// Whether an earlier event of the same name is still waking runs.
///
/// The rows of the scan need no lock. If a chore has ended since, this event only creates a chore
/// without need. If a chore does not exist yet, its event arrived at the same time as this one, and
/// their order does not matter.
fn is_behind<E>(draft: &Draft, event: &Event, before: Seq) -> Decided<bool, E> {
    let scan = Scan::Chores(event.ws.clone(), event.name.clone());
    let first = draft.found_still(&scan, 1, |_| true)?;
    let written = draft.written(RowKey::Chore(Seq(i64::MIN)), RowKey::Chore(Seq(i64::MAX)));
    let mut chores = first.into_iter().chain(written);
    Ok(chores.any(|row| {
        let Row::Chore(chore) = row else { return false };
        let same = chore.ws == event.ws && chore.topic.as_ref() == Some(&event.name);
        same && chore.id.seq < before
    }))
}

/// Returns the next waits that the event may end: one more than are woken in one transaction.
fn waiting<E>(
    draft: &Draft,
    event: &Event,
    after: &WaitPlace,
    paths: Vec<String>,
) -> Decided<Vec<WaitPlace>, E> {
    let mut found = Vec::new();
    for path in paths.into_iter().filter(|path| *path >= after.path) {
        let room = WOKEN_AT_ONCE + 1 - found.len();
        let first = WaitPlace::first(path);
        let from = if first.path == after.path { after.clone() } else { first };
        found.extend(under(draft, event, from, room)?);
    }
    Ok(found)
}

/// Returns the paths on which waits for events of this name match, in order.
fn paths<E>(draft: &Draft, event: &Event) -> Decided<Vec<String>, E> {
    let key = |name| RowKey::WaitPath(event.ws.clone(), name, String::new());
    let scan = Scan::WaitPaths(event.ws.clone(), event.name.clone());
    // Nearly all transactions write no path.
    let has_written = draft.has_written(RowKind::WaitPath);
    let written = has_written
        .then(|| draft.written(key(event.name.clone()), key(format!("{}\0", event.name))));
    let rows = draft.found_all(&scan, PATHS_READ)?.into_iter().chain(written.into_iter().flatten());
    let mut paths: Vec<String> = rows
        .filter_map(|row| if let Row::WaitPath(row) = row { Some(row.path.clone()) } else { None })
        .collect();
    paths.extend_from_slice(draft.expected_paths(&event.ws, &event.name));
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns the first waits after a position whose value at the path is equal to the event's.
fn under<E>(
    draft: &Draft,
    event: &Event,
    after: WaitPlace,
    most: usize,
) -> Decided<Vec<WaitPlace>, E> {
    let WaitPlace { path, run, step } = after;
    let Some(value) = wait::encoded(&event.data, &path) else { return Ok(Vec::new()) };
    let (ws, name) = (event.ws.clone(), event.name.clone());
    let key =
        |run, step| RowKey::Wait(ws.clone(), name.clone(), path.clone(), value.clone(), run, step);
    let written = draft.written(key(run, step.clone()), key(Seq(i64::MAX), String::new()));
    let (name, value) = (name.clone(), value.clone());
    let scan = Scan::Waits(ws.clone(), name, path.clone(), value, run, step.clone());
    let limit = u32::try_from(most).unwrap_or(u32::MAX);
    let rows = draft.found_still(&scan, limit, |_| true)?.into_iter().chain(written);
    let mut waits: Vec<WaitPlace> = rows
        .filter_map(|row| if let Row::Wait(wait) = row { Some(wait) } else { None })
        .map(|wait| WaitPlace { path: path.clone(), run: wait.run, step: wait.step.clone() })
        .collect();
    // The place of a run's first listener comes before those of its steps.
    let from = if step < listen::step(0) { run } else { Seq(run.0.saturating_add(1)) };
    waits.extend(listening(draft, event, &path, from, limit)?);
    waits.retain(|wait| (wait.run, &wait.step) > (run, &step));
    waits.sort();
    waits.dedup();
    waits.truncate(most);
    Ok(waits)
}

/// Returns the places of the first listeners that have the event's value at the path, of the runs
/// from the given one on.
fn listening<E>(
    draft: &Draft,
    event: &Event,
    path: &str,
    from: Seq,
    limit: u32,
) -> Decided<Vec<WaitPlace>, E> {
    let Some(value) = wait::encoded(&event.data, path) else { return Ok(Vec::new()) };
    let is_found = |row: &Row| {
        row.as_run().filter(|run| run.ws == event.ws && run.id.seq >= from).is_some_and(|run| {
            let first = run.listeners.first().filter(|it| it.first);
            first.is_some_and(|it| it.is_for(&event.name, path, &value))
        })
    };
    let number = Listener::number(&event.ws, &event.name, path, &value);
    let stored = draft.found_still(&Scan::Listening(number, from), limit, is_found)?.into_iter();
    let written = draft.written(RowKey::Run(from), RowKey::Run(Seq(i64::MAX)));
    let runs = stored.chain(written.filter(|row| is_found(row))).filter_map(Row::as_run);
    let place = |run: &Run| {
        let (path, step) = (path.to_owned(), listen::step(0));
        WaitPlace { path, run: run.id.seq, step }
    };
    Ok(runs.map(place).collect())
}

/// Ends one wait with the event, if all its fields match.
fn deliver<E>(draft: &mut Draft, event: &Event, run: Seq, step: &str) -> Decided<Heard, E> {
    let Some(mut run) = draft.run(run)?.cloned() else { return Ok(Heard::Passed) };
    if let Some(n) = listen::number(step) {
        return listen::hear(draft, event, run, n);
    }
    let wait = run.waits.iter().find(|wait| wait.step == step);
    let Some(wait) = wait.filter(|wait| wait::is_ended_by(wait, event)) else {
        return Ok(Heard::Passed);
    };
    let answer = wait::answer_of(&wait.on, event);
    listen::pass(&mut run, event);
    wait::answer(draft, run, step, Ok(answer))?;
    Ok(Heard::Woke)
}
