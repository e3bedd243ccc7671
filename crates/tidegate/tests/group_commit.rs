//! Group commit: runs that continue at the same time share their transactions.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Fair, NewRecord, Payload, StepKind, Workflow, new_event,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, RowKey, Workspace},
    time::Timestamp,
};
use tidegate_store::{Clock, Decide, Decision, MemoryStore, Store, StoreError};
use tokio::sync::watch;

/// Store wrapper that counts transactions and reads.
#[derive(Debug)]
struct Counting {
    store: MemoryStore,
    transactions: AtomicUsize,
    /// Number of decisions that needed more rows than were read first.
    asked_again: Arc<AtomicUsize>,
    /// Number of reads of inputs outside of a transaction.
    inputs_read: AtomicUsize,
    /// Number of reads of runs outside of a transaction.
    runs_read: AtomicUsize,
}

impl Counting {
    fn new(clock: Arc<VirtualClock>) -> Arc<Self> {
        let store = MemoryStore::new(clock as Arc<dyn Clock>);
        let (transactions, asked_again, inputs_read, runs_read) = Default::default();
        Arc::new(Self { store, transactions, asked_again, inputs_read, runs_read })
    }
}

#[async_trait]
impl Store for Counting {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        self.transactions.fetch_add(1, Ordering::SeqCst);
        let asked_again = self.asked_again.clone();
        let watched = Box::new(move |snapshot| {
            let decision = decide(snapshot);
            let asks = matches!(decision, Decision::Need(..));
            asked_again.fetch_add(usize::from(asks), Ordering::SeqCst);
            decision
        });
        self.store.transact(reads, watched).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let inputs = reads.rows.iter().any(|key| matches!(key, RowKey::Event(_)));
        self.inputs_read.fetch_add(usize::from(inputs), Ordering::SeqCst);
        let runs = reads.rows.iter().any(|key| matches!(key, RowKey::Run(_)));
        self.runs_read.fetch_add(usize::from(runs), Ordering::SeqCst);
        self.store.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
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
}

// A multi-thread runtime, as programs use it: there, the task that was woken last runs first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn runs_that_were_answered_together_report_together() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_micros(0)));
    let store = Counting::new(clock.clone());
    let harness = TestHarness::on(store.clone(), clock);
    let steps = Workflow::new("steps", async |ctx: Ctx, _: Value| {
        for n in 0..10 {
            ctx.step(format!("step {n}"), async || Ok(n)).await?;
        }
        Ok(())
    });
    let engine = harness.engine().workflow(steps).start().await.unwrap();
    harness.settle().await;
    let before = store.transactions.load(Ordering::SeqCst);
    let asked_before = store.asked_again.load(Ordering::SeqCst);
    let events = (0..50).map(|n| new_event("steps", json!({ "n": n })).unwrap());
    engine.send_all(events.collect()).await.unwrap();
    harness.settle().await;
    assert_eq!(harness.runs("steps").await.len(), 50);
    // One transaction for the events and one for each step; the last one also records the ends.
    // There are some more, because the test and the engine run on different threads. Without group
    // commit, each run would take eleven.
    let transactions = store.transactions.load(Ordering::SeqCst) - before;
    assert!(transactions <= 50, "{transactions} transactions are too many for fifty runs");
    let asked_again = store.asked_again.load(Ordering::SeqCst) - asked_before;
    assert_eq!(asked_again, 0, "the first read must be enough for runs without controls");
}

#[tokio::test]
async fn a_hot_key_is_handed_on_without_a_read_in_between() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_micros(0)));
    let store = Counting::new(clock.clone());
    let harness = TestHarness::on(store.clone(), clock);
    let hot = Workflow::new("hot", async |_: Ctx, input: Value| Ok(input["n"].clone()))
        .concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(hot).start().await.unwrap();
    harness.settle().await;
    let events = (0..50).map(|n| new_event("hot", json!({ "n": n })).unwrap());
    let posted = engine.send_all(events.collect()).await.unwrap();
    harness.settle().await;
    for (n, posted) in posted.iter().enumerate() {
        let output: Value = engine.output(posted.run().unwrap()).await.unwrap().unwrap();
        assert_eq!(output, json!(n), "each run must get its own input");
    }
    // The first run needs no read of its input. The input of the second may have to be read,
    // because it was not known in advance that this run would be next.
    let read = store.inputs_read.load(Ordering::SeqCst);
    assert!(read <= 1, "inputs were read {read} times instead of prefetched");
}

// spec remote
#[tokio::test]
async fn code_elsewhere_records_steps_without_a_read_at_the_driving_engine() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_micros(0)));
    let store = Counting::new(clock.clone());
    let harness = TestHarness::on(store.clone(), clock);
    let (tokens, mut shared) = tokio::sync::mpsc::unbounded_channel();
    let calling = Workflow::new("calling", move |ctx: Ctx, _: Value| {
        let tokens = tokens.clone();
        async move {
            ctx.recorded().await?;
            tokens.send(ctx.lease_token()).unwrap();
            ctx.busy(std::future::pending::<()>()).await;
            Ok(())
        }
    });
    let engine = harness.engine().workflow(calling).start().await.unwrap();
    let posted = engine.send_all(vec![new_event("calling", json!({})).unwrap()]).await.unwrap();
    harness.settle().await;
    let (run, token) = (posted[0].run().unwrap(), shared.try_recv().unwrap());
    let counts = || [&store.runs_read, &*store.asked_again].map(|it| it.load(Ordering::SeqCst));
    let before = counts();
    for n in 0..3 {
        let result = Ok(Payload::from_value(&json!(n)));
        let step = NewRecord { id: format!("step {n}"), kind: StepKind::Run, result };
        engine.record_in(run, &token, vec![step]).await.unwrap();
    }
    assert_eq!(counts(), before, "the run is at hand, and the first reads must be enough");
    assert_eq!(engine.steps(run).await.unwrap().len(), 3);
}

// spec L16
#[tokio::test]
async fn values_take_turns_without_a_second_read() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_micros(0)));
    let store = Counting::new(clock.clone());
    let harness = TestHarness::on(store.clone(), clock);
    let fair = Workflow::new("fair", async |_: Ctx, input: Value| Ok(input["n"].clone()))
        .concurrency(Concurrency::limit(2).fair(Fair::by("v")));
    let engine = harness.engine().workflow(fair).start().await.unwrap();
    harness.settle().await;
    let before = store.asked_again.load(Ordering::SeqCst);
    // Half of the runs are of one value, so that it is alone in the end.
    let value = |n: usize| if n.is_multiple_of(2) { 0 } else { n % 12 };
    let events = (0..120).map(|n| new_event("fair", json!({ "n": n, "v": value(n) })).unwrap());
    let posted = engine.send_all(events.collect()).await.unwrap();
    harness.settle().await;
    for (n, posted) in posted.iter().enumerate() {
        let output: Value = engine.output(posted.run().unwrap()).await.unwrap().unwrap();
        assert_eq!(output, json!(n), "each run must get its own input");
    }
    // The engine does not know the seven values until each has been served, and expects a value to
    // have more runs when its last one is served.
    let asked_again = store.asked_again.load(Ordering::SeqCst) - before;
    assert!(asked_again <= 20, "{asked_again} decisions of 120 runs needed a second read");
    // Where one value is alone, only the first of the two runs that start together is known.
    let read = store.inputs_read.load(Ordering::SeqCst);
    assert!(read <= 35, "inputs were read {read} times instead of prefetched");
}
