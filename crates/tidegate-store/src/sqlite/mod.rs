//! SQLite store: all rows in one file.
//!
//! One thread owns the connection that writes: transactions run one after another, so rows need no
//! locks. Another thread reads at the same time, which the write-ahead log makes possible. The file
//! has one owner: a second process gets an error. Opening marks engines of earlier owners dead.

mod error;
mod lease;
mod lock;
mod place;
mod read_only;
pub(crate) mod statements;
mod step;
#[cfg(test)]
mod tests;
mod view;
mod worker;
mod writer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tokio::sync::watch;

use crate::{
    Database, Decide, SeededCommand, StepRecord, Store, StoreError, TransactionError, Visit,
    catalogs::Catalogs, clock::Clock, single_writer::fill,
};
use error::{refused, refused_for};
use lock::FileLock;
pub use read_only::SqliteLook;
pub use step::SqliteTransaction;
use view::View;
use worker::Worker;
use writer::Writer;

/// How long a statement waits for another program that has locked the file, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Capacity of the cache of prepared statements, of which there are a little over a hundred.
const STATEMENTS: usize = 160;

/// Store in one file, owned by this process alone.
#[derive(Debug)]
pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    catalogs: Arc<Catalogs>,
    wakes: watch::Sender<u64>,
    /// Path of the file; `None` for a store in memory.
    path: Option<PathBuf>,
    /// Thread that reads; `None` for a store in memory.
    reader: Option<Worker<Connection>>,
    // Declared after the reader, so that it is dropped last: the last connection to be closed
    // checkpoints the log, and must be able to write.
    writer: Worker<Writer>,
}

impl SqliteStore {
    /// Opens or creates a file and takes ownership of it for this process.
    pub async fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let (reader_path, own_path) = (path.clone(), path.clone());
        let make = move || {
            let lock = FileLock::take(&path)?;
            Ok((connect(&path, Access::Write)?, Some(lock)))
        };
        let store = Self::start(clock, make).await?;
        let reader = Worker::start("tidegate-read", move || connect(&reader_path, Access::Read));
        let reader = Some(reader.await?);
        // Checks that reader and writer have opened the file that was locked.
        let check = |writer: &mut Writer| writer.check_place().map_err(StoreError::FileGone);
        store.writer.call(check).await?;
        Ok(Self { path: Some(own_path), reader, ..store })
    }

    /// Creates a store without a file. Its rows are lost when it is dropped.
    pub async fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let make = || {
            let db = Connection::open_in_memory().map_err(refused)?;
            set_up(&db).map_err(refused)?;
            Ok((db, None))
        };
        Self::start(clock, make).await
    }

    async fn start(
        clock: Arc<dyn Clock>,
        make: impl FnOnce() -> Result<(Connection, Option<FileLock>), StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let catalogs = Arc::new(Catalogs::default());
        let (writer_clock, writer_catalogs) = (clock.clone(), catalogs.clone());
        let writer = Worker::start("tidegate-write", move || {
            let (db, lock) = make()?;
            Writer::open(db, lock, writer_clock, writer_catalogs)
        });
        let writer = writer.await?;
        let wakes = watch::Sender::new(0);
        Ok(Self { clock, catalogs, wakes, path: None, reader: None, writer })
    }

    /// Default timeout of a transactional step. All other writes wait for the step, heartbeats
    /// included, so it is shorter than a quarter of an engine's lease (7.5 of 30 seconds).
    pub const STEP_LIMIT: Duration = Duration::from_secs(5);

    /// Runs a transactional step: the writes of `step` and its `record` are committed together or
    /// not at all.
    ///
    /// `step` runs on the thread that writes, and all other writes wait for it, so it should have
    /// only a few statements. After `limit` its statements are interrupted and its writes are
    /// rolled back. A `step` that computes or waits outside SQLite cannot be interrupted; it is
    /// rolled back when it returns. `record` returns the commands that record the step: all of them
    /// are committed, or none. A panic of either function is passed to the caller, and all writes
    /// are rolled back.
    pub async fn transact_with<T: Send + 'static, E: Send + 'static>(
        &self,
        limit: Duration,
        step: impl FnOnce(&SqliteTransaction<'_>) -> Result<T, E> + Send + 'static,
        record: impl FnOnce(&T) -> Vec<SeededCommand> + Send + 'static,
    ) -> Result<StepRecord<T>, TransactionError<E>> {
        let done = self.writer.call(move |writer| Ok(writer.transact_with(limit, step, record)));
        done.await?
    }

    /// Runs a function on a connection that reads all committed rows.
    async fn look<A: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<A, StoreError> + Send + 'static,
    ) -> Result<A, StoreError> {
        let look = move |db: &mut Connection| {
            // In one transaction, so that all statements read from the same snapshot.
            let tx = db.transaction().map_err(refused)?;
            look(&tx)
        };
        match &self.reader {
            Some(reader) => reader.call(look).await,
            None => self.writer.call(move |writer| look(&mut writer.db)).await,
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        self.writer.call(move |writer| writer.transact(reads, &mut decide)).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let (clock, catalogs) = (self.clock.clone(), self.catalogs.clone());
        self.look(move |db| {
            let mut snapshot = Snapshot { now: clock.now(), ..Snapshot::default() };
            fill(&View { db, catalogs: &catalogs }, &reads, &mut snapshot)?;
            Ok(snapshot)
        })
        .await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        self.writer.call(move |writer| writer.heartbeat(engine, lease_ms)).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.catalogs.all()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.wakes.subscribe()
    }

    fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        let all = Arc::new(Mutex::new(Vec::new()));
        let rows = all.clone();
        let keep = move |row: &Row| {
            rows.lock().unwrap_or_else(PoisonError::into_inner).push(row.clone());
        };
        self.walk(Box::new(keep)).await?;
        Ok(std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        match &self.path {
            // On its own connection, so that other reads can continue meanwhile.
            Some(path) => SqliteLook::connect(path.clone()).await?.walk(visit).await,
            None => self.writer.call(move |writer| view::walk(&mut writer.db, &mut visit)).await,
        }
    }

    fn database(&self) -> Database<'_> {
        Database::Sqlite(self)
    }
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

fn connect(path: &PathBuf, access: Access) -> Result<Connection, StoreError> {
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let named = |error: rusqlite::Error| refused_for(path.display(), error);
    // No URI flag: a file name may contain any character. No mutex: one thread uses it.
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let db = db.map_err(named)?;
    set_up(&db).map_err(named)?;
    match access {
        Access::Read => Ok(db),
        Access::Write => {
            let mode = db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
            let mode: String = mode.map_err(named)?;
            if mode != "wal" {
                return Err(StoreError::Config(crate::Reason::from(format!(
                    "{}: SQLite keeps no write-ahead log here (its mode stays `{mode}`); \
                     use a local disk",
                    path.display()
                ))));
            }
            db.pragma_update(None, "synchronous", "full").map_err(named)?;
            // Without `fullfsync`, synced data may still be in the cache of the disk on macOS.
            db.pragma_update(None, "fullfsync", true).map_err(named)?;
            Ok(db)
        }
    }
}

fn set_up(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY_TIMEOUT)?;
    // Without this option, SQLite plans a statement for the value of its `limit ?`, and compiles it
    // again whenever another value is bound.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}
