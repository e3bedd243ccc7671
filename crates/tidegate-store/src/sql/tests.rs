//! The derived statements equal the ones on file, and the loader refuses mistakes.

use std::fmt::Write;

use expect_test::{ExpectFile, expect_file};
use tidegate_core::row::RowKind;

use super::{Dialect, Written, of};
use crate::codec::Table;

/// A changed statement is accepted with `UPDATE_EXPECT=1`, after a look at the difference.
fn assert_derived(dialect: Dialect, head: &str, file: ExpectFile) {
    let mut text = format!("-- Derived from src/schema.rs by src/sql/derive.rs.\n{head}");
    for kind in RowKind::ALL {
        let table = Table::of(kind);
        let lock = match (kind.is_locked(), table.latched) {
            (true, _) if table.written_lock => "locked by a written statement before they change",
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
-- Parameters are columns in order, for a read or delete those of the key. SQLite has one writer, so
-- nothing is locked. Reads, updates and deletes search the primary key. The caller checks that an
-- update or delete changed one row; an insert of an existing key fails.
--
-- read    one row by key
-- insert  a row
-- update  all columns of a row; of a table that is all key, only checks that the row exists
-- delete  one row by key
-- dump    all rows in key order
";
    assert_derived(Dialect::Sqlite, head, expect_file!["../../sql/sqlite/derived.sql"]);
}

#[cfg(feature = "postgres")]
#[test]
fn the_derived_statements_of_postgres_are_the_ones_on_file() {
    let head = "\
-- Parameters are columns in order, one array for each, for a read, lock or delete those of the key;
-- sorted by key. Each key is looked up by itself in the primary key, whatever the statistics say
-- (README).
--
-- read    rows by key; an absent row is left out
-- insert  rows; never `on conflict`: the caller decides what an existing row means
-- update  all columns of rows; of a table that is all key, only checks that the rows exist. A
--         missing row is an error (spec R2), raised here because COMMIT is already on its way
-- delete  rows by key; a missing row is an error, as for an update
-- dump    all rows in key order, for tests, `doctor` and backups
-- lock    rows by key, as they are once the locks are held. Locks in the order of the arrays, which
--         is that of the keys, and waits. Returns columns of the locked rows only (spec R15): other
--         rows are read by a later statement. An absent row locks nothing (spec R3)
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

/// Loads one statement and takes it by a name.
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
#[should_panic(expected = "statements that no list has: [\"run_late\"]")]
fn a_statement_without_a_use_is_refused() {
    let text = "-- name: run_due\n-- Reads.\nselect 1\n\n-- name: run_late\n-- Reads.\nselect 1\n";
    load("run", text, "run_due");
}

#[test]
#[should_panic(expected = "run.sql: run_due is there twice")]
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
