//! Closing of a stream, in phases. After a crash in any phase, the closing can be continued.
//!
//! 1. [`close`] commits a guard event. From then on every commit is refused.
//! 2. Reactions continue until all of them have processed the guard and no lease is held.
//! 3. The engine archives the events. If that fails, the stream stays closed, and the engine
//!    retries.
//! 4. [`truncate`] deletes the events before the guard, a chunk at a time, oldest first. The
//!    guard stays, as a mark that the stream was closed.
//! 5. If requested, [`restart`] restarts the stream at version 0 with a snapshot.
//!
//! The phase is not stored: [`close_phase`] computes it from the rows. If the oldest event is not
//! version 0, the archive is complete and must not be written again.

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

/// Name of the event that closes a stream.
pub const GUARD: &str = "$closed";

/// Name of the first event of a restarted stream.
pub const SNAPSHOT: &str = "$snapshot";

/// Maximum number of events that one step of a truncation deletes. They are read before they are
/// deleted, at most 32 MiB in one transaction.
pub const TRUNCATE_CHUNK: u32 = 64;

/// Request to close a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Close {
    /// The workspace.
    pub ws: Workspace,
    /// The stream.
    pub stream: String,
    /// The expected end of the stream. None means that the guard is committed at any end.
    pub expected: Option<Expected>,
    /// The author and the reason, stored with the guard.
    pub meta: Payload,
}

/// Result of closing a stream. No more events can be committed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The guard's version.
    pub guard: i64,
    /// Whether the stream was closed already, so that the request had no effect.
    pub already: bool,
}

/// Result of one step of a truncation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// No event was deleted, because these reactions have not finished the stream.
    Waits(Vec<Behind>),
    /// This number of events was deleted, and there are more.
    Partly(usize),
    /// This number of events was deleted, and only the guard is left.
    Done(usize),
}

/// Reaction that a truncation waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The reaction.
    pub reaction: String,
    /// The version of the last event that the reaction has processed.
    pub at: i64,
    /// The reason why the reaction is blocked, if it is. A user has to unblock it.
    pub blocked: Option<String>,
    /// The engine that holds a lease, and when the lease expires.
    pub lease: Option<(EngineId, Timestamp)>,
}

/// Phase of the closing of a stream, which determines the next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClosePhase {
    /// The stream is open, or does not exist. Next: close.
    Open,
    /// The guard event is committed, and these reactions have not processed it. Next: check again
    /// later.
    Waiting(Vec<Behind>),
    /// The guard event is committed, and all reactions have processed it. Next: archive, then
    /// truncate.
    Settled,
    /// The events are archived and partly deleted. Next: truncate further.
    Truncating,
    /// Only the guard is left. Next: nothing, or restart.
    Truncated,
}

impl ClosePhase {
    /// Returns the name of the phase.
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

/// Request to restart a closed and truncated stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    /// The workspace.
    pub ws: Workspace,
    /// The stream.
    pub stream: String,
    /// The state of the stream, which is the payload of the event at version 0.
    pub snapshot: Payload,
    /// Metadata of the caller.
    pub meta: Payload,
}

/// Commits the guard event that closes a stream. Closing a closed stream has no effect.
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

/// Returns the phase of the closing of a stream.
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

/// Deletes up to `limit` of the oldest events, if every follower has processed the guard and holds
/// no lease. This is checked at every step, because a reset may have happened in between.
///
/// A reaction that was defined after the guard gets its subscription here, and must also process
/// the stream first.
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
    // Reads one event more than the chunk, to find out whether only the guard is left.
    let old: Vec<i64> = versions(draft, &stream, limit + 1)?;
    let old: Vec<i64> = old.into_iter().filter(|version| *version < stream.head).collect();
    let chunk = &old[..old.len().min(limit as usize)];
    for version in chunk {
        draft.delete(RowKey::StreamEventRow(stream.id, *version));
    }
    let (deleted, rest) = (chunk.len(), old.len() - chunk.len());
    Ok(if rest == 0 { Truncated::Done(deleted) } else { Truncated::Partly(deleted) })
}

/// Restarts a truncated stream, at version 0, with a snapshot of its state.
///
/// The restarted stream has a new number, so that old cursors and leases are not valid for it.
/// Followers have processed all events that the snapshot summarizes, so their cursors are set after
/// it. A reaction that is defined later, or is reset, begins with the snapshot.
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

/// Returns the followers that have not processed the guard, or hold a lease.
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

/// Returns the oldest versions that still exist, including those that this transaction has written.
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
