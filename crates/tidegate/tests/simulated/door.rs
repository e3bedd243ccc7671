//! Connection of one process to the store, with injected failures.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    id::Seq,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, RowKey, Workspace},
};
use tidegate_store::{Decide, Decision, Store, StoreError};
use tidegate_testkit::sim::{
    faults::{Fate, Kept},
    world::block_on,
};
use tokio::{
    sync::watch,
    task::{unconstrained, yield_now},
};

use crate::world::World;

/// Connection of one process to the store.
#[derive(Debug)]
pub(crate) struct Door {
    world: Arc<World>,
    process: usize,
    /// Generation in which the process started. When the machine stops, calls of this generation
    /// fail.
    generation: u64,
    /// Time until which all calls fail, in microseconds.
    cut: AtomicU64,
    /// Time until which heartbeats fail, in microseconds.
    mute: AtomicU64,
}

impl Door {
    pub(crate) fn new(world: Arc<World>, process: usize) -> Self {
        let generation = world.store.generation();
        Self { world, process, generation, cut: AtomicU64::new(0), mute: AtomicU64::new(0) }
    }

    /// Makes all calls, or only heartbeats, fail for this many microseconds.
    pub(crate) fn shut(&self, micros: u64, beats_only: bool) {
        let until = self.world.now() + micros;
        let gate = if beats_only { &self.mute } else { &self.cut };
        gate.store(until, Ordering::SeqCst);
        self.world.note(|| format!("process {} is cut off for {micros} µs", self.process));
    }

    /// Lets all calls succeed again.
    pub(crate) fn open(&self) {
        self.cut.store(0, Ordering::SeqCst);
        self.mute.store(0, Ordering::SeqCst);
    }

    /// Lets other tasks run first, for a random number of turns.
    async fn dawdle(&self) {
        for _ in 0..self.world.delay() {
            yield_now().await;
        }
    }

    fn check(&self, gate: &AtomicU64, permille: u64) -> Result<(), StoreError> {
        let shut = gate.load(Ordering::SeqCst) > self.world.now();
        if shut || self.world.strikes(permille) {
            return Err(StoreError::Unavailable("as simulated".into()));
        }
        Ok(())
    }

    fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.world.store.get(self.generation)
    }

    /// Decides and commits, and passes the committed changes to the judge. With `keeps` false,
    /// nothing is written.
    fn commit(&self, reads: ReadSet, mut decide: Decide, keeps: bool) -> Result<(), StoreError> {
        let decided: Arc<Mutex<Kept>> = Arc::default();
        let seen = decided.clone();
        let fails = self.world.store.is_file();
        let watched = move |snapshot: Snapshot| {
            let now = snapshot.now;
            match decide(snapshot) {
                // A change that must fail, so that the database rolls back the transaction.
                Decision::Apply(mut changes) if !keeps && fails => {
                    changes.push(Change::Delete(RowKey::Run(Seq(i64::MAX))));
                    Decision::Apply(changes)
                }
                Decision::Apply(_) if !keeps => Decision::Apply(Vec::new()),
                Decision::Apply(changes) => {
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = (now, changes.clone());
                    Decision::Apply(changes)
                }
                need @ Decision::Need(..) => need,
            }
        };
        match finish(self.store()?.transact(reads, Box::new(watched))) {
            Err(StoreError::Data(_)) if !keeps && fails => {
                self.world.meets("file undoes a transaction");
                return Ok(());
            }
            answer => answer?,
        }
        let (at, changes) =
            std::mem::take(&mut *decided.lock().unwrap_or_else(PoisonError::into_inner));
        if keeps {
            self.world.commit(self.process, at, changes);
        }
        Ok(())
    }

    /// Kills the process here: its tasks are dropped before they get an answer.
    async fn die(&self) {
        if self.world.doom(self.process) {
            while self.world.is_alive(self.process) {
                yield_now().await;
            }
        }
    }
}

/// Waits for the store without running other tasks. So the speed of the store's thread has no
/// influence, and no caller can be dropped between a commit and the report to the judge.
fn finish<F: Future>(call: F) -> F::Output {
    block_on(unconstrained(call))
}

#[async_trait]
impl Store for Door {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        self.dawdle().await;
        self.check(&self.cut, 0)?;
        let fate = self.world.fate();
        if fate == Fate::Unavailable {
            return Err(StoreError::Unavailable("as simulated".into()));
        }
        self.commit(reads, decide, fate.is_kept())?;
        if matches!(fate, Fate::CrashBefore | Fate::CrashAfter) {
            self.die().await;
        }
        self.dawdle().await;
        if fate == Fate::Told {
            return Ok(());
        }
        self.world.note(|| format!("process {} gets no answer: {fate:?}", self.process));
        Err(StoreError::Unknown("the answer was lost, as simulated".into()))
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.dawdle().await;
        self.check(&self.cut, self.world.plan.mix.unavailable)?;
        let snapshot = finish(self.store()?.read(reads));
        self.dawdle().await;
        snapshot
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.check(&self.cut, 0)?;
        self.check(&self.mute, self.world.plan.mix.lost_beat)?;
        self.dawdle().await;
        let alive = finish(self.store()?.heartbeat(engine, lease_ms))?;
        self.world.heartbeat(self.process, (engine, lease_ms), alive);
        self.check(&self.mute, self.world.plan.mix.lost_beat)?;
        Ok(alive)
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.store().map(|store| store.catalogs()).unwrap_or_default()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.world.wakes()
    }

    fn wake(&self) {
        if !self.world.strikes(self.world.plan.mix.lost_wake) {
            self.world.wake();
        }
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        finish(self.store()?.dump())
    }
}
