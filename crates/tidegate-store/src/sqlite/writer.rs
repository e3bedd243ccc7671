//! Writer: the only connection that writes, and its transactions.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params_from_iter};
use tidegate_core::{
    id::Seq,
    reads::{BLOCK, Change, ReadSet, Snapshot},
    row::{EngineId, RowKey},
    time::Timestamp,
};

use super::{
    error::{not_committed, refused, refused_for},
    lock::FileLock,
    statements as sql,
    step::{SqliteTransaction, Watch},
    view::View,
};
use crate::{
    Decide, SeededCommand, StepRecord, StoreError, TransactionError,
    catalogs::{Catalogs, Redefined},
    clock::Clock,
    codec::{self, Cell},
    migrate::{Applied, Migration, log_migrated, pending},
    schema::SQLITE_MIGRATIONS,
    single_writer::{Source, settle},
    transactional::recording::recording,
};

/// Number of blocks of sequence numbers that one write reserves. After a crash the unused ones are
/// skipped, at most 262,144 of 2^63 numbers. With a smaller number, the row would be written more
/// often.
const BLOCKS_AHEAD: i64 = 64;

/// Name in the table `meta` of the first sequence number that is not reserved.
const SEQUENCE: &str = "sequence";

/// The connection that writes, with state that only its thread may change.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) rules: Rules,
    watch: Watch,
    /// Engines that have sent a heartbeat. If the row of such an engine was deleted, its next
    /// heartbeat does not create it again.
    engines: BTreeSet<EngineId>,
    /// Lock of the file; `None` for a store in memory.
    // Declared after the connection, so that the lock is released after the database is closed.
    lock: Option<FileLock>,
}

/// State of the writer that decisions need in addition to rows: clock, catalogs and sequence
/// numbers.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) clock: Arc<dyn Clock>,
    catalogs: Arc<Catalogs>,
    /// Next sequence number to assign.
    next: i64,
    /// First sequence number that is not reserved. After a crash, numbers are assigned from here
    /// on. At a commit it is never below `next`.
    set_aside: i64,
}

impl Writer {
    /// Migrates the schema, and marks the engines that used the file before as dead.
    pub(super) fn open(
        mut db: Connection,
        mut lock: Option<FileLock>,
        clock: Arc<dyn Clock>,
        catalogs: Arc<Catalogs>,
    ) -> Result<Self, StoreError> {
        let next = take_over(&mut db, clock.now())?;
        let watch = Watch::over(&mut db).map_err(refused)?;
        let rules = Rules { clock, catalogs, next, set_aside: next };
        let engines = BTreeSet::new();
        lock.as_mut().map_or(Ok(()), FileLock::add_log)?;
        Ok(Self { db, rules, watch, engines, lock })
    }

    /// Checks that the store's files are still at their paths. The error names the file that is
    /// not.
    pub(super) fn check_place(&self) -> Result<(), String> {
        self.lock.as_ref().map_or(Ok(()), FileLock::check)
    }

    /// Runs one transaction. Returns `Ok` when it is on disk and the store's files are still at
    /// their paths.
    ///
    /// All writes use this function. No write begins if a file is missing, and none returns `Ok` if
    /// a file has disappeared in the meantime. A transaction that wrote nothing does not wait for
    /// the disk.
    pub(super) fn commit<A, E: From<StoreError>>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>, &mut Rules) -> Result<A, E>,
    ) -> Result<A, E> {
        self.check_place().map_err(StoreError::FileGone)?;
        // Every early return drops the transaction and so rolls it back. This includes a failed
        // commit, after which the transaction is still open.
        let tx = begin(&mut self.db)?;
        let answer = act(&tx, &mut self.rules)?;
        tx.commit().map_err(not_committed)?;
        self.check_place().map_err(|reason| StoreError::Unknown(reason.into()))?;
        Ok(answer)
    }

    /// Runs one transaction: read, decide, write, commit.
    pub(super) fn transact(
        &mut self,
        reads: ReadSet,
        decide: &mut Decide,
    ) -> Result<(), StoreError> {
        let carried = self.commit(|tx, rules| rules.carry_out(tx, reads, decide))?;
        self.rules.keep(carried);
        Ok(())
    }

    /// Runs one transaction in which a step writes first and is then recorded.
    pub(super) fn transact_with<T, E>(
        &mut self,
        limit: Duration,
        step: impl FnOnce(&SqliteTransaction<'_>) -> Result<T, E>,
        record: impl FnOnce(&T) -> Vec<SeededCommand>,
    ) -> Result<StepRecord<T>, TransactionError<E>> {
        let watch = self.watch.clone();
        let (record, carried) = self.commit(|tx, rules| {
            let value = watch.run(tx, limit, step)?;
            let (reads, mut decide, verdict) = recording(record(&value), &rules.catalogs.all());
            let carried = rules.carry_out(tx, reads, &mut decide)?;
            let answers = verdict.take()?;
            Ok::<_, TransactionError<E>>((StepRecord { value, answers }, carried))
        })?;
        self.rules.keep(carried);
        Ok(record)
    }

    /// Renews the lease of an engine. Returns `false` if the engine was declared dead; its row may
    /// be deleted since.
    pub(super) fn heartbeat(
        &mut self,
        engine: EngineId,
        lease_ms: u32,
    ) -> Result<bool, StoreError> {
        let was_here = self.engines.contains(&engine);
        let beats = self.commit(|tx, rules| {
            let view = View { db: tx, catalogs: &rules.catalogs };
            if was_here && view.row(&RowKey::Engine(engine))?.is_none() {
                return Ok(false);
            }
            let statement = tx.prepare_cached(sql::shared().engine_beat);
            let row = (codec::engine_text(engine), lease_ms);
            let written = statement.and_then(|mut statement| statement.execute(row));
            Ok::<_, StoreError>(written.map_err(refused)? == 1)
        })?;
        if beats {
            self.engines.insert(engine);
        }
        Ok(beats)
    }
}

/// New state of the writer, which is applied when a transaction is committed.
struct Carried {
    /// First sequence number that is not reserved.
    set_aside: i64,
    redefined: Redefined,
}

impl Rules {
    /// Applies the state of a committed transaction.
    fn keep(&mut self, carried: Carried) {
        self.set_aside = carried.set_aside;
        self.catalogs.follow(carried.redefined);
    }

    /// Reads, decides and writes in a transaction.
    fn carry_out(
        &mut self,
        tx: &Connection,
        reads: ReadSet,
        decide: &mut Decide,
    ) -> Result<Carried, StoreError> {
        let block = self.next;
        self.next += BLOCK;
        let mut set_aside = self.set_aside;
        if self.next > set_aside {
            set_aside = block + BLOCK * BLOCKS_AHEAD;
            write_meta(tx, SEQUENCE, set_aside).map_err(refused)?;
        }
        let snapshot = Snapshot { now: self.clock.now(), block: Seq(block), ..Snapshot::default() };
        let view = View { db: tx, catalogs: &self.catalogs };
        let changes = settle(&view, reads, decide, snapshot)?;
        let redefined = Redefined::by(&changes);
        for change in changes {
            apply(tx, change)?;
        }
        Ok(Carried { set_aside, redefined })
    }
}

fn begin(db: &mut Connection) -> Result<Transaction<'_>, StoreError> {
    let begun = db.transaction_with_behavior(TransactionBehavior::Immediate);
    begun.map_err(refused)
}

fn apply(db: &Connection, change: Change) -> Result<(), StoreError> {
    let key = change.key();
    let statements = sql::of(key.kind());
    let (sql, cells) = match &change {
        Change::Insert(row) => (statements.insert, codec::cells(row)),
        Change::Update(row) => (statements.update, codec::cells(row)),
        Change::Delete(key) => (statements.delete, codec::key_cells(key)),
    };
    if let Change::Insert(row) | Change::Update(row) = &change {
        codec::check(row, &cells)?;
    }
    let mut statement = db.prepare_cached(sql).map_err(refused)?;
    match statement.execute(params_from_iter::<&Vec<Cell>>(&cells)) {
        Ok(1) => Ok(()),
        Ok(_) => Err(StoreError::Data(format!("{key:?} does not exist").into())),
        Err(error) => Err(refused_for(format_args!("{key:?}"), error)),
    }
}

/// Takes ownership of the file: migrates the schema and marks all engines dead, in one transaction.
/// Returns the first sequence number that was never assigned.
pub(super) fn take_over(db: &mut Connection, now: Timestamp) -> Result<i64, StoreError> {
    let tx = begin(db)?;
    let migrated = migrate(&tx, now)?;
    tx.execute(sql::own().engine_void, ()).map_err(refused)?;
    let reserved = tx.query_row(sql::own().meta_read, [SEQUENCE], |row| row.get(0)).optional();
    let next = reserved.map_err(refused)?.unwrap_or(1);
    tx.commit().map_err(not_committed)?;
    log_migrated(migrated);
    Ok(next)
}

/// Applies the pending migrations, and records each of them.
fn migrate(tx: &Connection, now: Timestamp) -> Result<&'static [Migration], StoreError> {
    let left = left(tx)?;
    tx.execute(sql::own().migration_create, ()).map_err(refused)?;
    for migration in left {
        let failed = |error: rusqlite::Error| {
            let (version, name) = (migration.version, migration.name);
            StoreError::Schema(format!(
                "migration {version} `{name}` failed, and nothing was changed: {error}; \
                 go on with the Tidegate that had the file before, and report this"
            ))
        };
        tx.execute_batch(migration.sql).map_err(failed)?;
        let record = (migration.version, migration.name, migration.checksum(), now.micros());
        tx.execute(sql::own().migration_insert, record).map_err(refused)?;
    }
    Ok(left)
}

/// Returns the pending migrations, without applying them.
pub(super) fn left(db: &Connection) -> Result<&'static [Migration], StoreError> {
    let tables = schema(db).map_err(refused)?;
    if tables.is_empty() {
        return Ok(SQLITE_MIGRATIONS);
    }
    if !tables.iter().any(|text| text.starts_with("CREATE TABLE migration")) {
        return Err(StoreError::Schema(
            "the file is a database of another program; use another file".to_owned(),
        ));
    }
    pending(SQLITE_MIGRATIONS, &applied(db).map_err(refused)?)
}

/// Returns the SQL text of every table and index.
pub(super) fn schema(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(sql::own().schema_dump)?;
    let texts = statement.query_map((), |row| row.get(0))?;
    texts.collect()
}

fn applied(db: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let mut statement = db.prepare(sql::own().migration_dump)?;
    let rows = statement.query_map((), |row| {
        Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? })
    })?;
    rows.collect()
}

fn write_meta(db: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached(sql::own().meta_write)?.execute((name, value))?;
    Ok(())
}
