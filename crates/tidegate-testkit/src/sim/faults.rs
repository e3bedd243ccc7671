//! Wrapper of a store that fails on purpose and records committed changes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
    time::Timestamp,
};
use tidegate_store::{Decide, Decision, Store, StoreError};
use tokio::sync::watch;

use super::workload::Mix;
use crate::workload::Chance;

/// The outcome of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The commit succeeds, and the sender gets the answer.
    Told,
    /// The store cannot be reached.
    Unavailable,
    /// The commit is decided, but not made, and the sender gets no answer.
    LostBefore,
    /// The commit is made, but the sender gets no answer.
    LostAfter,
    /// The sender's process dies before the commit.
    CrashBefore,
    /// The sender's process dies after the commit.
    CrashAfter,
}

impl Fate {
    /// Draws an outcome.
    pub fn draw(mix: &Mix, chance: &mut Chance) -> Self {
        let rates = [
            (mix.unavailable, Self::Unavailable),
            (mix.lost_before, Self::LostBefore),
            (mix.lost_after, Self::LostAfter),
            (mix.crash, Self::CrashBefore),
            (mix.crash, Self::CrashAfter),
        ];
        let mut at = chance.below(1000);
        for (rate, fate) in rates {
            if at < rate {
                return fate;
            }
            at -= rate;
        }
        Self::Told
    }

    /// Whether the store commits.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Told | Self::LostAfter | Self::CrashAfter)
    }
}

/// The error of a commit, as its sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The commit was not made.
    Unavailable,
    /// The sender does not know whether the commit was made.
    Unknown,
    /// The sender has crashed and gets no answer.
    Crash,
}

/// The changes of one transaction, and the store's time at its decision.
pub type Kept = (Timestamp, Vec<Change>);

/// A store that can discard commits, and that records the changes of the others.
#[derive(Debug)]
pub struct SimStore {
    inner: Arc<dyn Store>,
    discards: AtomicBool,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl SimStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, discards: AtomicBool::new(false), kept: Arc::default() }
    }

    /// From now on, discards commits after their decision (`true`), or commits as usual again
    /// (`false`).
    pub fn discard(&self, discards: bool) {
        self.discards.store(discards, Ordering::SeqCst);
    }

    /// Returns the changes that were committed since the last call.
    pub fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Store for SimStore {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let discards = self.discards.load(Ordering::SeqCst);
        let decided: Arc<Mutex<Kept>> = Arc::default();
        let seen = decided.clone();
        let watched = move |snapshot: Snapshot| {
            let now = snapshot.now;
            match decide(snapshot) {
                Decision::Apply(_) if discards => Decision::Apply(Vec::new()),
                Decision::Apply(changes) => {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    *seen = (now, changes.clone());
                    Decision::Apply(changes)
                }
                need @ Decision::Need(..) => need,
            }
        };
        self.inner.transact(reads, Box::new(watched)).await?;
        if !discards {
            let decided =
                std::mem::take(&mut *decided.lock().unwrap_or_else(PoisonError::into_inner));
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(decided);
        }
        Ok(())
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
}
