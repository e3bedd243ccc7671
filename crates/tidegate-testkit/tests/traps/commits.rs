//! spec R10, R11: the answer to a COMMIT shows its outcome; without an answer the outcome is
//! unknown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tidegate_core::{
    reads::{Change, ReadSet, Snapshot},
    row::{Event, Row, RowKey},
};
use tidegate_store::{PostgresOptions, PostgresStore, Store};
use tidegate_testkit::sample;

use crate::{
    proxy::{Fault, Proxy},
    rig::{Rig, apply},
};

/// Opens a store behind a proxy that can inject faults.
pub(crate) async fn behind_proxy(rig: &Rig) -> (Arc<PostgresStore>, Proxy) {
    behind_proxy_with(rig, impatient(rig)).await
}

pub(crate) async fn behind_proxy_with(
    rig: &Rig,
    options: PostgresOptions,
) -> (Arc<PostgresStore>, Proxy) {
    let proxy = Proxy::new(&rig.url).await;
    let store = Arc::new(PostgresStore::open(&proxy.url, options).await.unwrap());
    (store, proxy)
}

/// Returns options with short timeouts, because the proxy may cut the connection. They are long
/// enough for short pauses of a busy machine.
fn impatient(rig: &Rig) -> PostgresOptions {
    PostgresOptions {
        idle_timeout: Duration::from_secs(4),
        round_trip_timeout: Duration::from_secs(15),
        ..rig.options()
    }
}

/// Inserts an event with a new number. Returns how often the decision was called.
pub(crate) async fn post(store: &Arc<PostgresStore>) -> usize {
    let asked = Arc::new(AtomicUsize::new(0));
    let decide = {
        let asked = asked.clone();
        move |snapshot: Snapshot| {
            asked.fetch_add(1, Ordering::SeqCst);
            vec![fresh_event(&snapshot)]
        }
    };
    apply(store, ReadSet::default(), decide).await.unwrap();
    asked.load(Ordering::SeqCst)
}

/// Returns the insert of an event whose number is from the transaction's block.
pub(crate) fn fresh_event(snapshot: &Snapshot) -> Change {
    let mut id = sample::event_id(0);
    id.seq = snapshot.block;
    Change::Insert(Event { id, ..sample::event(0, "{}") }.into())
}

pub(crate) async fn events(store: &Arc<PostgresStore>) -> usize {
    let rows = store.dump().await.unwrap();
    rows.iter().filter(|row| matches!(row, Row::Event(_))).count()
}

/// Injects the fault into a transaction, and checks that the decision is called `asked` times and
/// that one event is written. Tests both values of the option `pooler`.
async fn check(fault: Fault, asked: usize) {
    for pooler in [false, true] {
        let Some(rig) = Rig::new().await else { return };
        let options = PostgresOptions { pooler, ..impatient(&rig) };
        let (store, proxy) = behind_proxy_with(&rig, options).await;
        post(&store).await;
        proxy.at_next_commit(fault);
        let calls = post(&store).await;
        assert_eq!(calls, asked, "wrong number of decisions; pooler: {pooler}");
        assert_eq!(events(&store).await, 2, "not written exactly once; pooler: {pooler}");
        // The store still works after the fault.
        post(&store).await;
        assert_eq!(events(&store).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_commit_whose_answer_is_lost_happens_once() {
    check(Fault::CutAfter, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_commit_that_never_arrives_is_made_again() {
    check(Fault::CutBefore, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_transaction_in_progress_is_waited_for() {
    check(Fault::Vanish, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r11_a_commit_that_rolls_back_is_not_acknowledged() {
    check(Fault::FailBefore, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_takes_two_round_trips() {
    let Some(rig) = Rig::new().await else { return };
    let (store, proxy) = behind_proxy(&rig).await;
    let key = RowKey::Gate(sample::gate_key("main", "k"));
    let change = |snapshot: Snapshot| match snapshot.rows.values().next() {
        Some(Some(row)) => vec![Change::Update(row.clone())],
        _ => vec![Change::Insert(sample::gate("main", "k", 1).into())],
    };
    let mut least = u64::MAX;
    // The first transactions take more round trips because they prepare statements, and on a busy
    // machine the proxy may count one flight as two. So the smallest number counts.
    for _ in 0..200 {
        if least == 2 {
            break;
        }
        let before = proxy.flights();
        apply(&store, ReadSet::default().catalog(&"main".into()).row(key.clone()), change)
            .await
            .unwrap();
        least = least.min(proxy.flights() - before);
    }
    assert_eq!(least, 2);
}
