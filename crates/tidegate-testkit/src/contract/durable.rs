//! Durability contract: an acknowledged write is still there after the store was closed and opened
//! again.

use tidegate_core::{
    reads::{BLOCK, ReadSet},
    row::{Epoch, Row, Workspace},
};

use super::{Open, insert, seen};
use crate::sample;

/// Every row is unchanged after the store was reopened.
pub async fn rows_are_there_after_reopening(place: &impl Open) {
    let store = place.open().await.unwrap();
    let mut rows = sample::every_row();
    insert(&store, rows.clone()).await;
    drop(store);
    let store = place.open().await.unwrap();
    rows.sort_by_key(Row::key);
    assert_eq!(store.dump().await.unwrap(), rows);
}

/// A sequence number is given out only once, also after reopening.
pub async fn numbers_are_not_given_out_again_after_reopening(place: &impl Open) {
    let mut last = 0;
    for _ in 0..3 {
        let store = place.open().await.unwrap();
        for _ in 0..3 {
            let block = seen(&store, ReadSet::default()).await.block.0;
            assert!(block >= last, "block {block} overlaps the block before, which ends at {last}");
            last = block + BLOCK;
        }
    }
}

/// The cached definitions are read from the rows after reopening.
pub async fn definitions_are_there_after_reopening(place: &impl Open) {
    let main: Workspace = "main".into();
    let store = place.open().await.unwrap();
    insert(&store, [Row::from(Epoch { ws: main.clone(), n: 3 }), sample::def(1, "a", 1).into()])
        .await;
    drop(store);
    let store = place.open().await.unwrap();
    let catalog = seen(&store, ReadSet::default().catalog(&main)).await.catalogs[&main].clone();
    assert_eq!((catalog.epoch, catalog.defs().len()), (3, 1));
}

/// The schema records which migrations were applied, so that reopening applies none again.
pub async fn opening_again_applies_no_migration_twice(place: &impl Open) {
    for _ in 0..3 {
        let store = place.open().await.unwrap();
        assert_eq!(store.dump().await.unwrap(), []);
    }
}
