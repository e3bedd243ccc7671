//! Tests that `derived.sql` is up to date, and that the loader refuses mistakes.

use std::fmt::Write;

use expect_test::{ExpectFile, expect_file};
use tidegate_core::row::RowKind;

use super::{Dialect, Written, of};
use crate::codec::Table;

/// Compares the derived statements with `derived.sql`. `UPDATE_EXPECT=1` writes the file after an
/// intended change.
fn assert_derived(dialect: Dialect, head: &str, file: ExpectFile) {
    let mut text = format!("-- Derived from src/schema.rs by src/sql/derive.rs.\n{head}");
    for kind in RowKind::ALL {
        let table = Table::of(kind);
        let lock = match (kind.is_locked(), table.latched) {
            (true, _) if table.written_lock => "locked by `run_lock` before they change",
            (true, _) => "locked before they change",
            (false, true) => "changed under the latch of their workspace",
            (false, false) => "changed under the lock of the row that owns them",
        };
        let race = if table.contested { "; two transactions may insert the same key" } else { "" };
        write!(text, "\n-- table: {}\n-- Rows are {lock}{race}.\n", table.name).unwrap();
        for statement in of(dialect, kind).all() {
            write!(text, "\n{statement}\n").unwrap();
        }
    }
    file.assert_eq(&text);
}

#[cfg(feature = "sqlite")]
#[test]
fn the_derived_statements_of_sqlite_are_the_ones_on_file() {
    let head = "\
-- The parameters are the columns in their order; for a read or delete, only those of the key.
-- Reads, updates and deletes use the primary key. The caller checks that an update or delete
-- changed one row; an insert of an existing key fails. SQLite has one writer, so no row is locked:
-- the notes on locks below are for PostgreSQL.
--
-- read    one row by key
-- insert  a row
-- update  all columns of a row; if all columns are in the key, only checks that the row exists
-- delete  one row by key
-- dump    all rows in key order
";
    assert_derived(Dialect::Sqlite, head, expect_file!["../../sql/sqlite/derived.sql"]);
}

#[cfg(feature = "postgres")]
#[test]
fn the_derived_statements_of_postgres_are_the_ones_on_file() {
    let head = "\
-- The parameters are the columns in their order, one array per column, with rows sorted by key; for
-- a read, lock or delete, only the columns of the key. Each row is looked up separately in the
-- primary key, so that the plan does not depend on statistics (README).
--
-- read    rows by key; returns nothing for a missing row
-- insert  rows; has no `on conflict`: an existing row is an error, which the caller handles
-- update  all columns of rows; if all columns are in the key, only checks that the rows exist. A
--         missing row is an error (spec R2), raised by the statement because COMMIT is sent with it
-- delete  rows by key; a missing row is an error, as for an update
-- dump    all rows in key order, for tests, `doctor` and backups
-- lock    rows by key, and returns them as they are after the locks are taken. Locks in key order,
--         and waits. Returns only columns of the locked rows (spec R15): other rows are read by a
--         later statement. A missing row is not locked (spec R3)
";
    assert_derived(Dialect::Postgres, head, expect_file!["../../sql/postgres/derived.sql"]);
}

#[test]
fn columns_are_expanded_and_comments_are_left_out() {
    let text = "-- Head of the file.\n\n-- name: log_head_of\n-- Reads it.\n--\n-- Locks nothing.\n\
                select x.n, {found.columns}\n  from (select {columns}\n          from log_head) as \
                found\n\n-- name: log_head_one\n-- Reads one.\nselect 1\n";
    let mut written = Written::load(&[("log_head", text)]);
    let expected = "-- name: log_head_of\nselect x.n, found.ws, found.pos\n  \
                    from (select ws, pos\n          from log_head) as found";
    assert_eq!(written.take("log_head_of"), expected);
    assert_eq!(written.take("log_head_one"), "-- name: log_head_one\nselect 1");
    written.finish();
}

/// Loads a file and takes the statement `name`.
fn load(file: &'static str, text: &'static str, name: &str) {
    let mut written = Written::load(&[(file, text)]);
    written.take(name);
    written.finish();
}

#[test]
#[should_panic(expected = "no file has a statement `run_late`")]
fn a_missing_statement_is_refused() {
    load("run", "-- name: run_due\n-- Reads.\nselect 1\n", "run_late");
}

#[test]
#[should_panic(expected = "statements that no list contains: [\"run_late\"]")]
fn a_statement_without_a_use_is_refused() {
    let text = "-- name: run_due\n-- Reads.\nselect 1\n\n-- name: run_late\n-- Reads.\nselect 1\n";
    load("run", text, "run_due");
}

#[test]
#[should_panic(expected = "run.sql: run_due is defined twice")]
fn a_name_that_is_there_twice_is_refused() {
    let text = "-- name: run_due\n-- Reads.\nselect 1\n\n-- name: run_due\n-- Reads.\nselect 2\n";
    load("run", text, "run_due");
}

#[test]
#[should_panic(expected = "run_due has no comment")]
fn a_statement_without_a_comment_is_refused() {
    load("run", "-- name: run_due\nselect 1\n", "run_due");
}

#[test]
#[should_panic(expected = "run_due is empty")]
fn an_empty_statement_is_refused() {
    load("run", "-- name: run_due\n-- Reads.\n", "run_due");
}

#[test]
#[should_panic(expected = "text before its first")]
fn text_before_the_first_name_is_refused() {
    load("run", "select 1\n-- name: run_due\n-- Reads.\nselect 1\n", "run_due");
}

#[test]
#[should_panic(expected = "has neither `{columns}` nor `{name.columns}`")]
fn a_misspelled_placeholder_is_refused() {
    load("run", "-- name: run_due\n-- Reads.\nselect {colums} from run\n", "run_due");
}

#[test]
#[should_panic(expected = "has neither `{columns}` nor `{name.columns}`")]
fn columns_of_a_file_without_a_table_are_refused() {
    load("lease", "-- name: lease_all\n-- Reads.\nselect {columns} from lease\n", "lease_all");
}
