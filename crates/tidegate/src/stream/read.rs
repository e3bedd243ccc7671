//! Streams without types: commit, read and ask where they end.

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
pub struct StreamEvent {
    /// Its id.
    pub id: EventId,
    /// Its stream.
    pub stream: String,
    /// Its place in the stream, from 0 without a gap.
    pub version: i64,
    /// Its place among all events of the workspace.
    pub position: i64,
    /// Its name. Those that begin with `$` are Tidegate's own.
    pub name: String,
    /// Its data, as it was given.
    pub data: Payload,
    /// When it was committed, by the store's clock.
    pub at: Timestamp,
    /// The same for all that follows from one beginning.
    pub correlation: Option<String>,
    /// The event, or the run's step, that it follows from.
    pub causation: Option<String>,
}

impl StreamEvent {
    /// The event in Rust.
    pub fn read<E: DeserializeOwned>(&self) -> Result<E, Error> {
        event::read(&self.name, &self.data).map_err(|error| {
            Error::Value(format!("stream `{}`, version {}: {error}", self.stream, self.version))
        })
    }

    /// An event as the store has it.
    pub(crate) fn logged(stream: &str, logged: StreamEventRow) -> Self {
        let Trail { correlation, causation } = Trail::read(&logged.meta);
        let StreamEventRow { id, version, pos: position, name, data, at, .. } = logged;
        let stream = stream.to_owned();
        Self { id, stream, version, position, name, data, at, correlation, causation }
    }

    /// Events as they were committed, from a place of the commit on.
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

/// All streams of a workspace.
#[derive(Clone, Debug)]
pub struct Streams {
    pub(super) engine: Engine,
    trail: Trail,
}

/// Where a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last event's version.
    pub version: i64,
    /// Whether a guard ended it: nothing more is committed.
    pub closed: bool,
}

/// What to read. Without a limit of its own it gives 100 events at a time.
#[derive(Clone, Debug)]
#[must_use = "a query is handed to `Streams::read`"]
pub struct Query {
    of: Of,
    /// Events of any name, if absent.
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

/// Where a read goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(i64);

/// A part of what was asked for.
#[derive(Clone, Debug)]
pub struct Page {
    /// The events, in the order that was asked for. May be fewer than the limit, or none, also
    /// where there is more: a read looks at so many events and no further.
    pub events: Vec<StreamEvent>,
    /// Where to go on; forwards also at the end, for what comes later.
    pub cursor: Cursor,
    /// Whether there was more.
    pub more: bool,
}

/// How many events are read from the store at a time.
const CHUNK: u32 = 500;

/// How many events one read looks at before it gives what it has found.
const LOOK: usize = 5000;

impl Query {
    fn of(of: Of) -> Self {
        let (positions, times) =
            ((Bound::Unbounded, Bound::Unbounded), (Bound::Unbounded, Bound::Unbounded));
        let (names, correlation, from, version) = Default::default();
        let (backwards, limit) = (false, 100);
        Self { of, names, positions, times, correlation, backwards, limit, from, version }
    }

    /// All events of the workspace, by position.
    pub fn all() -> Self {
        Self::of(Of::All)
    }

    /// The events of one stream, by version.
    pub fn stream(name: impl Into<String>) -> Self {
        Self::of(Of::Stream(name.into()))
    }

    /// The events of all streams whose names begin so, by position.
    pub fn family(prefix: impl Into<String>) -> Self {
        Self::of(Of::Family(prefix.into()))
    }

    /// Only events of these names; nothing, if there are none.
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only events at these positions.
    pub fn positions(mut self, positions: impl RangeBounds<i64>) -> Self {
        self.positions = (positions.start_bound().cloned(), positions.end_bound().cloned());
        self
    }

    /// Only events that were committed in this time.
    pub fn times(mut self, times: impl RangeBounds<Timestamp>) -> Self {
        self.times = (times.start_bound().cloned(), times.end_bound().cloned());
        self
    }

    /// Only events that belong to this.
    pub fn correlation(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// The newest first.
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }

    /// How many events at the most.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Goes on where another read has stopped.
    pub fn from(mut self, cursor: Cursor) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Begins with the event of this version, in either direction. Only of one stream.
    pub fn from_version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// Whether an event is wanted, its stream apart.
    fn wants(&self, event: &StreamEventRow) -> bool {
        let of = |correlation: &String| {
            Trail::read(&event.meta).correlation.as_ref() == Some(correlation)
        };
        self.names.as_ref().is_none_or(|names| names.contains(&event.name))
            && self.positions.contains(&event.pos)
            && self.times.contains(&event.at)
            && self.correlation.as_ref().is_none_or(of)
    }

    /// Where a read of the feed begins: before the first or behind the last position it wants.
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

    /// Whether nothing further on is wanted.
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

    /// What its commits belong to, and what caused them: handed on from an event.
    #[must_use]
    pub fn correlated(
        mut self,
        correlation: impl Into<String>,
        causation: impl Into<String>,
    ) -> Self {
        self.trail = Trail::new(correlation, causation);
        self
    }

    /// The same where one of them may be unknown: what belongs to nothing is a beginning.
    #[must_use]
    pub fn under(mut self, correlation: Option<String>, causation: Option<String>) -> Self {
        self.trail = Trail { correlation, causation };
        self
    }

    /// Appends events, all or none: at the version that is expected, or at the end.
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

    /// Where a stream ends; `None` if nothing was ever committed to it.
    pub async fn head(&self, stream: &str) -> Result<Option<Head>, Error> {
        let row = stream_row(&**self.engine.store(), &self.engine.ws(), stream).await?;
        Ok(row.map(|row| Head { version: row.head, closed: row.closed }))
    }

    /// The last position of all events of the workspace; 0 if there is none.
    pub async fn position(&self) -> Result<i64, Error> {
        let key = RowKey::LogHead(self.engine.ws());
        let snapshot = self.engine.store().read(ReadSet::default().row(key.clone())).await?;
        match snapshot.rows.get(&key) {
            Some(Some(Row::LogHead(head))) => Ok(head.pos),
            _ => Ok(0),
        }
    }

    /// Reads events, a page at a time.
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
                // A stream that is not there any more was begun anew since.
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

    /// Finds out the names of the streams that events belong to.
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
