//! Runs that move together share their transactions.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on fails")]

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
    Ctx, Workflow,
    core::{
        catalog::Catalog,
        reads::{ReadSet, Snapshot},
        row::{EngineId, Row, Workspace},
        time::Timestamp,
    },
    new_event,
    store::{Clock, Decide, MemoryStore, Store, StoreError},
    testing::{Lab, VirtualClock},
};
use tokio::sync::watch;

/// Counts transactions.
#[derive(Debug)]
struct Counting {
    store: MemoryStore,
    transactions: AtomicUsize,
}

#[async_trait]
impl Store for Counting {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        self.transactions.fetch_add(1, Ordering::SeqCst);
        self.store.transact(reads, decide).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.store.read(reads).await
    }

    async fn beat(&self, engine: EngineId) -> Result<bool, StoreError> {
        self.store.beat(engine).await
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

// On a thread of the kind that programs have: there, the task that was woken last goes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn runs_that_were_answered_together_report_together() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_micros(0)));
    let store = MemoryStore::new(clock.clone() as Arc<dyn Clock>);
    let store = Arc::new(Counting { store, transactions: AtomicUsize::new(0) });
    let lab = Lab::on(store.clone(), clock);
    let steps = Workflow::new("steps", async |ctx: Ctx, _: Value| {
        for n in 0..10 {
            ctx.step(format!("step {n}"), async || Ok(n)).await?;
        }
        Ok(())
    });
    let engine = lab.engine().workflow(steps).start().await.unwrap();
    lab.settle().await;
    let before = store.transactions.load(Ordering::SeqCst);
    let events = (0..50).map(|n| new_event("steps", json!({ "n": n })).unwrap());
    engine.send_all(events.collect()).await.unwrap();
    lab.settle().await;
    assert_eq!(lab.runs("steps").await.len(), 50);
    // One for the events and one for each step: the last one carries the ends. Some more, because
    // the test and the engine are on different threads.
    let transactions = store.transactions.load(Ordering::SeqCst) - before;
    assert!(transactions <= 14, "{transactions} transactions");
}
