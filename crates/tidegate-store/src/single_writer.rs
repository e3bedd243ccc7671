//! Decision loop of single-writer stores: reads rows and calls the decision until it needs no more
//! rows.

use std::sync::Arc;

use tidegate_core::{
    catalog::Catalog,
    reads::{Change, Count, Counted, ReadSet, Scan, Snapshot},
    row::{Row, RowKey, Workspace},
    time::Timestamp,
};

use crate::{Decide, Decision, MAX_ROUNDS, StoreError};

/// Source of the rows that a decision reads inside one transaction.
pub(crate) trait Source {
    /// Returns the row of a key, if it exists.
    fn row(&self, key: &RowKey) -> Result<Option<Row>, StoreError>;

    /// Returns the first `limit` rows of a scan, in its order.
    fn scan(&self, scan: &Scan, limit: u32, now: Timestamp) -> Result<Vec<Row>, StoreError>;

    /// Counts rows, up to `limit`.
    fn count(&self, count: &Count, limit: u32) -> Result<u32, StoreError>;

    /// Returns the catalog of a workspace.
    fn catalog(&self, ws: &Workspace) -> Result<Arc<Catalog>, StoreError>;
}

/// Calls `decide` until it returns changes. Latches are ignored, because there is one writer.
pub(crate) fn settle(
    source: &dyn Source,
    mut reads: ReadSet,
    decide: &mut Decide,
    mut snapshot: Snapshot,
) -> Result<Vec<Change>, StoreError> {
    for _ in 0..MAX_ROUNDS {
        fill(source, &reads, &mut snapshot)?;
        match decide(snapshot) {
            Decision::Apply(changes) => return one_change_a_row(changes),
            Decision::Need(more, so_far) => (reads, snapshot) = (more, so_far),
        }
    }
    Err(StoreError::TooManyRounds)
}

/// Adds all requested reads to a snapshot.
pub(crate) fn fill(
    source: &dyn Source,
    reads: &ReadSet,
    snapshot: &mut Snapshot,
) -> Result<(), StoreError> {
    snapshot.hold(&reads.latches);
    for ws in &reads.catalogs {
        snapshot.catalogs.insert(ws.clone(), source.catalog(ws)?);
    }
    for key in &reads.rows {
        snapshot.rows.insert(key.clone(), source.row(key)?);
    }
    for (scan, &limit) in &reads.scans {
        let rows = source.scan(scan, limit, snapshot.now)?;
        snapshot.add(scan.clone(), limit, rows);
    }
    for (what, &limit) in &reads.counts {
        let count = source.count(what, limit)?;
        snapshot.counts.insert(what.clone(), Counted { limit, count });
    }
    Ok(())
}

/// Rejects two changes of one row, because a statement that updates many rows would apply only one
/// of them without an error.
pub(crate) fn one_change_a_row(changes: Vec<Change>) -> Result<Vec<Change>, StoreError> {
    let mut keys: Vec<RowKey> = changes.iter().map(Change::key).collect();
    // A draft returns its changes already sorted, so this is fast.
    keys.sort();
    match keys.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(StoreError::Data(format!("two changes of one row: {:?}", two[0]).into())),
        None => Ok(changes),
    }
}
