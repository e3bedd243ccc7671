//! Test store that ends a run right after a chosen read.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tidegate::{Ctx, Engine, RunId, Workflow};
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Scan, Snapshot},
    row::{EngineId, Row, RowKey, Workspace},
};
use tidegate_store::{Decide, MemoryStore, Store, StoreError, SystemClock};
use tokio::sync::watch;

/// Store that forwards all calls to a memory store, and ends the run after the chosen read of its
/// row.
#[derive(Debug)]
struct EndsBehind {
    store: MemoryStore,
    /// Number of reads of the run left before the chosen one.
    left: AtomicUsize,
    /// Becomes true to let the run emit its last chunk and end.
    door: watch::Sender<bool>,
}

/// A run that has emitted the chunk `first`, and emits `last` when it ends.
pub(super) struct Ending {
    pub(super) engine: Engine,
    pub(super) run: RunId,
    store: Arc<EndsBehind>,
}

impl Ending {
    pub(super) async fn begin() -> Self {
        let store = Arc::new(EndsBehind {
            store: MemoryStore::new(Arc::new(SystemClock)),
            left: AtomicUsize::new(usize::MAX),
            door: watch::Sender::new(false),
        });
        let door = store.door.clone();
        let talk = Workflow::new("talk", move |ctx: Ctx, _: Value| {
            let door = door.clone();
            async move {
                ctx.emit("first")?;
                ctx.step("begun", async || Ok(())).await?;
                let _ = door.subscribe().wait_for(|open| *open).await;
                ctx.emit("last")?;
                Ok("done")
            }
        });
        let engine = Engine::builder(store.clone()).workflow(talk).start().await.unwrap();
        let run = engine.send("talk", json!({})).await.unwrap().run().unwrap();
        while engine.chunks(run, 0, 1).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        Self { engine, run, store }
    }

    /// Ends the run after one of the next reads: `reads` of them happen before it.
    pub(super) fn end_behind(&self, reads: usize) {
        self.store.left.store(reads, Ordering::SeqCst);
    }
}

impl EndsBehind {
    /// Lets the run end, and waits for its end.
    async fn end(&self, run: RowKey) {
        self.door.send_replace(true);
        let reads = ReadSet::default().row(run.clone());
        while self.store.read(reads.clone()).await.is_ok_and(|it| it.rows[&run].is_none()) {
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the key of the `Ended` row, if the reads include the row of a run.
fn looked_at(reads: &ReadSet) -> Option<RowKey> {
    let rows = reads.rows.iter().filter_map(|key| match key {
        RowKey::Run(seq) | RowKey::Ended(seq) => Some(*seq),
        _ => None,
    });
    let scans = reads.scans.keys().filter_map(|scan| match scan {
        Scan::Chunks(seq, _) => Some(*seq),
        _ => None,
    });
    rows.chain(scans).next().map(RowKey::Ended)
}

#[async_trait]
impl Store for EndsBehind {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        self.store.transact(reads, decide).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let run = looked_at(&reads);
        let snapshot = self.store.read(reads).await;
        let less = |left: usize| left.checked_sub(1).or(Some(usize::MAX));
        if let Some(run) = run
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(0)
        {
            self.end(run).await;
        }
        snapshot
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
