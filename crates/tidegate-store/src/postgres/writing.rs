//! Second round trip of a transaction: writes the changes of a decision, table by table.

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
    /// Groups changes by table. Fails if a row has two changes, or if an inserted row exists.
    pub(super) fn new(changes: Vec<Change>, held: &Held) -> Result<Self, StoreError> {
        let mut writing = Self::default();
        for change in one_change_a_row(changes)? {
            let key = change.key();
            let table = writing.tables.entry(key.kind()).or_default();
            match change {
                Change::Insert(_) if held.there.contains(&key) => {
                    return Err(StoreError::Data(format!("{key:?} exists already").into()));
                }
                Change::Insert(row) => table.inserts.push(row),
                Change::Update(row) => table.updates.push(row),
                Change::Delete(key) => table.deletes.push(key),
            }
        }
        for changes in writing.tables.values_mut() {
            // All transactions insert keys in the same order, so two of them that insert the same
            // keys cannot wait for each other.
            changes.inserts.sort_by_cached_key(Row::key);
        }
        Ok(writing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the rows that would be changed although they are not locked, because a scan without
    /// locks found them.
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
    /// Inserts that may have to wait for another transaction come first, while the existing rows
    /// are locked but not yet changed. If another transaction inserts the key of a row that is only
    /// locked, it gets a unique violation at once. If that row were already changed, the other
    /// transaction would wait for this one; if this one then waited for an insert of the other,
    /// both would be in a deadlock.
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
