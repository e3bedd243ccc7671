//! spec R10, R11 for transactional steps: a COMMIT whose answer is lost keeps effect and record, or
//! neither, and the caller learns which.

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

/// Returns a run whose step may be executed.
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

/// Pays; effect and record are both part of the one transaction.
pub(crate) async fn pay(
    store: &PostgresStore,
    record: SeededCommand,
    table: &str,
) -> Result<(), TransactionError<SqlError>> {
    let insert = format!("insert into {table} values (1)");
    let step = |tx: PostgresTransaction| async move { tx.execute(&insert, &[]).await };
    let paying = Box::pin(store.transact_with(Duration::from_mins(1), step, |_| vec![record]));
    tokio::time::timeout(STUCK, paying).await.expect("not stuck").map(|_| ())
}

/// Checks the rows after a fault, and the caller's answer, from the first attempt on.
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
        assert!(unavailable, "a reason to try again: {reply:?}");
    }
    // A caller that does not trust its answer may always repeat.
    let again = pay(&store, recording(&world, &run), &table).await;
    assert_eq!(matches!(again, Err(TransactionError::Recorded)), committed, "{again:?}");
    assert_eq!(rig.count(&table).await, 1, "exactly once");
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
