//! Idempotency and `dedupeId`: duplicates are recognised.

use serde_json::{Value, json};
use tidegate::{Ctx, Engine, Idempotency, NewEvent, Posted, Workflow, testing::TestHarness};

use crate::words::{Journal, ms, recorded, secs, sharing, start, states, verdict, work};

/// spec C1, B116, B117, B118, B119, B120: one run starts per key. A repeat gets the verdict
/// `deduped`, and its event is still delivered to all other workflows.
pub(crate) async fn one_run_for_a_key(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let once = Idempotency::within(secs(60)).key("id");
    let order = work(&journal, "order", ms(0)).idempotency(once);
    let audit = work(&journal, "audit", ms(0)).on_event("order");
    let waiter = Workflow::new("waiter", |ctx: Ctx, _: Value| async move {
        ctx.wait_for_event::<Value>("again", "order").matching("n", 1).await
    });
    let engine = harness.engine().workflow(order).workflow(audit).workflow(waiter);
    let engine = engine.start().await.unwrap();
    let waiting = start(&engine, "waiter", json!({})).await;
    harness.settle().await;
    engine.send("order", json!({ "id": 7, "n": 0 })).await.unwrap();
    let repeat = engine.send("order", json!({ "id": 7, "n": 1 })).await.unwrap().to_value();
    let answer = &repeat["runs"][1];
    assert_eq!((&answer["outcome"], &answer["deduped"]), (&json!("deduped"), &json!(true)));
    assert_eq!((&answer["control"], answer.get("runId")), (&json!("idempotency"), None));
    assert_eq!(repeat["woke"], 1);
    engine.send("order", json!({ "id": 8, "n": 2 })).await.unwrap();
    harness.settle().await;
    assert_eq!(
        (states(harness, "order").await.len(), states(harness, "audit").await.len()),
        (2, 3)
    );
    assert_eq!(recorded(harness, "order").await, 3);
    harness.completed(&engine, waiting).await;
}

/// spec C1, B121, B122, B123: the period of a key continues after the run has ended, is not
/// extended by repeats, and expires.
pub(crate) async fn the_window_is_fixed_and_outlives_the_run(harness: &TestHarness) {
    let order = Workflow::new("order", |_: Ctx, _: Value| async move {
        Err::<(), _>(tidegate::StepError::new("no").fatal())
    });
    let order = order.idempotency(Idempotency::within(secs(60)));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let send = async || verdict(&engine, "order", json!({})).await.outcome();
    assert_eq!(send().await, "started");
    for _ in 0..5 {
        harness.advance(secs(10)).await;
        assert_eq!((send().await, states(harness, "order").await), ("deduped", vec!["failed"]));
    }
    harness.advance(ms(9_999)).await;
    assert_eq!(send().await, "deduped");
    harness.advance(ms(1)).await;
    assert_eq!(send().await, "started");
}

/// spec B124, B125: without a key there is one run per workflow; without a period, the period is a
/// day.
pub(crate) async fn by_default_one_run_a_day(harness: &TestHarness) {
    let data = json!({ "name": "order", "idempotency": {} });
    let order = Workflow::from_definition(data, |_: Ctx, _: Value| async move { Ok(()) });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let send = async |id: u32| verdict(&engine, "order", json!({ "id": id })).await.outcome();
    assert_eq!([send(1).await, send(2).await], ["started", "deduped"]);
    harness.advance(secs(24 * 60 * 60 - 1)).await;
    assert_eq!(send(3).await, "deduped");
    harness.advance(secs(1)).await;
    assert_eq!(send(4).await, "started");
}

/// spec B126: when two engines get repeats at the same time, exactly one run starts.
pub(crate) async fn of_repeats_at_once_one_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let period = || Idempotency::within(secs(60)).key("n");
    let order = || work(&journal, "order", ms(0)).idempotency(period());
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    for n in 0..5 {
        let repeats = tokio::join!(
            one.send("order", json!({ "n": n })),
            two.send("order", json!({ "n": n })),
            one.send("order", json!({ "n": n })),
        );
        repeats.0.and(repeats.1).and(repeats.2).unwrap();
    }
    harness.advance(secs(2)).await;
    let mut ran = journal.take();
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "3", "4"]);
}

async fn post(engine: &Engine, dedupe_id: &str, data: Value) -> Posted {
    let event = tidegate::new_event("order", data).unwrap();
    let event = NewEvent { dedupe_id: Some(dedupe_id.to_owned()), ..event };
    engine.send_all(vec![event]).await.unwrap().remove(0)
}

/// spec C2, B127, B128, B129, B130: a repeated `dedupeId` is dropped before any control is applied,
/// and gets the verdicts of the first event. After a day it is a new event.
pub(crate) async fn a_repeated_dedupe_id_is_dropped_before_anything(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0));
    let waiter = Workflow::new("waiter", |ctx: Ctx, _: Value| async move {
        ctx.wait_for_event::<Value>("order", "order").await
    });
    let engine = harness.engine().workflow(order).workflow(waiter).start().await.unwrap();
    let first = post(&engine, "a", json!({ "n": 0 })).await;
    assert!(!first.deduped);
    let waiting = start(&engine, "waiter", json!({})).await;
    harness.settle().await;
    let again = post(&engine, "a", json!({ "n": 1 })).await;
    assert_eq!((again.deduped, again.id, again.woke), (true, first.id, 0));
    let answer = again.to_value();
    assert_eq!(answer["runs"][0]["runId"], json!(first.runs[0].verdict.run()));
    harness.settle().await;
    assert_eq!(
        (recorded(harness, "order").await, states(harness, "waiter").await[0]),
        (1, "waiting")
    );
    assert!(!post(&engine, "b", json!({ "n": 2 })).await.deduped);
    harness.settle().await;
    assert_eq!(harness.completed(&engine, waiting).await, json!({ "n": 2 }));
    harness.advance(secs(24 * 60 * 60)).await;
    assert!(!post(&engine, "a", json!({ "n": 3 })).await.deduped);
    harness.settle().await;
    assert_eq!(journal.take(), ["0", "2", "3"]);
}

/// spec C2: a `dedupeId` is unique within its workspace, and also within one request.
pub(crate) async fn a_dedupe_id_is_one_per_workspace(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0));
    let engine = harness.engine().workspaces(["one", "two"]).workflow(order).start().await.unwrap();
    let event = tidegate::new_event("order", json!({ "n": 0 })).unwrap();
    let event = NewEvent { dedupe_id: Some("a".to_owned()), ..event };
    let posted = engine.send_all(vec![event.clone(), event]).await.unwrap();
    assert_eq!((posted[0].deduped, posted[1].deduped), (false, true));
    assert_eq!(posted[0].id, posted[1].id);
    assert!(!post(&engine.in_workspace("two"), "a", json!({ "n": 1 })).await.deduped);
    harness.settle().await;
    let mut ran = journal.take();
    ran.sort();
    assert_eq!(ran, ["0", "1"]);
}
