//! Schema migration, by one process at a time.

use super::{
    Settings,
    call::{self, Call, Param},
    connection::{Connection, first_error},
    error::Trouble,
    latch,
    pool::Pool,
    sql,
};
use crate::{
    StoreError,
    migrate::{Applied, Migration, log_migrated, pending},
    schema::POSTGRES_MIGRATIONS,
};

/// How the migration's transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Commits, to apply the migrations.
    Commit,
    /// Rolls back, because the caller only wants to know the pending migrations.
    RollBack,
}

/// Creates the schema if it is missing, and applies all pending migrations in one transaction.
/// Returns the pending migrations.
pub(super) async fn migrate(
    settings: &Settings,
    then: Then,
) -> Result<&'static [Migration], StoreError> {
    let pool = Pool::new(settings.clone(), 1);
    let mut tries = pool.tries();
    loop {
        let lent = tries.lend().await?;
        let result = attempt(settings, &lent.connection, then).await;
        if let Some(done) = tries.settle(lent, result).await? {
            return Ok(done);
        }
    }
}

async fn attempt(
    settings: &Settings,
    connection: &Connection,
    then: Then,
) -> Result<&'static [Migration], Trouble> {
    let schema = &settings.options.schema;
    let calls = [
        Call::new(sql::BEGIN, Vec::new()),
        settings.for_long_transaction(),
        latch::migrations(schema),
        Call::new(sql::own().schema_name, vec![Param::Text(schema.clone())]),
        Call::new(sql::own().schema_create, Vec::new()),
        Call::new(sql::own().migration_table, Vec::new()),
    ];
    // Not prepared, because preparation takes place outside this transaction, where the table may
    // not exist yet.
    first_error(connection.run_unnamed(&calls).await?)?;
    let read = [Call::new(sql::own().migration_read, Vec::new())];
    let answers = first_error(connection.run_unnamed(&read).await?)?;
    let mut applied = Vec::new();
    for row in answers.iter().flatten() {
        let (version, name) = (call::int(row, 0)?, call::text(row, 1)?);
        applied.push(Applied { version, name, checksum: call::text(row, 2)? });
    }
    let left = pending(POSTGRES_MIGRATIONS, &applied)?;
    if then == Then::RollBack {
        connection.control(sql::ROLLBACK).await?;
        return Ok(left);
    }
    for migration in left {
        connection.script(migration.sql).await?;
        first_error(connection.run_unnamed(&[record(migration)]).await?)?;
    }
    connection.control(sql::COMMIT).await?;
    log_migrated(left);
    Ok(left)
}

fn record(migration: &Migration) -> Call {
    let Applied { version, name, checksum } = migration.applied();
    let params = vec![Param::Int(version), Param::Text(name), Param::Text(checksum)];
    Call::new(sql::own().migration_insert, params)
}
