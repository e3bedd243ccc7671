//! Loader of written statements: files of named statements, one file per table and dialect.
//!
//! ```text
//! -- name: run_due
//! -- What it does.
//! --
//! -- Parameters, locks, index, what it does not promise.
//! select {columns}
//!   from run
//!  ...
//! ```
//!
//! `{columns}` is replaced by the columns of the file's table in the order of `schema.rs`, and
//! `{found.columns}` by the same columns of a subquery `found`. A mistake in a file is a panic at
//! the first use of the dialect, so every test of a store finds it.

use std::collections::BTreeMap;

use tidegate_core::row::RowKind;

use super::{derive::qualified, text::Text};
use crate::codec::Table;

/// Text at the start of every statement, before its name.
pub(super) const NAME: &str = "-- name: ";

/// Written statements of a dialect by name.
#[derive(Debug, Default)]
pub(crate) struct Written {
    statements: BTreeMap<&'static str, String>,
}

impl Written {
    /// Loads files. Each is given by its name without extension, and its text.
    pub(super) fn load(files: &[(&'static str, &'static str)]) -> Self {
        let mut written = Self::default();
        for (file, text) in files {
            written.add(file, text);
        }
        written
    }

    fn add(&mut self, file: &str, text: &'static str) {
        let table = RowKind::ALL.into_iter().map(Table::of).find(|table| table.name == file);
        let mut parts = text.split(NAME);
        let head = parts.next().unwrap_or_default();
        assert!(
            head.lines().all(|line| line.is_empty() || line.starts_with("--")),
            "sql: {file}.sql has text before its first `{NAME}`"
        );
        for part in parts {
            let (name, rest) = part.split_once('\n').unwrap_or((part, ""));
            let (comments, body) = split_comments(rest);
            assert!(comments > 0, "sql: {file}.sql: {name} has no comment that says what it does");
            let mut statement = Text::default();
            statement.line(&format!("{NAME}{name}"));
            for line in body.trim_end().lines() {
                expand(&mut statement, file, table, line);
            }
            let statement = statement.finish();
            assert!(statement.lines().count() > 1, "sql: {file}.sql: {name} is empty");
            let twin = self.statements.insert(name, statement);
            assert!(twin.is_none(), "sql: {file}.sql: {name} is defined twice");
        }
    }

    /// Removes a statement and returns its text.
    pub(crate) fn take(&mut self, name: &str) -> &'static str {
        let statement = self.statements.remove(name);
        statement.unwrap_or_else(|| panic!("sql: no file has a statement `{name}`")).leak()
    }

    /// Checks that every loaded statement was taken.
    pub(crate) fn finish(self) {
        let left: Vec<_> = self.statements.into_keys().collect();
        assert!(left.is_empty(), "sql: statements that no list contains: {left:?}");
    }
}

/// Returns the number of comment lines at the start of a text, and the text after them.
fn split_comments(mut text: &str) -> (usize, &str) {
    let mut comments = 0;
    while text.starts_with("--") {
        comments += 1;
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
    (comments, text)
}

/// Adds a line of a statement. A placeholder in it is replaced by the columns.
fn expand(statement: &mut Text, file: &str, table: Option<&Table>, line: &str) {
    let Some((start, rest)) = line.split_once('{') else { return statement.line(line) };
    let expanded = rest.split_once('}').zip(table).and_then(|((what, end), table)| {
        match what.rsplit_once('.') {
            None if what == "columns" => {
                let names = table.columns.iter().map(|(name, _)| (*name).to_owned());
                Some((names.collect::<Vec<_>>(), end))
            }
            Some((of, "columns")) => Some((qualified(of, table.columns).collect(), end)),
            _ => None,
        }
    });
    let Some((columns, end)) = expanded else {
        panic!("sql: {file}.sql: `{line}` has neither `{{columns}}` nor `{{name.columns}}`");
    };
    statement.list(start, columns, end);
}
