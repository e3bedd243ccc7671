//! Closing a stream, in phases that can be taken up again after a crash in any of them.
//!
//! 1. [`close`] commits a guard event. From then on every commit is refused.
//! 2. Reactions work on until all of them have passed the guard and no lease is held.
//! 3. The engine archives the log. When that fails the stream stays guarded, and it tries again.
//! 4. [`truncate`] deletes the events before the guard, a chunk at a time, oldest first. The
//!    guard stays, as the tombstone.
//! 5. Where wanted, [`restart`] begins the stream again at version 0 with a snapshot.
//!
//! No phase is stored: [`close_phase`] reads it off the rows. That the oldest event is not
//! version 0 any more says that the archive is complete and must not be written again.

use std::collections::BTreeSet;

use super::{
    Committed, Expected, NewLogged, StreamRefusal, append, ask, check_expected, following, keys,
    limits, new_stream, opened, place, rewind, snapshot::forget_snapshots, stream_row, tell,
};
use crate::{
    draft::{Decided, Draft, Stop},
    json::Payload,
    reaction::Follower,
    reads::Scan,
    row::{EngineId, Row, RowKey, Stream, Workspace},
    time::Timestamp,
};

/// The name of the event that ends a stream.
pub const GUARD: &str = "$closed";

/// The name of the event that a restarted stream begins with.
pub const SNAPSHOT: &str = "$snapshot";

/// How many events one step of a truncation deletes at the most. They are read to be deleted,
/// so this bounds a transaction to 32 MiB.
pub const TRUNCATE_CHUNK: u32 = 64;

/// A stream to be closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Close {
    /// The workspace.
    pub ws: Workspace,
    /// The stream.
    pub stream: String,
    /// The state that the caller decided on; without one the guard goes to the end.
    pub expected: Option<Expected>,
    /// Who closed it and why, kept with the guard.
    pub meta: Payload,
}

/// A stream that takes no more commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The guard's version.
    pub guard: i64,
    /// It was closed before, and nothing has changed.
    pub already: bool,
}

/// What a step of a truncation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// Nothing: these are not done with the stream.
    Waits(Vec<Behind>),
    /// Deleted so many events, and there are more.
    Partly(usize),
    /// Deleted so many events, and only the guard is left.
    Done(usize),
}

/// A reaction that a truncation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The reaction.
    pub reaction: String,
    /// The version of the last event that it is done with.
    pub at: i64,
    /// Why it is blocked: it needs a hand.
    pub blocked: Option<String>,
    /// Who holds a lease, and until when.
    pub lease: Option<(EngineId, Timestamp)>,
}

/// How far the closing of a stream is, and so what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClosePhase {
    /// Takes commits, or does not exist: close it.
    Open,
    /// Guarded; these are not done with it: come back later.
    Waiting(Vec<Behind>),
    /// Guarded, and all are done with it: archive, then truncate.
    Settled,
    /// Archived, and partly deleted: truncate on.
    Truncating,
    /// Only the guard is left: finished, or restart it.
    Truncated,
}

impl ClosePhase {
    /// The phase's name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Waiting(_) => "waiting",
            Self::Settled => "settled",
            Self::Truncating => "truncating",
            Self::Truncated => "truncated",
        }
    }
}

/// A closed and truncated stream that begins anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    /// The workspace.
    pub ws: Workspace,
    /// The stream.
    pub stream: String,
    /// What the stream has come to: the data of the event at version 0.
    pub snapshot: Payload,
    /// Whatever the caller adds.
    pub meta: Payload,
}

/// Commits the guard that ends a stream. Closing a closed stream changes nothing.
pub fn close(
    draft: &mut Draft,
    close: &Close,
    followers: &[Follower],
) -> Decided<Closed, StreamRefusal> {
    let guard =
        NewLogged { name: GUARD.to_owned(), data: Payload::null(), meta: close.meta.clone() };
    limits::check_stream(&close.stream).map_err(Stop::Refused)?;
    limits::check_size(&close.stream, &guard).map_err(Stop::Refused)?;
    let stream = opened(draft, &close.ws, &close.stream, followers)?;
    if let Some(stream) = stream.as_ref().filter(|stream| stream.closed) {
        return Ok(Closed { guard: stream.head, already: true });
    }
    check_expected(&close.stream, close.expected, stream.as_ref()).map_err(Stop::Refused)?;
    let mut stream = match stream {
        Some(stream) => stream,
        None => new_stream(draft, &close.ws, &close.stream)?,
    };
    stream.closed = true;
    let committed = append(draft, stream, &[guard], followers)?;
    Ok(Closed { guard: committed.last, already: false })
}

/// How far the closing of a stream is.
pub fn close_phase<E>(
    draft: &Draft,
    ws: &Workspace,
    stream: &str,
    followers: &[Follower],
) -> Decided<ClosePhase, E> {
    ask(draft, keys(ws, stream, followers))?;
    let Some(stream) = stream_row(draft, ws, stream)?.filter(|stream| stream.closed) else {
        return Ok(ClosePhase::Open);
    };
    let behind = behind(draft, &stream, followers)?;
    if !behind.is_empty() {
        return Ok(ClosePhase::Waiting(behind));
    }
    let oldest = versions(draft, &stream, 1)?.first().copied();
    Ok(match oldest {
        Some(oldest) if oldest < stream.head && oldest > 0 => ClosePhase::Truncating,
        Some(oldest) if oldest < stream.head => ClosePhase::Settled,
        Some(_) | None => ClosePhase::Truncated,
    })
}

/// Deletes up to `limit` of the oldest events, if every follower has passed the guard and holds
/// no lease. Asks this anew at every step, since a reset may have come in between.
///
/// A reaction that was defined after the guard gets its place here, and is waited for.
pub fn truncate(
    draft: &mut Draft,
    ws: &Workspace,
    stream: &str,
    followers: &[Follower],
    limit: u32,
) -> Decided<Truncated, StreamRefusal> {
    ask(draft, keys(ws, stream, followers))?;
    let stream = closed_stream(draft, ws, stream)?;
    let behind = behind(draft, &stream, followers)?;
    if !behind.is_empty() {
        tell(draft, &stream, followers, stream.head)?;
        return Ok(Truncated::Waits(behind));
    }
    forget_snapshots(draft, stream.id)?;
    let limit = limit.clamp(1, TRUNCATE_CHUNK);
    // One more than the chunk, to see whether only the guard is left.
    let old: Vec<i64> = versions(draft, &stream, limit + 1)?;
    let old: Vec<i64> = old.into_iter().filter(|version| *version < stream.head).collect();
    let chunk = &old[..old.len().min(limit as usize)];
    for version in chunk {
        draft.delete(RowKey::StreamEventRow(stream.id, *version));
    }
    let (deleted, rest) = (chunk.len(), old.len() - chunk.len());
    Ok(if rest == 0 { Truncated::Done(deleted) } else { Truncated::Partly(deleted) })
}

/// Begins a truncated stream anew, at version 0, with a snapshot of what it has come to.
///
/// The events get another number to be filed under, so no place and no lease of before is taken
/// for one of now. Followers have seen all that the snapshot sums up, so they are placed behind
/// it; a reaction that comes later, or is reset, begins with it.
pub fn restart(
    draft: &mut Draft,
    restart: &Restart,
    followers: &[Follower],
) -> Decided<Committed, StreamRefusal> {
    let snapshot = NewLogged {
        name: SNAPSHOT.to_owned(),
        data: restart.snapshot.clone(),
        meta: restart.meta.clone(),
    };
    limits::check_size(&restart.stream, &snapshot).map_err(Stop::Refused)?;
    opened(draft, &restart.ws, &restart.stream, followers)?;
    let before = closed_stream(draft, &restart.ws, &restart.stream)?;
    let phase = close_phase(draft, &restart.ws, &restart.stream, followers)?;
    if phase != ClosePhase::Truncated {
        let (stream, phase) = (restart.stream.clone(), phase.as_str());
        return Err(Stop::Refused(StreamRefusal::NotTruncated { stream, phase }));
    }
    draft.delete(RowKey::StreamEventRow(before.id, before.head));
    let stream = new_stream(draft, &restart.ws, &restart.stream)?;
    for follower in following(followers, &restart.stream) {
        let mut sub = place(draft, &before, follower, before.head)?;
        rewind(&mut sub, 0);
        (sub.log, sub.want) = (stream.id, 0);
        draft.put(sub);
    }
    append(draft, stream, &[snapshot], followers)
}

fn closed_stream(draft: &Draft, ws: &Workspace, stream: &str) -> Decided<Stream, StreamRefusal> {
    match stream_row(draft, ws, stream)?.filter(|stream| stream.closed) {
        Some(stream) => Ok(stream),
        None => Err(Stop::Refused(StreamRefusal::NotClosed { stream: stream.to_owned() })),
    }
}

/// The followers that have not passed the guard, or hold a lease.
fn behind<E>(draft: &Draft, stream: &Stream, followers: &[Follower]) -> Decided<Vec<Behind>, E> {
    let mut behind = Vec::new();
    for follower in following(followers, &stream.name) {
        let sub = place(draft, stream, follower, stream.head)?;
        let lease = sub.holder(draft.now()).zip(sub.until);
        if sub.at < stream.head || lease.is_some() {
            let (reaction, at, blocked) = (sub.reaction, sub.at, sub.blocked);
            behind.push(Behind { reaction, at, blocked, lease });
        }
    }
    Ok(behind)
}

/// The oldest versions that are still there, with those that this transaction wrote.
fn versions<E>(draft: &Draft, stream: &Stream, count: u32) -> Decided<Vec<i64>, E> {
    let found = draft.found(&Scan::Log(stream.id, 0), count)?;
    let (from, to) =
        (RowKey::StreamEventRow(stream.id, 0), RowKey::StreamEventRow(stream.id, i64::MAX));
    let versions: BTreeSet<i64> = found
        .into_iter()
        .chain(draft.written(from, to))
        .filter_map(
            |row| if let Row::StreamEventRow(event) = row { Some(event.version) } else { None },
        )
        .collect();
    Ok(versions.into_iter().take(count as usize).collect())
}
