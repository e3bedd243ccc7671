//! Snapshots of a stream's state, so that the state need not be computed from the first event.
//!
//! A snapshot is written after a commit. It is only an optimization: if it is missing, the state is
//! computed from the events. It is deleted together with the events that it summarizes.

use super::{StreamRefusal, ask, limits, stream_row};
use crate::{
    draft::{Decided, Draft, Stop},
    id::Seq,
    json::Payload,
    reads::Scan,
    row::{Row, RowKey, Stream, StreamSnapshot, Workspace},
};

/// Maximum size of a snapshot. A larger state is always computed from the events.
pub const MAX_SNAPSHOT_BYTES: usize = limits::MAX_COMMIT_BYTES;

/// Expected number of snapshots of a stream: one for each type of state.
const FEW: u32 = 8;

/// A snapshot to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSnapshot {
    /// The stream's name.
    pub stream: String,
    /// The stream's number when the state was computed.
    pub log: Seq,
    /// The type of the state and the version of its schema.
    pub kind: String,
    /// The version of the last event that the state includes.
    pub version: i64,
    /// The state.
    pub body: Payload,
}

/// Stores a snapshot, unless there is a newer one or the stream was restarted.
pub fn keep_snapshot(
    draft: &mut Draft,
    ws: &Workspace,
    new: &NewSnapshot,
) -> Decided<bool, StreamRefusal> {
    let size = new.body.as_str().len();
    limits::fits(&new.stream, "a snapshot", size, MAX_SNAPSHOT_BYTES).map_err(Stop::Refused)?;
    let key = RowKey::StreamSnapshot(new.log, new.kind.clone());
    ask(draft, [RowKey::Stream(ws.clone(), new.stream.clone()), key.clone()])?;
    let open = |it: &Stream| it.id == new.log && it.head >= new.version && !it.closed;
    let newer = match draft.row(&key)? {
        Some(Row::StreamSnapshot(old)) => old.version >= new.version,
        _ => false,
    };
    if newer || !stream_row(draft, ws, &new.stream)?.is_some_and(|stream| open(&stream)) {
        return Ok(false);
    }
    let NewSnapshot { log: stream, kind, version, body, .. } = new.clone();
    draft.put(StreamSnapshot { stream, kind, version, body });
    Ok(true)
}

/// Deletes all snapshots of a stream.
pub(super) fn forget_snapshots<E>(draft: &mut Draft, stream: Seq) -> Decided<(), E> {
    let found = draft.found_all(&Scan::Snapshots(stream), FEW)?;
    let (from, to) = (
        RowKey::StreamSnapshot(stream, String::new()),
        RowKey::StreamSnapshot(Seq(stream.0.saturating_add(1)), String::new()),
    );
    let keys: Vec<RowKey> =
        found.into_iter().chain(draft.written(from, to)).map(Row::key).collect();
    for key in keys {
        draft.delete(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        stream::{Close, close, truncate},
        testing::{World, ws},
    };

    fn kept(world: &mut World, log: Seq, version: i64) -> bool {
        let (stream, kind) = ("orders-1".to_owned(), "Total#1".to_owned());
        let new = NewSnapshot { stream, log, kind, version, body: Payload::null() };
        world.decide(|draft| keep_snapshot(draft, &ws(), &new)).unwrap()
    }

    fn snapshots(world: &World) -> Vec<i64> {
        let version = |row: &Row| {
            if let Row::StreamSnapshot(row) = row { Some(row.version) } else { None }
        };
        world.rows.values().filter_map(version).collect()
    }

    #[test]
    fn only_a_newer_snapshot_of_the_stream_as_it_is_now_is_kept() {
        let mut world = World::at_ms(5);
        world.append("orders-1", 4, &[]);
        let log = world.stream("orders-1").unwrap().id;
        let table = [
            (log, 2, true, 2),
            (log, 1, false, 2),
            (log, 2, false, 2),
            (log, 3, true, 3),
            (log, 4, false, 3),
            (Seq(log.0 + 1000), 3, false, 3),
        ];
        for (log, version, keeps, then) in table {
            assert_eq!(kept(&mut world, log, version), keeps, "version {version}");
            assert_eq!(snapshots(&world), [then]);
        }
    }

    #[test]
    fn a_snapshot_goes_with_the_events_that_it_sums_up() {
        let mut world = World::at_ms(5);
        world.append("orders-1", 4, &[]);
        let log = world.stream("orders-1").unwrap().id;
        assert!(kept(&mut world, log, 3));
        let (stream, meta) = ("orders-1".to_owned(), Payload::null());
        let command = Close { ws: ws(), stream, expected: None, meta };
        world.decide(|draft| close(draft, &command, &[])).unwrap();
        assert_eq!(snapshots(&world), [3]);
        world.decide(|draft| truncate(draft, &ws(), "orders-1", &[], 1)).unwrap();
        assert_eq!(snapshots(&world), Vec::<i64>::new());
        assert!(!kept(&mut world, log, 4), "a snapshot of a closed stream was stored");
    }
}
