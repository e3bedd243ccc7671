//! Store wrapper that counts calls in progress as work, because a harness must not advance its
//! clock during a call.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tidegate_store::{Database, Decide, Store, StoreError};
use tokio::sync::watch;

use crate::tasks::Busy;

/// Store that counts its calls in progress.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) store: Arc<dyn Store>,
    pub(super) busy: Arc<Busy>,
}

#[async_trait]
impl Store for Counted {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        let _call = self.busy.begin();
        self.store.transact(reads, decide).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let _call = self.busy.begin();
        self.store.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        let _call = self.busy.begin();
        self.store.heartbeat(engine, lease_ms).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.store.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.store.wakes()
    }

    fn hears(&self) -> bool {
        self.store.hears()
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
