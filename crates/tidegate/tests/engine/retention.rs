//! Retention: old ended runs are deleted, but no row that is still needed.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Ctx, Retention, Workflow, testing::TestHarness};
use tidegate_core::{
    reads::Change,
    row::{Row, RowKey},
};

use crate::{
    faults::{Faults, Flaw},
    words::{burst, recorded, start},
};

/// spec retention: ended runs, their steps and their events are deleted after their retention
/// period. The event of a live run is kept.
pub(crate) async fn what_is_over_and_old_is_deleted(harness: &TestHarness) {
    let hour = Duration::from_hours(1);
    let order = Workflow::new("order", move |ctx: Ctx, input: Value| async move {
        ctx.step("pay", || async { Ok(()) }).await?;
        if input == json!("slow") {
            ctx.sleep("nap", hour * 12).await?;
        }
        Ok(())
    });
    let retention =
        Retention { runs: hour * 2, events: hour * 2, receipts: hour * 2, ..Retention::default() };
    let engine = harness.engine().workflow(order).retention(retention).start().await.unwrap();
    let quick = start(&engine, "order", json!("quick")).await;
    let slow = start(&engine, "order", json!("slow")).await;
    harness.advance(hour).await;
    assert!(engine.look_up(quick).await.unwrap().1.is_some(), "it is not old yet");
    harness.advance(hour * 4).await;
    assert_eq!(engine.look_up(quick).await.unwrap(), (None, None), "it is gone");
    let rows = harness.store().dump().await.unwrap();
    let steps = rows.iter().filter(|row| matches!(row, Row::Step(_))).count();
    let events = rows.iter().filter(|row| matches!(row, Row::Event(_))).count();
    assert_eq!((steps, events), (1, 1), "only the rows of the slow run must be left");
    harness.advance(hour * 8).await;
    harness.completed(&engine, slow).await;
    harness.advance(hour * 4).await;
    assert_eq!(engine.look_up(slow).await.unwrap(), (None, None), "it is gone too");
}

/// A row that the store refuses to delete is skipped, and the other rows are deleted.
pub(crate) async fn one_refused_row_stops_no_pass(harness: &TestHarness, faults: &Faults) {
    let hour = Duration::from_hours(1);
    let order = Workflow::new("order", async |_: Ctx, _: Value| Ok(()));
    let retention =
        Retention { runs: hour * 2, events: hour * 2, receipts: hour * 2, ..Retention::default() };
    let engine = harness.engine().workflow(order).retention(retention).start().await.unwrap();
    let mut runs = Vec::new();
    for n in 0..5 {
        runs.push(start(&engine, "order", json!(n)).await);
    }
    harness.settle().await;
    let cursed = RowKey::Ended(runs[2].seq);
    faults.curse(Flaw::Nul, move |change| matches!(change, Change::Delete(key) if *key == cursed));
    harness.advance(hour * 4).await;
    for (n, run) in runs.into_iter().enumerate() {
        let ended = engine.look_up(run).await.unwrap().1;
        assert_eq!(ended.is_some(), n == 2, "run {n}");
    }
}

/// One pass deletes all old rows, in as many transactions as needed: no row waits for the next pass
/// an hour later.
pub(crate) async fn one_pass_deletes_all_that_is_old(harness: &TestHarness) {
    let hour = Duration::from_hours(1);
    let job = Workflow::new("job", async |_: Ctx, _: Value| Ok(()));
    let retention =
        Retention { runs: hour * 2, events: hour * 2, receipts: hour * 2, ..Retention::default() };
    let engine = harness.engine().workflow(job).retention(retention).start().await.unwrap();
    let count = 600;
    burst(&engine, "job", count).await;
    harness.settle().await;
    let mut left = vec![harness.runs("job").await.len()];
    while left.last() == Some(&count) && left.len() < 6 {
        harness.advance(hour).await;
        left.push(harness.runs("job").await.len());
    }
    assert_eq!(left.last(), Some(&0), "rows left after each hour: {left:?}");
    assert_eq!(
        recorded(harness, "job").await,
        0,
        "the events of deleted runs must be deleted, too"
    );
}
