//! Store wrapper that fails as the test has planned.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    command::Command,
    id::Seq,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, RowKey, Workspace},
};
use tidegate_store::{Database, Decide, Decision, SeededCommand, Store, StoreError, commit};
use tidegate_testkit::sample;
use tokio::sync::{oneshot, watch};

/// Way in which a transaction fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection breaks before the commit: nothing is written, and the caller cannot know
    /// that.
    BeforeCommit,
    /// The connection breaks after the commit: everything is written, but the caller gets no
    /// answer.
    AfterCommit,
    /// The store is unreachable.
    Unavailable,
}

/// Defect of a row because of which the store refuses its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A text contains a NUL.
    Nul,
    /// A row with this key exists already, see [`Faults::occupy`].
    Taken,
    /// The row to change does not exist.
    Absent,
}

impl Flaw {
    pub(crate) const ALL: [Self; 3] = [Self::Nul, Self::Taken, Self::Absent];

    fn change(self) -> Change {
        match self {
            Self::Nul => Change::Insert(sample::step(NOBODY, "a\0b").into()),
            Self::Taken => Change::Insert(sample::step(NOBODY, "taken").into()),
            Self::Absent => Change::Delete(RowKey::Run(Seq(NOBODY))),
        }
    }
}

/// A sequence number that no run has.
const NOBODY: i64 = i64::MAX - 7;

/// Condition that selects changes, and the defect with which the store refuses them.
#[derive(Clone)]
struct Curse {
    flaw: Flaw,
    is_cursed: Arc<dyn Fn(&Change) -> bool + Send + Sync>,
}

impl fmt::Debug for Curse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.flaw.fmt(f)
    }
}

/// What happens to heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beats {
    /// Heartbeats are written.
    Fine,
    /// Heartbeats fail for all engines but this one.
    FailBut(EngineId),
    /// Heartbeats of this engine are never answered.
    Hang(EngineId),
}

#[derive(Debug)]
struct Plan {
    /// Number of transactions before the failing one, and how that one fails.
    fails: Option<(usize, Failure)>,
    /// Receiver of the signal that the next transaction waits for.
    held: Option<oneshot::Receiver<()>>,
    /// Commands of another caller that are executed right before the next transaction.
    before: Vec<SeededCommand>,
    beats: Beats,
    engines: Vec<EngineId>,
    /// Whether the store is unreachable: no call is answered until the outage ends.
    outage: bool,
    /// Number of wake-ups sent to other engines.
    wakes: usize,
    /// Whether all wake-ups are lost, as behind a connection pooler.
    deaf: bool,
    curse: Option<Curse>,
    /// Number of events in each transaction that was refused because of the curse.
    refused: Vec<usize>,
}

/// Store wrapper that forwards all calls, except for the planned failures.
#[derive(Debug)]
pub(crate) struct Faults {
    store: Arc<dyn Store>,
    plan: Arc<Mutex<Plan>>,
}

impl Faults {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let plan = Plan {
            fails: None,
            held: None,
            before: Vec::new(),
            beats: Beats::Fine,
            engines: Vec::new(),
            outage: false,
            wakes: 0,
            deaf: false,
            curse: None,
            refused: Vec::new(),
        };
        Self { store, plan: Arc::new(Mutex::new(plan)) }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// Makes one transaction fail, after `after` others.
    pub(crate) fn fail(&self, after: usize, failure: Failure) {
        self.plan().fails = Some((after, failure));
    }

    /// Returns whether the planned failure has happened, and clears the plan.
    pub(crate) fn is_over(&self) -> bool {
        self.plan().fails.take().is_none()
    }

    /// Holds the next transaction back until the returned sender sends.
    pub(crate) fn hold(&self) -> oneshot::Sender<()> {
        let (go, held) = oneshot::channel();
        self.plan().held = Some(held);
        go
    }

    /// Waits until a transaction is held back.
    pub(crate) async fn holds(&self) {
        while self.plan().held.is_some() {
            tokio::task::yield_now().await;
        }
    }

    /// Writes the row that [`Flaw::Taken`] conflicts with.
    pub(crate) async fn occupy(&self) {
        let decide = |_| Decision::Apply(vec![Flaw::Taken.change()]);
        self.store.transact(ReadSet::default(), Box::new(decide)).await.unwrap();
    }

    /// Makes the store refuse transactions with matching changes from now on, because of this
    /// defect.
    pub(crate) fn curse(
        &self,
        flaw: Flaw,
        is_cursed: impl Fn(&Change) -> bool + Send + Sync + 'static,
    ) {
        self.plan().curse = Some(Curse { flaw, is_cursed: Arc::new(is_cursed) });
    }

    /// Makes the store accept such changes again. Returns the number of events in each refused
    /// transaction.
    pub(crate) fn lift_curse(&self) -> Vec<usize> {
        let mut plan = self.plan();
        plan.curse = None;
        std::mem::take(&mut plan.refused)
    }

    /// Adds the defective row to a decision that contains a matching change.
    fn cursed(&self, mut decide: Decide) -> Decide {
        let Some(Curse { flaw, is_cursed }) = self.plan().curse.clone() else { return decide };
        let plan = self.plan.clone();
        Box::new(move |snapshot| match decide(snapshot) {
            Decision::Apply(mut changes) if changes.iter().any(|change| is_cursed(change)) => {
                let events =
                    changes.iter().filter(|it| matches!(it, Change::Insert(Row::Event(_))));
                plan.lock().unwrap().refused.push(events.count());
                changes.push(flaw.change());
                Decision::Apply(changes)
            }
            decision => decision,
        })
    }

    /// Executes a command of another caller right before the next transaction.
    pub(crate) fn overtake(&self, command: Command) {
        self.plan().before.push((command, 7));
    }

    /// Returns whether the planned failure has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.plan().fails.is_none()
    }

    /// Starts or ends an outage of the store.
    pub(crate) fn set_outage(&self, outage: bool) {
        self.plan().outage = outage;
    }

    fn reach(&self) -> Result<(), StoreError> {
        let down = || Err(StoreError::Unavailable("an outage, as planned".into()));
        if self.plan().outage { down() } else { Ok(()) }
    }

    /// Returns the number of wake-ups that engines have sent.
    pub(crate) fn wakes_given(&self) -> usize {
        self.plan().wakes
    }

    /// Makes engines that start from now on receive no wake-ups.
    pub(crate) fn deafen(&self) {
        self.plan().deaf = true;
    }

    pub(crate) fn set_beats(&self, beats: Beats) {
        self.plan().beats = beats;
    }

    /// Returns the engines that have sent heartbeats, in the order of their first heartbeat.
    pub(crate) fn engines(&self) -> Vec<EngineId> {
        self.plan().engines.clone()
    }

    /// Returns the failure planned for the transaction that starts now.
    fn next(&self) -> Option<Failure> {
        let mut plan = self.plan();
        match plan.fails {
            Some((0, failure)) => {
                plan.fails = None;
                Some(failure)
            }
            Some((left, failure)) => {
                plan.fails = Some((left - 1, failure));
                None
            }
            None => None,
        }
    }
}

#[async_trait]
impl Store for Faults {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        self.reach()?;
        let unknown = || Err(StoreError::Unknown("the answer was lost, as planned".into()));
        let held = self.plan().held.take();
        if let Some(held) = held {
            let _ = held.await;
        }
        let before = std::mem::take(&mut self.plan().before);
        if !before.is_empty() {
            commit(&*self.store, before).await?;
        }
        match self.next() {
            None => self.store.transact(reads, self.cursed(decide)).await,
            Some(Failure::Unavailable) => Err(StoreError::Unavailable("as planned".into())),
            Some(Failure::BeforeCommit) => {
                let nothing = move |snapshot| match decide(snapshot) {
                    Decision::Apply(_) => Decision::Apply(Vec::new()),
                    need @ Decision::Need(..) => need,
                };
                self.store.transact(reads, Box::new(nothing)).await?;
                unknown()
            }
            Some(Failure::AfterCommit) => {
                self.store.transact(reads, decide).await?;
                unknown()
            }
        }
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        self.reach()?;
        self.store.read(reads).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        let beats = {
            let mut plan = self.plan();
            if !plan.engines.contains(&engine) {
                plan.engines.push(engine);
            }
            plan.beats
        };
        match beats {
            Beats::FailBut(other) if other != engine => {
                Err(StoreError::Unavailable("as planned".into()))
            }
            Beats::Hang(this) if this == engine => pending().await,
            Beats::Fine | Beats::FailBut(_) | Beats::Hang(_) => {
                self.store.heartbeat(engine, lease_ms).await
            }
        }
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.store.catalogs()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        if self.plan().deaf { watch::channel(0).1 } else { self.store.wakes() }
    }

    fn wake(&self) {
        self.plan().wakes += 1;
        self.store.wake();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        self.store.dump().await
    }

    fn database(&self) -> Database<'_> {
        self.store.database()
    }
}
