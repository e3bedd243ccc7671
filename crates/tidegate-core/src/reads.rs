//! The reads that a decision requests from a store, and the snapshot with their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    catalog::Catalog,
    id::Seq,
    row::{EngineId, GateKey, Row, RowKey, Workspace},
    time::Timestamp,
    turn::{Claim, Turn},
};

/// Advisory lock: a lock that does not belong to a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latch {
    /// Latch of a workspace's definitions: shared for decisions that use them, exclusive for those
    /// that change them.
    Definitions(Workspace),
    /// Latch of an event's name: shared to post an event, exclusive to begin the first wait on a
    /// path. A post reads the paths under it, so it knows all paths on which a run may wait.
    Topic(Workspace, String),
    /// Latch of a match value of an event: shared to post an event with this value at the path,
    /// exclusive to begin a wait for it. Without it an event and a wait at the same time would not
    /// see each other, and the run would not be woken.
    Match(Workspace, String, u8),
}

impl Latch {
    /// Returns the latch of events of this name that have this encoded value at this path.
    ///
    /// Values share 256 latches per event name, because one transaction may post 1,000 events, and
    /// the table of locks of a PostgreSQL server has room for a few thousand.
    pub fn matching(ws: &Workspace, name: &str, path: &str, value: &[u8]) -> Latch {
        // FNV-1a. All versions must compute the same number, as for `Topic`.
        let bytes = path.bytes().chain([0]).chain(value.iter().copied());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let number = hash.to_be_bytes().into_iter().fold(0, |folded, byte| folded ^ byte);
        Latch::Match(ws.clone(), name.to_owned(), number)
    }
}

/// Mode of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Several transactions can hold the latch at the same time.
    Shared,
    /// Only one transaction can hold the latch.
    Exclusive,
}

/// Query for rows by other conditions than their primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scan {
    /// The first runs in a gate's queue, by position. Locks them. The gate must be locked already.
    Queue(GateKey),
    /// The first runs of one tier in a gate's queue, by rank. Locks them. The gate must be locked
    /// already.
    QueueTier(GateKey, i64),
    /// The last runs in a gate's queue, the last one first. A hint: no row is locked, but the queue
    /// does not change while the gate is locked.
    QueueEnd(GateKey),
    /// Ready runs in the order of their turns, as defined by [`Claim::take`]. Locks them, and skips
    /// rows that other transactions have locked.
    Ready(Claim),
    /// Gates with this due time or a later one, the earliest first: due gates, then upcoming ones.
    /// A hint: no row is locked.
    DueGates(Timestamp),
    /// Runs with this due time or a later one, the earliest first. A hint: no row is locked.
    DueRuns(Timestamp),
    /// Chores with this due time or a later one, the earliest first. A hint: no row is locked.
    DueChores(Timestamp),
    /// Chores that wake runs which wait for events of this name, by number. A hint.
    Chores(Workspace, String),
    /// Chores of a workspace with this topic and a number below the given one, newest first. A hint.
    ChoresBelow(Workspace, String, Seq),
    /// Runs owned by an engine. A hint: no row is locked.
    Owned(EngineId),
    /// Live runs of a lane with a number above the given one, by number. A hint.
    Lane(Seq, Seq),
    /// Live runs of the lanes with a number below the given one, newest first. A hint.
    Live(Vec<Seq>, Seq),
    /// Ended runs of the lanes with one of these states and a number below the given one, newest
    /// first.
    Ended(Vec<Seq>, Vec<&'static str>, Seq),
    /// Engines that are not marked dead, and dead engines that still own runs, because the engine
    /// that marked them may have died before it has taken all their runs. A hint.
    Engines,
    /// All steps of a run, by id.
    Steps(Seq),
    /// All items of a batch, by position.
    Items(Seq),
    /// The paths on which waits for events of this name match.
    WaitPaths(Workspace, String),
    /// Waits for events of this name with this path and value, by run and step, after the given
    /// run and step.
    Waits(Workspace, String, String, Vec<u8>, Seq, String),
    /// Runs whose first listener has this number, by number, from the given one on. A hint.
    Listening(i64, Seq),
    /// Signals of this name in a run's inbox, oldest first.
    Inbox(Seq, String),
    /// Receipts of an event.
    Receipts(Seq),
    /// The open window or buffer that collects events for the run with this number. A hint.
    Window(Seq),
    /// Gates whose key begins with these bytes, in key order. A hint.
    Gates(Vec<u8>),
    /// Events of a stream with this version or a later one, in order.
    Log(Seq, i64),
    /// A workspace's stream events after a global position, in order.
    Feed(Workspace, i64),
    /// Subscriptions of a reaction that have events and no valid lease, the longest waiting first.
    /// Locks them, and skips rows that other transactions have locked.
    Work(Workspace, String),
    /// Subscriptions of a workspace by reaction and stream, after the given reaction and stream. A
    /// hint.
    Subs(Workspace, String, String),
    /// Schedules that have a planned occurrence, the earliest first: due schedules, then upcoming
    /// ones. A hint.
    Schedules,
    /// All schedules of a workflow, by workspace, app and name. A hint.
    SchedulesOf(Workspace, String, String),
    /// Output chunks of a run after a position, in order.
    Chunks(Seq, u32),
    /// All signals in a run's inbox, by name.
    Signals(Seq),
    /// Events with a number above the given one, by number.
    EventsAfter(Seq),
    /// Events with `after < id <= upto` that no run, ended run, batch or window references.
    LooseEvents(Seq, Seq),
    /// Ended runs with a number above the given one, by number.
    EndedAfter(Seq),
    /// Ended runs with `after < id <= upto` that no run references.
    LooseEnded(Seq, Seq),
    /// Receipts with a number above the given one, by number.
    ReceiptsAfter(Seq),
    /// Engines that are marked dead and own no runs, by id. A hint.
    Buriable,
    /// The streams of a workspace by name, after the given name. A hint.
    Streams(Workspace, String),
    /// A workspace's stream events before a global position, newest first.
    FeedBack(Workspace, i64),
    /// The stream with this number. A hint.
    StreamOf(Seq),
    /// All snapshots of a stream, by kind.
    Snapshots(Seq),
    /// Posted events of a workspace with a number below the given one, newest first.
    EventsBelow(Workspace, Seq),
    /// Receipts of a workspace with a number below the given one, newest first.
    ReceiptsBelow(Workspace, Seq),
    /// Gates with `from <= key < to`, in key order. A hint.
    GatesBetween(Vec<u8>, Vec<u8>),
    /// Live runs that this event has started, by number. A hint.
    RunsOf(Seq),
    /// Ended runs that this event has started, by number.
    EndedOf(Seq),
    /// The batch items of an event, by run.
    ItemsOf(Seq),
    /// Stored answers of idempotent requests with a number above the given one, by number. A hint.
    RepliesAfter(Seq),
    /// All API keys, by id. A hint.
    ApiKeys,
    /// Rows of the audit log with a number above the given one, by number.
    AuditAfter(Seq),
    /// Rows of a workspace's audit log with a number below the given one, newest first.
    AuditBelow(Workspace, Seq),
    /// Rows of a workspace's audit log on one subject with a number below the given one, newest
    /// first.
    AuditOf(Workspace, String, Seq),
}

impl Scan {
    /// Whether the scan locks the rows that it finds.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Queue(_) | Self::QueueTier(..) | Self::Ready(_) | Self::Work(..))
    }
}

/// Query that counts rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Live runs of a lane.
    Live(Seq),
    /// Runs of a lane that an engine owns.
    Driven(Seq),
    /// Runs of a lane that wait for a time, an event, a signal, a child or their next attempt.
    Waiting(Seq),
    /// Runs of a lane that are paused.
    Paused(Seq),
    /// Runs with this turn that are ready and not leased.
    Ready(Workspace, Turn),
    /// Runs in a gate's queue.
    Queue(GateKey),
}

/// The set of reads that a decision needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Advisory locks, taken first, in order.
    pub latches: BTreeMap<Latch, Mode>,
    /// The workspaces whose definitions are needed.
    pub catalogs: BTreeSet<Workspace>,
    /// The rows to read by key.
    pub rows: BTreeSet<RowKey>,
    /// The scans, each with the maximum number of rows.
    pub scans: BTreeMap<Scan, u32>,
    /// The counts, each with its upper bound.
    pub counts: BTreeMap<Count, u32>,
}

impl ReadSet {
    /// Adds a row.
    #[must_use]
    pub fn row(mut self, key: RowKey) -> Self {
        self.rows.insert(key);
        self
    }

    /// Adds a scan with the given limit, or a higher one if the set has the scan already.
    #[must_use]
    pub fn scan(mut self, scan: Scan, limit: u32) -> Self {
        let wanted = self.scans.entry(scan).or_default();
        *wanted = limit.max(*wanted);
        self
    }

    /// Adds a count with the given limit, or a higher one if the set has the count already.
    #[must_use]
    pub fn count(mut self, count: Count, limit: u32) -> Self {
        let wanted = self.counts.entry(count).or_default();
        *wanted = limit.max(*wanted);
        self
    }

    /// Adds a workspace's definitions, with their shared latch.
    #[must_use]
    pub fn catalog(self, ws: &Workspace) -> Self {
        let mut reads = self.latch(Latch::Definitions(ws.clone()), Mode::Shared);
        reads.catalogs.insert(ws.clone());
        reads
    }

    /// Adds a latch. If it is requested in both modes, it is exclusive.
    #[must_use]
    pub fn latch(mut self, latch: Latch, mode: Mode) -> Self {
        let held = self.latches.entry(latch).or_insert(mode);
        *held = mode.max(*held);
        self
    }

    /// Adds all reads of another set.
    pub fn merge(&mut self, other: ReadSet) {
        for (latch, mode) in other.latches {
            let held = self.latches.entry(latch).or_insert(mode);
            *held = mode.max(*held);
        }
        for (scan, limit) in other.scans {
            let wanted = self.scans.entry(scan).or_default();
            *wanted = limit.max(*wanted);
        }
        for (count, limit) in other.counts {
            let wanted = self.counts.entry(count).or_default();
            *wanted = limit.max(*wanted);
        }
        self.catalogs.extend(other.catalogs);
        self.rows.extend(other.rows);
    }

    /// Whether the set has no reads.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Rows that a store has read for a decision.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The time by the store's clock, read after the locks were taken.
    pub now: Timestamp,
    /// The first of the [`BLOCK`] sequence numbers of this transaction, given after the locks were
    /// taken.
    pub block: Seq,
    /// The advisory locks that the transaction holds. A store without concurrent writers adds the
    /// requested ones without taking them.
    pub latches: BTreeMap<Latch, Mode>,
    /// Every row that was requested by key or found by a scan; `None` for a row that does not
    /// exist.
    pub rows: BTreeMap<RowKey, Option<Row>>,
    /// The result of each scan, in the order of the scan. If it has fewer rows than the limit, it
    /// is complete.
    pub scans: BTreeMap<Scan, Found>,
    /// The result of each count, up to its limit.
    pub counts: BTreeMap<Count, Counted>,
    /// Rows that a scan found without a lock, although rows of this kind are locked before use.
    /// They say which rows to read next; nothing is decided on them.
    pub hints: BTreeMap<RowKey, Row>,
    /// Definitions by workspace.
    pub catalogs: BTreeMap<Workspace, Arc<Catalog>>,
}

impl Snapshot {
    /// Adds the latches that the transaction holds.
    pub fn hold(&mut self, latches: &BTreeMap<Latch, Mode>) {
        for (latch, mode) in latches {
            let held = self.latches.entry(latch.clone()).or_insert(*mode);
            *held = (*held).max(*mode);
        }
    }

    /// Adds the result of a scan.
    pub fn add(&mut self, scan: Scan, limit: u32, rows: Vec<Row>) {
        let keys = rows.iter().map(Row::key).collect();
        for row in rows {
            let key = row.key();
            if key.is_locked() && !scan.is_locked() {
                self.hints.insert(key, row);
            } else {
                self.rows.insert(key, Some(row));
            }
        }
        self.scans.insert(scan, Found { limit, keys });
    }

    /// Returns the rows that a scan found, in the order of the scan.
    pub fn found(&self, scan: &Scan) -> Vec<&Row> {
        let keys = self.scans.get(scan).into_iter().flat_map(|found| &found.keys);
        keys.filter_map(|key| self.row(key)).collect()
    }

    /// Returns a row that was read, also one that was read without a lock.
    pub fn row(&self, key: &RowKey) -> Option<&Row> {
        match self.rows.get(key) {
            Some(row) => row.as_ref(),
            None => self.hints.get(key),
        }
    }
}

/// Result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The requested maximum number of rows.
    pub limit: u32,
    /// The keys of the rows, in the order of the scan.
    pub keys: Vec<RowKey>,
}

impl Found {
    /// Whether the scan has reached its limit, so that there may be more rows.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= self.limit as usize
    }
}

/// Result of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The upper bound of the count.
    pub limit: u32,
    /// The number of rows. If it is equal to the upper bound, there may be more.
    pub count: u32,
}

/// Number of sequence numbers that a transaction gets.
pub const BLOCK: i64 = 4096;

/// Change of one row. A transaction has at most one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Inserts a row that does not exist. If the store finds that it exists, it retries the
    /// transaction.
    Insert(Row),
    /// Replaces the contents of a row that exists.
    Update(Row),
    /// Deletes a row that exists.
    Delete(RowKey),
}

impl Change {
    /// Returns the key of the changed row.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Insert(row) | Self::Update(row) => row.key(),
            Self::Delete(key) => key.clone(),
        }
    }
}
