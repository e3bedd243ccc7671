//! Fault injection: a store of which one transaction fails, chosen by the test.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tidegate_store::{Database, Decide, Decision, Store, StoreError};
use tokio::sync::watch;

/// The way in which a transaction fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The process or the connection dies before the commit: the decision was made, nothing is
    /// committed.
    BeforeCommit,
    /// The process or the connection dies after the commit: everything is committed, but the caller
    /// gets no answer.
    AfterCommit,
    /// The store cannot be reached at all.
    Unavailable,
}

impl Failure {
    /// All ways to fail.
    pub const ALL: [Self; 3] = [Self::BeforeCommit, Self::AfterCommit, Self::Unavailable];
}

/// A store of which one transaction fails.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    fails: Option<(usize, Failure)>,
    transactions: AtomicUsize,
}

impl FaultStore {
    /// Wraps a store. The transaction with this number, from 0, fails in this way; with `None` no
    /// transaction fails.
    pub fn new(inner: Arc<dyn Store>, fails: Option<(usize, Failure)>) -> Self {
        Self { inner, fails, transactions: AtomicUsize::new(0) }
    }

    /// Returns the number of transactions so far.
    pub fn transactions(&self) -> usize {
        self.transactions.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for FaultStore {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let n = self.transactions.fetch_add(1, Ordering::SeqCst);
        let failure = self.fails.filter(|(at, _)| *at == n).map(|(_, failure)| failure);
        match failure {
            None => self.inner.transact(reads, decide).await,
            Some(Failure::Unavailable) => Err(StoreError::Unavailable("as planned".into())),
            Some(Failure::BeforeCommit) => {
                let nothing = move |snapshot| match decide(snapshot) {
                    Decision::Apply(_) => Decision::Apply(Vec::new()),
                    need @ Decision::Need(..) => need,
                };
                self.inner.transact(reads, Box::new(nothing)).await?;
                Err(StoreError::Unknown("it died before the commit, as planned".into()))
            }
            Some(Failure::AfterCommit) => {
                self.inner.transact(reads, decide).await?;
                Err(StoreError::Unknown("it died after the commit, as planned".into()))
            }
        }
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
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

    fn database(&self) -> Database<'_> {
        self.inner.database()
    }
}
