//! The worker's own lease, and its eye on the leases of others (DESIGN R8).

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
    MARGIN, TTL,
    journal::{Journal, Note},
    micros, pause,
};

/// How many rows one look takes in.
const MANY: u32 = 200;

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
        if store.beat(engine).await? {
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
    /// Looks at all engines; gives what is to be done about those whose beat has stopped.
    pub async fn look(
        &mut self,
        store: &dyn Store,
        me: EngineId,
    ) -> Result<Vec<Command>, StoreError> {
        let snapshot = store.read(ReadSet::default().scan(Scan::Engines, MANY)).await?;
        let (mut commands, mut dead) = (Vec::new(), Vec::new());
        for row in snapshot.found(&Scan::Engines) {
            let Row::Engine(row) = row else { continue };
            let seen = self.0.entry(row.id).or_insert((row.beat, Instant::now()));
            if seen.0 != row.beat {
                *seen = (row.beat, Instant::now());
            }
            if row.dead {
                dead.push(row.id);
            } else if row.id != me && seen.1.elapsed() >= TTL {
                commands.push(Command::MarkDead { engine: row.id, beat: row.beat });
                dead.push(row.id);
            }
        }
        let owned = dead.iter().fold(ReadSet::default(), |reads, engine| {
            reads.scan(Scan::Owned(*engine), MANY)
        });
        let snapshot = store.read(owned).await?;
        for engine in dead {
            let runs = snapshot.found(&Scan::Owned(engine)).into_iter().filter_map(Row::as_run);
            commands.extend(runs.map(|run| Command::Reap { known: Box::new(run.clone()), engine }));
        }
        Ok(commands)
    }
}
