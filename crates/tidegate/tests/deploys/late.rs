//! Answers that arrive after a run was leased and before its records are loaded.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;
use tidegate::testing::TestHarness;
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Scan, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tidegate_store::{Database, Decide, Store, StoreError};
use tokio::sync::watch;

use crate::program::{All, Select, Signal, Sleep, Step, World, night, step};

type Before = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Store wrapper that runs a callback right before the steps of a run are read.
struct Late {
    store: Arc<dyn Store>,
    before: Mutex<Option<Before>>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late")
    }
}

#[async_trait]
impl Store for Late {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        self.store.transact(reads, decide).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        if reads.scans.keys().any(|scan| matches!(scan, Scan::Steps(_))) {
            let before = self.before.lock().unwrap().take();
            if let Some(before) = before {
                before.await;
            }
        }
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

    fn database(&self) -> Database<'_> {
        self.store.database()
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.store.dump().await
    }
}

/// The branch that waits for the signal must not run before steps that were recorded without the
/// signal.
#[tokio::test]
async fn an_answer_between_lease_and_load_is_for_the_next_activation() {
    let id = str::to_owned;
    let slow =
        All(vec![Signal(id("signal"), 600_000), Step(id("s"), 1_000), Sleep(id("l"), 600_000)]);
    let quick = All(vec![Sleep(id("nap"), 1_000), Step(id("x"), 2_000)]);
    let code = All(vec![Select(vec![slow, quick]), night(), step("after")]);
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let late = Arc::new(Late { store: harness.store().clone(), before: Mutex::default() });
    let engine =
        harness.engine_through(late.clone()).workflow(world.job(&code)).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.settle().await;
    let other = harness.engine().start().await.unwrap();
    *late.before.lock().unwrap() = Some(Box::pin(async move {
        other.signal(run, "go", json!(null)).await.unwrap();
    }));
    harness.advance(Duration::from_mins(2)).await;
    assert!(late.before.lock().unwrap().is_none(), "the signal was not sent");
    harness.completed(&engine, run).await;
}
