//! Derives statements from the columns of a table: read, insert, update, delete, dump and lock.
//!
//! No other code composes SQL. The results are in `sql/<dialect>/derived.sql`, and a test checks
//! that they are up to date. `sql/README.md` says why the statements of PostgreSQL have this form.

use super::{Dialect, TableStatements, text::Text};
use crate::codec::{Column, Table};

/// Derives the statements of a table. Each begins with a comment that has its name, so that the
/// name is shown in the server's lists of statements.
pub(super) fn derive(dialect: Dialect, table: &Table) -> TableStatements<String> {
    let named = |verb: &str, body: String| format!("-- name: {}_{verb}\n{body}", table.name);
    let (read, insert, update, delete, lock) = match dialect {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => (
            sqlite::read(table),
            sqlite::insert(table),
            sqlite::update(table),
            sqlite::delete(table),
            None,
        ),
        #[cfg(feature = "postgres")]
        Dialect::Postgres => {
            let locks = table.kind.is_locked() && !table.written_lock;
            (
                postgres::look_up(table, false),
                postgres::insert(table),
                postgres::update(table),
                postgres::delete(table),
                locks.then(|| postgres::look_up(table, true)),
            )
        }
    };
    TableStatements {
        read: named("read", read),
        insert: named("insert", insert),
        update: named("update", update),
        delete: named("delete", delete),
        dump: named("dump", dump(table)),
        lock: lock.map(|lock| named("lock", lock)),
    }
}

/// Returns the statement that reads all rows, in key order.
fn dump(table: &Table) -> String {
    let mut text = Text::default();
    text.list("select ", names(table.columns), "");
    text.line(&format!("  from {}", table.name));
    text.list(" order by ", names(table.key()), "");
    text.finish()
}

/// Returns the names of columns.
fn names(columns: &[Column]) -> impl Iterator<Item = String> {
    columns.iter().map(|(name, _)| (*name).to_owned())
}

/// Returns the names of columns, each with the name of its table in front: `table.column`.
pub(super) fn qualified(table: &str, columns: &[Column]) -> impl Iterator<Item = String> {
    columns.iter().map(move |(name, _)| format!("{table}.{name}"))
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::{Column, Table, Text, names};

    pub(super) fn read(table: &Table) -> String {
        let mut text = Text::default();
        text.list("select ", names(table.columns), "");
        text.line(&format!("  from {}", table.name));
        by_key(&mut text, table);
        text.finish()
    }

    pub(super) fn insert(table: &Table) -> String {
        let mut text = Text::default();
        text.list(&format!("insert into {} (", table.name), names(table.columns), ")");
        text.list("values (", (1..=table.columns.len()).map(|number| format!("?{number}")), ")");
        text.finish()
    }

    /// Returns the update. If all columns are part of the key, no column can change: the update
    /// then sets the last column to the same value, and so checks that the row exists.
    pub(super) fn update(table: &Table) -> String {
        let mut text = Text::default();
        text.line(&format!("update {}", table.name));
        let first = table.key_len.min(table.columns.len() - 1);
        let set = numbered(&table.columns[first..], first + 1);
        text.line(&format!("   set {}", set.join(",\n       ")));
        by_key(&mut text, table);
        text.finish()
    }

    pub(super) fn delete(table: &Table) -> String {
        let mut text = Text::default();
        text.line(&format!("delete from {}", table.name));
        by_key(&mut text, table);
        text.finish()
    }

    fn by_key(text: &mut Text, table: &Table) {
        text.line(&format!(" where {}", numbered(table.key(), 1).join("\n   and ")));
    }

    /// Returns `column = ?n` for each column, with `n` from `first` on.
    fn numbered(columns: &[Column], first: usize) -> Vec<String> {
        let numbered = columns.iter().zip(first..);
        numbered.map(|((name, _), number)| format!("{name} = ?{number}")).collect()
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{Column, Table, Text, names, qualified};
    use crate::codec::ColumnType;

    /// Returns the statement that reads rows by key, with or without locks. Each row is looked up
    /// separately.
    pub(super) fn look_up(table: &Table, lock: bool) -> String {
        let name = table.name;
        let mut text = Text::default();
        text.list("select ", qualified("found", table.columns), "");
        text.list("  from unnest(", arrays(table.key()), ")");
        text.list("       as wanted(", names(table.key()), ")");
        text.line(" cross join lateral (");
        text.list("        select ", qualified(name, table.columns), "");
        text.line(&format!("          from {name}"));
        by_key(&mut text, "         ", (name, "wanted"), table);
        if lock {
            text.line("           for no key update");
        }
        text.line("       ) as found");
        text.finish()
    }

    pub(super) fn insert(table: &Table) -> String {
        let mut text = Text::default();
        text.line(&format!("insert into {}", table.name));
        text.list("       (", names(table.columns), ")");
        text.list("select ", qualified("new", table.columns), "");
        text.list("  from unnest(", arrays(table.columns), ")");
        text.list("       as new(", names(table.columns), ")");
        text.finish()
    }

    /// Returns the update. If all columns are part of the key, no column can change: the update
    /// then only checks that the rows exist.
    pub(super) fn update(table: &Table) -> String {
        let name = table.name;
        let changed = &table.columns[table.key_len..];
        let mut text = Text::default();
        if changed.is_empty() {
            text.line(&expect_rows(table));
            text.list("  from unnest(", arrays(table.columns), ")");
            text.list("       as wanted(", names(table.columns), ")");
            text.line(" cross join lateral (");
            text.line("        select 1");
            text.line(&format!("          from {name}"));
            by_key(&mut text, "         ", (name, "wanted"), table);
            text.line("       ) as found");
            return text.finish();
        }
        text.line("with changed as (");
        text.line(&format!("    update {name}"));
        let set: Vec<String> = names(changed).map(|name| format!("{name} = new.{name}")).collect();
        text.line(&format!("       set {}", set.join(",\n           ")));
        text.list("      from unnest(", arrays(table.columns), ")");
        text.list("           as new(", names(table.columns), ")");
        by_place(&mut text, table, "new");
        text.line(")");
        text.line(&expect_rows(table));
        text.line("  from changed");
        text.finish()
    }

    pub(super) fn delete(table: &Table) -> String {
        let mut text = Text::default();
        text.line("with gone as (");
        text.line(&format!("    delete from {}", table.name));
        text.list("     using unnest(", arrays(table.key()), ")");
        text.list("           as old(", names(table.key()), ")");
        by_place(&mut text, table, "old");
        text.line(")");
        text.line(&expect_rows(table));
        text.line("  from gone");
        text.finish()
    }

    /// Returns array parameters, one for each column.
    fn arrays(columns: &[Column]) -> impl Iterator<Item = String> {
        columns.iter().zip(1..).map(|((_, column), number)| {
            let kind = match column {
                ColumnType::Int => "bigint",
                ColumnType::Text => "text",
                ColumnType::Bytes => "bytea",
            };
            format!("${number}::{kind}[]")
        })
    }

    /// Adds the condition that finds one row by its whole key. The planner can use only the primary
    /// key for it.
    fn by_key(text: &mut Text, indent: &str, (table, wanted): (&str, &str), of: &Table) {
        let bounds: Vec<String> = qualified(wanted, of.key()).collect();
        if let [bound] = bounds.as_slice() {
            let (column, _) = of.columns[0];
            text.line(&format!("{indent}where {table}.{column} between {bound} and {bound}"));
        } else {
            text.list(&format!("{indent}where ("), qualified(table, of.key()), ")");
            text.list(&format!("{indent}      between ("), bounds.clone(), ")");
            text.list(&format!("{indent}          and ("), bounds, ")");
        }
        text.list(&format!("{indent}order by "), qualified(table, of.key()), "");
        text.line(&format!("{indent}limit 1"));
    }

    /// Adds the condition that restricts an update or delete to the rows that a lookup by key
    /// finds.
    fn by_place(text: &mut Text, table: &Table, changes: &str) {
        let name = table.name;
        text.line(&format!("     where {name}.ctid = ("));
        text.line("            select found.ctid");
        text.line(&format!("              from {name} as found"));
        by_key(text, "             ", ("found", changes), table);
        text.line("           )");
        text.line("    returning 1");
    }

    /// Returns the first line of the check that fails the transaction if a row is missing.
    fn expect_rows(table: &Table) -> String {
        format!("select expect_rows('{}', count(*), cardinality($1))", table.name)
    }
}
