//! Contract of rows: rows are stored unchanged, and a change fails if its row is missing or exists
//! already.

use std::sync::Arc;

use tidegate_core::{
    id::Seq,
    reads::{Change, ReadSet},
    row::{Engine, Gate, Row, RowKey, Run, StreamEventRow},
    time::Timestamp,
};
use tidegate_store::{Store, StoreError};

use super::{change, insert, row, seen};
use crate::sample;

/// Every kind of row, with extreme values, is read unchanged by a transaction, a plain read and a
/// dump.
pub async fn every_row_comes_back_as_it_was(store: &Arc<dyn Store>) {
    let mut rows = sample::every_row();
    insert(store, rows.clone()).await;
    let keys = rows.iter().map(Row::key).collect();
    let reads = ReadSet { rows: keys, ..ReadSet::default() };
    for snapshot in [seen(store, reads.clone()).await, store.read(reads).await.unwrap()] {
        for row in &rows {
            assert_eq!(snapshot.rows[&row.key()].as_ref(), Some(row));
        }
    }
    rows.sort_by_key(Row::key);
    assert_eq!(store.dump().await.unwrap(), rows);
}

/// NUL, lone surrogates, large numbers and duplicate names are stored unchanged.
pub async fn payloads_come_back_byte_for_byte(store: &Arc<dyn Store>) {
    for (seq, text) in (1..).zip(sample::PAYLOADS) {
        insert(store, [sample::event(seq, text)]).await;
        let Some(Row::Event(event)) = row(store, RowKey::Event(Seq(seq))).await else {
            panic!("the event with {text} was not found");
        };
        assert_eq!(event.data.as_str(), *text);
    }
}

/// Rows of every table can be updated and deleted.
pub async fn every_row_can_be_updated_and_deleted(store: &Arc<dyn Store>) {
    let rows = sample::every_row();
    insert(store, rows.clone()).await;
    let mut changed = rows.clone();
    for row in &mut changed {
        touch(row);
    }
    let update = changed.iter().cloned().map(Change::Update).collect();
    change(store, update).await.unwrap();
    changed.sort_by_key(Row::key);
    assert_eq!(store.dump().await.unwrap(), changed);

    let delete = rows.iter().map(|row| Change::Delete(row.key())).collect();
    change(store, delete).await.unwrap();
    assert_eq!(store.dump().await.unwrap(), []);
}

/// The answer for a missing row is `None`.
pub async fn a_row_that_is_not_there_is_told_so(store: &Arc<dyn Store>) {
    for sample in sample::every_row() {
        assert_eq!(row(store, sample.key()).await, None);
    }
}

/// A second insert of a row fails, and the first row stays.
pub async fn a_row_that_is_there_is_not_inserted_again(store: &Arc<dyn Store>) {
    for before in sample::every_row() {
        insert(store, [before.clone()]).await;
        let mut again = before.clone();
        touch(&mut again);
        refused(change(store, vec![Change::Insert(again)]).await);
        assert_eq!(row(store, before.key()).await, Some(before));
    }
}

/// An update of a missing row fails.
pub async fn a_row_that_is_not_there_is_not_updated(store: &Arc<dyn Store>) {
    for row in sample::every_row() {
        refused(change(store, vec![Change::Update(row)]).await);
    }
    assert_eq!(store.dump().await.unwrap(), []);
}

/// A delete of a missing row fails.
pub async fn a_row_that_is_not_there_is_not_deleted(store: &Arc<dyn Store>) {
    for row in sample::every_row() {
        refused(change(store, vec![Change::Delete(row.key())]).await);
    }
}

/// A transaction applies all its changes or none.
pub async fn a_refused_change_takes_the_others_with_it(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1), sample::run(2)]).await;
    let before = store.dump().await.unwrap();
    let changes = vec![
        Change::Insert(sample::gate("main", "new", 1).into()),
        Change::Update(Run { fence: 9, ..sample::run(1) }.into()),
        Change::Delete(RowKey::Run(Seq(2))),
        Change::Delete(RowKey::Run(Seq(3))),
    ];
    refused(change(store, changes).await);
    assert_eq!(store.dump().await.unwrap(), before);
}

/// Two changes of one row in a transaction are refused: a statement that updates many rows would
/// ignore one of them.
pub async fn two_changes_of_one_row_are_refused(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1)]).await;
    let update = |fence| Change::Update(Run { fence, ..sample::run(1) }.into());
    refused(change(store, vec![update(1), update(2)]).await);
    assert_eq!(row(store, RowKey::Run(Seq(1))).await, Some(sample::run(1).into()));
}

/// PostgreSQL cannot store NUL in text, so all stores refuse it in names.
pub async fn a_name_with_nul_is_refused(store: &Arc<dyn Store>) {
    refused(change(store, vec![Change::Insert(sample::step(1, "a\0b").into())]).await);
    assert_eq!(store.dump().await.unwrap(), []);
}

/// A second definition row for the same version is refused, because a version has one lane.
pub async fn a_definition_has_one_row_for_a_version(store: &Arc<dyn Store>) {
    insert(store, [sample::def(1, "order", 1), sample::def(2, "order", 2)]).await;
    refused(change(store, vec![Change::Insert(sample::def(3, "order", 2).into())]).await);
}

/// Two stream events with the same position are refused, because a reader would miss one of them.
pub async fn a_global_position_is_used_once(store: &Arc<dyn Store>) {
    insert(store, [sample::logged(1, 0, 7)]).await;
    refused(change(store, vec![Change::Insert(sample::logged(2, 0, 7).into())]).await);
    insert(store, [StreamEventRow { ws: "other".into(), ..sample::logged(2, 0, 7) }]).await;
}

/// Rows are ordered by the bytes of their keys, whatever the locale of the database.
pub async fn rows_of_one_kind_are_dumped_in_key_order(store: &Arc<dyn Store>) {
    let ids = ["b", "B", "a", "é", "Z", "_", "", "aa", "a-", "ä", "🦀", "\u{ffff}"];
    let mut rows: Vec<Row> = ids.iter().map(|id| sample::step(1, id).into()).collect();
    rows.extend([0, 1, 9, 255, u128::MAX].map(|id| Engine::new(id, sample::LEASE_MS).into()));
    rows.extend(["b", "a", "aa", ""].map(|key| Row::from(sample::gate("main", key, 1))));
    insert(store, rows.clone()).await;
    rows.sort_by_key(Row::key);
    assert_eq!(store.dump().await.unwrap(), rows);
}

/// Asserts that a change was refused because its row is missing or exists already.
#[track_caller]
fn refused(outcome: Result<(), StoreError>) {
    assert!(matches!(outcome, Err(StoreError::Data(_))), "expected a refusal, got {outcome:?}");
}

/// Changes a row without changing its key.
fn touch(row: &mut Row) {
    let later = Timestamp::from_micros(42);
    match row {
        Row::Chore(row) => row.due = Some(later),
        Row::Chunk(row) => row.data = sample::payload("42"),
        Row::Schedule(row) => row.next = Some(later),
        Row::Gate(row) => *row = Gate { due: Some(later), ..row.clone() },
        Row::Run(row) => row.fence = 42,
        Row::Engine(row) => row.beat = 42,
        Row::Stream(row) => row.closed = !row.closed,
        Row::Subscription(row) => row.since = later,
        Row::LogHead(row) => row.pos = 42,
        Row::Epoch(row) => row.n = 42,
        Row::Def(row) => row.released = Some(42),
        Row::Event(row) => row.ts = Some(later),
        Row::Ended(row) => row.ended_at = later,
        Row::Step(row) => row.result = Ok(sample::payload("42")),
        Row::Item(row) => row.event = sample::event_id(42),
        Row::Signal(row) => row.data = sample::payload("42"),
        Row::Receipt(row) => row.at = later,
        Row::Audit(row) => row.at = later,
        Row::StreamEventRow(row) => row.meta = sample::payload("42"),
        Row::Session(row) => row.version = 42,
        Row::Reply(row) => row.response = Some(sample::payload("42")),
        Row::ApiKey(row) => row.revoked_at = Some(later),
        Row::Staged(row) => row.version = 42,
        Row::StreamSnapshot(row) => row.version = 42,
        // These rows have only key columns, so there is nothing to change.
        Row::Wait(_) | Row::WaitPath(_) => {}
    }
}
