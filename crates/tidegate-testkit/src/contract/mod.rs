//! Store contract: the test cases that every store must pass.
//!
//! A case is one function and one line in a list below. The test file of a store passes a function
//! that opens it and gets one test for each case: [`store_contract!`](crate::store_contract) for
//! all stores, [`durable_contract!`](crate::durable_contract) for those that survive the end of
//! their process.

#![expect(clippy::unwrap_used, reason = "a case fails by a panic")]

pub mod durable;
pub mod lease;
pub mod lease_durable;
pub mod lease_shared;
pub mod observed;
pub mod rows;
pub mod scans;
pub mod transactions;

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use tidegate_core::{
    reads::{Change, ReadSet, Snapshot},
    row::{Row, RowKey},
};
use tidegate_store::{Decide, Decision, Store, StoreError};

/// A location for a store. Its resources are released when the value is dropped.
pub trait Open: Sync {
    /// Opens the store. The first time it is empty; later it has the rows from before.
    fn open(&self) -> impl Future<Output = Result<Arc<dyn Store>, StoreError>> + Send;
}

/// Generates the tests that every store must pass.
///
/// Takes the name of an `async fn() -> Option<impl Open>`. With `None` the test is skipped, with a
/// printed message.
#[macro_export]
macro_rules! store_contract {
    ($fixture:ident) => {
        $crate::contract_cases!($fixture, store, rows:
            every_row_comes_back_as_it_was,
            payloads_come_back_byte_for_byte,
            every_row_can_be_updated_and_deleted,
            a_row_that_is_not_there_is_told_so,
            a_row_that_is_there_is_not_inserted_again,
            a_row_that_is_not_there_is_not_updated,
            a_row_that_is_not_there_is_not_deleted,
            a_refused_change_takes_the_others_with_it,
            two_changes_of_one_row_are_refused,
            a_name_with_nul_is_refused,
            a_definition_has_one_row_for_a_version,
            a_global_position_is_used_once,
            rows_of_one_kind_are_dumped_in_key_order,
        );
        $crate::contract_cases!($fixture, store, scans:
            a_line_is_read_by_place,
            a_line_without_a_gate_is_empty,
            ready_runs_come_in_turns,
            due_gates_come_longest_due_first,
            due_runs_come_longest_due_first,
            runs_are_found_by_their_owner,
            runs_of_a_lane_are_paged_by_number,
            live_runs_are_listed_newest_first,
            ended_runs_are_listed_newest_first,
            dead_engines_are_found_while_they_own_runs,
            steps_are_found_by_id,
            items_are_found_by_place,
            waits_are_found_by_name_path_and_value,
            an_inbox_is_read_oldest_first,
            runs_are_found_by_their_first_listener,
            chores_are_found_by_time_and_by_topic,
            receipts_are_found_by_event,
            gates_are_found_by_the_beginning_of_their_key,
            a_stream_is_read_from_a_version_on,
            a_feed_is_read_after_a_position,
            a_feed_is_read_backwards_before_a_position,
            a_stream_is_found_by_its_number,
            a_window_is_found_by_its_run,
            snapshots_are_found_by_their_stream,
            work_is_found_longest_waiting_first,
            leased_blocked_and_deferred_work_is_not_found,
            places_are_found_by_workspace,
            streams_are_found_by_workspace,
            schedules_come_in_the_order_of_their_next_occurrence,
            chunks_are_read_after_a_place,
            events_are_loose_when_nothing_relies_on_them,
            ended_runs_are_loose_when_no_run_relies_on_them,
            receipts_and_signals_are_found_to_be_forgotten,
            replies_and_api_keys_are_found,
            a_scan_that_finds_nothing_says_so,
            a_limit_of_nothing_finds_nothing,
        );
        $crate::contract_cases!($fixture, store, observed:
            posted_events_are_listed_newest_first,
            receipts_are_listed_newest_first,
            the_audit_log_is_listed_newest_first,
            gates_are_read_from_a_key_to_another,
            runs_are_found_by_their_event,
            runs_are_counted,
        );
        $crate::contract_cases!($fixture, store, transactions:
            what_one_transaction_writes_the_next_one_reads,
            a_decision_may_ask_for_more,
            a_wider_scan_replaces_a_narrow_one,
            a_decision_that_never_has_enough_is_given_up,
            a_decision_that_panics_changes_nothing,
            blocks_of_numbers_never_overlap,
            time_does_not_move_back,
            a_catalog_holds_the_definitions_of_its_workspace,
            a_catalog_is_read_anew_when_the_epoch_changes,
            an_unchanged_catalog_is_not_built_again,
            a_store_follows_the_definitions_that_it_writes,
            a_first_beat_makes_an_engine_and_later_ones_renew_it,
            a_dead_engine_does_not_beat_again,
            an_engine_that_was_cleared_away_does_not_come_back,
            a_wake_reaches_whoever_listens,
            transactions_that_happen_together_lose_no_update,
        );
    };
}

/// Generates the tests of a store that survives the end of its process.
#[macro_export]
macro_rules! durable_contract {
    ($fixture:ident) => {
        $crate::contract_cases!($fixture, durable, durable:
            rows_are_there_after_reopening,
            numbers_are_not_given_out_again_after_reopening,
            definitions_are_there_after_reopening,
            opening_again_applies_no_migration_twice,
        );
    };
}

/// Generates one module for each topic and one test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($fixture:ident, $kind:ident, $topic:ident: $($case:ident),* $(,)?) => {
        mod $topic {
            $(
                #[tokio::test]
                async fn $case() {
                    let Some(place) = super::$fixture().await else { return };
                    $crate::contract_run!($kind, place, $topic, $case);
                }
            )*
        }
    };
}

/// Runs a case. A case gets an open store; a durability case gets the location, so that it can open
/// the store several times.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_run {
    (store, $place:ident, $topic:ident, $case:ident) => {
        let store = $crate::contract::Open::open(&$place).await.expect("a new store opens");
        $crate::contract::$topic::$case(&store).await;
    };
    (durable, $place:ident, $topic:ident, $case:ident) => {
        $crate::contract::$topic::$case(&$place).await;
    };
}

/// Applies changes in one transaction, which first reads and so locks the changed rows.
pub async fn change(store: &Arc<dyn Store>, changes: Vec<Change>) -> Result<(), StoreError> {
    let rows = changes.iter().map(Change::key).collect();
    let reads = ReadSet { rows, ..ReadSet::default() };
    store.transact(reads, Box::new(move |_| Decision::Apply(changes.clone()))).await
}

/// Inserts rows.
pub async fn insert<R: Into<Row>>(store: &Arc<dyn Store>, rows: impl IntoIterator<Item = R>) {
    let changes = rows.into_iter().map(|row| Change::Insert(row.into())).collect();
    change(store, changes).await.expect("new rows are inserted");
}

/// Returns the snapshot that a transaction without changes gets.
pub async fn seen(store: &Arc<dyn Store>, reads: ReadSet) -> Snapshot {
    let seen = Arc::new(Mutex::new(None));
    let slot = seen.clone();
    let decide: Decide = Box::new(move |snapshot| {
        *slot.lock().unwrap() = Some(snapshot);
        Decision::Apply(Vec::new())
    });
    store.transact(reads, decide).await.expect("a transaction that only reads succeeds");
    let snapshot = seen.lock().unwrap().take();
    snapshot.expect("the decision was called")
}

/// Returns one row, as a transaction sees it.
pub async fn row(store: &Arc<dyn Store>, key: RowKey) -> Option<Row> {
    let mut snapshot = seen(store, ReadSet::default().row(key.clone())).await;
    snapshot.rows.remove(&key).expect("a requested row is in the snapshot")
}
