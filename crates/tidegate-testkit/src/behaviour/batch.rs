//! Batch: many events in one run.

use serde_json::{Value, json};
use tidegate_core::{definition::Definition, event::NewEvent};

use crate::world::{World, buffer, event};

/// Returns the data of event `n`.
fn nth(n: usize) -> Value {
    json!({ "n": n })
}

/// Returns the data of several events, in the form of a run's list of events.
#[expect(clippy::unnecessary_wraps, reason = "the type is that of `inputs_of`")]
fn some(numbers: impl IntoIterator<Item = usize>) -> Option<Vec<Value>> {
    Some(numbers.into_iter().map(nth).collect())
}

/// spec F2, B92, B95, B96: a full buffer flushes at once, with all its events in their order.
pub async fn a_full_buffer_flushes_at_once(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let (run, pending, flush_at) = buffer(&world.send("index", nth(0)).await);
    assert_eq!((pending, flush_at), (1, world.now().plus_ms(1000)));
    assert_eq!(buffer(&world.send("index", nth(1)).await), (run, 2, flush_at));
    assert!(world.drain().await.is_empty());
    assert_eq!(world.send_for_run("index", nth(2)).await, run);
    assert_eq!(world.drain().await, [run], "the full buffer flushed only at a sweep");
    assert_eq!(world.inputs_of(run).await, some(0..3));
    assert_eq!(
        world.input_of(run).await,
        nth(0),
        "the single input of a batch must be its first event"
    );
}

/// spec F2, B93, B94: a buffer flushes when its timeout has passed since its first event, whatever
/// arrived since.
pub async fn a_buffer_flushes_a_time_after_its_first_event(world: &World) {
    let batch = json!({ "maxSize": 100, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let (run, _, flush_at) = buffer(&world.send("index", nth(0)).await);
    for n in 1..4 {
        world.tick(333).await;
        assert_eq!(
            buffer(&world.send("index", nth(n)).await).2,
            flush_at,
            "a later event moved the flush time"
        );
    }
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(world.inputs_of(run).await, some(0..4));
    world.tick(10_000).await;
    assert!(world.drain().await.is_empty());
}

/// spec B97: only a batch's run has a list of events.
pub async fn a_run_without_batch_has_no_list_of_events(world: &World) {
    world.define(json!({ "name": "plain" })).await;
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let batch = json!({ "maxSize": 1, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let plain = world.send_for_run("plain", nth(0)).await;
    let save = world.send_for_run("save", nth(0)).await;
    let index = world.send_for_run("index", nth(0)).await;
    world.tick(1000).await;
    assert_eq!(world.inputs_of(plain).await, None);
    assert_eq!(world.inputs_of(save).await, None);
    assert_eq!(
        world.inputs_of(index).await,
        some([0]),
        "a batch of one event must have a list of events"
    );
}

/// spec B98: each key has its own buffer and timer.
pub async fn keys_are_collected_apart(world: &World) {
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000, "key": "shop" });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let a = world.send_for_run("index", json!({ "shop": "a" })).await;
    world.tick(600).await;
    let b = world.send_for_run("index", json!({ "shop": "b" })).await;
    let none = world.send_for_run("index", json!({ "shop": null })).await;
    assert!(a != b && b != none && a != none);
    world.tick(400).await;
    assert_eq!(world.drain().await, [a]);
    world.send("index", json!({ "shop": "b" })).await;
    assert_eq!(
        world.drain().await,
        [b],
        "the buffer of b is full and must flush before the others"
    );
    world.tick(600).await;
    assert_eq!(world.drain().await, [none]);
    assert_eq!(world.inputs_of(b).await.map(|events| events.len()), Some(2));
}

/// spec F2, B99: arrivals on several engines around a flush are each in exactly one run.
pub async fn every_event_is_in_exactly_one_run(world: &World) {
    let batch = json!({ "maxSize": 4, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let (b, c) = (world.engine(2), world.engine(3));
    for n in 0..10 {
        let base = n * 3;
        tokio::join!(
            world.send("index", nth(base)),
            b.send("index", nth(base + 1)),
            c.send("index", nth(base + 2)),
            b.sweep(),
        );
        world.pass(450);
    }
    world.tick(1000).await;
    let mut seen = Vec::new();
    for run in world.drain().await {
        let events = world.inputs_of(run).await.unwrap();
        assert!(!events.is_empty() && events.len() <= 4, "{} in one run", events.len());
        seen.extend(events.iter().map(|data| data["n"].as_u64().unwrap()));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..30).collect::<Vec<_>>());
}

/// spec F2, B92: the events of one request fill several buffers, in order.
pub async fn one_request_fills_several_buffers(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let events: Vec<NewEvent> = (0..10).map(|n| event("index", &nth(n))).collect();
    let posted = world.post_all(events).await;
    assert_eq!(
        buffer(&posted[9].runs[0].verdict).1,
        1,
        "the tenth event must wait in a buffer of its own"
    );
    let mut full = Vec::new();
    for run in world.drain().await {
        full.extend(world.inputs_of(run).await);
    }
    let expected: Vec<_> = [0..3, 3..6, 6..9].into_iter().filter_map(some).collect();
    assert_eq!(full, expected);
}

/// spec B100: after a flush by size the old timer does not flush the next buffer early.
pub async fn an_old_timer_flushes_no_new_buffer(world: &World) {
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    world.send("index", nth(0)).await;
    world.tick(500).await;
    world.send("index", nth(1)).await;
    let (next, _, flush_at) = buffer(&world.send("index", nth(2)).await);
    assert_eq!(flush_at, world.now().plus_ms(1000));
    assert_eq!(world.drain().await.len(), 1);
    world.tick(999).await;
    assert!(world.drain().await.is_empty(), "the timer of the flushed buffer flushed the new one");
    world.tick(1).await;
    assert_eq!(world.drain().await, [next]);
}

/// spec F3, B101: a buffer survives the end of all engines: no event is lost, and the buffer
/// flushes.
pub async fn a_buffer_survives_a_restart_of_all_engines(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let run = world.send_for_run("index", nth(0)).await;
    world.send("index", nth(1)).await;
    world.lose(1).await;
    world.pass(600);
    let reborn = world.engine(2);
    reborn.sweep().await;
    assert!(reborn.drain().await.is_empty(), "the buffer flushed before its timeout");
    reborn.tick(400).await;
    assert_eq!(reborn.drain().await, [run]);
    assert_eq!(world.inputs_of(run).await, some(0..2));
}

/// spec F2: a buffer that is due takes no further event, even if no sweep has flushed it yet.
pub async fn a_late_flush_takes_no_later_event(world: &World) {
    for late in [0, 1, 50_000] {
        let name = format!("index{late}");
        let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
        world.define(json!({ "name": name, "batch": batch })).await;
        let first = world.send_for_run(&name, nth(0)).await;
        world.pass(1000 + late);
        let (second, pending, flush_at) = buffer(&world.send(&name, nth(1)).await);
        assert_ne!(first, second, "{late} ms late");
        assert_eq!((pending, flush_at), (1, world.now().plus_ms(1000)));
        assert_eq!(world.drain().await, [first]);
        world.tick(1000).await;
        assert_eq!(world.drain().await, [second]);
        assert_eq!(world.inputs_of(first).await, some([0]));
        assert_eq!(world.inputs_of(second).await, some([1]));
    }
}

/// spec F2: no run holds more bytes than allowed, unless one event alone does.
pub async fn a_buffer_holds_no_more_bytes_than_allowed(world: &World) {
    let text = |length: usize| json!("x".repeat(length - 2));
    let batch = json!({ "maxSize": 100, "timeoutMs": 1000, "maxBytes": 100 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let first = world.send_for_run("index", text(60)).await;
    let second = world.send_for_run("index", text(41)).await;
    assert_ne!(first, second, "two events with 101 bytes are in one run");
    assert_eq!(world.drain().await, [first], "a buffer without room for the next event must flush");
    assert_eq!(world.send_for_run("index", text(59)).await, second);
    assert_eq!(
        world.drain().await,
        [second],
        "a buffer with exactly the maximum of 100 bytes must flush"
    );
    let huge = world.send_for_run("index", text(1000)).await;
    assert_eq!(
        world.drain().await,
        [huge],
        "a single event over the limit must get a run of its own"
    );
    let last = world.send_for_run("index", text(10)).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [last]);
    for (run, count) in [(first, 1), (second, 2), (huge, 1), (last, 1)] {
        assert_eq!(world.inputs_of(run).await.map(|events| events.len()), Some(count));
    }
}

/// spec F4: a buffer that is due waits while a singleton would skip its run. Then it flushes in
/// chunks: one each time a holder ends.
pub async fn a_held_buffer_flushes_in_chunks(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    let singleton = json!({ "mode": "skip" });
    world.define(json!({ "name": "index", "batch": batch, "singleton": singleton })).await;
    let mut named = Vec::new();
    for n in 0..3 {
        named.push(world.send_for_run("index", nth(n)).await);
    }
    let mut holder = world.lease_one().await;
    for n in 3..11 {
        named.push(world.send_for_run("index", nth(n)).await);
        world.tick(700).await;
    }
    assert_eq!(
        world.alive("index").await,
        1,
        "the buffer flushed although the singleton has a holder"
    );
    let mut chunks = Vec::new();
    for _ in 0..3 {
        world.complete(&holder).await;
        world.sweep().await;
        assert_eq!(
            world.alive("index").await,
            1,
            "more than one chunk flushed when a holder ended"
        );
        holder = world.lease_one().await;
        chunks.extend(world.inputs_of(holder.id).await);
        for data in world.inputs_of(holder.id).await.unwrap() {
            let n = usize::try_from(data["n"].as_u64().unwrap()).unwrap();
            assert_eq!(named[n], holder.id, "the verdict of event {n} named another run");
        }
    }
    let expected: Vec<_> = [3..6, 6..9, 9..11].into_iter().filter_map(some).collect();
    assert_eq!(chunks, expected, "chunks must have at most three events, in order, without a loss");
    world.complete(&holder).await;
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty());
    assert!(
        buffer(&world.send("index", nth(11)).await).1 == 1,
        "the next event must open a new buffer"
    );
    world.check_holds().await;
}

/// spec F2, F4: each chunk of a held buffer obeys the byte limit, too.
pub async fn a_held_buffer_keeps_to_its_bytes(world: &World) {
    let batch = json!({ "maxSize": 10, "timeoutMs": 1000, "maxBytes": 20 });
    let singleton = json!({ "mode": "skip" });
    world.define(json!({ "name": "index", "batch": batch, "singleton": singleton })).await;
    world.send("index", json!("holder")).await;
    world.tick(1000).await;
    let mut holder = world.lease_one().await;
    for n in 0..5 {
        world.send("index", json!(format!("a text {n}"))).await;
        world.tick(1000).await;
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        world.complete(&holder).await;
        world.sweep().await;
        holder = world.lease_one().await;
        sizes.push(world.inputs_of(holder.id).await.unwrap().len());
    }
    assert_eq!(sizes, [2, 2, 1], "ten bytes each");
    world.check_holds().await;
}

/// spec C1, A1: each event takes its own claim when it joins the buffer; a repeated event is in no
/// batch.
pub async fn each_member_takes_its_own_claim(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    let once = json!({ "key": "n", "periodMs": 60_000 });
    world.define(json!({ "name": "index", "batch": batch, "idempotency": once })).await;
    let run = world.send_for_run("index", nth(0)).await;
    assert_eq!(
        world.send("index", nth(0)).await.outcome(),
        "deduped",
        "no claim on a buffered event"
    );
    world.send("index", nth(1)).await;
    world.send("index", nth(2)).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(world.inputs_of(run).await, some(0..3));
    for n in 0..3 {
        assert_eq!(
            world.send("index", nth(n)).await.outcome(),
            "deduped",
            "no claim after the end of its batch"
        );
    }
    world.tick(60_000).await;
    assert_eq!(buffer(&world.send("index", nth(1)).await).1, 1);
}

/// The run of a batch gets the version that is released at the flush. New limits apply to open
/// buffers at once.
pub async fn a_buffer_flushes_by_the_release_of_that_moment(world: &World) {
    let index = |version: u32, size: u32| {
        let batch = json!({ "maxSize": size, "timeoutMs": 1000 });
        json!({ "name": "index", "version": version, "batch": batch })
    };
    world.define(index(1, 10)).await;
    let run = world.send_for_run("index", nth(0)).await;
    for n in 1..4 {
        world.send("index", nth(n)).await;
    }
    world.define(index(2, 4)).await;
    let (next, pending, _) = buffer(&world.send("index", nth(4)).await);
    assert!(
        next != run && pending == 1,
        "the buffer was full by the new `maxSize`, and took another event"
    );
    let flushed = world.lease_one().await;
    assert_eq!((flushed.id, flushed.version), (run, 2));
    assert_eq!(world.inputs_of(run).await, some(0..4));
    world.define(index(3, 4)).await;
    world.tick(1000).await;
    let last = world.lease_one().await;
    assert_eq!((last.id, last.version), (next, 3));
}

/// spec N26, A4: gates, throttle and handoff of a batch use its key or none.
pub async fn gates_of_a_batch_go_by_its_key(world: &World) {
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000, "key": "shop" });
    let refused = [
        json!({ "singleton": { "mode": "skip", "key": "n" } }),
        json!({ "singleton": { "mode": "cancel" } }),
        json!({ "concurrency": { "limit": 1, "key": "n" } }),
        json!({ "throttle": { "limit": 1, "perMs": 1000, "key": "n" } }),
        json!({ "handoff": { "type": "keyed", "keyField": "n", "onNewVersion": "drain" } }),
    ];
    for mut definition in refused {
        definition["name"] = json!("index");
        definition["batch"] = batch.clone();
        assert!(Definition::parse(&definition).is_err(), "{definition}");
    }
    let definition = json!({
        "name": "index", "batch": batch, "singleton": { "mode": "skip", "key": "shop" },
        "concurrency": [{ "limit": 1, "key": "shop" }, { "limit": 2 }],
        "throttle": { "limit": 10, "perMs": 1000, "key": "shop", "burst": 10 }
    });
    world.define(definition).await;
    for shop in ["a", "b", "c"] {
        for n in 0..2 {
            world.send("index", json!({ "shop": shop, "n": n })).await;
        }
    }
    let driven = world.lease_all().await;
    assert_eq!(driven.len(), 2, "the limit without a key must apply to all shops together");
    world.check_holds().await;
    for run in driven {
        world.complete(&run).await;
    }
    assert_eq!(world.drain().await.len(), 1);
    world.check_holds().await;
}

/// Every buffered event has a receipt with the id of its run.
pub async fn each_buffered_event_has_a_receipt(world: &World) {
    let batch = json!({ "maxSize": 5, "timeoutMs": 1000, "key": "shop" });
    world.define(json!({ "name": "index", "batch": batch })).await;
    for pending in 1..4 {
        let posted = world.post("index", json!({ "shop": "a" })).await;
        let run = posted.runs[0].verdict.run().unwrap();
        let receipts = world.receipts_of(posted.id).await;
        assert_eq!(receipts.len(), 1);
        let answer = |field: &str| receipts[0][field].clone();
        assert_eq!(answer("outcome"), "buffered");
        assert_eq!((answer("control"), answer("key")), (json!("batch"), json!("a")));
        assert_eq!((answer("runId"), answer("pending")), (json!(run), json!(pending)));
    }
}
