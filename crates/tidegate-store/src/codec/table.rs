//! Description of a table, and the macro that makes descriptions and conversions from the list in
//! `schema.rs`.

use tidegate_core::row::RowKind;

use super::Column;

/// Table of one kind of row.
///
/// `sql/derive.rs` derives from it the statements that read, insert, update, delete, lock and dump
/// rows.
#[derive(Debug)]
pub struct Table {
    /// Kind of its rows. [`RowKind::is_locked`] says whether they are locked; tables are locked in
    /// the order of [`RowKind::ALL`].
    pub kind: RowKind,
    /// Name of the table in both dialects. The names of its statements begin with it.
    pub name: &'static str,
    /// Columns in order; the columns of the primary key come first.
    pub columns: &'static [Column],
    /// Number of columns of the primary key.
    pub key_len: usize,
    /// Whether two transactions may insert the same key at the same time. If so, the insert is sent
    /// before all updates and deletes, and a transaction that fails with a unique violation is
    /// tried again. In all other tables a key has one writer, and a second row with the same key is
    /// an error of the caller.
    pub contested: bool,
    /// Whether rows are written under the latch of their workspace. Rows of all other tables
    /// without row locks are written under the lock of the row that owns them.
    pub latched: bool,
    /// Whether rows are locked by a written statement, not by a derived one. It locks rows by key
    /// and the first rows of queues in one step.
    pub written_lock: bool,
}

impl Table {
    /// Returns the columns of the primary key.
    pub fn key(&self) -> &'static [Column] {
        &self.columns[..self.key_len]
    }
}

/// Makes the [`Table`]s, and the conversions between rows and cells, from entries of this form:
///
/// ```text
/// RowKind(row) = "table name", [fields of `Table` that are true],
///     key { column: type <- value to write, ... }
///     { column: type <- value to write, ... }
///     => expression that builds the row from the columns;
/// ```
///
/// A type is a module of `kind.rs`. Without `<- value to write` the row's field of the same name is
/// written.
macro_rules! tables {
    ($(
        $kind:ident($row:ident) = $name:literal, [$($property:ident),*],
            key { $($key:ident: $key_codec:ident $(<- $key_value:expr)?),+ $(,)? }
            { $($column:ident: $codec:ident $(<- $value:expr)?),* $(,)? }
            => $made:expr;
    )+) => {
        impl Table {
            /// Returns the table of a kind of row.
            pub fn of(kind: RowKind) -> &'static Self {
                match kind {
                    $(RowKind::$kind => const {
                        &Table {
                            $($property: true,)*
                            ..Table::plain(
                                RowKind::$kind,
                                $name,
                                &[
                                    $((stringify!($key), kind::$key_codec::TYPE),)+
                                    $((stringify!($column), kind::$codec::TYPE),)*
                                ],
                                [$(stringify!($key)),+].len(),
                            )
                        }
                    },)+
                }
            }
        }

        /// Returns the cells of a row, in the order of the table's columns.
        pub fn cells(row: &Row) -> Vec<Cell> {
            match row {
                $(Row::$kind($row) => vec![
                    $(kind::$key_codec::write(tables!(@value $row $key $($key_value)?)),)+
                    $(kind::$codec::write(tables!(@value $row $column $($value)?)),)*
                ],)+
            }
        }

        /// Returns the cells of a primary key, in the order of the table's columns.
        pub fn key_cells(key: &RowKey) -> Vec<Cell> {
            match key {
                $(RowKey::$kind($($key),+) => vec![$(kind::$key_codec::write($key)),+],)+
            }
        }

        /// Returns the row that is made of these cells, which are in the order of the table's
        /// columns.
        pub fn row(kind: RowKind, cells: Vec<Cell>) -> Result<Row, StoreError> {
            let mut cells = Cells::new(Table::of(kind), cells);
            let row = match kind {
                $(RowKind::$kind => {
                    $(let $key = kind::$key_codec::read(&mut cells)?;)+
                    $(let $column = kind::$codec::read(&mut cells)?;)*
                    // Columns that only statements and indexes use are not part of the row.
                    let _ = ($(&$key,)+ $(&$column,)*);
                    Row::from($made)
                })+
            };
            cells.end().map(|()| row)
        }
    };
    (@value $row:ident $field:ident) => { &$row.$field };
    (@value $row:ident $field:ident $value:expr) => { $value };
}

pub(crate) use tables;

impl Table {
    /// Creates a table that is not `contested`, not `latched` and without `written_lock`.
    pub(crate) const fn plain(
        kind: RowKind,
        name: &'static str,
        columns: &'static [Column],
        key_len: usize,
    ) -> Self {
        Self { kind, name, columns, key_len, contested: false, latched: false, written_lock: false }
    }
}
