//! `Meter`, a store wrapper that counts calls and row writes, and `Witness`, which checks that each
//! run is driven once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    id::Seq,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tidegate_store::{Decide, Decision, Store, StoreError};
use tokio::sync::{Notify, watch};

use crate::{allocations, figures::cpu_micros};

/// Store wrapper that counts calls and changed rows, and waits for the ends of runs.
#[derive(Debug)]
pub(crate) struct Meter {
    inner: Arc<dyn Store>,
    /// The processor time and the allocations of this process when counting began.
    began: Mutex<[f64; 2]>,
    /// Number of committed row writes.
    rows: AtomicU64,
    /// Number of transactions that changed at least one row.
    commits: AtomicU64,
    /// Number of reads outside transactions.
    reads: AtomicU64,
    /// Number of decisions of transactions: more than one of a transaction if its first reads were
    /// not enough.
    decisions: AtomicU64,
    /// Number of all store calls, heartbeats included.
    calls: AtomicU64,
    /// Number of transactions, whether they write or not: all of them lock rows.
    locking: AtomicU64,
    /// Number of runs above `floor` whose end is committed.
    ended: AtomicU64,
    floor: AtomicI64,
    bell: Notify,
    /// Checks the handler calls of the same engine.
    pub(crate) witness: Arc<Witness>,
}

/// Returns the processor time and the allocations of this process so far.
fn so_far() -> [f64; 2] {
    [cpu_micros(), allocations()]
}

/// The number of rows that one transaction changed, and the runs that it ended.
#[derive(Debug, Default)]
struct Changed {
    rows: usize,
    ended: Vec<Seq>,
}

impl Changed {
    fn of(changes: &[Change]) -> Self {
        let ended = changes.iter().filter_map(|change| {
            let Change::Insert(Row::Ended(ended)) = change else { return None };
            Some(ended.id.seq)
        });
        Self { rows: changes.len(), ended: ended.collect() }
    }
}

impl Meter {
    /// Wraps a store and counts its calls.
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            began: Mutex::new(so_far()),
            rows: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            decisions: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            locking: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            floor: AtomicI64::new(0),
            bell: Notify::new(),
            witness: Arc::default(),
        }
    }

    /// Returns the number of calls since the last `take_calls`, and how many of them lock rows.
    pub(crate) fn take_calls(&self) -> [u64; 2] {
        [&self.calls, &self.locking].map(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Resets the counters that `counts` returns.
    pub(crate) fn reset(&self) {
        for count in [&self.rows, &self.commits, &self.reads, &self.decisions] {
            count.store(0, Ordering::Relaxed);
        }
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = so_far();
    }

    /// Returns the row writes, transactions, reads, decisions, microseconds of processor time and
    /// allocations of this process since `reset`.
    pub(crate) fn counts(&self) -> [(&'static str, f64); 6] {
        let count = |of: &AtomicU64| {
            f64::from(u32::try_from(of.load(Ordering::Relaxed)).unwrap_or(u32::MAX))
        };
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let now = so_far();
        let [cpu, allocations] = [0, 1].map(|n| now[n] - began[n]);
        let counted = [&self.rows, &self.commits, &self.reads, &self.decisions];
        let [rows, commits, reads, decisions] = counted.map(count);
        [
            ("rows", rows),
            ("commits", commits),
            ("reads", reads),
            ("decisions", decisions),
            ("cpu", cpu),
            ("allocations", allocations),
        ]
    }

    /// From now on counts only the ends of runs whose sequence number is above `floor`.
    pub(crate) fn count_above(&self, floor: Seq) {
        self.floor.store(floor.0, Ordering::SeqCst);
        self.ended.store(0, Ordering::SeqCst);
    }

    /// Waits until the ends of `runs` runs are durable.
    pub(crate) async fn ended(&self, runs: usize) {
        while self.ended.load(Ordering::SeqCst) < runs as u64 {
            self.bell.notified().await;
        }
    }

    fn committed(&self, changed: &Changed) {
        if changed.rows == 0 {
            return;
        }
        self.rows.fetch_add(changed.rows as u64, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.witness.ended(&changed.ended);
        let floor = self.floor.load(Ordering::SeqCst);
        let counted = changed.ended.iter().filter(|run| run.0 > floor).count();
        self.ended.fetch_add(counted as u64, Ordering::SeqCst);
        self.bell.notify_one();
    }
}

#[async_trait]
impl Store for Meter {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let decisions = Arc::new(AtomicU64::new(0));
        let decided = decisions.clone();
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.locking.fetch_add(1, Ordering::Relaxed);
        let changed = Arc::new(Mutex::new(Changed::default()));
        let made = changed.clone();
        let counted = Box::new(move |snapshot| {
            decided.fetch_add(1, Ordering::Relaxed);
            let decision = decide(snapshot);
            if let Decision::Apply(changes) = &decision {
                *made.lock().unwrap_or_else(PoisonError::into_inner) = Changed::of(changes);
            }
            decision
        });
        self.inner.transact(reads, counted).await?;
        self.decisions.fetch_add(decisions.load(Ordering::Relaxed), Ordering::Relaxed);
        self.committed(&changed.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.heartbeat(engine, lease_ms).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.inner.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.inner.wakes()
    }

    fn wake(&self) {
        self.inner.wake();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.inner.dump().await
    }
}

/// Record of the handlers that started and of the runs that ended.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    seen: Mutex<Sightings>,
    begun: AtomicUsize,
    forgets: AtomicBool,
}

#[derive(Debug, Default)]
struct Sightings {
    /// Runs whose handler has started and whose end is not durable yet, each with its key.
    inside: HashMap<Seq, u64>,
    by_key: HashMap<u64, usize>,
    most: usize,
    ended: HashSet<Seq>,
    twice: usize,
}

impl Witness {
    fn lock(&self) -> MutexGuard<'_, Sightings> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on only counts the started handlers, which needs no memory per run.
    pub(crate) fn forget(&self) {
        self.forgets.store(true, Ordering::SeqCst);
    }

    /// Records the start of a handler.
    pub(crate) fn begin(&self, run: Seq, key: u64) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.forgets.load(Ordering::SeqCst) {
            return;
        }
        let mut it = self.lock();
        it.twice += usize::from(it.ended.contains(&run));
        if it.inside.insert(run, key).is_none() {
            let now = it.by_key.entry(key).or_default();
            *now += 1;
            it.most = it.most.max(it.by_key[&key]);
        }
    }

    /// Records that the ends of these runs are durable.
    fn ended(&self, runs: &[Seq]) {
        if self.forgets.load(Ordering::SeqCst) {
            return;
        }
        let mut it = self.lock();
        for run in runs {
            it.twice += usize::from(!it.ended.insert(*run));
            if let Some(key) = it.inside.remove(run)
                && let Some(now) = it.by_key.get_mut(&key)
            {
                *now -= 1;
            }
        }
    }

    /// Returns the number of handlers that have started.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Returns the largest number of runs of one key that were active at the same time: from the
    /// start of the handler to the durable end of the run.
    pub(crate) fn most_at_once(&self) -> usize {
        self.lock().most
    }

    /// Fails unless `runs` handlers have started and `runs` runs have ended, each once.
    pub(crate) fn check(&self, runs: usize) -> anyhow::Result<()> {
        self.check_each(runs, 1)
    }

    /// Fails unless `runs` runs have ended, each once, and their handlers have started `times`
    /// times each.
    pub(crate) fn check_each(&self, runs: usize, times: usize) -> anyhow::Result<()> {
        let it = self.lock();
        let (begun, ended, twice) = (self.begun(), it.ended.len(), it.twice);
        anyhow::ensure!(
            begun == runs * times && ended == runs && twice == 0,
            "{runs} runs: {begun} handler starts, {ended} runs ended, {twice} of them driven again"
        );
        Ok(())
    }
}
