//! spec R10, R11 for transactional steps: if the answer to a COMMIT is lost, the step's writes and
//! its record are both committed or both not, and the caller gets the right answer.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tidegate_core::{command::Command, row::Run, run::record::Record, time::Timestamp};
use tidegate_store::{
    ManualClock, PostgresStore, PostgresTransaction, SeededCommand, SqlError, StoreError,
    TransactionError,
};
use tidegate_testkit::world::{World, step};

use crate::{
    commits::behind_proxy,
    proxy::Fault,
    rig::{Rig, STUCK},
};

/// Starts a run and leases it.
pub(crate) async fn leased(world: &World) -> Run {
    world.send("order", json!({})).await;
    world.lease_one().await
}

pub(crate) fn recording(world: &World, run: &Run) -> SeededCommand {
    let report = Record {
        run: run.id.seq,
        engine: run.owner.unwrap(),
        fence: run.fence,
        steps: vec![step("pay", &json!(1))],
        ..Record::default()
    };
    world.salted(Command::Record { known: Box::new(run.clone()), report })
}

/// Runs a transactional step that inserts a payment, and its record.
pub(crate) async fn pay(
    store: &PostgresStore,
    record: SeededCommand,
    table: &str,
) -> Result<(), TransactionError<SqlError>> {
    let insert = format!("insert into {table} values (1)");
    let step = |tx: PostgresTransaction| async move { tx.execute(&insert, &[]).await };
    let paying = Box::pin(store.transact_with(Duration::from_mins(1), step, |_| vec![record]));
    tokio::time::timeout(STUCK, paying).await.expect("the step ends in time").map(|_| ())
}

/// Injects the fault at the COMMIT of a step. Checks the rows and the caller's answer after that,
/// and again after the caller has repeated the step.
async fn check(fault: Fault, committed: bool) {
    let Some(rig) = Rig::new().await else { return };
    let (store, proxy) = behind_proxy(&rig).await;
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(0)));
    let world = World::new(store.clone(), clock);
    world.define(json!({ "name": "order" })).await;
    let run = leased(&world).await;
    let table = format!("{}.payment", rig.schema);
    rig.execute(&format!("create table {table} (n int)")).await;

    proxy.at_next_commit(fault);
    let reply = pay(&store, recording(&world, &run), &table).await;
    let kept = i64::from(committed);
    assert_eq!(rig.count(&table).await, kept, "{reply:?}");
    assert_eq!(world.steps(run.id).await.len(), usize::from(committed));
    if committed {
        reply.unwrap();
    } else {
        let unavailable = matches!(reply, Err(TransactionError::Store(StoreError::Unavailable(_))));
        assert!(unavailable, "the caller did not get an error that it can retry: {reply:?}");
    }
    // The caller may always repeat the step.
    let again = pay(&store, recording(&world, &run), &table).await;
    assert_eq!(matches!(again, Err(TransactionError::Recorded)), committed, "{again:?}");
    assert_eq!(rig.count(&table).await, 1, "the step did not pay exactly once");
    assert_eq!(world.steps(run.id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_steps_commit_whose_answer_is_lost_is_found_out() {
    check(Fault::CutAfter, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_steps_commit_that_never_arrives_leaves_neither() {
    check(Fault::CutBefore, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_step_in_progress_is_waited_for() {
    check(Fault::Vanish, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r11_a_steps_commit_that_rolls_back_leaves_neither() {
    check(Fault::FailBefore, false).await;
}
