//! Streams: ordered, versioned lists of events.
//!
//! A commit appends events to one stream: at the version that the caller expects, or at the end.
//! The stream's row is locked, so versions have no gap, and exactly one of two commits with the
//! same expectation succeeds. If two transactions make the first commit of a stream, the insert of
//! its row fails in one of them. The store retries it, and it gets a [`StreamRefusal::Conflict`] as
//! if it had come later. The workspace's [`LogHead`] is locked last and gives the global positions.
//! So positions become visible in order, and a reader of the feed cannot miss a late commit.
//!
//! Streams do not deduplicate: an event that is committed twice is stored twice.

mod close;
mod limits;
mod snapshot;
#[cfg(test)]
mod tests;

use std::{fmt, ops::RangeInclusive};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use close::{
    Behind, Close, ClosePhase, Closed, GUARD, Restart, SNAPSHOT, TRUNCATE_CHUNK, Truncated, close,
    close_phase, restart, truncate,
};
pub(crate) use limits::is_name;
pub use limits::{MAX_COMMIT_BYTES, MAX_COMMIT_EVENTS, MAX_NAME_CHARS, check, size};
pub use snapshot::{MAX_SNAPSHOT_BYTES, NewSnapshot, keep_snapshot};

use crate::{
    draft::{Decided, Draft, Stop, need},
    id::{EventId, Seq},
    json::Payload,
    reaction::Follower,
    reads::ReadSet,
    row::{LogHead, Row, RowKey, Stream, StreamEventRow, Subscription, Workspace},
    time::Timestamp,
};

/// Events to append to a stream: either all of them or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The workspace.
    pub ws: Workspace,
    /// The stream.
    pub stream: String,
    /// The events to append, in order.
    pub events: Vec<NewLogged>,
    /// The expected end of the stream. None means that the events are appended at any end.
    pub expected: Option<Expected>,
}

/// An event to commit, which has no version yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewLogged {
    /// The event's name. Names that begin with `$` are reserved for Tidegate.
    pub name: String,
    /// The payload, stored byte for byte.
    pub data: Payload,
    /// Correlation id, causation id and any other metadata of the caller.
    pub meta: Payload,
}

/// End of the stream that the caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The stream has no events.
    NoStream,
    /// The last event has this version.
    Version(i64),
    /// The stream has this number, and its last event has this version. A restarted stream, which
    /// has another number, may have the same version with other events.
    Of(Seq, i64),
}

impl Expected {
    /// Returns the expectation for a stream whose last version is `head`; -1 means no events.
    pub fn after(head: i64) -> Self {
        if head < 0 { Self::NoStream } else { Self::Version(head) }
    }

    /// As [`after`](Self::after), with the stream's number if the caller knows it.
    pub fn seen(log: Option<Seq>, head: i64) -> Self {
        log.filter(|_| head >= 0).map_or(Self::after(head), |log| Self::Of(log, head))
    }

    /// Returns the expected last version; -1 means no events.
    pub fn version(self) -> i64 {
        match self {
            Self::NoStream => -1,
            Self::Version(version) | Self::Of(_, version) => version,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream => f.write_str("no stream"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Of(log, version) => write!(f, "version {version} of log {}", log.0),
        }
    }
}

/// Positions of the events of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// The stream's number. A restarted stream has a new number.
    pub log: Seq,
    /// The first event's version.
    pub first: i64,
    /// The last event's version.
    pub last: i64,
    /// The positions of the events among all events of the workspace. They have no gap.
    pub positions: RangeInclusive<i64>,
    /// The events' ids, in order.
    pub ids: Vec<EventId>,
    /// When the events were committed, by the store's clock.
    pub at: Timestamp,
}

impl Committed {
    /// Converts to the output of a step.
    pub fn to_value(&self) -> Value {
        json!({
            "log": self.log.0,
            "first": self.first,
            "position": self.positions.start(),
            "ids": self.ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "at": self.at.micros(),
        })
    }

    /// Converts from the output of a step; `None` if it has another form.
    pub fn from_value(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_i64();
        let (first, position) = (number("first")?, number("position")?);
        let ids = value.get("ids")?.as_array()?.iter();
        let ids: Vec<EventId> =
            ids.map(|id| id.as_str()?.parse().ok()).collect::<Option<Vec<_>>>()?;
        let others = i64::try_from(ids.len()).ok()? - 1;
        let at = Timestamp::from_micros(number("at")?);
        let (log, last) = (Seq(number("log")?), first + others);
        Some(Self { log, first, last, positions: position..=position + others, ids, at })
    }
}

/// Reason why a command on streams was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamRefusal {
    /// The stream does not have the end that the caller expects.
    #[error("stream `{stream}`: expected {expected}, got {}", Expected::after(*actual))]
    Conflict {
        /// The stream.
        stream: String,
        /// The end that the caller expects.
        expected: Expected,
        /// The last event's version; -1 if there is none.
        actual: i64,
    },
    /// A guard event has closed the stream.
    #[error("stream `{stream}`: closed at version {guard}, nothing more is committed")]
    StreamClosed {
        /// The stream.
        stream: String,
        /// The guard's version.
        guard: i64,
    },
    /// The name of the stream or of an event is not allowed.
    #[error("{what} `{name}`: {rule}")]
    BadName {
        /// What has the name: a stream or an event.
        what: &'static str,
        /// The first 64 characters of the name.
        name: String,
        /// The rule for names, and how this name breaks it.
        rule: String,
    },
    /// The commit has no events or too many.
    #[error("stream `{stream}`: a commit must have 1 to {MAX_COMMIT_EVENTS} events, got {count}")]
    Count {
        /// The stream.
        stream: String,
        /// The number of events.
        count: usize,
    },
    /// An event, or the whole commit, is too large.
    #[error("stream `{stream}`: {what} must be at most {limit} bytes, got {size}")]
    TooLarge {
        /// The stream.
        stream: String,
        /// What is too large: an event, or the commit.
        what: &'static str,
        /// The maximum size.
        limit: usize,
        /// The given size.
        size: usize,
    },
    /// The stream is not closed: only a closed stream can be truncated or restarted.
    #[error("stream `{stream}`: must be closed first")]
    NotClosed {
        /// The stream.
        stream: String,
    },
    /// The stream is not truncated: only a truncated stream can be restarted.
    #[error("stream `{stream}`: must be truncated before it is restarted, but it is {phase}")]
    NotTruncated {
        /// The stream.
        stream: String,
        /// The phase of the closing.
        phase: &'static str,
    },
}

impl StreamRefusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::StreamClosed { .. } => "stream_closed",
            Self::BadName { .. } => "bad_name",
            Self::Count { .. } => "commit_count",
            Self::TooLarge { .. } => "commit_too_large",
            Self::NotClosed { .. } => "stream_not_closed",
            Self::NotTruncated { .. } => "stream_not_truncated",
        }
    }
}

/// Appends events to a stream, and updates the subscriptions of the reactions that follow it.
///
/// `followers` are all reactions of the workspace; those that do not follow this stream are
/// ignored. A lease on the stream does not delay a commit, and a commit does not change the lease.
pub fn commit(
    draft: &mut Draft,
    commit: &Commit,
    followers: &[Follower],
) -> Decided<Committed, StreamRefusal> {
    check(commit).map_err(Stop::Refused)?;
    let stream = opened(draft, &commit.ws, &commit.stream, followers)?;
    if let Some(stream) = stream.as_ref().filter(|stream| stream.closed) {
        let (stream, guard) = (stream.name.clone(), stream.head);
        return Err(Stop::Refused(StreamRefusal::StreamClosed { stream, guard }));
    }
    check_expected(&commit.stream, commit.expected, stream.as_ref()).map_err(Stop::Refused)?;
    let stream = match stream {
        Some(stream) => stream,
        None => new_stream(draft, &commit.ws, &commit.stream)?,
    };
    append(draft, stream, &commit.events, followers)
}

/// Creates or updates the subscriptions of reactions for all events of a stream. Returns `false` if
/// there is no such stream.
///
/// A commit does the same for the reactions that exist then. This function is for a reaction that
/// is defined later: it begins with the stream's first event.
pub fn follow<E>(
    draft: &mut Draft,
    ws: &Workspace,
    stream: &str,
    followers: &[Follower],
) -> Decided<bool, E> {
    ask(draft, keys(ws, stream, followers))?;
    let Some(stream) = stream_row(draft, ws, stream)? else { return Ok(false) };
    tell(draft, &stream, followers, stream.head)?;
    Ok(true)
}

/// Compares the caller's expectation with the stream's end.
fn check_expected(
    name: &str,
    expected: Option<Expected>,
    stream: Option<&Stream>,
) -> Result<(), StreamRefusal> {
    let actual = stream.map_or(-1, |stream| stream.head);
    match expected {
        Some(expected) if !is_met(expected, actual, stream) => {
            // The refusal names the stream's number only if the versions are equal.
            let expected = match expected {
                Expected::Of(_, version) if version != actual => Expected::after(version),
                Expected::NoStream | Expected::Version(_) | Expected::Of(..) => expected,
            };
            Err(StreamRefusal::Conflict { stream: name.to_owned(), expected, actual })
        }
        Some(_) | None => Ok(()),
    }
}

fn is_met(expected: Expected, actual: i64, stream: Option<&Stream>) -> bool {
    match expected {
        Expected::Of(log, version) => version == actual && stream.is_some_and(|it| it.id == log),
        Expected::NoStream | Expected::Version(_) => expected == Expected::after(actual),
    }
}

/// Returns a stream. Reads all rows that an append changes together.
///
/// It reads them even if the append will be refused. A probe has no rows, and the reads that it
/// predicts must not depend on the contents of rows.
fn opened<E>(
    draft: &Draft,
    ws: &Workspace,
    stream: &str,
    followers: &[Follower],
) -> Decided<Option<Stream>, E> {
    let head = RowKey::LogHead(ws.clone());
    ask(draft, keys(ws, stream, followers).chain([head]))?;
    stream_row(draft, ws, stream)
}

/// Writes events at the end of a stream and updates the subscriptions of its followers.
fn append<E>(
    draft: &mut Draft,
    mut stream: Stream,
    events: &[NewLogged],
    followers: &[Follower],
) -> Decided<Committed, E> {
    let head = RowKey::LogHead(stream.ws.clone());
    let before = match draft.row(&head)? {
        Some(Row::LogHead(head)) => head.pos,
        _ => 0,
    };
    let (first, mut pos) = (stream.head + 1, before);
    let mut ids = Vec::with_capacity(events.len());
    for event in events {
        (stream.head, pos) = (stream.head + 1, pos + 1);
        let id = draft.new_event_id()?;
        ids.push(id);
        draft.put(StreamEventRow {
            stream: stream.id,
            version: stream.head,
            ws: stream.ws.clone(),
            pos,
            id,
            name: event.name.clone(),
            at: draft.now(),
            data: event.data.clone(),
            meta: event.meta.clone(),
        });
    }
    draft.put(LogHead { ws: stream.ws.clone(), pos });
    draft.put(stream.clone());
    tell(draft, &stream, followers, first - 1)?;
    let at = draft.now();
    let (log, last, positions) = (stream.id, stream.head, before + 1..=pos);
    Ok(Committed { log, first, last, positions, ids, at })
}

/// Sets `want` of every follower's subscription to the end of the stream; it never moves back.
/// `before` is the cursor of a new follower with `fromHead`: the last version that it skips.
///
/// A subscription that already has events to process keeps its position in the queue. Otherwise
/// each commit to a busy stream would move it to the back.
fn tell<E>(
    draft: &mut Draft,
    stream: &Stream,
    followers: &[Follower],
    before: i64,
) -> Decided<(), E> {
    for follower in following(followers, &stream.name) {
        let mut sub = place(draft, stream, follower, before)?;
        if sub.want < stream.head {
            if !sub.has_work() {
                to_back(&mut sub, draft.now());
            }
            sub.want = stream.head;
            draft.put(sub);
        }
    }
    Ok(())
}

/// Returns a follower's subscription to this stream. If there is none, creates one: at the start of
/// the stream or, for a follower with `fromHead`, at `before`.
///
/// A cursor from before a restart of the stream is reset, because the versions are other ones.
fn place<E>(
    draft: &Draft,
    stream: &Stream,
    follower: &Follower,
    before: i64,
) -> Decided<Subscription, E> {
    let key = sub_key(&stream.ws, &follower.reaction, &stream.name);
    Ok(match draft.row(&key)? {
        Some(Row::Subscription(sub)) if sub.log == stream.id => sub.clone(),
        Some(Row::Subscription(sub)) => {
            let mut sub = sub.clone();
            rewind(&mut sub, -1);
            Subscription { log: stream.id, want: -1, ..sub }
        }
        _ if follower.from_head => Subscription {
            at: before,
            want: before,
            ..Subscription::new(stream, &follower.reaction)
        },
        _ => Subscription::new(stream, &follower.reaction),
    })
}

/// Sets a cursor to any version, also back, and clears its failures.
///
/// A lease is not released, because its holder may be active until it expires. But the fence is
/// increased, so that the holder can no longer move the cursor.
pub(crate) fn rewind(sub: &mut Subscription, at: i64) {
    sub.at = at;
    sub.due = None;
    sub.failures = 0;
    sub.claims = 0;
    sub.error = None;
    sub.blocked = None;
    if sub.owner.is_some() {
        sub.fence += 1;
    }
}

/// Moves a subscription to the back of the queue.
///
/// The new time is always later than the old one, even if the clock has not moved or has stepped
/// back. So subscriptions take turns also within one microsecond.
pub(crate) fn to_back(sub: &mut Subscription, now: Timestamp) {
    let after_last = Timestamp::from_micros(sub.since.micros().saturating_add(1));
    sub.since = now.max(after_last);
}

/// Returns the row of a stream.
fn stream_row<E>(draft: &Draft, ws: &Workspace, stream: &str) -> Decided<Option<Stream>, E> {
    match draft.row(&RowKey::Stream(ws.clone(), stream.to_owned()))? {
        Some(Row::Stream(stream)) => Ok(Some(stream.clone())),
        _ => Ok(None),
    }
}

fn new_stream<E>(draft: &mut Draft, ws: &Workspace, name: &str) -> Decided<Stream, E> {
    let id = draft.next_seq()?;
    Ok(Stream { ws: ws.clone(), name: name.to_owned(), id, head: -1, closed: false })
}

/// Returns the followers of a stream.
fn following<'a>(followers: &'a [Follower], stream: &str) -> impl Iterator<Item = &'a Follower> {
    followers.iter().filter(move |follower| follower.source.covers(stream))
}

/// Returns the keys of a stream's row and of its followers' subscriptions.
fn keys(ws: &Workspace, stream: &str, followers: &[Follower]) -> impl Iterator<Item = RowKey> {
    let row = RowKey::Stream(ws.clone(), stream.to_owned());
    following(followers, stream)
        .map(move |follower| sub_key(ws, &follower.reaction, stream))
        .chain([row])
}

/// Returns the key of a subscription.
pub(crate) fn sub_key(ws: &Workspace, reaction: &str, stream: &str) -> RowKey {
    RowKey::Subscription(ws.clone(), reaction.to_owned(), stream.to_owned())
}

/// Stops the decision if some of these rows are missing from the snapshot, and requests all missing
/// ones together.
pub(crate) fn ask<E>(draft: &Draft, keys: impl IntoIterator<Item = RowKey>) -> Decided<(), E> {
    let mut missing = ReadSet::default();
    for key in keys {
        match draft.row::<E>(&key) {
            Ok(_) => {}
            Err(Stop::Need(more)) => missing.merge(*more),
            Err(stop) => return Err(stop),
        }
    }
    if missing.is_empty() { Ok(()) } else { need(missing) }
}
