//! Simple store for tests: all rows are in a map.
//!
//! It panics where a database would not report an error: if a row of a locked kind is changed
//! without having been read under lock, an update could be lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    catalog::Catalog,
    draft::{Decided, Draft, Stop},
    id::Seq,
    json::Payload,
    reaction::Follower,
    reads::{BLOCK, Change, ReadSet, Scan, Snapshot},
    row::{Def, Phase, Row, RowKey, Stream, StreamEventRow, Subscription, Workspace},
    stream::{self, Commit, Committed, NewLogged},
    time::Timestamp,
    turn::Claim,
};

/// Maximum number of times that a decision may request more reads.
const MAX_ROUNDS: usize = 32;

/// The store: all rows, and the time.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Every row of the store.
    pub(crate) rows: BTreeMap<RowKey, Row>,
    /// The store's clock; tests move it.
    pub(crate) now: Timestamp,
    /// Rows that another transaction has locked. Claims skip them; a decision that reads them
    /// panics.
    pub(crate) locked: BTreeSet<RowKey>,
    blocks: i64,
}

impl World {
    /// Creates an empty store with its clock at a time.
    pub(crate) fn at_ms(ms: i64) -> Self {
        Self { now: Timestamp::from_ms(ms), ..Self::default() }
    }

    /// Advances the clock.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    /// Decides in one transaction: reads rows until none is missing, then applies the changes.
    #[track_caller]
    pub(crate) fn decide<T, E>(
        &mut self,
        mut decide: impl FnMut(&mut Draft) -> Decided<T, E>,
    ) -> Result<T, E> {
        let mut reads = ReadSet::default();
        for _ in 0..MAX_ROUNDS {
            let (snapshot, held) = self.read(&reads);
            let mut draft = Draft::new(snapshot);
            match draft.attempt(self.blocks.cast_unsigned(), &mut decide) {
                Ok(value) => {
                    self.apply(draft.changes(), &held);
                    return Ok(value);
                }
                Err(Stop::Need(more)) => {
                    let before = reads.clone();
                    reads.merge(*more);
                    assert_ne!(reads, before, "a decision requests rows that it already has");
                }
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(Stop::Full) => panic!("the command does not fit into one transaction"),
            }
        }
        panic!("a decision has requested more rows {MAX_ROUNDS} times in succession");
    }

    /// Returns the snapshot of a read set, and the keys of the rows that it locks.
    pub(crate) fn read(&mut self, reads: &ReadSet) -> (Snapshot, BTreeSet<RowKey>) {
        self.blocks += 1;
        let block = Seq(self.blocks * BLOCK);
        let mut snapshot = Snapshot { now: self.now, block, ..Snapshot::default() };
        snapshot.hold(&reads.latches);
        let mut held = BTreeSet::new();
        for (scan, limit) in &reads.scans {
            let mut keys = if let Scan::Ready(claim) = scan {
                self.ready(claim, *limit)
            } else {
                self.scan(scan)
            };
            if matches!(scan, Scan::Work(..)) {
                keys.retain(|key| !self.locked.contains(key));
            }
            keys.truncate(*limit as usize);
            if scan.is_locked() {
                held.extend(keys.iter().cloned());
            }
            let rows = keys.iter().filter_map(|key| self.rows.get(key).cloned());
            snapshot.add(scan.clone(), *limit, rows.collect());
        }
        for key in &reads.rows {
            assert!(!self.locked.contains(key), "another transaction has locked {key:?}");
            snapshot.rows.insert(key.clone(), self.rows.get(key).cloned());
            held.insert(key.clone());
        }
        for ws in &reads.catalogs {
            snapshot.catalogs.insert(ws.clone(), Arc::new(self.catalog(ws)));
        }
        (snapshot, held)
    }

    fn catalog(&self, ws: &Workspace) -> Catalog {
        let epoch = match self.rows.get(&RowKey::Epoch(ws.clone())) {
            Some(Row::Epoch(epoch)) => epoch.n,
            _ => 0,
        };
        let defs = self.rows.values().filter_map(|row| {
            let Row::Def(def) = row else { return None };
            (def.ws == *ws).then(|| Def::clone(def))
        });
        Catalog::build(epoch, defs.collect()).expect("the test's definitions are valid")
    }

    fn apply(&mut self, changes: Vec<Change>, held: &BTreeSet<RowKey>) {
        for change in changes {
            let key = change.key();
            let lost = key.is_locked() && !held.contains(&key);
            assert!(!lost, "a row was changed without having been read under lock: {key:?}");
            let was_there = self.rows.contains_key(&key);
            match change {
                Change::Insert(row) => {
                    assert!(!was_there, "the inserted row exists already: {key:?}");
                    self.rows.insert(key, row);
                }
                Change::Update(row) => {
                    assert!(was_there, "the updated row does not exist: {key:?}");
                    self.rows.insert(key, row);
                }
                Change::Delete(key) => {
                    let existed = self.rows.remove(&key).is_some();
                    assert!(existed, "the deleted row does not exist: {key:?}");
                }
            }
        }
    }

    /// Returns the ready runs that are not locked, in the order of their turns.
    fn ready(&self, claim: &Claim, limit: u32) -> Vec<RowKey> {
        let free = self.rows.iter().filter(|(key, _)| !self.locked.contains(key));
        let runs = free.filter_map(|(_, row)| row.as_run());
        let ready = runs.filter(|run| run.phase == Phase::Ready);
        claim.take(ready, limit).iter().map(|run| RowKey::Run(run.id.seq)).collect()
    }

    /// Returns all rows of a scan, in the order of the scan. Examines every row of the store.
    fn scan(&self, scan: &Scan) -> Vec<RowKey> {
        let mut found: Vec<(Order, RowKey)> = self
            .rows
            .iter()
            .filter_map(|(key, row)| Some((self.place(scan, row)?, key.clone())))
            .collect();
        found.sort();
        if matches!(scan, Scan::QueueEnd(_)) {
            found.reverse();
        }
        found.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns a row's position in a scan; `None` if the scan does not find it.
    #[expect(clippy::too_many_lines, reason = "one or two lines for every kind of scan")]
    fn place(&self, scan: &Scan, row: &Row) -> Option<Order> {
        match (scan, row) {
            (
                Scan::Queue(_) | Scan::QueueTier(..) | Scan::QueueEnd(_) | Scan::DueRuns(_),
                Row::Run(_),
            ) => self.place_of_run(scan, row),
            (Scan::DueGates(from), Row::Gate(gate)) => due(gate.due, *from),
            (Scan::Gates(prefix), Row::Gate(gate)) => {
                gate.key.as_bytes().starts_with(prefix).then(Order::default)
            }
            (Scan::Owned(engine), Row::Run(run)) => {
                (run.owner == Some(*engine)).then(Order::default)
            }
            (Scan::Lane(lane, after), Row::Run(run)) => {
                (run.lane == *lane && run.id.seq > *after).then(Order::default)
            }
            (Scan::Engines, Row::Engine(engine)) => {
                let owns = |row: &Row| row.as_run().is_some_and(|run| run.owner == Some(engine.id));
                (!engine.dead || self.rows.values().any(owns)).then(Order::default)
            }
            (Scan::Steps(run), Row::Step(step)) => (step.run == *run).then(Order::default),
            (Scan::Items(run), Row::Item(item)) => (item.run == *run).then(Order::default),
            (Scan::WaitPaths(ws, name), Row::WaitPath(path)) => {
                (path.ws == *ws && path.name == *name).then(Order::default)
            }
            (Scan::DueChores(from), Row::Chore(chore)) => due(chore.due, *from),
            (Scan::ChoresBelow(ws, topic, below), Row::Chore(chore)) => {
                let same = chore.ws == *ws && chore.topic.as_ref() == Some(topic);
                let wanted = same && chore.id.seq < *below;
                wanted.then(|| Order { at: -chore.id.seq.0, ..Order::default() })
            }
            (Scan::Chores(ws, topic), Row::Chore(chore)) => {
                (chore.ws == *ws && chore.topic.as_ref() == Some(topic)).then(Order::default)
            }
            (Scan::Waits(ws, name, path, value, run, step), Row::Wait(wait)) => {
                let same = wait.ws == *ws && wait.name == *name;
                let same = same && (wait.run, &wait.step) > (*run, step);
                (same && wait.path == *path && wait.value == *value).then(Order::default)
            }
            (Scan::Listening(number, from), Row::Run(run)) => {
                let same = run.listens() == Some(*number) && run.id.seq >= *from;
                same.then(Order::default)
            }
            (Scan::Inbox(run, name), Row::Signal(signal)) => {
                (signal.run == *run && signal.name == *name).then(Order::default)
            }
            (Scan::Receipts(event), Row::Receipt(receipt)) => {
                (receipt.event == *event).then(Order::default)
            }
            (Scan::Log(stream, from), Row::StreamEventRow(event)) => {
                (event.stream == *stream && event.version >= *from).then(Order::default)
            }
            (Scan::Feed(ws, after), Row::StreamEventRow(event)) => {
                let wanted = event.ws == *ws && event.pos > *after;
                wanted.then(|| Order { at: event.pos, ..Order::default() })
            }
            (Scan::Work(ws, reaction), Row::Subscription(sub)) => {
                let wanted = sub.ws == *ws && sub.reaction == *reaction;
                let wanted = wanted && sub.is_work(self.now);
                wanted.then(|| Order { at: sub.since.micros(), ..Order::default() })
            }
            (Scan::Schedules, Row::Schedule(it)) => {
                it.next.map(|next| Order { at: next.micros(), ..Order::default() })
            }
            (Scan::SchedulesOf(ws, app, name), Row::Schedule(it)) => {
                let same = it.ws == *ws && it.app == *app && it.workflow == *name;
                same.then(Order::default)
            }
            (Scan::Chunks(run, after), Row::Chunk(it)) => (it.run == *run && it.seq > *after)
                .then(|| Order { at: it.seq.into(), ..Order::default() }),
            (Scan::Signals(run), Row::Signal(it)) => (it.run == *run).then(Order::default),
            (Scan::Buriable, Row::Engine(engine)) => {
                let owns = |row: &Row| row.as_run().is_some_and(|run| run.owner == Some(engine.id));
                (engine.dead && !self.rows.values().any(owns)).then(Order::default)
            }
            (Scan::Subs(ws, reaction, stream), Row::Subscription(sub)) => {
                let after = (&sub.reaction, &sub.stream) > (reaction, stream);
                (sub.ws == *ws && after).then(Order::default)
            }
            (Scan::Streams(ws, after), Row::Stream(it)) => {
                (it.ws == *ws && it.name > *after).then(Order::default)
            }
            (Scan::Snapshots(stream), Row::StreamSnapshot(it)) => {
                (it.stream == *stream).then(Order::default)
            }
            _ => None,
        }
    }

    fn place_of_run(&self, scan: &Scan, row: &Row) -> Option<Order> {
        let Row::Run(run) = row else { return None };
        match (scan, run.phase) {
            (
                Scan::Queue(key) | Scan::QueueTier(key, _) | Scan::QueueEnd(key),
                Phase::Queued { gate, place },
            ) => {
                if matches!(scan, Scan::QueueTier(_, tier) if *tier != place.tier) {
                    return None;
                }
                let Some(Row::Gate(found)) = self.rows.get(&RowKey::Gate(key.clone())) else {
                    return None;
                };
                let (at, seq) = (place.rank.at.micros(), place.rank.seq);
                (found.id == gate).then_some(Order { tier: place.tier, at, seq })
            }
            (Scan::DueRuns(from), _) => due(run.due(), *from),
            _ => None,
        }
    }
}

/// Workspace of tests that need only one.
pub(crate) fn ws() -> Workspace {
    "default".into()
}

/// Methods for tests of streams.
impl World {
    /// Commits `count` events to a stream, at its end.
    #[track_caller]
    pub(crate) fn append(
        &mut self,
        stream: &str,
        count: usize,
        followers: &[Follower],
    ) -> Committed {
        let event =
            NewLogged { name: "happened".to_owned(), data: Payload::null(), meta: Payload::null() };
        let events = vec![event; count];
        let commit = Commit { ws: ws(), stream: stream.to_owned(), events, expected: None };
        self.decide(|draft| stream::commit(draft, &commit, followers)).unwrap()
    }

    /// Returns a reaction's subscription to a stream.
    #[track_caller]
    pub(crate) fn sub(&self, reaction: &str, stream: &str) -> &Subscription {
        match self.rows.get(&RowKey::Subscription(ws(), reaction.to_owned(), stream.to_owned())) {
            Some(Row::Subscription(sub)) => sub,
            other => panic!("`{reaction}` has no subscription to `{stream}`: {other:?}"),
        }
    }

    /// Returns all subscriptions, by reaction and stream.
    pub(crate) fn subs(&self) -> impl Iterator<Item = &Subscription> {
        let rows = self.rows.values();
        rows.filter_map(|row| if let Row::Subscription(sub) = row { Some(sub) } else { None })
    }

    /// Returns a stream's head.
    pub(crate) fn stream(&self, name: &str) -> Option<&Stream> {
        match self.rows.get(&RowKey::Stream(ws(), name.to_owned())) {
            Some(Row::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// Returns all events of a stream, in order.
    pub(crate) fn log(&self, name: &str) -> Vec<&StreamEventRow> {
        let Some(stream) = self.stream(name) else { return Vec::new() };
        let (from, to) =
            (RowKey::StreamEventRow(stream.id, 0), RowKey::StreamEventRow(stream.id, i64::MAX));
        let rows = self.rows.range(from..=to).map(|(_, row)| row);
        rows.filter_map(|row| if let Row::StreamEventRow(event) = row { Some(event) } else { None })
            .collect()
    }
}

/// Sort key of a scan; the row's key breaks ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    tier: i64,
    at: i64,
    seq: Seq,
}

fn due(due: Option<Timestamp>, from: Timestamp) -> Option<Order> {
    due.filter(|due| *due >= from).map(|due| Order { at: due.micros(), ..Order::default() })
}
