//! Reader of a stored row: returns its cells one after another.

use std::vec;

use super::{Cell, Table};
use crate::StoreError;

/// Iterator over the cells of a row. Its errors name the table and the column.
#[derive(Debug)]
pub(crate) struct Cells {
    table: &'static Table,
    taken: usize,
    rest: vec::IntoIter<Cell>,
}

impl Cells {
    pub(crate) fn new(table: &'static Table, cells: Vec<Cell>) -> Self {
        Self { table, taken: 0, rest: cells.into_iter() }
    }

    fn next(&mut self) -> Option<Cell> {
        self.taken += 1;
        self.rest.next()
    }

    /// Checks that no cell is left.
    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => {
                let table = self.table.name;
                Err(StoreError::Corrupt(format!("{table} has too many columns").into()))
            }
        }
    }

    /// Returns an error that names the column of the last returned cell.
    pub(crate) fn corrupt(&self, reason: &str) -> StoreError {
        let column = self.taken.checked_sub(1).and_then(|last| self.table.columns.get(last));
        let column = column.map_or("?", |(name, _)| name);
        StoreError::Corrupt(format!("{}.{column}: {reason}", self.table.name).into())
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next() {
            Some(Cell::Int(number)) => Ok(number),
            other => Err(self.corrupt(&format!("expected a number, got {other:?}"))),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        self.maybe_int()?.ok_or_else(|| self.corrupt("expected a number, got null"))
    }

    pub(crate) fn small(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| self.corrupt(&format!("{number} is out of range")))
    }

    pub(crate) fn maybe_small(&mut self) -> Result<Option<u32>, StoreError> {
        let number = self.maybe_int()?.map(u32::try_from).transpose();
        number.map_err(|_| self.corrupt("the number is out of range"))
    }

    pub(crate) fn maybe_flag(&mut self) -> Result<Option<bool>, StoreError> {
        match self.maybe_int()? {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(other) => Err(self.corrupt(&format!("expected 0 or 1, got {other}"))),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        self.maybe_flag()?.ok_or_else(|| self.corrupt("expected a number, got null"))
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.next() {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(self.corrupt(&format!("expected text, got {other:?}"))),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.maybe_text()?.ok_or_else(|| self.corrupt("expected text, got null"))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next() {
            Some(Cell::Bytes(Some(bytes))) => Ok(bytes),
            other => Err(self.corrupt(&format!("expected bytes, got {other:?}"))),
        }
    }
}
