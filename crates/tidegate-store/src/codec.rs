//! Conversion of rows to cells and back, shared by both SQL stores. The tables are in `schema.rs`.
//!
//! Times are integer microseconds, numbers have 64 bits, a salt is stored as a signed number with
//! the same bits, an engine's id is 32 hex digits, payloads are text. Free text (a blocked reason,
//! a receipt's key) is stored as a JSON string, because text in PostgreSQL cannot contain NUL. Text
//! must be compared by bytes (`collate "C"`, `collate binary`), because scans promise the order of
//! Rust strings.

mod cells;
pub(crate) mod kind;
mod table;

pub(crate) use cells::Cells;
pub use table::Table;
pub(crate) use table::tables;
use tidegate_core::row::{EngineId, Row};

use crate::StoreError;
pub use crate::schema::{cells, key_cells, row};

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed 64-bit integer.
    Int,
    /// UTF-8 without NUL.
    Text,
    /// Bytes.
    Bytes,
}

/// Value of one column of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Value of an [`ColumnType::Int`] column.
    Int(Option<i64>),
    /// Value of a [`ColumnType::Text`] column.
    Text(Option<String>),
    /// Value of a [`ColumnType::Bytes`] column.
    Bytes(Option<Vec<u8>>),
}

/// Name and type of a column.
pub type Column = (&'static str, ColumnType);

/// Value of `run.parked` for a run that waits for something other than a gate.
pub const WAITING: &str = "waiting";

/// Value of `run.parked` for a run that was paused by hand.
pub const PAUSED: &str = "paused";

/// Returns an engine's id as it is stored: 32 hex digits, which sort like the number.
pub fn engine_text(id: EngineId) -> String {
    format!("{id:032x}")
}

/// Returns the first key after all keys that begin with `prefix`, as the end of a range.
///
/// If every byte of the prefix is 255, the result is after all gate keys: a gate key begins with
/// the length of the workspace's name in two bytes, and no name is 65,535 bytes long.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|byte| *byte != u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![u8::MAX; prefix.len().max(8)],
    }
}

/// Rejects text that one of the databases cannot store, so that all stores reject the same text.
pub fn check(row: &Row, cells: &[Cell]) -> Result<(), StoreError> {
    let table = Table::of(row.kind());
    for (cell, (column, _)) in cells.iter().zip(table.columns) {
        if let Cell::Text(Some(text)) = cell
            && text.contains('\0')
        {
            let table = table.name;
            return Err(StoreError::Data(format!("{table}.{column} must not contain NUL").into()));
        }
    }
    Ok(())
}
