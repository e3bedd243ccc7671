//! Rate limit: events over the limit are dropped, with a verdict.

use serde_json::{Value, json};
use tidegate::{Ctx, Rate, Workflow, testing::TestHarness};

use crate::words::{Journal, ms, recorded, secs, sharing, start, states, verdict, work};

/// spec B77, B78, B79, B80, A3: over the limit no run is created, and the verdict says so. The
/// event is still recorded, wakes runs that wait for it, and starts other workflows.
pub(crate) async fn the_overflow_is_dropped_and_is_still_an_event(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).rate_limit(Rate::per_minute(2));
    let audit = work(&journal, "audit", ms(0)).on_event("order");
    let waiter = Workflow::new("waiter", |ctx: Ctx, _: Value| async move {
        ctx.wait_for_event::<Value>("third", "order").matching("n", 2).await
    });
    let engine = harness.engine().workflow(order).workflow(audit).workflow(waiter);
    let engine = engine.start().await.unwrap();
    let waiting = start(&engine, "waiter", json!({})).await;
    harness.settle().await;
    for n in 0..2 {
        assert_eq!(engine.send("order", json!({ "n": n })).await.unwrap().runs.len(), 2);
    }
    let third = engine.send("order", json!({ "n": 2 })).await.unwrap().to_value();
    assert_eq!(third["woke"], 1);
    let answer = &third["runs"][1];
    assert_eq!((&answer["workflow"], &answer["outcome"]), (&json!("order"), &json!("dropped")));
    assert_eq!((&answer["dropped"], &answer["control"]), (&json!(true), &json!("rateLimit")));
    assert!(answer.get("retryAt").is_some() && answer.get("runId").is_none(), "{answer}");
    harness.settle().await;
    assert_eq!(
        (states(harness, "order").await.len(), states(harness, "audit").await.len()),
        (2, 3)
    );
    assert_eq!(recorded(harness, "order").await, 3);
    assert_eq!(harness.completed(&engine, waiting).await, json!({ "n": 2 }));
}

/// spec M2, B81: capacity returns at a constant rate, and a single event after a pause is always
/// admitted.
pub(crate) async fn capacity_comes_back_evenly(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).rate_limit(Rate::per_second(2));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let send = async || verdict(&engine, "order", json!({})).await.outcome();
    assert_eq!([send().await, send().await, send().await], ["started", "started", "dropped"]);
    harness.advance(ms(499)).await;
    assert_eq!(send().await, "dropped");
    harness.advance(ms(1)).await;
    assert_eq!([send().await, send().await], ["started", "dropped"]);
    harness.advance(secs(1)).await;
    assert_eq!([send().await, send().await, send().await], ["started", "started", "dropped"]);
}

/// spec B82: a key over its limit does not affect other keys.
pub(crate) async fn a_hot_key_does_not_affect_another(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = work(&journal, "order", ms(0)).rate_limit(Rate::per_second(1).key("ip"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let send = async |ip: &str| verdict(&engine, "order", json!({ "ip": ip })).await.outcome();
    assert_eq!([send("a").await, send("a").await, send("a").await][1..], ["dropped"; 2]);
    assert_eq!([send("b").await, send("b").await], ["started", "dropped"]);
}

/// spec B83: of the same burst, a throttle delays exactly the events that a rate limit drops.
pub(crate) async fn both_meters_call_the_same_arrivals_overflow(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let rate = || Rate::per_second(2).burst(2);
    let limited = work(&journal, "limited", ms(0)).on_event("tick").rate_limit(rate());
    let throttled = work(&journal, "throttled", ms(0)).on_event("tick").throttle(rate());
    let engine = harness.engine().workflow(limited).workflow(throttled).start().await.unwrap();
    // A delayed run is cancelled at once: a second one would wait behind it, and not only for the
    // rate.
    for gap in [0, 0, 0, 1000, 0, 500, 100, 1500, 0, 0] {
        harness.advance(ms(gap)).await;
        let posted = engine.send("tick", json!({})).await.unwrap();
        let answer: Vec<_> = posted.runs.iter().map(|run| run.verdict.outcome()).collect();
        assert!(matches!(answer[..], ["started", "started"] | ["dropped", "queued"]), "{answer:?}");
        if answer[0] == "dropped" {
            let late = posted.runs[1].verdict.run().unwrap();
            engine.cancel(late, "a probe").await.unwrap();
        }
    }
}

/// spec B84, B131: several engines share one limit.
pub(crate) async fn several_engines_count_together(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || work(&journal, "order", ms(0)).rate_limit(Rate::per_minute(5));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    for _ in 0..10 {
        let (one, two) = tokio::join!(one.send("order", json!({})), two.send("order", json!({})));
        one.and(two).unwrap();
    }
    harness.advance(secs(2)).await;
    assert_eq!(states(harness, "order").await, ["completed"; 5]);
}
