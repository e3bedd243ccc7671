//! The lease of a worker, and its detection of dead engines (spec R8).

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

/// Row limit of one read of the engines.
const MANY: u32 = 200;

/// Maximum number of runs that are reaped from one dead engine at once; an engine may own more.
const AT_ONCE: u32 = 4;

/// The worker's own lease.
#[derive(Clone, Debug)]
pub struct Lease {
    until: Arc<Mutex<Instant>>,
    lost: Arc<AtomicBool>,
}

impl Lease {
    /// Sends the first heartbeat and starts a task that renews the lease.
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
                // A failed renewal is retried at the next interval. Without success, the lease ends
                // by the clock.
                let _ = renewing.renew(&*store, engine, &journal).await;
            }
        });
        Ok(lease)
    }

    /// Renews the lease. It lasts from the time before the heartbeat was sent, because other
    /// engines count from a later time, when they see it.
    async fn renew(
        &self,
        store: &dyn Store,
        engine: EngineId,
        journal: &Journal,
    ) -> Result<(), StoreError> {
        let (before, sent) = (Instant::now(), micros());
        if store.heartbeat(engine, LEASE_MS).await? {
            *self.until.lock().expect("no code panics while it holds this lock") = before + TTL;
            journal.note(&Note::Beat { sent });
        } else {
            self.lost.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Whether the engine may continue: it was not marked dead, and its lease has not nearly ended.
    pub fn is_good(&self) -> bool {
        let until = *self.until.lock().expect("no code panics while it holds this lock");
        !self.lost.load(Ordering::SeqCst) && Instant::now() + MARGIN < until
    }
}

/// The last heartbeat of each other engine, and when the worker saw it change, by its own clock.
#[derive(Debug, Default)]
pub struct Watch(BTreeMap<EngineId, (i64, Instant)>);

impl Watch {
    /// Reads all engines. Finds those whose heartbeats have stopped, which have to be marked dead,
    /// and those that are dead.
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

/// Result of a read of the engines.
#[derive(Debug, Default)]
pub struct Found {
    /// Commands that mark engines dead, unless a newer heartbeat arrives first.
    pub stopped: Vec<Command>,
    /// Engines that are dead, or that the commands will mark dead.
    pub dead: Vec<EngineId>,
}

impl Found {
    /// Builds the commands that reap some runs of the dead engines.
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
