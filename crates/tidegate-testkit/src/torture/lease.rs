//! The worker's own lease, and its eye on the leases of others (spec R8).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tidegate_core::{
    command::Command,
    reads::{ReadSet, Scan},
    row::{EngineId, Row},
};
use tidegate_store::{Store, StoreError};

use super::{
    LEASE_MS, MARGIN, TTL,
    journal::{Journal, Note},
    micros, pause,
};

/// How many engines one look takes in.
const MANY: u32 = 200;

/// How many runs are taken from one dead engine at once: fewer than it may own.
const AT_ONCE: u32 = 4;

/// The worker's own lease.
#[derive(Clone, Debug)]
pub struct Lease {
    until: Arc<Mutex<Instant>>,
    lost: Arc<AtomicBool>,
}

impl Lease {
    /// Takes the lease and keeps renewing it, in a task of its own.
    pub async fn take(
        store: Arc<dyn Store>,
        engine: EngineId,
        journal: Arc<Journal>,
    ) -> Result<Self, StoreError> {
        let lost = Arc::new(AtomicBool::new(false));
        let lease = Self { until: Arc::new(Mutex::new(Instant::now())), lost };
        lease.renew(&*store, engine, &journal).await?;
        let renewing = lease.clone();
        tokio::spawn(async move {
            while !renewing.lost.load(Ordering::SeqCst) {
                pause(TTL / 3).await;
                // A failed renewal is tried again at the next turn; the clock decides.
                let _ = renewing.renew(&*store, engine, &journal).await;
            }
        });
        Ok(lease)
    }

    /// Counts from the moment before the renewal is sent: others count from when they see it.
    async fn renew(
        &self,
        store: &dyn Store,
        engine: EngineId,
        journal: &Journal,
    ) -> Result<(), StoreError> {
        let (before, sent) = (Instant::now(), micros());
        if store.heartbeat(engine, LEASE_MS).await? {
            *self.until.lock().expect("nothing panics under this lock") = before + TTL;
            journal.note(&Note::Beat { sent });
        } else {
            self.lost.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Whether the engine may go on: it has not been declared dead, and nobody can do so yet.
    pub fn is_good(&self) -> bool {
        let until = *self.until.lock().expect("nothing panics under this lock");
        !self.lost.load(Ordering::SeqCst) && Instant::now() + MARGIN < until
    }
}

/// What a worker has seen of other engines: the last beat, and when it changed, by its own clock.
#[derive(Debug, Default)]
pub struct Watch(BTreeMap<EngineId, (i64, Instant)>);

impl Watch {
    /// Looks at all engines: those whose beat has stopped, to be declared dead, and those who are
    /// dead and still own something.
    pub async fn look(&mut self, store: &dyn Store, me: EngineId) -> Result<Found, StoreError> {
        let snapshot = store.read(ReadSet::default().scan(Scan::Engines, MANY)).await?;
        let mut found = Found::default();
        for row in snapshot.found(&Scan::Engines) {
            let Row::Engine(row) = row else { continue };
            let seen = self.0.entry(row.id).or_insert((row.beat, Instant::now()));
            if seen.0 != row.beat {
                *seen = (row.beat, Instant::now());
            }
            if row.dead {
                found.dead.push(row.id);
            } else if row.id != me && seen.1.elapsed() >= TTL {
                found.stopped.push(Command::MarkDead { engine: row.id, beat: row.beat });
                found.dead.push(row.id);
            }
        }
        Ok(found)
    }
}

/// What a look at the engines has found.
#[derive(Debug, Default)]
pub struct Found {
    /// To be declared dead, if they have not moved since.
    pub stopped: Vec<Command>,
    /// Dead, or about to be.
    pub dead: Vec<EngineId>,
}

impl Found {
    /// What takes some of the runs of the dead from them.
    pub async fn reap(&self, store: &dyn Store) -> Result<Vec<Command>, StoreError> {
        let owned = self
            .dead
            .iter()
            .fold(ReadSet::default(), |reads, engine| reads.scan(Scan::Owned(*engine), AT_ONCE));
        let snapshot = store.read(owned).await?;
        let of = |engine| snapshot.found(&Scan::Owned(engine)).into_iter().filter_map(Row::as_run);
        let reap = |engine| {
            of(engine).map(move |run| Command::Reap {
                known: Box::new(run.clone()),
                engine,
                max_deaths: tidegate_core::run::sweep::MAX_DEATHS,
            })
        };
        Ok(self.dead.iter().flat_map(|engine| reap(*engine)).collect())
    }
}
