//! Untyped streams: commits, reads and heads.

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
    /// Version: its index in the stream, from 0 without a gap.
    pub version: i64,
    /// Position among all events of the workspace.
    pub position: i64,
    /// Name of the event. Names that begin with `$` are built in.
    pub name: String,
    /// Data, as it was given.
    pub data: Payload,
    /// Time of the commit, by the store's clock.
    pub at: Timestamp,
    /// Correlation id, the same for all events with one origin.
    pub correlation: Option<String>,
    /// Event, or step of a run, that caused it.
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

    /// Creates events from a commit, from an index within the commit on.
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

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// Version of the last event.
    pub version: i64,
    /// Whether a guard has closed it: nothing more is committed.
    pub closed: bool,
}

/// Query for [`Streams::read`].
///
/// Returns 100 events at a time unless a limit is set.
#[derive(Clone, Debug)]
#[must_use = "a query is handed to `Streams::read`"]
pub struct Query {
    of: Of,
    /// Names to include; all, if `None`.
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

/// Cursor of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(i64);

/// A page of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// Events, in the requested order. There may be fewer than the limit, or none, even if there
    /// are more: a read checks a limited number of events.
    pub events: Vec<StreamEvent>,
    /// Cursor to continue from; forwards also at the end, for later events.
    pub cursor: Cursor,
    /// Whether there was more.
    pub more: bool,
}

/// Number of events read from the store at a time.
const CHUNK: u32 = 500;

/// Number of events that one read checks before it returns what it has found.
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

    /// Includes only events of these names; none, if the list is empty.
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

    /// Includes only events of this correlation.
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

    /// Begins with the event of this version, in either direction.
    ///
    /// Applies to queries of one stream only.
    pub fn from_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// Returns whether an event matches, apart from its stream.
    fn wants(&self, event: &StreamEventRow) -> bool {
        let of = |correlation: &String| {
            Trail::read(&event.meta).correlation.as_ref() == Some(correlation)
        };
        self.names.as_ref().is_none_or(|names| names.contains(&event.name))
            && self.positions.contains(&event.pos)
            && self.times.contains(&event.at)
            && self.correlation.as_ref().is_none_or(of)
    }

    /// Returns where a read of the feed begins: before the first or after the last matching
    /// position.
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

    /// Returns whether nothing beyond this position can match.
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

    /// Sets the correlation and the causation of its commits, passed on from an event.
    #[must_use]
    pub fn correlated(
        mut self,
        correlation: impl Into<String>,
        causation: impl Into<String>,
    ) -> Self {
        self.trail = Trail::new(correlation, causation);
        self
    }

    /// Sets the correlation and the causation as [`Streams::correlated`] does, if they are known:
    /// commits without a correlation start a new one.
    #[must_use]
    pub fn under(mut self, correlation: Option<String>, causation: Option<String>) -> Self {
        self.trail = Trail { correlation, causation };
        self
    }

    /// Appends events, all or none: at the expected version, or at the end.
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

    /// Returns the end of a stream; `None` if nothing was ever committed to it.
    pub async fn head(&self, stream: &str) -> Result<Option<Head>, Error> {
        let row = stream_row(&**self.engine.store(), &self.engine.ws(), stream).await?;
        Ok(row.map(|row| Head { version: row.head, closed: row.closed }))
    }

    /// Returns the last position of all events of the workspace; 0 if there is none.
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
                // A stream that no longer exists was restarted since.
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

    /// Looks up the names of the streams that events belong to.
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
