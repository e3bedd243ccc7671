//! Untyped access to streams: commits, reads and the last versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, RangeBounds},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tidegate_core::{
    command::{Answer, Command, StreamAnswer, StreamCommand},
    id::{EventId, Seq},
    json::Payload,
    reads::{ReadSet, Scan},
    row::{self, Row, RowKey, StreamEventRow},
    stream::{Commit, Committed, Expected, NewLogged},
    time::Timestamp,
};

use super::{
    event,
    load::{page, stream_row},
    trail::Trail,
};
use crate::{
    api::{Engine, unexpected},
    error::Error,
};

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// Id of the event.
    pub id: EventId,
    /// Name of the stream.
    pub stream: String,
    /// Version: the index of the event in its stream, from 0 without gaps.
    pub version: i64,
    /// Position among all events of the workspace.
    pub position: i64,
    /// Name of the event. Names that begin with `$` are built in.
    pub name: String,
    /// Data of the event, unchanged.
    pub data: Payload,
    /// Time of the commit, by the store's clock.
    pub at: Timestamp,
    /// Correlation id, the same for all events with one origin.
    pub correlation: Option<String>,
    /// Event, or step of a run, that caused this event.
    pub causation: Option<String>,
}

impl StreamEvent {
    /// Deserializes the event into a type.
    pub fn read<E: DeserializeOwned>(&self) -> Result<E, Error> {
        event::read(&self.name, &self.data).map_err(|error| {
            Error::Value(format!("stream `{}`, version {}: {error}", self.stream, self.version))
        })
    }

    /// Creates an event from its row.
    pub(crate) fn logged(stream: &str, logged: StreamEventRow) -> Self {
        let Trail { correlation, causation } = Trail::read(&logged.meta);
        let StreamEventRow { id, version, pos: position, name, data, at, .. } = logged;
        let stream = stream.to_owned();
        Self { id, stream, version, position, name, data, at, correlation, causation }
    }

    /// Creates the events of a commit, beginning at an index within the commit.
    pub(super) fn committed(
        stream: &str,
        events: Vec<NewLogged>,
        committed: &Committed,
        place: usize,
    ) -> Vec<Self> {
        let places = committed.ids.iter().zip(committed.first..).zip(committed.positions.clone());
        let event = |(event, ((id, version), position)): (NewLogged, ((&EventId, i64), i64))| {
            let Trail { correlation, causation } = Trail::read(&event.meta);
            let NewLogged { name, data, .. } = event;
            let (id, stream, at) = (*id, stream.to_owned(), committed.at);
            Self { id, stream, version, position, name, data, at, correlation, causation }
        };
        events.into_iter().zip(places.skip(place)).map(event).collect()
    }
}

/// Untyped handle to all streams of a workspace.
#[derive(Clone, Debug)]
pub struct Streams {
    pub(super) engine: Engine,
    trail: Trail,
}

/// Last version of a stream, and whether it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// Version of the last event.
    pub version: i64,
    /// Whether the stream is closed: it takes no more commits.
    pub closed: bool,
}

/// Query for [`Streams::read`].
///
/// A page has 100 events unless a limit is set.
#[derive(Clone, Debug)]
#[must_use = "a query is handed to `Streams::read`"]
pub struct Query {
    of: Of,
    /// Event names to include; `None` for all.
    names: Option<BTreeSet<String>>,
    positions: (Bound<i64>, Bound<i64>),
    times: (Bound<Timestamp>, Bound<Timestamp>),
    correlation: Option<String>,
    backwards: bool,
    limit: usize,
    from: Option<Cursor>,
    version: Option<i64>,
}

#[derive(Clone, Debug)]
enum Of {
    All,
    Stream(String),
    Family(String),
}

/// Position in a read, to continue from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(i64);

/// A page of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// Events in the requested order. There may be fewer than the limit, or none, although more
    /// follow: one read checks a limited number of events.
    pub events: Vec<StreamEvent>,
    /// Cursor to continue from. A forward read also returns one at the end, for events committed
    /// later.
    pub cursor: Cursor,
    /// Whether there may be more events.
    pub more: bool,
}

/// Number of events read from the store at a time.
const CHUNK: u32 = 500;

/// Number of events that one read checks before it returns the matching ones.
const LOOK: usize = 5000;

impl Query {
    fn of(of: Of) -> Self {
        let (positions, times) =
            ((Bound::Unbounded, Bound::Unbounded), (Bound::Unbounded, Bound::Unbounded));
        let (names, correlation, from, version) = Default::default();
        let (backwards, limit) = (false, 100);
        Self { of, names, positions, times, correlation, backwards, limit, from, version }
    }

    /// Queries all events of the workspace, by position.
    pub fn all() -> Self {
        Self::of(Of::All)
    }

    /// Queries the events of one stream, by version.
    pub fn stream(name: impl Into<String>) -> Self {
        Self::of(Of::Stream(name.into()))
    }

    /// Queries the events of all streams whose names begin with this prefix, by position.
    pub fn family(prefix: impl Into<String>) -> Self {
        Self::of(Of::Family(prefix.into()))
    }

    /// Includes only events with these names. An empty list matches no event.
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Includes only events at these positions.
    pub fn positions(mut self, positions: impl RangeBounds<i64>) -> Self {
        self.positions = (positions.start_bound().cloned(), positions.end_bound().cloned());
        self
    }

    /// Includes only events that were committed in this time range.
    pub fn times(mut self, times: impl RangeBounds<Timestamp>) -> Self {
        self.times = (times.start_bound().cloned(), times.end_bound().cloned());
        self
    }

    /// Includes only events with this correlation id.
    pub fn correlation(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Returns the newest events first.
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }

    /// Sets the maximum number of events per page.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Continues from the cursor of another read.
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Starts with the event of this version, in either direction.
    ///
    /// Only for queries of one stream.
    pub fn from_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// Returns whether an event matches the filters, without checking its stream.
    fn wants(&self, event: &StreamEventRow) -> bool {
        let of = |correlation: &String| {
            Trail::read(&event.meta).correlation.as_ref() == Some(correlation)
        };
        self.names.as_ref().is_none_or(|names| names.contains(&event.name))
            && self.positions.contains(&event.pos)
            && self.times.contains(&event.at)
            && self.correlation.as_ref().is_none_or(of)
    }

    /// Returns the position at which a read of all events starts: just before the first, or just
    /// after the last matching position.
    fn start(&self) -> i64 {
        match (self.from, self.backwards, self.positions) {
            (Some(Cursor(at)), ..) => at,
            (None, false, (Bound::Included(first), _)) => first.saturating_sub(1),
            (None, false, (Bound::Excluded(before), _)) => before,
            (None, false, (Bound::Unbounded, _)) => 0,
            (None, true, (_, Bound::Included(last))) => last.saturating_add(1),
            (None, true, (_, Bound::Excluded(after))) => after,
            (None, true, (_, Bound::Unbounded)) => i64::MAX,
        }
    }

    /// Returns whether no event beyond this position can match.
    fn is_over(&self, position: i64) -> bool {
        let (first, last) = self.positions;
        match (if self.backwards { first } else { last }, self.backwards) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end) | Bound::Excluded(end), true) => position < end,
            (Bound::Included(end) | Bound::Excluded(end), false) => position > end,
        }
    }
}

impl Streams {
    pub(super) fn new(engine: &Engine) -> Self {
        Self { engine: engine.clone(), trail: Trail::default() }
    }

    /// Sets the correlation id and the cause of the commits made through this handle, for example
    /// those of an event.
    #[must_use]
    pub fn correlated(
        mut self,
        correlation: impl Into<String>,
        causation: impl Into<String>,
    ) -> Self {
        self.trail = Trail::new(correlation, causation);
        self
    }

    /// Sets correlation id and cause as [`Streams::correlated`] does, if they are given. A commit
    /// without a correlation id gets a new one.
    #[must_use]
    pub fn under(mut self, correlation: Option<String>, causation: Option<String>) -> Self {
        self.trail = Trail { correlation, causation };
        self
    }

    /// Appends events to a stream, all or none: at the expected version, or at the end if none is
    /// given.
    pub async fn commit(
        &self,
        stream: &str,
        mut events: Vec<NewLogged>,
        expected: Option<Expected>,
    ) -> Result<Vec<StreamEvent>, Error> {
        let meta = self.trail.meta(&self.engine.shared().entropy);
        let null = Payload::null();
        events.iter_mut().filter(|event| event.meta == null).for_each(|it| it.meta = meta.clone());
        let (ws, name) = (self.engine.ws(), stream.to_owned());
        let commit = Commit { ws: ws.clone(), stream: name, events: events.clone(), expected };
        let command = Command::Stream { ws, command: StreamCommand::Commit(commit) };
        match self.engine.ask(command).await? {
            Answer::Stream(StreamAnswer::Committed(committed)) => {
                Ok(StreamEvent::committed(stream, events, &committed, 0))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the last version of a stream; `None` if nothing was ever committed to it.
    pub async fn head(&self, stream: &str) -> Result<Option<Head>, Error> {
        let row = stream_row(&**self.engine.store(), &self.engine.ws(), stream).await?;
        Ok(row.map(|row| Head { version: row.head, closed: row.closed }))
    }

    /// Returns the position of the last event of the workspace; 0 if there is none.
    pub async fn position(&self) -> Result<i64, Error> {
        let key = RowKey::LogHead(self.engine.ws());
        let snapshot = self.engine.store().read(ReadSet::default().row(key.clone())).await?;
        match snapshot.rows.get(&key) {
            Some(Some(Row::LogHead(head))) => Ok(head.pos),
            _ => Ok(0),
        }
    }

    /// Reads a page of events.
    pub async fn read(&self, query: &Query) -> Result<Page, Error> {
        if query.names.as_ref().is_some_and(BTreeSet::is_empty) {
            let cursor = query.from.unwrap_or(Cursor(query.start()));
            return Ok(Page { events: Vec::new(), cursor, more: false });
        }
        match &query.of {
            Of::Stream(name) => self.read_stream(query, name).await,
            Of::All => self.read_feed(query, "").await,
            Of::Family(prefix) => self.read_feed(query, prefix).await,
        }
    }

    async fn read_stream(&self, query: &Query, name: &str) -> Result<Page, Error> {
        let store = &**self.engine.store();
        let found = stream_row(store, &self.engine.ws(), name).await?;
        let start = match (query.version, query.backwards) {
            (Some(version), true) => version.saturating_add(1),
            (Some(version), false) => version,
            (None, true) => i64::MAX,
            (None, false) => 0,
        };
        let Cursor(mut at) = query.from.unwrap_or(Cursor(start));
        let mut page_of = Page { events: Vec::new(), cursor: Cursor(at), more: false };
        let Some(stream) = found else { return Ok(page_of) };
        if query.backwards {
            at = at.min(stream.head + 1);
        }
        let mut looked = 0;
        loop {
            let from = if query.backwards { (at - i64::from(CHUNK)).max(0) } else { at };
            let mut chunk = page(store, stream.id, from, CHUNK).await?;
            let full = chunk.len() >= CHUNK as usize;
            if query.backwards {
                chunk.retain(|event| event.version < at);
                chunk.reverse();
            }
            looked += chunk.len();
            for event in chunk {
                if page_of.events.len() >= query.limit {
                    (page_of.cursor, page_of.more) = (Cursor(at), true);
                    return Ok(page_of);
                }
                at = if query.backwards { event.version } else { event.version + 1 };
                if query.wants(&event) {
                    page_of.events.push(StreamEvent::logged(name, event));
                }
            }
            at = if query.backwards { from } else { at };
            page_of.cursor = Cursor(at);
            page_of.more = if query.backwards { from > 0 } else { full };
            if !page_of.more || looked >= LOOK {
                return Ok(page_of);
            }
        }
    }

    async fn read_feed(&self, query: &Query, prefix: &str) -> Result<Page, Error> {
        let (ws, mut at) = (self.engine.ws(), query.start());
        let mut found = Page { events: Vec::new(), cursor: Cursor(at), more: false };
        let (mut streams, mut looked) = (BTreeMap::new(), 0);
        loop {
            let scan = if query.backwards {
                Scan::FeedBack(ws.clone(), at)
            } else {
                Scan::Feed(ws.clone(), at)
            };
            let chunk = self.chunk(scan).await?;
            let full = chunk.len() >= CHUNK as usize;
            looked += chunk.len();
            self.learn(&mut streams, &chunk).await?;
            for event in chunk {
                if query.is_over(event.pos) {
                    return Ok(found);
                }
                if found.events.len() >= query.limit {
                    found.more = true;
                    return Ok(found);
                }
                at = event.pos;
                found.cursor = Cursor(at);
                // The row of the stream no longer exists: it was restarted under a new number.
                let Some(stream) = streams.get(&event.stream) else { continue };
                let name: &String = stream;
                if name.starts_with(prefix) && query.wants(&event) {
                    found.events.push(StreamEvent::logged(name, event));
                }
            }
            if !full || looked >= LOOK {
                found.more = full;
                return Ok(found);
            }
        }
    }

    async fn chunk(&self, scan: Scan) -> Result<Vec<StreamEventRow>, Error> {
        let reads = ReadSet::default().scan(scan.clone(), CHUNK);
        let snapshot = self.engine.store().read(reads).await?;
        let rows = snapshot.found(&scan).into_iter();
        Ok(rows
            .filter_map(
                |row| if let Row::StreamEventRow(it) = row { Some(it.clone()) } else { None },
            )
            .collect())
    }

    /// Reads the names of the streams that these events belong to.
    async fn learn(
        &self,
        streams: &mut BTreeMap<Seq, String>,
        events: &[StreamEventRow],
    ) -> Result<(), Error> {
        let unknown: BTreeSet<Seq> = events
            .iter()
            .map(|event| event.stream)
            .filter(|stream| !streams.contains_key(stream))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let scans = unknown.iter().map(|stream| Scan::StreamOf(*stream));
        let reads = scans.clone().fold(ReadSet::default(), |reads, scan| reads.scan(scan, 1));
        let snapshot = self.engine.store().read(reads).await?;
        for scan in scans {
            if let [Row::Stream(row::Stream { id, name, .. })] = snapshot.found(&scan)[..] {
                streams.insert(*id, name.clone());
            }
        }
        Ok(())
    }
}
