//! Debounce: one run after a burst of events, with the last event.

use serde_json::json;
use tidegate_core::{
    command::Command,
    run::record::{Record, Then},
};

use crate::world::{World, event, payload, window};

/// spec F1, B85, B86, B87: each event moves the deadline; after the burst there is one run with the
/// last event.
pub async fn a_burst_gives_one_run_with_the_last_event(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let (run, _) = window(&world.send("save", json!({ "n": 0 })).await);
    for n in 1..4 {
        world.tick(999).await;
        let joined = window(&world.send("save", json!({ "n": n })).await);
        assert_eq!(joined, (run, world.now().plus_ms(1000)), "the event did not move the deadline");
    }
    world.tick(999).await;
    assert_eq!(world.state(run).await, "none", "the window fired before its deadline");
    world.tick(1).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(world.input_of(run).await, json!({ "n": 3 }));
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty(), "it fires once");
}

/// spec B88, B53: each key has its own window; all events without the key share another one.
pub async fn keys_debounce_apart(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000, "key": "doc" } })).await;
    let a = world.send_for_run("save", json!({ "doc": "a" })).await;
    let none = world.send_for_run("save", json!({ "n": 1 })).await;
    world.tick(600).await;
    let b = world.send_for_run("save", json!({ "doc": "b" })).await;
    assert_eq!(world.send_for_run("save", json!({ "n": 2 })).await, none);
    world.tick(400).await;
    assert_eq!(world.drain().await, [a], "the window of a must fire independently of the others");
    world.tick(600).await;
    let mut fired = world.drain().await;
    fired.sort_by_key(|run| run.seq);
    assert_eq!(fired, [none, b]);
    assert_eq!(world.input_of(none).await, json!({ "n": 2 }));
}

/// spec B89: an event after the window fired opens a new window, and so makes a second run.
pub async fn an_event_after_the_fire_opens_a_new_window(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let first = world.send_for_run("save", json!({ "n": 1 })).await;
    world.tick(1000).await;
    let second = world.send_for_run("save", json!({ "n": 2 })).await;
    assert_ne!(first, second);
    world.tick(999).await;
    assert_eq!(world.drain().await, [first], "the second event changed the first run");
    world.tick(1).await;
    assert_eq!(world.drain().await, [second]);
    assert_eq!(world.input_of(first).await, json!({ "n": 1 }));
}

/// spec F1: a window that is due takes no further event, even if no sweep has fired it yet: the
/// event opens a new window.
pub async fn a_late_fire_takes_no_later_event(world: &World) {
    for late in [0, 1, 50_000] {
        let name = format!("save{late}");
        world.define(json!({ "name": name, "debounce": { "periodMs": 1000 } })).await;
        let first = world.send_for_run(&name, json!({ "n": 1 })).await;
        world.pass(1000 + late);
        let (second, fire_at) = window(&world.send(&name, json!({ "n": 2 })).await);
        assert_ne!(first, second, "{late} ms late");
        assert_eq!(fire_at, world.now().plus_ms(1000), "a whole window");
        assert_eq!(
            world.drain().await,
            [first],
            "the overdue window did not fire at the next sweep"
        );
        assert_eq!(world.input_of(first).await, json!({ "n": 1 }));
        world.tick(1000).await;
        assert_eq!(world.drain().await, [second]);
    }
}

/// spec F1, N29: a window fires at `maxWaitMs` at the latest, even if events never stop.
pub async fn a_steady_stream_fires_at_its_longest_wait(world: &World) {
    let debounce = json!({ "periodMs": 1000, "maxWaitMs": 2500 });
    world.define(json!({ "name": "save", "debounce": debounce })).await;
    let opened = world.now();
    let (run, _) = window(&world.send("save", json!({ "n": 0 })).await);
    for n in 1..=4 {
        world.tick(600).await;
        let joined = window(&world.send("save", json!({ "n": n })).await);
        let fire_at = world.now().plus_ms(1000).min(opened.plus_ms(2500));
        assert_eq!(joined, (run, fire_at));
    }
    world.tick(99).await;
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(world.input_of(run).await, json!({ "n": 4 }));
    assert_ne!(world.send_for_run("save", json!({ "n": 5 })).await, run);
}

/// spec F3, B90: a window survives the end of all engines, and fires once, even if late.
pub async fn a_window_survives_a_restart_of_all_engines(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    world.send("save", json!({ "n": 1 })).await;
    let run = world.send_for_run("save", json!({ "n": 2 })).await;
    world.lose(1).await;
    world.pass(60_000);
    let reborn = world.engine(2);
    reborn.sweep().await;
    assert_eq!(reborn.drain().await, [run]);
    assert_eq!(world.input_of(run).await, json!({ "n": 2 }));
    reborn.tick(60_000).await;
    assert!(reborn.drain().await.is_empty());
}

/// spec B91: one run starts if several engines see the deadline at the same time.
pub async fn one_run_however_many_engines_see_the_deadline(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let run = world.send_for_run("save", json!({ "n": 1 })).await;
    world.pass(1000);
    let (b, c) = (world.engine(2), world.engine(3));
    tokio::join!(world.sweep(), b.sweep(), c.sweep());
    assert_eq!(world.alive("save").await, 1);
    let (one, two, three) = tokio::join!(world.drain(), b.drain(), c.drain());
    assert_eq!([one, two, three].concat(), [run]);
}

/// spec F4: a window that is due waits while a singleton would skip its run. It takes more events,
/// and fires when the holder ends.
pub async fn a_held_window_keeps_folding_until_the_holder_ends(world: &World) {
    let singleton = json!({ "mode": "skip" });
    let debounce = json!({ "periodMs": 1000 });
    world.define(json!({ "name": "save", "debounce": debounce, "singleton": singleton })).await;
    world.send("save", json!({ "n": 1 })).await;
    world.tick(1000).await;
    let holder = world.lease_one().await;
    let run = world.send_for_run("save", json!({ "n": 2 })).await;
    world.tick(5000).await;
    assert_eq!(
        world.state(run).await,
        "none",
        "the window fired although the singleton has a holder"
    );
    world.pass(5000);
    assert_eq!(
        world.send_for_run("save", json!({ "n": 3 })).await,
        run,
        "the held window took no more events"
    );
    world.tick(5000).await;
    assert_eq!(world.send_for_run("save", json!({ "n": 4 })).await, run);
    world.complete(&holder).await;
    world.sweep().await;
    assert_eq!(world.drain().await, [run], "the held window must fire as soon as the holder ends");
    assert_eq!(world.input_of(run).await, json!({ "n": 4 }));
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty(), "and once");
    world.check_holds().await;
}

/// spec F4: if several windows wait for the holder of one gate, they fire one after another, the
/// longest waiting first.
pub async fn held_windows_flush_one_by_one_in_order(world: &World) {
    let debounce = json!({ "periodMs": 1000, "key": "doc" });
    let singleton = json!({ "mode": "skip" });
    world.define(json!({ "name": "save", "debounce": debounce, "singleton": singleton })).await;
    world.send("save", json!({ "doc": "holder" })).await;
    world.tick(1000).await;
    let mut waiting = Vec::new();
    for doc in 0..40 {
        waiting.push(world.send_for_run("save", json!({ "doc": doc })).await);
        world.tick(1000).await;
    }
    world.complete(&world.lease_one().await).await;
    let mut flushed = Vec::new();
    for _ in &waiting {
        world.sweep().await;
        let run = world.lease_one().await;
        flushed.push(run.id);
        world.complete(&run).await;
    }
    assert_eq!(flushed, waiting);
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty());
    world.check_holds().await;
}

/// spec F4: a held window that makes no run does not block the windows behind it.
pub async fn a_held_window_that_comes_to_nothing_does_not_stop_the_others(world: &World) {
    let debounce = json!({ "periodMs": 1000, "key": "doc" });
    let (singleton, once) = (json!({ "mode": "skip" }), json!({ "key": "once" }));
    let definition = json!({
        "name": "save", "debounce": debounce, "singleton": singleton, "idempotency": once
    });
    world.define(definition).await;
    world.send("save", json!({ "doc": "holder", "once": "holder" })).await;
    world.tick(1000).await;
    for doc in 0..20 {
        world.send("save", json!({ "doc": doc, "once": "same" })).await;
    }
    let last = world.send_for_run("save", json!({ "doc": 20, "once": "other" })).await;
    world.tick(1000).await;
    world.complete(&world.lease_one().await).await;
    world.sweep().await;
    let first = world.lease_one().await;
    assert_eq!(world.input_of(first.id).await["once"], "same");
    world.complete(&first).await;
    world.sweep().await;
    assert_eq!(
        world.drain().await,
        [last],
        "nineteen of the windows must be repeats of the first one"
    );
    world.check_holds().await;
}

/// spec F1, G9: a run with the maximum number of gates can start from a window, be admitted when a
/// hold is handed on, and wake from a wait.
pub async fn a_window_fires_through_as_many_gates_as_there_can_be(world: &World) {
    let limits: Vec<_> = (0..16).map(|n| json!({ "limit": 1, "key": format!("k{n:x}") })).collect();
    let definition = json!({
        "name": "save", "concurrency": limits, "debounce": { "periodMs": 1000, "key": "doc" },
        "singleton": { "mode": "skip", "key": "doc" }, "idempotency": { "key": "doc" },
        "throttle": { "limit": 1, "perMs": 10, "key": "doc" }
    });
    world.define(definition).await;
    let mut runs = Vec::new();
    for doc in 0..3 {
        // All runs share the first gate; each run has its own keys at the other gates.
        let keys = (1..16).map(|n| (format!("k{n:x}"), json!(doc)));
        let shared = [("k0".to_owned(), json!(0)), ("doc".to_owned(), json!(doc))];
        runs.push(world.send_for_run("save", keys.chain(shared).collect()).await);
    }
    world.tick(1000).await;
    let first = world.lease_one().await;
    world.sleep(&first, "nap", 1000).await;
    let second = world.lease_one().await;
    world.tick(1000).await;
    assert_eq!((first.id, second.id), (runs[0], runs[1]));
    // Two holds are handed on in one transaction.
    let done = Record::new(
        second.id.seq,
        world.engine,
        second.fence,
        Then::Complete(payload(&json!(null))),
    );
    let cancel = Command::Cancel { ws: world.ws.clone(), run: first.id, reason: "enough".into() };
    let record = Command::Record { known: Box::new(second), report: done };
    assert!(world.batch(vec![record, cancel]).await.iter().all(Result::is_ok));
    assert_eq!(world.drain().await, [runs[2]]);
    world.check_holds().await;
}

/// Every coalesced event has a receipt with the id of its run.
pub async fn each_coalesced_event_has_a_receipt(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000, "key": "doc" } })).await;
    for n in 0..3 {
        let posted = world.post("save", json!({ "doc": "a", "n": n })).await;
        let run = posted.runs[0].verdict.run().unwrap();
        let receipts = world.receipts_of(posted.id).await;
        assert_eq!(receipts.len(), 1);
        assert_eq!(receipts[0]["outcome"], "coalesced");
        assert_eq!(receipts[0]["control"], "debounce");
        assert_eq!(receipts[0]["key"], "a");
        assert_eq!(receipts[0]["runId"], json!(run));
    }
}

/// spec F4: with both controls, batch collects the events with which debounce fires.
pub async fn what_debounce_fires_is_what_batch_collects(world: &World) {
    let debounce = json!({ "periodMs": 1000, "key": "doc" });
    let batch = json!({ "maxSize": 2, "timeoutMs": 5000 });
    world.define(json!({ "name": "index", "debounce": debounce, "batch": batch })).await;
    for n in 0..3 {
        world.send("index", json!({ "doc": "a", "n": n })).await;
    }
    world.tick(1000).await;
    assert!(
        world.drain().await.is_empty(),
        "the fired window made a run instead of joining the buffer"
    );
    world.send("index", json!({ "doc": "b", "n": 3 })).await;
    let last = world.post("index", json!({ "doc": "c", "n": 4 })).await;
    world.tick(1000).await;
    let full = world.lease_one().await;
    let both = vec![json!({ "doc": "a", "n": 2 }), json!({ "doc": "b", "n": 3 })];
    assert_eq!(
        world.inputs_of(full.id).await,
        Some(both),
        "the batch must have the last event of each burst"
    );
    world.complete(&full).await;
    let receipts = world.receipts_of(last.id).await;
    assert_eq!(receipts.len(), 2, "{receipts:?}");
    assert_eq!(receipts[1]["outcome"], "buffered");
    world.tick(4999).await;
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    let rest = world.lease_one().await;
    assert_eq!(
        json!(rest.id),
        receipts[1]["runId"],
        "the receipt names another run than that of its event"
    );
    assert_eq!(world.inputs_of(rest.id).await, Some(vec![json!({ "doc": "c", "n": 4 })]));
}

/// The run of a window gets the version that is released when the window fires, with the limits of
/// that version.
pub async fn a_window_fires_by_the_release_of_that_moment(world: &World) {
    let debounce = json!({ "periodMs": 100_000 });
    world.define(json!({ "name": "save", "version": 1, "debounce": debounce })).await;
    let run = world.send_for_run("save", json!({ "n": 1 })).await;
    world.define(json!({ "name": "save", "version": 2, "debounce": { "periodMs": 1000 } })).await;
    let (joined, fire_at) = window(&world.send("save", json!({ "n": 2 })).await);
    assert_eq!((joined, fire_at), (run, world.now().plus_ms(1000)));
    world.tick(1000).await;
    let fired = world.lease_one().await;
    assert_eq!((fired.id, fired.version), (run, 2));
}

/// spec B132, B53: events of other tenants and of other workflows have their own windows.
pub async fn workspaces_and_workflows_debounce_apart(world: &World) {
    let other = world.in_workspace("b");
    for tenant in [world, &other] {
        for name in ["save", "load"] {
            let trigger = json!(["changed"]);
            let debounce = json!({ "periodMs": 1000, "key": "doc" });
            tenant.define(json!({ "name": name, "triggers": trigger, "debounce": debounce })).await;
        }
    }
    world.post("changed", json!({ "doc": "a" })).await;
    world.tick(600).await;
    other.post("changed", json!({ "doc": "a" })).await;
    world.tick(400).await;
    assert_eq!((world.drain().await.len(), other.drain().await.len()), (2, 0));
    world.tick(600).await;
    assert_eq!((world.drain().await.len(), other.drain().await.len()), (0, 2));
}

/// spec B85, F1: several events of one request coalesce like events of separate requests.
pub async fn a_burst_in_one_request_is_one_run(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000 } })).await;
    let events = (0..5).map(|n| event("save", &json!({ "n": n }))).collect();
    let posted = world.post_all(events).await;
    let runs: Vec<_> = posted.iter().map(|posted| window(&posted.runs[0].verdict).0).collect();
    assert!(runs.iter().all(|run| *run == runs[0]));
    world.tick(1000).await;
    assert_eq!(world.drain().await, [runs[0]]);
    assert_eq!(world.input_of(runs[0]).await, json!({ "n": 4 }));
}

/// spec F4: a window that fires into a held buffer loses no event.
pub async fn a_window_fires_into_a_held_buffer(world: &World) {
    let debounce = json!({ "periodMs": 1000, "key": "doc" });
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000 });
    let definition = json!({
        "name": "index", "debounce": debounce, "batch": batch, "singleton": { "mode": "skip" }
    });
    world.define(definition).await;
    world.send("index", json!({ "doc": "holder" })).await;
    world.tick(1000).await;
    world.tick(1000).await;
    let holder = world.lease_one().await;
    for doc in 0..3 {
        world.send("index", json!({ "doc": doc })).await;
        world.tick(1000).await;
    }
    world.tick(10_000).await;
    assert_eq!(world.alive("index").await, 1);
    let late = world.post("index", json!({ "doc": 3 })).await;
    world.tick(1000).await;
    assert_eq!(
        buffer_of(world, &late).await,
        2,
        "the event must be the second one of the second chunk"
    );
    world.complete(&holder).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        world.sweep().await;
        let run = world.lease_one().await;
        seen.extend(world.inputs_of(run.id).await.unwrap());
        world.complete(&run).await;
    }
    let docs: Vec<_> = seen.iter().map(|data| data["doc"].clone()).collect();
    assert_eq!(docs, [0, 1, 2, 3]);
    world.check_holds().await;
}

/// Returns the number of events in the buffer when this event joined it, by its second receipt.
async fn buffer_of(world: &World, posted: &tidegate_core::event::Posted) -> u64 {
    let receipts = world.receipts_of(posted.id).await;
    let pending = receipts.last().and_then(|receipt| receipt["pending"].as_u64());
    pending.unwrap_or_else(|| panic!("the event was never buffered: {receipts:?}"))
}
