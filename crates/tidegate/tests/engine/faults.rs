//! A store on which things go wrong when a story says so.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use tidegate::{
    core::{
        catalog::Catalog,
        command::Command,
        id::Seq,
        reads::{Change, ReadSet, Snapshot},
        row::{EngineId, Row, RowKey, Workspace},
    },
    store::{Database, Decide, Decision, SeededCommand, Store, StoreError, commit},
};
use tidegate_testkit::sample;
use tokio::sync::{oneshot, watch};

/// How a transaction fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection dies before the commit: nothing is kept, and nobody can tell.
    BeforeCommit,
    /// It dies after the commit: all is kept, and nobody is told.
    AfterCommit,
    /// The store cannot be reached at all.
    Unavailable,
}

/// What is wrong with a row, so that the store refuses its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A text holds a NUL.
    Nul,
    /// There is a row under its key already: see [`Faults::occupy`].
    Taken,
    /// The row that is changed is not there.
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

/// A number that no run has.
const NOBODY: i64 = i64::MAX - 7;

/// Which changes the store refuses, and what is wrong with them.
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

/// What becomes of beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beats {
    /// They are written.
    Fine,
    /// They fail for all engines but this one.
    FailBut(EngineId),
    /// They are never answered, for this engine.
    Hang(EngineId),
}

#[derive(Debug)]
struct Plan {
    /// Which transaction fails, counted down, and how.
    fails: Option<(usize, Failure)>,
    /// What the next transaction waits for.
    held: Option<oneshot::Receiver<()>>,
    /// What somebody else does right before the next transaction.
    before: Vec<SeededCommand>,
    beats: Beats,
    engines: Vec<EngineId>,
    /// Nothing is answered until it is over.
    outage: bool,
    /// How often others were woken.
    wakes: usize,
    /// No wake-up arrives, as behind a pooler.
    deaf: bool,
    curse: Option<Curse>,
    /// How many events the transactions had that were refused for it.
    refused: Vec<usize>,
}

/// Passes everything on, but for what it was told to spoil.
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

    /// The transaction after so many others fails in this way, once.
    pub(crate) fn fail(&self, after: usize, failure: Failure) {
        self.plan().fails = Some((after, failure));
    }

    /// Whether what was planned has come to pass; it does not any more.
    pub(crate) fn is_over(&self) -> bool {
        self.plan().fails.take().is_none()
    }

    /// Holds the next transaction up until told.
    pub(crate) fn hold(&self) -> oneshot::Sender<()> {
        let (go, held) = oneshot::channel();
        self.plan().held = Some(held);
        go
    }

    /// Waits until a transaction is held up.
    pub(crate) async fn holds(&self) {
        while self.plan().held.is_some() {
            tokio::task::yield_now().await;
        }
    }

    /// Writes the row that [`Flaw::Taken`] finds there.
    pub(crate) async fn occupy(&self) {
        let decide = |_| Decision::Apply(vec![Flaw::Taken.change()]);
        self.store.transact(ReadSet::default(), Box::new(decide)).await.unwrap();
    }

    /// From here on the store refuses transactions with such changes, by its own rules.
    pub(crate) fn curse(
        &self,
        flaw: Flaw,
        is_cursed: impl Fn(&Change) -> bool + Send + Sync + 'static,
    ) {
        self.plan().curse = Some(Curse { flaw, is_cursed: Arc::new(is_cursed) });
    }

    /// From here on it takes them again. Returns how many events each refused transaction had.
    pub(crate) fn lift_curse(&self) -> Vec<usize> {
        let mut plan = self.plan();
        plan.curse = None;
        std::mem::take(&mut plan.refused)
    }

    /// Adds what the store refuses to a decision with a cursed change.
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

    /// Somebody else is faster than the next transaction, with this.
    pub(crate) fn overtake(&self, command: Command) {
        self.plan().before.push((command, 7));
    }

    /// Whether that has come to pass.
    pub(crate) fn has_failed(&self) -> bool {
        self.plan().fails.is_none()
    }

    /// From here on nothing can be reached, or everything again.
    pub(crate) fn set_outage(&self, outage: bool) {
        self.plan().outage = outage;
    }

    fn reach(&self) -> Result<(), StoreError> {
        let down = || Err(StoreError::Unavailable("an outage, as planned".to_owned()));
        if self.plan().outage { down() } else { Ok(()) }
    }

    /// How often an engine has woken the others.
    pub(crate) fn wakes_given(&self) -> usize {
        self.plan().wakes
    }

    /// Engines that start from here on are woken by nobody, not even by themselves.
    pub(crate) fn deafen(&self) {
        self.plan().deaf = true;
    }

    pub(crate) fn set_beats(&self, beats: Beats) {
        self.plan().beats = beats;
    }

    /// The engines that have beaten, in order.
    pub(crate) fn engines(&self) -> Vec<EngineId> {
        self.plan().engines.clone()
    }

    /// What is planned for the transaction that begins now.
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
        let unknown = || Err(StoreError::Unknown("the answer was lost, as planned".to_owned()));
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
            Some(Failure::Unavailable) => Err(StoreError::Unavailable("as planned".to_owned())),
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
                Err(StoreError::Unavailable("as planned".to_owned()))
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
