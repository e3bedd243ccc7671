//! Reads that a decision requests from a store, and the snapshot that it gets.

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
    /// A workspace's definitions: shared by all decisions that use them, exclusive to change them.
    Definitions(Workspace),
    /// An event's name: shared to post, exclusive to begin a wait. Without it a post and a wait at
    /// the same time would not see each other, and a wake-up would be lost.
    Topic(Workspace, String),
}

/// Mode of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Held together with others.
    Shared,
    /// Held alone.
    Exclusive,
}

/// Query for rows by something other than their primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scan {
    /// The first runs in a gate's queue, by position. Locks them; needs the gate to be locked.
    Queue(GateKey),
    /// Ready runs in the order of their turns, as defined by [`Claim::take`]. Locks them and skips
    /// those that others have locked.
    Ready(Claim),
    /// Gates with a due time from this one on, the earliest first: due gates, then upcoming ones. A
    /// hint: nothing is locked.
    DueGates(Timestamp),
    /// Runs with a due time from this one on, the earliest first. A hint: nothing is locked.
    DueRuns(Timestamp),
    /// Chores with a due time from this one on, the earliest first. A hint: nothing is locked.
    DueChores(Timestamp),
    /// Chores that wake the waiters of an event's name, by number. A hint.
    Chores(Workspace, String),
    /// Runs owned by an engine. A hint: nothing is locked.
    Owned(EngineId),
    /// Runs of a definition that have not ended, by number, after one. A hint.
    Lane(Seq, Seq),
    /// Runs of the lanes that have not ended, below a number, newest first. A hint.
    Live(Vec<Seq>, Seq),
    /// Runs of the lanes that have ended in one of these states, below a number, newest first.
    Ended(Vec<Seq>, Vec<&'static str>, Seq),
    /// Engines that are not marked dead, and dead ones that still own runs: the engine that marked
    /// them may be gone before it has reaped all. A hint.
    Engines,
    /// All steps of a run, by id.
    Steps(Seq),
    /// All items of a batch, by position.
    Items(Seq),
    /// The paths that waits for an event of this name are filed under.
    WaitPaths(Workspace, String),
    /// Waits for an event of this name, filed under this path and value, by run and step, after
    /// these.
    Waits(Workspace, String, String, Vec<u8>, Seq, String),
    /// Signals of this name in a run's inbox, oldest first.
    Inbox(Seq, String),
    /// Receipts of an event.
    Receipts(Seq),
    /// The open window or buffer that collects events for the run of this number. A hint.
    Window(Seq),
    /// Gates whose key begins with these bytes, in key order. A hint.
    Gates(Vec<u8>),
    /// Events of a stream from a version on, in order.
    Log(Seq, i64),
    /// A workspace's stream events after a global position, in order.
    Feed(Workspace, i64),
    /// A reaction's streams that have work and no live lease, longest waiting first. Locks them and
    /// skips those that others have locked.
    Work(Workspace, String),
    /// Subscriptions in a workspace, by reaction and stream, after these. A hint.
    Subs(Workspace, String, String),
    /// Schedules that have a planned occurrence, the earliest first: due schedules, then upcoming
    /// ones. A hint.
    Schedules,
    /// All schedules of a workflow, by workspace, app and name. A hint.
    SchedulesOf(Workspace, String, String),
    /// Chunks of a run after a position, in order.
    Chunks(Seq, u32),
    /// All signals in a run's inbox, by name.
    Signals(Seq),
    /// Events after a number, by number.
    EventsAfter(Seq),
    /// Events with `after < id <= upto` that no run, ended run, batch or window references.
    LooseEvents(Seq, Seq),
    /// Ended runs after a number, by number.
    EndedAfter(Seq),
    /// Ended runs with `after < id <= upto` that no run references.
    LooseEnded(Seq, Seq),
    /// Receipts after a number, by number.
    ReceiptsAfter(Seq),
    /// Engines that are marked dead and own no runs, by id. A hint.
    Buriable,
    /// The streams of a workspace, by name, after one. A hint.
    Streams(Workspace, String),
    /// A workspace's stream events before a global position, newest first.
    FeedBack(Workspace, i64),
    /// The stream of a number. A hint.
    StreamOf(Seq),
    /// All snapshots of a stream, by kind.
    Snapshots(Seq),
    /// Posted events of a workspace below a number, newest first.
    EventsBelow(Workspace, Seq),
    /// Receipts of a workspace below a number, newest first.
    ReceiptsBelow(Workspace, Seq),
    /// Gates from one key on and before another, in key order. A hint.
    GatesBetween(Vec<u8>, Vec<u8>),
    /// Runs that have not ended and were started with an event, by number. A hint.
    RunsOf(Seq),
    /// Ended runs that were started with an event, by number.
    EndedOf(Seq),
    /// The batch items of an event, by run.
    ItemsOf(Seq),
    /// Stored answers of idempotent requests after a number, by number. A hint.
    RepliesAfter(Seq),
    /// All API keys, by id. A hint.
    ApiKeys,
}

impl Scan {
    /// Whether the rows found are locked.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Queue(_) | Self::Ready(_) | Self::Work(..))
    }
}

/// Query for a number of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Runs of a definition that have not ended.
    Live(Seq),
    /// Runs of a definition that an engine owns.
    Driven(Seq),
    /// Runs of a definition that wait for a time, an event, a signal, a child or their next
    /// attempt.
    Waiting(Seq),
    /// Runs of a definition that are paused.
    Paused(Seq),
    /// Runs of a turn that are ready and not leased.
    Ready(Workspace, Turn),
    /// Runs in a gate's queue.
    Queue(GateKey),
}

/// Reads of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Advisory locks, taken first, in order.
    pub latches: BTreeMap<Latch, Mode>,
    /// Workspaces whose definitions are needed.
    pub catalogs: BTreeSet<Workspace>,
    /// Rows by key.
    pub rows: BTreeSet<RowKey>,
    /// Scans, each with the maximum number of rows.
    pub scans: BTreeMap<Scan, u32>,
    /// Counts, each with its upper bound.
    pub counts: BTreeMap<Count, u32>,
}

impl ReadSet {
    /// Adds a row.
    #[must_use]
    pub fn row(mut self, key: RowKey) -> Self {
        self.rows.insert(key);
        self
    }

    /// Adds a scan, for at least `limit` rows.
    #[must_use]
    pub fn scan(mut self, scan: Scan, limit: u32) -> Self {
        let wanted = self.scans.entry(scan).or_default();
        *wanted = limit.max(*wanted);
        self
    }

    /// Adds a count, up to at least `limit`.
    #[must_use]
    pub fn count(mut self, count: Count, limit: u32) -> Self {
        let wanted = self.counts.entry(count).or_default();
        *wanted = limit.max(*wanted);
        self
    }

    /// Adds a workspace's definitions, under a shared latch.
    #[must_use]
    pub fn catalog(self, ws: &Workspace) -> Self {
        let mut reads = self.latch(Latch::Definitions(ws.clone()), Mode::Shared);
        reads.catalogs.insert(ws.clone());
        reads
    }

    /// Adds a latch; exclusive wins over shared.
    #[must_use]
    pub fn latch(mut self, latch: Latch, mode: Mode) -> Self {
        let held = self.latches.entry(latch).or_insert(mode);
        *held = mode.max(*held);
        self
    }

    /// Adds all reads of another set.
    pub fn merge(&mut self, other: ReadSet) {
        let mut all = std::mem::take(self);
        for (latch, mode) in other.latches {
            all = all.latch(latch, mode);
        }
        for (scan, limit) in other.scans {
            all = all.scan(scan, limit);
        }
        for (count, limit) in other.counts {
            all = all.count(count, limit);
        }
        all.catalogs.extend(other.catalogs);
        all.rows.extend(other.rows);
        *self = all;
    }

    /// Whether the set has no reads.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Rows that a store has read for a decision.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The store's clock, read after the locks were taken.
    pub now: Timestamp,
    /// The first of [`BLOCK`] sequence numbers that belong to this transaction, issued after the
    /// locks were taken.
    pub block: Seq,
    /// Every row requested by key or found by a scan; `None` where there is none.
    pub rows: BTreeMap<RowKey, Option<Row>>,
    /// The result of each scan, in its order. Shorter than its limit means complete.
    pub scans: BTreeMap<Scan, Found>,
    /// The result of each count, up to its limit.
    pub counts: BTreeMap<Count, Counted>,
    /// Rows of a locked kind that a scan found without locking them: usable to find out what to
    /// read, never for a decision.
    pub hints: BTreeMap<RowKey, Row>,
    /// Definitions by workspace.
    pub catalogs: BTreeMap<Workspace, Arc<Catalog>>,
}

impl Snapshot {
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

    /// Returns the rows that a scan found, in its order.
    pub fn found(&self, scan: &Scan) -> Vec<&Row> {
        let keys = self.scans.get(scan).into_iter().flat_map(|found| &found.keys);
        keys.filter_map(|key| match self.rows.get(key) {
            Some(row) => row.as_ref(),
            None => self.hints.get(key),
        })
        .collect()
    }
}

/// Result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The requested maximum.
    pub limit: u32,
    /// The rows' keys, in the scan's order.
    pub keys: Vec<RowKey>,
}

impl Found {
    /// Whether there may be more rows than requested.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= self.limit as usize
    }
}

/// Result of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The upper bound of the count.
    pub limit: u32,
    /// The number of rows; at the upper bound there may be more.
    pub count: u32,
}

/// Number of sequence numbers that a transaction gets.
pub const BLOCK: i64 = 4096;

/// Change of one row. A transaction has at most one per row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A row that did not exist. A store that finds it existing retries the transaction.
    Insert(Row),
    /// A row that existed, with its new contents.
    Update(Row),
    /// A row that existed.
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
