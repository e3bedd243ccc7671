//! Statements of PostgreSQL.

use std::sync::LazyLock;

use tidegate_core::row::RowKind;

use crate::sql::{self, Dialect, SharedStatements, TableStatements, statements};

statements! {
    /// Written statements that only PostgreSQL has.
    OwnStatements {
        clock_read,
        latch_lock,
        migration_insert,
        migration_read,
        migration_table,
        run_lock,
        run_queue_order,
        run_ready_lock,
        schema_create,
        schema_name,
        server_check,
        session_settings,
        step_begin,
        sub_work_lock,
        tx_settings,
        tx_stamp,
        tx_token_close,
        tx_token_open,
        tx_token_write,
        wake_listen,
        wake_send,
    }
}

static WRITTEN: LazyLock<(SharedStatements, OwnStatements)> = LazyLock::new(|| {
    let mut written = Dialect::Postgres.written();
    let statements = (SharedStatements::take(&mut written), OwnStatements::take(&mut written));
    written.finish();
    statements
});

/// Returns the written statements that both dialects have.
pub(super) fn shared() -> &'static SharedStatements {
    &WRITTEN.0
}

/// Returns the written statements that only PostgreSQL has.
pub(super) fn own() -> &'static OwnStatements {
    &WRITTEN.1
}

/// Returns the statements that are derived from a table.
pub(super) fn of(kind: RowKind) -> &'static TableStatements {
    sql::of(Dialect::Postgres, kind)
}

/// Returns all written statements.
pub(crate) fn written() -> Vec<&'static str> {
    [shared().all(), own().all()].concat()
}

// Control statements are constants: they have no parameters and belong to no table.
pub(super) const BEGIN: &str = "begin isolation level read committed read write";
pub(super) const BEGIN_READ: &str = "begin isolation level repeatable read read only";
pub(super) const COMMIT: &str = "commit";
// A COMMIT that fails if the transaction has failed. A plain COMMIT would roll back and succeed
// (spec R11). Here the `select` fails first, and the COMMIT in the same message is not run. Used by
// connections that cannot read the tag of the answer.
pub(super) const COMMIT_IF_INTACT: &str = "select; commit";
pub(super) const ROLLBACK: &str = "rollback";
// Statements between a step's own statements and its record: a step may have changed the settings
// of the session, which are reset.
pub(super) const CONSTRAINTS_NOW: &str = "set constraints all immediate";
pub(super) const SESSION_RESET: &str =
    "set transaction read write; reset session authorization; reset all";
pub(super) const DEALLOCATE: &str = "deallocate all";
pub(super) const ROLLBACK_AND_DEALLOCATE: &str = "rollback; deallocate all";
pub(super) const SAVEPOINT: &str = "savepoint tidegate";
pub(super) const BACK_TO_SAVEPOINT: &str = "rollback to savepoint tidegate";
/// Constants that contain several statements. Each is sent as a script, not as one statement.
pub(super) const SCRIPTS: [&str; 2] = [SESSION_RESET, ROLLBACK_AND_DEALLOCATE];
const CONTROL: [&str; 10] = [
    BEGIN,
    BEGIN_READ,
    COMMIT,
    ROLLBACK,
    CONSTRAINTS_NOW,
    SESSION_RESET,
    DEALLOCATE,
    ROLLBACK_AND_DEALLOCATE,
    SAVEPOINT,
    BACK_TO_SAVEPOINT,
];

/// Returns whether a statement is a control statement (`begin`, `commit` and others). These are not
/// prepared: it would save nothing, and is not possible in a failed transaction.
pub(super) fn is_control(statement: &str) -> bool {
    CONTROL.contains(&statement) || statement == own().wake_listen
}
