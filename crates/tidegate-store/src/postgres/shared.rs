//! Operations of a store other than transactions: reads, heartbeats and dumps.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use tidegate_core::{
    reads::{ReadSet, Snapshot},
    row::{Engine, EngineId, Row, RowKind},
};

use super::{
    Settings,
    call::{Call, Param, decode, row_params},
    connection::{Connection, first_error},
    error::Trouble,
    pool::Pool,
    reading::{Held, Reading, Touch, load_catalogs},
    sql,
    token::Tokens,
};
use crate::{StoreError, Visit, catalogs::Catalogs, codec};

/// State shared by the tasks of a store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) committers: Pool,
    pub(super) readers: Pool,
    /// Separate pool for transactional steps, because user code may hold a connection for long.
    pub(super) steps: Pool,
    /// Separate pool for heartbeats, so that they are sent even if all other connections are busy.
    beats: Pool,
    /// Separate pool for named leases, so that they are renewed in time and do not delay
    /// heartbeats.
    pub(super) leases: Pool,
    pub(super) tokens: Tokens,
    pub(super) catalogs: Catalogs,
    /// Engines that have sent a heartbeat by this store. Their rows are not created again.
    engines: Mutex<BTreeSet<EngineId>>,
}

/// Number of connections for named leases: two, so that a wait for one name does not block the
/// renewal of another.
const LEASE_CONNECTIONS: usize = 2;

impl Shared {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            committers: Pool::new(settings.clone(), settings.options.committers),
            readers: Pool::new(settings.clone(), settings.options.readers),
            steps: steps(&settings),
            beats: Pool::new(settings.for_beats(), 1),
            leases: Pool::new(settings.for_beats(), LEASE_CONNECTIONS),
            tokens: Tokens::default(),
            catalogs: Catalogs::default(),
            engines: Mutex::default(),
            settings,
        }
    }

    /// Reads all rows of `reads` from one snapshot of the database.
    pub(super) async fn read(&self, reads: &ReadSet) -> Result<Snapshot, StoreError> {
        let mut tries = self.readers.tries();
        loop {
            let lent = tries.lend().await?;
            let result = self.try_read(&lent.connection, reads).await;
            if let Some(done) = tries.settle(lent, result).await? {
                return Ok(done);
            }
        }
    }

    async fn try_read(
        &self,
        connection: &Connection,
        reads: &ReadSet,
    ) -> Result<Snapshot, Trouble> {
        let mut reading = Reading::new(reads, Touch::Look)?;
        reading.begin(&self.settings, reads);
        if reads.catalogs.is_empty() {
            // No definitions have to be read, so COMMIT can be sent in the same flight.
            reading.end();
        }
        let (mut snapshot, mut held) = (Snapshot::default(), Held::default());
        // Nothing is written, so the latches need not be taken.
        snapshot.hold(&reads.latches);
        reading.run(connection, &self.catalogs, &mut snapshot, &mut held).await?;
        if !reads.catalogs.is_empty() {
            load_catalogs(connection, &self.catalogs, held.stale, &mut snapshot).await?;
            connection.control(sql::COMMIT).await?;
        }
        Ok(snapshot)
    }

    pub(super) async fn heartbeat(
        &self,
        engine: EngineId,
        lease_ms: u32,
    ) -> Result<bool, StoreError> {
        let mut tries = self.beats.tries();
        loop {
            let lent = tries.lend().await?;
            let result = self.try_beat(&lent.connection, engine, lease_ms).await;
            if let Some(done) = tries.settle(lent, result).await? {
                if done {
                    self.engines.lock().unwrap_or_else(PoisonError::into_inner).insert(engine);
                }
                return Ok(done);
            }
        }
    }

    async fn try_beat(
        &self,
        connection: &Connection,
        engine: EngineId,
        lease_ms: u32,
    ) -> Result<bool, Trouble> {
        if self.beats.write_alone(connection, beat_call(engine)).await?.len() == 1 {
            return Ok(true);
        }
        if self.engines.lock().unwrap_or_else(PoisonError::into_inner).contains(&engine) {
            // The row existed before, so the engine was marked dead, and its row may be deleted.
            return Ok(false);
        }
        let row = Row::Engine(Engine::new(engine, lease_ms));
        let insert = Call::new(sql::of(RowKind::Engine).insert, row_params(&[row])?);
        match self.beats.write_alone(connection, insert).await {
            Ok(_) => Ok(true),
            Err(Trouble::Clash(..)) => {
                Ok(self.beats.write_alone(connection, beat_call(engine)).await?.len() == 1)
            }
            Err(trouble) => Err(trouble),
        }
    }

    pub(super) async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        let mut tries = self.readers.tries();
        loop {
            let (lent, mut rows) = (tries.lend().await?, Vec::new());
            let result = self.try_walk(&lent.connection, |row| rows.push(row)).await;
            if tries.settle(lent, result).await?.is_some() {
                return Ok(rows);
            }
        }
    }

    /// Visits all rows of one snapshot. It is not retried after an error, because `visit` has
    /// already seen some rows.
    pub(super) async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        let lent = self.readers.tries().lend().await?;
        match self.try_walk(&lent.connection, |row| visit(&row)).await {
            Ok(()) => {
                self.readers.give_back(lent);
                Ok(())
            }
            Err(trouble) => {
                self.readers.give_back_after(lent, &trouble).await;
                Err(trouble.into_error())
            }
        }
    }

    async fn try_walk(
        &self,
        connection: &Connection,
        mut take: impl FnMut(Row) + Send,
    ) -> Result<(), Trouble> {
        let begin = [Call::new(sql::BEGIN_READ, Vec::new()), self.settings.for_long_transaction()];
        first_error(connection.run(&begin).await?)?;
        for kind in RowKind::ALL {
            let show = |row: &tokio_postgres::Row| {
                take(decode(kind, row, 0)?);
                Ok(())
            };
            connection.each(sql::of(kind).dump, show).await?;
        }
        connection.control(sql::COMMIT).await
    }
}

/// Creates the pool for transactional steps. Behind a pooler every step gets a new connection: the
/// driver reuses prepared statements for type lookups, but in the next step the pooler may use a
/// server connection on which they are not prepared.
fn steps(settings: &Settings) -> Pool {
    let (ours, size) = (settings.for_steps(), settings.options.steps);
    if settings.options.pooler { Pool::without_reuse(ours, size) } else { Pool::new(ours, size) }
}

fn beat_call(engine: EngineId) -> Call {
    Call::new(sql::shared().engine_beat, vec![Param::Text(codec::engine_text(engine))])
}
