//! `Call`, a statement with its parameters, and functions that decode the server's answer.

use tidegate_core::row::{Row, RowKey, RowKind};
use tokio_postgres::types::{ToSql, Type};

use crate::{
    StoreError,
    codec::{self, Cell, ColumnType, Table},
};

/// Statement to run, with its parameters.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Param>,
}

impl Call {
    pub(super) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, params }
    }
}

/// Parameter of a statement. Rows are sent as arrays, one array per column.
#[derive(Clone, Debug)]
pub(super) enum Param {
    Int(i64),
    Text(String),
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Blobs(Vec<Option<Vec<u8>>>),
}

impl Param {
    pub(super) fn value(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(value) => value,
            Self::Text(value) => value,
            Self::Ints(values) => values,
            Self::Texts(values) => values,
            Self::Blobs(values) => values,
        }
    }

    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Text(_) => Type::TEXT,
            Self::Ints(_) => Type::INT8_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::Blobs(_) => Type::BYTEA_ARRAY,
        }
    }

    /// Returns the approximate number of bytes that the parameter needs when it is sent.
    pub(super) fn size(&self) -> usize {
        fn sum<T>(values: &[Option<T>], size: impl Fn(&T) -> usize) -> usize {
            values.iter().map(|value| 4 + value.as_ref().map_or(0, &size)).sum()
        }
        match self {
            Self::Int(_) => 8,
            Self::Text(value) => value.len(),
            Self::Ints(values) => sum(values, |_| 8),
            Self::Texts(values) => sum(values, String::len),
            Self::Blobs(values) => sum(values, Vec::len),
        }
    }

    /// Creates a parameter from one value, which must not be null.
    pub(super) fn single(cell: Cell) -> Result<Self, StoreError> {
        match cell {
            Cell::Int(Some(number)) => Ok(Self::Int(number)),
            Cell::Text(Some(text)) => Ok(Self::Text(text)),
            Cell::Int(None) | Cell::Text(None) | Cell::Bytes(_) => {
                Err(StoreError::Data(format!("{cell:?} is of the wrong type").into()))
            }
        }
    }

    /// Creates an array of numbers, without nulls.
    pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(values.into_iter().map(Some).collect())
    }

    /// Creates an array of texts, without nulls.
    pub(super) fn texts(values: impl IntoIterator<Item = String>) -> Self {
        Self::Texts(values.into_iter().map(Some).collect())
    }

    /// Creates an array of byte strings, without nulls.
    pub(super) fn blobs(values: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::Blobs(values.into_iter().map(Some).collect())
    }
}

/// Transposes rows of cells into one array per column. There must be at least one row.
pub(super) fn transpose(rows: Vec<Vec<Cell>>) -> Result<Vec<Param>, StoreError> {
    let count = rows.len();
    let first = rows.first().map_or(&[][..], Vec::as_slice);
    let mut params: Vec<Param> = first
        .iter()
        .map(|cell| match cell {
            Cell::Int(_) => Param::Ints(Vec::with_capacity(count)),
            Cell::Text(_) => Param::Texts(Vec::with_capacity(count)),
            Cell::Bytes(_) => Param::Blobs(Vec::with_capacity(count)),
        })
        .collect();
    for cells in rows {
        for (param, cell) in params.iter_mut().zip(cells) {
            match (param, cell) {
                (Param::Ints(values), Cell::Int(value)) => values.push(value),
                (Param::Texts(values), Cell::Text(value)) => values.push(value),
                (Param::Blobs(values), Cell::Bytes(value)) => values.push(value),
                (_, cell) => {
                    return Err(StoreError::Data(format!("{cell:?} is of the wrong type").into()));
                }
            }
        }
    }
    Ok(params)
}

/// Returns the key columns of rows of one table as array parameters.
pub(super) fn key_params<'a>(
    keys: impl IntoIterator<Item = &'a RowKey>,
) -> Result<Vec<Param>, StoreError> {
    transpose(keys.into_iter().map(codec::key_cells).collect())
}

/// Returns all columns of rows of one table as array parameters.
pub(super) fn row_params(rows: &[Row]) -> Result<Vec<Param>, StoreError> {
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let cells = codec::cells(row);
        codec::check(row, &cells)?;
        all.push(cells);
    }
    transpose(all)
}

/// Decodes a row of a kind from an answer, in which its columns begin at `first`.
pub(super) fn decode(
    kind: RowKind,
    from: &tokio_postgres::Row,
    first: usize,
) -> Result<Row, StoreError> {
    let table = Table::of(kind);
    let mut cells = Vec::with_capacity(table.columns.len());
    for (place, (column, column_type)) in table.columns.iter().enumerate() {
        let at = first + place;
        let cell = match column_type {
            ColumnType::Int => from.try_get(at).map(Cell::Int),
            ColumnType::Text => from.try_get(at).map(Cell::Text),
            ColumnType::Bytes => from.try_get(at).map(Cell::Bytes),
        };
        cells.push(cell.map_err(|error| {
            StoreError::Corrupt(format!("{}.{column}: {error}", table.name).into())
        })?);
    }
    codec::row(kind, cells)
}

/// Returns a number from a column that is never null.
pub(super) fn int(from: &tokio_postgres::Row, at: usize) -> Result<i64, StoreError> {
    from.try_get(at).map_err(|error| StoreError::Corrupt(format!("column {at}: {error}").into()))
}

/// Returns text from a column that is never null.
pub(super) fn text(from: &tokio_postgres::Row, at: usize) -> Result<String, StoreError> {
    from.try_get(at).map_err(|error| StoreError::Corrupt(format!("column {at}: {error}").into()))
}
