//! Batch: many events in one run, each event in exactly one run.

use serde_json::{Value, json};
use tidegate::{Batch, Ctx, Singleton, Workflow, testing::TestHarness};

use crate::words::{Journal, burst, ms, secs, sharing, start, states, verdict};

/// A workflow that records the field `n` of its events. It checks that all accessors return the
/// same events.
fn collect(journal: &Journal, batch: Batch) -> Workflow<Vec<Order>, Value, Order> {
    let journal = journal.clone();
    Workflow::new("order", move |ctx: Ctx, orders: Vec<Order>| {
        let journal = journal.clone();
        async move {
            let all: Vec<u32> = orders.iter().map(|order| order.n).collect();
            let events = ctx.events().expect("a batch has a list of events");
            let seen: Vec<Order> =
                events.iter().map(|it| serde_json::from_str(it.data.as_str()).unwrap()).collect();
            assert_eq!(seen, orders);
            assert_eq!(
                ctx.event(),
                &events[0],
                "ctx.event() must return the first event of the batch"
            );
            journal.note(format!("{all:?}"));
            Ok(json!(all))
        }
    })
    .batch(batch)
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Order {
    n: u32,
}

fn at(moments: &[(u128, &str)]) -> Vec<(u128, String)> {
    moments.iter().map(|(at, line)| (*at, (*line).to_owned())).collect()
}

/// spec F2, B92, B93, B94, B95, B96, B100: a full buffer flushes at once, any other buffer a fixed
/// time after its first event. The run gets all events of the buffer, in order.
pub(crate) async fn a_buffer_flushes_at_its_size_or_its_time(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = collect(&journal, Batch::of(3).within(secs(10)));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let first = start(&engine, "order", json!({ "n": 0 })).await;
    harness.advance(secs(4)).await;
    let answer = verdict(&engine, "order", json!({ "n": 1 })).await.to_value();
    assert_eq!((&answer["outcome"], &answer["pending"]), (&json!("buffered"), &json!(2)));
    assert_eq!(answer["runId"], json!(first));
    start(&engine, "order", json!({ "n": 2 })).await;
    harness.settle().await;
    assert_eq!(journal.take_times(), at(&[(4000, "[0, 1, 2]")]));
    assert_eq!(harness.completed(&engine, first).await, json!([0, 1, 2]));
    // The deadline of the first buffer does not apply to the second.
    harness.advance(secs(1)).await;
    start(&engine, "order", json!({ "n": 3 })).await;
    harness.advance(secs(9)).await;
    start(&engine, "order", json!({ "n": 4 })).await;
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), at(&[(15_000, "[3, 4]")]));
}

/// spec B97: a run without batch has no list of events.
pub(crate) async fn a_run_without_batch_has_no_list_of_events(harness: &TestHarness) {
    let order =
        Workflow::new("order", |ctx: Ctx, _: Value| async move { Ok(ctx.events().is_none()) });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let run = start(&engine, "order", json!({})).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await, json!(true));
}

/// spec B98, B53: each key value has a buffer and a timer of its own.
pub(crate) async fn keys_are_collected_apart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = collect(&journal, Batch::of(3).within(secs(10)).key("user"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for (n, user) in ["a", "b", "a", "b", "b"].into_iter().enumerate() {
        start(&engine, "order", json!({ "n": n, "user": user })).await;
        harness.advance(secs(1)).await;
    }
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), at(&[(4000, "[1, 3, 4]"), (10_000, "[0, 2]")]));
}

/// spec F2, B99: when two engines send many events, every event is in exactly one run.
pub(crate) async fn every_event_is_in_exactly_one_run(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || collect(&journal, Batch::of(7).within(secs(1)));
    let one = sharing(harness).workflow(order()).start().await.unwrap();
    let two = sharing(harness).workflow(order()).start().await.unwrap();
    for n in 0..20 {
        let (first, second) = tokio::join!(
            one.send("order", json!({ "n": 2 * n })),
            two.send("order", json!({ "n": 2 * n + 1 })),
        );
        first.and(second).unwrap();
    }
    harness.advance(secs(10)).await;
    let runs = journal.take();
    assert_eq!(runs.len(), 6);
    let runs = runs.iter().map(|run| serde_json::from_str::<Vec<u32>>(run).unwrap());
    let mut all: Vec<u32> = runs.inspect(|run| assert!(run.len() <= 7)).flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
}

/// spec F2, F3, B101: a buffer survives a restart, and its late flush includes no event from after
/// its deadline.
pub(crate) async fn a_buffer_survives_a_restart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = || collect(&journal, Batch::of(9).within(secs(10)));
    let engine = harness.engine().workflow(order()).start().await.unwrap();
    burst(&engine, "order", 3).await;
    harness.settle().await;
    harness.crash(&engine).await;
    harness.advance(secs(60)).await;
    let engine = harness.engine().workflow(order()).start().await.unwrap();
    start(&engine, "order", json!({ "n": 3 })).await;
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), at(&[(60_000, "[0, 1, 2]"), (70_000, "[3]")]));
}

/// spec F2: one request can fill several buffers. A buffer never exceeds its byte limit.
pub(crate) async fn one_request_fills_several_buffers(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let order = collect(&journal, Batch::of(4).within(secs(10)).max_bytes(22));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 12).await;
    harness.advance(secs(10)).await;
    // `{"n":0}` has 7 bytes, so three such events fit into a buffer.
    let expected = ["[0, 1, 2]", "[3, 4, 5]", "[6, 7, 8]", "[9, 10]", "[11]"];
    assert_eq!(journal.take(), expected);
}

/// spec F4: a buffer that a singleton blocks is kept. When the holder ends, it flushes in chunks.
pub(crate) async fn a_held_buffer_flushes_in_chunks(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let order = Workflow::new("order", move |_: Ctx, orders: Vec<Order>| {
        let journal = noted.clone();
        async move {
            let all: Vec<u32> = orders.iter().map(|order| order.n).collect();
            journal.work("order", format!("{all:?}"), secs(10)).await;
            Ok(())
        }
    })
    .batch(Batch::of(2).within(secs(1)))
    .singleton(Singleton::skip());
    let engine = harness.engine().workflow(order).start().await.unwrap();
    burst(&engine, "order", 5).await;
    harness.advance(secs(60)).await;
    let expected = at(&[(0, "[0, 1]"), (10_000, "[2, 3]"), (20_000, "[4]")]);
    assert_eq!((journal.take_times(), journal.most("order")), (expected, 1));
}

/// spec N27, F4: events that debounce releases are then collected by batch.
pub(crate) async fn what_debounce_fires_is_what_batch_collects(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let quiet = tidegate::Debounce::quiet(secs(1)).key("user");
    let order = collect(&journal, Batch::of(2).within(secs(30))).debounce(quiet);
    let engine = harness.engine().workflow(order).start().await.unwrap();
    for (n, user) in ["a", "a", "b", "a"].into_iter().enumerate() {
        start(&engine, "order", json!({ "n": n, "user": user })).await;
        harness.advance(ms(100)).await;
    }
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), at(&[(1300, "[2, 3]")]));
    // The run of the first window has both events. The run id promised for the other window is
    // cancelled.
    assert_eq!(states(harness, "order").await, ["cancelled", "completed"]);
}
