//! Statements of SQLite.

use std::sync::LazyLock;

use tidegate_core::row::RowKind;

use crate::sql::{self, Dialect, SharedStatements, TableStatements, statements};

statements! {
    /// Written statements that only SQLite has.
    OwnStatements {
        engine_void,
        fence_next,
        file_check,
        file_copy,
        meta_read,
        meta_write,
        migration_create,
        migration_dump,
        migration_insert,
        run_ready_next,
        schema_dump,
    }
}

static WRITTEN: LazyLock<(SharedStatements, OwnStatements)> = LazyLock::new(|| {
    let mut written = Dialect::Sqlite.written();
    let statements = (SharedStatements::take(&mut written), OwnStatements::take(&mut written));
    written.finish();
    statements
});

/// Returns the written statements that both dialects have.
pub(super) fn shared() -> &'static SharedStatements {
    &WRITTEN.0
}

/// Returns the written statements that only SQLite has.
pub(super) fn own() -> &'static OwnStatements {
    &WRITTEN.1
}

/// Returns the statements that are derived from a table.
pub(super) fn of(kind: RowKind) -> &'static TableStatements {
    sql::of(Dialect::Sqlite, kind)
}

/// Returns all written statements.
pub(crate) fn written() -> Vec<&'static str> {
    [shared().all(), own().all()].concat()
}
