//! SQL statements of both dialects.
//!
//! Statements that follow from a table's columns are derived (`derive.rs`). All others are written
//! in `sql/<dialect>`, one file per table, and loaded by name (`load.rs`). Both are made once, at
//! the first use of a dialect.

mod derive;
mod load;
mod shared;
#[cfg(test)]
mod tests;
mod text;

use std::{collections::BTreeMap, sync::LazyLock};

pub(crate) use load::Written;
pub(crate) use shared::SharedStatements;
use tidegate_core::row::RowKind;

use crate::codec::Table;

/// Dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite: one row per statement.
    #[cfg(feature = "sqlite")]
    Sqlite,
    /// PostgreSQL: many rows per statement, as one array for each column.
    #[cfg(feature = "postgres")]
    Postgres,
}

/// Statements that are derived from a table.
#[derive(Clone, Copy, Debug)]
pub struct TableStatements<T = &'static str> {
    /// Reads rows by key.
    pub read: T,
    /// Inserts rows.
    pub insert: T,
    /// Updates all columns of rows.
    pub update: T,
    /// Deletes rows by key.
    pub delete: T,
    /// Reads all rows, in key order.
    pub dump: T,
    /// Locks rows by key, and reads them. `None` if rows of the table are not locked, or are locked
    /// by a written statement.
    pub lock: Option<T>,
}

impl TableStatements {
    /// Returns the statements in the order of `derived.sql`.
    pub fn all(&self) -> impl Iterator<Item = &'static str> {
        let Self { read, insert, update, delete, dump, lock } = *self;
        [read, insert, update, delete, dump].into_iter().chain(lock)
    }
}

/// Declares a struct of written statements. Each field is loaded from the statement with the same
/// name.
macro_rules! statements {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $statement:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $statement: &'static str,)+
        }

        impl $name {
            /// Takes these statements from the loaded ones of a dialect.
            pub(crate) fn take(written: &mut $crate::sql::Written) -> Self {
                Self { $($statement: written.take(stringify!($statement)),)+ }
            }

            /// Returns all statements.
            pub(crate) fn all(&self) -> Vec<&'static str> {
                vec![$(self.$statement),+]
            }
        }
    };
}
pub(crate) use statements;

/// Lists the files of written statements: those that both dialects have, and those of one dialect.
macro_rules! files {
    ($dialect:literal, $($only:literal)+) => {
        files!(@ $dialect,
            "api_key" "audit" "chore" "chunk" "def" "ended" "engine" "event" "gate" "item" "lease"
            "log" "receipt" "reply" "run" "schedule" "signal" "snapshot" "step" "stream" "sub" "wait"
            "wait_path" $($only)+
        )
    };
    (@ $dialect:literal, $($file:literal)+) => {
        &[$(($file, include_str!(concat!("../sql/", $dialect, "/", $file, ".sql")))),+]
    };
}

impl Dialect {
    /// Loads the written statements.
    pub(crate) fn written(self) -> Written {
        Written::load(match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => files!("sqlite", "only/file" "only/meta" "only/migration"),
            #[cfg(feature = "postgres")]
            Self::Postgres => files!(
                "postgres",
                "only/connection" "only/migration" "only/transaction" "only/tx_token"
            ),
        })
    }
}

type Derived = LazyLock<[TableStatements; RowKind::ALL.len()]>;

#[cfg(feature = "sqlite")]
static SQLITE: Derived = LazyLock::new(|| derived(Dialect::Sqlite));
#[cfg(feature = "postgres")]
static POSTGRES: Derived = LazyLock::new(|| derived(Dialect::Postgres));

fn derived(dialect: Dialect) -> [TableStatements; RowKind::ALL.len()] {
    // Leaks the text. This happens once per statement and dialect, and statements are used until
    // the process ends.
    fn keep(statement: String) -> &'static str {
        statement.leak()
    }
    RowKind::ALL.map(|kind| {
        let made = derive::derive(dialect, Table::of(kind));
        TableStatements {
            read: keep(made.read),
            insert: keep(made.insert),
            update: keep(made.update),
            delete: keep(made.delete),
            dump: keep(made.dump),
            lock: made.lock.map(keep),
        }
    })
}

/// Returns the statements that are derived from the table of a kind of row.
pub fn of(dialect: Dialect, kind: RowKind) -> &'static TableStatements {
    let tables = match dialect {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => &SQLITE,
        #[cfg(feature = "postgres")]
        Dialect::Postgres => &POSTGRES,
    };
    &tables[kind as usize]
}

/// Returns the text of all statements of a dialect, by name: for tests that prepare and plan them.
pub fn all(dialect: Dialect) -> BTreeMap<&'static str, &'static str> {
    let derived = RowKind::ALL.into_iter().flat_map(|kind| of(dialect, kind).all());
    let written = match dialect {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => crate::sqlite::statements::written(),
        #[cfg(feature = "postgres")]
        Dialect::Postgres => crate::postgres::sql::written(),
    };
    derived.chain(written).map(|statement| (name(statement), statement)).collect()
}

/// Returns the name of a statement, which is in its first line.
pub fn name(statement: &str) -> &str {
    statement.lines().next().and_then(|line| line.strip_prefix(load::NAME)).unwrap_or("?")
}
