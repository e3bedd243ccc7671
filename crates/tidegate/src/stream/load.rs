//! Folds a stream from the newest matching snapshot, or from its first event.

use tidegate_core::{
    command::Refusal,
    id::Seq,
    json::Payload,
    reads::{ReadSet, Scan, Snapshot},
    row::{self, Row, RowKey, StreamEventRow, Workspace},
    stream::{SNAPSHOT, StreamRefusal},
    time::Timestamp,
};
use tidegate_store::Store;

use super::{Loaded, State, event};
use crate::error::Error;

/// Number of events read at a time.
const PAGE: u32 = 500;

/// Last event of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Last event of the stream.
    Head,
    /// Event with this version.
    Version(i64),
    /// Last event before the first event that is later than this time.
    Moment(Timestamp),
}

/// A folded stream.
#[derive(Clone, Debug)]
pub(crate) struct Folded<S> {
    pub(crate) loaded: Loaded<S>,
    /// Internal number of the stream, if it exists. A restarted stream has a new one.
    pub(crate) log: Option<Seq>,
    /// Version of the guard event, if the stream is closed.
    pub(crate) closed: Option<i64>,
}

/// Returns the kind of a state's snapshots: the type and its format version. A state reads only
/// snapshots of its own kind.
pub(super) fn kind<S: State>() -> String {
    format!("{}#{}", std::any::type_name::<S>(), S::SHAPE)
}

/// Loads a stream and folds its events into a state.
pub(crate) async fn load<S: State>(
    store: &dyn Store,
    ws: &Workspace,
    name: &str,
    until: Until,
) -> Result<Folded<S>, Error> {
    loop {
        let found = stream_row(store, ws, name).await?;
        let head = found.as_ref().map_or(-1, |stream| stream.head);
        if let Until::Version(version) = until
            && !(0..=head).contains(&version)
        {
            return Err(no_version(name, version, head));
        }
        let Some(stream) = found else {
            let loaded = Loaded { state: S::default(), version: -1 };
            return Ok(Folded { loaded, log: None, closed: None });
        };
        let (start, ahead) = start::<S>(store, &stream, until).await?;
        if let Some(loaded) = fold(store, &stream, start, ahead, until).await? {
            let closed = stream.closed.then_some(stream.head);
            return Ok(Folded { loaded, log: Some(stream.id), closed });
        }
        // The first events are missing. Either the stream was truncated and stays closed, or it was
        // restarted meanwhile.
        let now = stream_row(store, ws, name).await?;
        if now.is_some_and(|now| now.id == stream.id) {
            let (stream, guard) = (name.to_owned(), stream.head);
            return Err(Refusal::from(StreamRefusal::StreamClosed { stream, guard }).into());
        }
    }
}

/// Reads the row of a stream.
pub(super) async fn stream_row(
    store: &dyn Store,
    ws: &Workspace,
    name: &str,
) -> Result<Option<row::Stream>, Error> {
    let key = RowKey::Stream(ws.clone(), name.to_owned());
    let snapshot = store.read(ReadSet::default().row(key.clone())).await?;
    match snapshot.rows.get(&key) {
        Some(Some(Row::Stream(stream))) => Ok(Some(stream.clone())),
        _ => Ok(None),
    }
}

/// Returns the state that the fold starts from (a snapshot, or the empty state), and events that
/// may follow it. Snapshots are stored at predictable versions, so one read gets both.
async fn start<S: State>(
    store: &dyn Store,
    stream: &row::Stream,
    until: Until,
) -> Result<(Loaded<S>, Vec<StreamEventRow>), Error> {
    let limit = match until {
        Until::Head => i64::MAX,
        Until::Version(version) => version,
        // Snapshots are not used for a time, because the clock may have stepped back between the
        // events in them.
        Until::Moment(_) => -1,
    };
    let empty = Loaded { state: S::default(), version: -1 };
    let every = S::SNAPSHOT_EVERY.filter(|every| *every > 0 && limit >= 0);
    let Some(every) = every.map(i64::from) else { return Ok((empty, Vec::new())) };
    let key = RowKey::StreamSnapshot(stream.id, kind::<S>());
    let scan = Scan::Log(stream.id, (stream.head.min(limit) + 1) / every * every);
    let reads = ReadSet::default().row(key.clone()).scan(scan.clone(), PAGE);
    let mut snapshot = store.read(reads).await?;
    let Some(Some(Row::StreamSnapshot(kept))) = snapshot.rows.remove(&key) else {
        // There is no snapshot. If the stream is short, these are all of its events.
        return Ok((empty, events(snapshot, &scan)));
    };
    if kept.version > limit {
        return Ok((empty, Vec::new()));
    }
    match serde_json::from_str(kept.body.as_str()) {
        Ok(state) => {
            let mut ahead = events(snapshot, &scan);
            ahead.retain(|event| event.version > kept.version);
            Ok((Loaded { state, version: kept.version }, ahead))
        }
        Err(error) => {
            let (stream, kind) = (&stream.name, &kept.kind);
            tracing::debug!(stream, kind, %error, "skipping unreadable snapshot");
            Ok((empty, Vec::new()))
        }
    }
}

/// Continues the fold from `loaded` with the following events. Returns `None` if events are
/// missing.
async fn fold<S: State>(
    store: &dyn Store,
    stream: &row::Stream,
    mut loaded: Loaded<S>,
    ahead: Vec<StreamEventRow>,
    until: Until,
) -> Result<Option<Loaded<S>>, Error> {
    let next = loaded.version + 1;
    let mut ahead = Some(ahead).filter(|ahead| ahead.first().is_some_and(|it| it.version == next));
    loop {
        let known = ahead.take();
        let more = known.is_some();
        let page = match known {
            Some(known) => known,
            None => page(store, stream.id, loaded.version + 1, PAGE).await?,
        };
        let full = page.len() >= PAGE as usize;
        for logged in page {
            let beyond = match until {
                Until::Head => false,
                Until::Version(version) => logged.version > version,
                Until::Moment(moment) => logged.at > moment,
            };
            if logged.version != loaded.version + 1 {
                return Ok(None);
            }
            if beyond {
                return Ok(Some(loaded));
            }
            apply(&mut loaded.state, &stream.name, &logged)?;
            loaded.version = logged.version;
        }
        // The last event of an existing stream is never deleted, so reaching it proves that none is
        // missing.
        let whole = loaded.version >= stream.head;
        if !full && (whole || !more) {
            return Ok(whole.then_some(loaded));
        }
    }
}

/// Reads at most `limit` events of a stream, from version `from` on.
pub(super) async fn page(
    store: &dyn Store,
    stream: Seq,
    from: i64,
    limit: u32,
) -> Result<Vec<StreamEventRow>, Error> {
    let scan = Scan::Log(stream, from);
    let snapshot = store.read(ReadSet::default().scan(scan.clone(), limit)).await?;
    Ok(events(snapshot, &scan))
}

/// Takes the events that a scan has found from a snapshot.
fn events(mut snapshot: Snapshot, scan: &Scan) -> Vec<StreamEventRow> {
    let found = snapshot.scans.remove(scan).unwrap_or_default();
    let rows = found.keys.iter().filter_map(|key| snapshot.rows.remove(key).flatten());
    rows.filter_map(|row| if let Row::StreamEventRow(it) = row { Some(it) } else { None }).collect()
}

/// Applies one event to a state. Built-in events are skipped, except the first event of a restarted
/// stream: it has the state from before the restart.
fn apply<S: State>(state: &mut S, stream: &str, logged: &StreamEventRow) -> Result<(), Error> {
    let StreamEventRow { version, name, data, .. } = logged;
    let unreadable =
        |reason: String| Error::Value(format!("stream `{stream}`, version {version}: {reason}"));
    if name == SNAPSHOT && *data != Payload::null() {
        *state = serde_json::from_str(data.as_str())
            .map_err(|error| unreadable(format!("`{name}` cannot be read: {error}")))?;
    } else if !name.starts_with('$') {
        let event = event::read(name, data).map_err(|error| unreadable(error.to_string()))?;
        state.apply(&event);
    }
    Ok(())
}

fn no_version(stream: &str, version: i64, head: i64) -> Error {
    let end = if head < 0 { "has no events".to_owned() } else { format!("ends at version {head}") };
    Error::Value(format!("stream `{stream}` has no version {version}: it {end}"))
}
