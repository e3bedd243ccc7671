//! Second round trip: writes the changes of a decision, table by table, in the order of tables.

use std::collections::BTreeMap;

use tidegate_core::{
    reads::{Change, ReadSet},
    row::{Row, RowKey, RowKind},
};

use super::{
    call::{Call, key_params, row_params},
    reading::Held,
    sql,
};
use crate::{StoreError, codec::Table, single_writer::one_change_a_row};

/// Changes of one transaction, grouped by table.
#[derive(Debug, Default)]
pub(super) struct Writing {
    tables: BTreeMap<RowKind, Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    inserts: Vec<Row>,
    updates: Vec<Row>,
    deletes: Vec<RowKey>,
}

impl Writing {
    /// Groups changes by table, and refuses invalid ones.
    pub(super) fn new(changes: Vec<Change>, held: &Held) -> Result<Self, StoreError> {
        let mut writing = Self::default();
        for change in one_change_a_row(changes)? {
            let key = change.key();
            let table = writing.tables.entry(key.kind()).or_default();
            match change {
                Change::Insert(_) if held.there.contains(&key) => {
                    return Err(StoreError::Data(format!("{key:?} is there already").into()));
                }
                Change::Insert(row) => table.inserts.push(row),
                Change::Update(row) => table.updates.push(row),
                Change::Delete(key) => table.deletes.push(key),
            }
        }
        for changes in writing.tables.values_mut() {
            // All transactions that insert the same keys use the same order, so one waits for the
            // other, and never both for each other.
            changes.inserts.sort_by_cached_key(Row::key);
        }
        Ok(writing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns rows that would change without being locked, because a scan without locks found
    /// them.
    pub(super) fn unlocked(&self, held: &Held) -> ReadSet {
        let changed = self.tables.values().flat_map(|changes| {
            changes.updates.iter().map(Row::key).chain(changes.deletes.iter().cloned())
        });
        let rows = changed.filter(|key| key.is_locked() && !held.locked.contains(key)).collect();
        ReadSet { rows, ..ReadSet::default() }
    }

    /// Returns the rows of a kind that would be inserted.
    pub(super) fn inserted(&self, kind: RowKind) -> ReadSet {
        let rows = self.tables.get(&kind).into_iter().flat_map(|changes| &changes.inserts);
        ReadSet { rows: rows.map(Row::key).collect(), ..ReadSet::default() }
    }

    /// Returns the statements, without COMMIT.
    ///
    /// Inserts that may have to wait for another transaction come first, while existing rows are
    /// locked but not yet changed. A transaction that inserts a key whose row is only locked gets a
    /// unique violation at once; one whose row is being changed would wait for us, and if we wait
    /// for one of its inserts, that is a deadlock (seen: insert a gate after deleting another).
    pub(super) fn calls(&self) -> Result<Vec<Call>, StoreError> {
        let mut calls = Vec::new();
        let insert = |(&kind, changes): (&RowKind, &Changes)| match changes.inserts.as_slice() {
            [] => Ok(None),
            rows => row_params(rows).map(|params| Some(Call::new(sql::of(kind).insert, params))),
        };
        let (contested, others): (Vec<_>, Vec<_>) =
            self.tables.iter().partition(|(kind, _)| Table::of(**kind).contested);
        for table in contested {
            calls.extend(insert(table)?);
        }
        for (&kind, changes) in &self.tables {
            if !changes.deletes.is_empty() {
                calls.push(Call::new(sql::of(kind).delete, key_params(&changes.deletes)?));
            }
            if !changes.updates.is_empty() {
                calls.push(Call::new(sql::of(kind).update, row_params(&changes.updates)?));
            }
        }
        for table in others {
            calls.extend(insert(table)?);
        }
        Ok(calls)
    }
}
