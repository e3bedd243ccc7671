//! Cost of an idle engine and of registrations, in transactions counted at the store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::json;
use tidegate::{Rate, Reaction, testing::TestHarness};
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tidegate_store::{Database, Decide, Store, StoreError};
use tokio::sync::watch;

use crate::words::{Journal, ms, secs, start, states, work};

/// Store wrapper that counts calls.
#[derive(Debug)]
struct Tally {
    store: Arc<dyn Store>,
    reads: AtomicUsize,
    /// Number of transactions that take locks, whether they write or not.
    locking: AtomicUsize,
    beats: AtomicUsize,
}

impl Tally {
    fn of(store: Arc<dyn Store>) -> Arc<Self> {
        let (reads, locking, beats) = Default::default();
        Arc::new(Self { store, reads, locking, beats })
    }

    /// Returns the counts since the last call: reads, locking transactions, heartbeats.
    fn take(&self) -> [usize; 3] {
        [&self.reads, &self.locking, &self.beats].map(|count| count.swap(0, Ordering::SeqCst))
    }
}

#[async_trait]
impl Store for Tally {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        self.locking.fetch_add(1, Ordering::SeqCst);
        self.store.transact(reads, decide).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.beats.fetch_add(1, Ordering::SeqCst);
        self.store.heartbeat(engine, lease_ms).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.store.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.store.wakes()
    }

    fn wake(&self) {
        self.store.wake();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.store.dump().await
    }

    fn database(&self) -> Database<'_> {
        self.store.database()
    }
}

/// An idle engine with a handler resolver, a schedule and a reaction makes at most one transaction
/// in two seconds, and writes only a heartbeat every third of its lease.
pub(crate) async fn an_idle_engine_costs_little(harness: &TestHarness) {
    let tally = Tally::of(harness.store().clone());
    let journal = Journal::new(harness);
    let nightly = work(&journal, "nightly", ms(0)).cron("0 3 29 2 *", "UTC");
    let reaction = Reaction::new("audit").on_any(|_, _| async { Ok(()) });
    let engine = harness.engine_through(tally.clone()).lease_ttl(secs(30)).poll_interval(secs(15));
    let engine = engine.workflow(nightly).workflow(work(&journal, "job", ms(0)));
    let engine = engine.reaction(reaction).handler_resolver(|_| None).start().await.unwrap();
    start(&engine, "job", json!({ "n": 1 })).await;
    harness.advance(secs(120)).await;
    assert_eq!(states(harness, "job").await, ["completed"]);
    tally.take();
    harness.advance(secs(600)).await;
    let [reads, locking, beats] = tally.take();
    let seen =
        format!("{reads} reads, {locking} locking transactions, {beats} heartbeats in 600 s");
    assert!(reads + locking + beats <= 300, "{seen}");
    assert_eq!(locking, 0, "an idle engine must take no locks: {seen}");
    assert!((59..=61).contains(&beats), "{seen}");
    // The idle engine still finds work at once.
    start(&engine, "job", json!({ "n": 2 })).await;
    harness.settle().await;
    assert_eq!(states(harness, "job").await, ["completed"; 2]);
}

/// Definitions of other processes are applied soon, although definitions are read rarely.
pub(crate) async fn what_others_define_is_taken_up_within_a_second(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let long = || harness.engine().lease_ttl(secs(30)).poll_interval(secs(15));
    let job = |n: u32| work(&journal, "job", ms(0)).throttle(Rate::per_second(n));
    let first = long().workflow(job(1)).start().await.unwrap();
    harness.advance(secs(100)).await;
    // A newer program registers a version, starts a run of it, and stops.
    let second = long().workers(0).workflow(job(2)).start().await.unwrap();
    let run = start(&second, "job", json!({ "n": 7 })).await;
    second.shutdown().await;
    harness.advance(secs(2)).await;
    harness.completed(&first, run).await;
}

/// Registering many definitions takes few transactions: when an engine starts, with `define_all`,
/// and when they are already registered.
pub(crate) async fn many_definitions_take_few_transactions(harness: &TestHarness) {
    let tally = Tally::of(harness.store().clone());
    let journal = Journal::new(harness);
    let many = |from: usize| (from..from + 1_200).map(|n| format!("job.{n}"));
    let start = || {
        let engine = harness.engine_through(tally.clone()).handler_resolver(|_| None);
        many(0).fold(engine, |engine, name| engine.workflow(work(&journal, &name, ms(0)))).start()
    };
    let engine = start().await.unwrap();
    let [reads, locking, _] = tally.take();
    assert!(reads + locking <= 12, "first start: {reads} reads, {locking} locking transactions");
    let definitions: Vec<_> = many(1_200).map(|name| json!({ "name": name })).collect();
    let registered = engine.define_all(&definitions).await.unwrap();
    assert!(registered.iter().all(|it| it.version == 1 && it.released.is_some()));
    let [reads, locking, _] = tally.take();
    assert!(reads + locking <= 12, "define_all: {reads} reads, {locking} locking transactions");
    engine.shutdown().await;
    tally.take();
    let engine = start().await.unwrap();
    let [reads, locking, _] = tally.take();
    assert!(reads + locking <= 12, "next start: {reads} reads, {locking} locking transactions");
    crate::words::start(&engine, "job.1199", json!({ "n": 1 })).await;
    harness.settle().await;
    assert_eq!(states(harness, "job.1199").await, ["completed"]);
}
