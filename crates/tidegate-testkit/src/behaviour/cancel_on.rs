//! `cancelOn`: an event ends the runs that have the same values in their data.

use serde_json::{Value, json};
use tidegate_core::{
    command::Answer,
    id::{EventId, RunId},
    row::{Ending, Row, Source},
    run::wake::WOKEN_AT_ONCE,
};
use tidegate_store::why;

use crate::{
    worker::{for_event, for_signal},
    world::{World, event},
};

fn definition(extra: &Value) -> Value {
    let mut definition = json!({
        "name": "order",
        "cancelOn": { "event": "order/cancelled", "match": { "order.id": "id" } },
    });
    definition.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    definition
}

/// Posts the event that cancels the runs of an order, and returns its id.
async fn call_off(world: &World, id: u32) -> EventId {
    world.post("order/cancelled", json!({ "order": { "id": id } })).await.id
}

fn reason(event: EventId) -> (String, Option<RunId>) {
    (format!("event `order/cancelled` ({event})"), None)
}

/// spec L29: an event ends the run of its value in every state, and no other run.
pub async fn an_event_ends_its_run_wherever_it_is(world: &World) {
    let places =
        ["queued", "ready", "driven", "sleeping", "waiting", "retrying", "paused", "throttled"];
    for place in places {
        let world = world.in_workspace(place);
        let control = match place {
            "queued" => json!({ "concurrency": { "limit": 1 } }),
            "throttled" => json!({ "throttle": { "limit": 1, "perMs": 60_000 } }),
            _ => json!({}),
        };
        world.define(definition(&control)).await;
        let other = world.drive("order", json!({ "id": 1 })).await;
        let run = world.send_for_run("order", json!({ "id": 2 })).await;
        if !["queued", "throttled", "ready", "paused"].contains(&place) {
            let run = world.lease_one().await;
            match place {
                "sleeping" => world.sleep(&run, "nap", 1000).await,
                "waiting" => world.suspend(&run, vec![for_event("paid", "paid")]).await,
                "retrying" => world.back_off(&run, "call", 1000).await,
                _ => {}
            }
        }
        if place == "paused" {
            assert_eq!(world.pause(run).await, Ok(Answer::Done));
        }
        let held = world.live(run).await.expect("it has not ended");
        let by = call_off(&world, 2).await;
        assert_eq!(world.cancelled(run).await, reason(by), "{place}");
        assert!(world.live(other.id).await.is_some(), "{place}: another run was cancelled");
        if place == "driven" {
            world.stopped(&held).await;
        }
        assert!(world.live(run).await.is_none(), "{place}");
        call_off(&world, 1).await;
        world.stopped(&other).await;
        world.check_quiet().await;
    }
}

/// spec L29: the receipt of the run's input names the event.
pub async fn the_receipt_names_the_event(world: &World) {
    world.define(definition(&json!({}))).await;
    let run = world.drive("order", json!({ "id": 7 })).await;
    world.sleep(&run, "nap", 1000).await;
    let posted = world.post("order/cancelled", json!({ "order": { "id": 7 } })).await;
    assert_eq!((posted.woke, posted.cancelled, posted.waking), (0, 1, false));
    let by = posted.id;
    let Source::Event(input) = run.source else { panic!("no event") };
    let receipts = world.receipts_of(input).await;
    let expected = json!({
        "outcome": "cancelled", "runId": run.id, "control": "cancelOn",
        "cancelledBy": by,
    });
    assert_eq!(receipts, [expected]);
    let ended = world.ended(run.id).await.expect("it was cancelled");
    assert!(matches!(ended.ending, Ending::Cancelled { .. }));
}

/// spec L29: a run is cancelled only by events after its admission; the event that starts it is not
/// one of them.
pub async fn only_events_after_the_admission_count(world: &World) {
    let extra = json!({ "triggers": ["order", "order/cancelled"],
        "cancelOn": [
            { "event": "order/cancelled", "match": { "order.id": "order.id" } },
            { "event": "order", "match": { "order.id": "order.id" } },
        ] });
    world.define(definition(&extra)).await;
    let events = [
        event("order/cancelled", &json!({ "order": { "id": 1 } })),
        event("order", &json!({ "order": { "id": 1 } })),
        event("order/cancelled", &json!({ "order": { "id": 1 } })),
    ];
    let posted = world.post_all(events.into()).await;
    let runs: Vec<RunId> = posted.iter().filter_map(tidegate_core::event::Posted::run).collect();
    assert_eq!(runs.len(), 3, "each event starts a run: {posted:?}");
    let by = |n: usize, name: &str| (format!("event `{name}` ({})", posted[n].id), None);
    assert_eq!(world.cancelled(runs[0]).await, by(1, "order"));
    assert_eq!(world.cancelled(runs[1]).await, by(2, "order/cancelled"));
    assert!(world.live(runs[2]).await.is_some(), "an event cancelled the run that it starts");
}

/// spec L29: the runs are cancelled before the event starts any: a run that it starts gets the slot
/// of the run that it cancels.
pub async fn the_cancelled_run_leaves_its_slot_to_the_run_of_the_event(world: &World) {
    let extra = json!({ "concurrency": { "limit": 1, "span": "run" },
        "singleton": { "key": "id", "mode": "skip" },
        "cancelOn": { "event": "order", "match": { "id": "id" } } });
    world.define(definition(&extra)).await;
    let first = world.send_for_run("order", json!({ "id": 1 })).await;
    let second = world.send_for_run("order", json!({ "id": 1 })).await;
    assert!(world.cancelled(first).await.0.starts_with("event `order`"));
    assert_eq!(world.lease_one().await.id, second);
}

/// spec L29: values are compared with their types, all of them must match, and a run whose data
/// lacks one is not cancelled.
pub async fn all_values_must_match(world: &World) {
    let long = "x".repeat(1000);
    let extra = json!({ "cancelOn":
        { "event": "gone", "match": { "a": "a", "b.c": "b", "d": "d" } } });
    world.define(definition(&extra)).await;
    let run = world.send_for_run("order", json!({ "a": 1, "b": true, "d": long })).await;
    let lacks = world.send_for_run("order", json!({ "a": 1, "d": null })).await;
    for data in [
        json!({ "a": 1, "b": { "c": true } }),
        json!({ "a": "1", "b": { "c": true }, "d": long }),
        json!({ "a": 1, "b": { "c": false }, "d": long }),
        json!({ "a": 1, "b": true, "d": long }),
        json!({ "a": 1, "b": { "c": true }, "d": format!("{long}y") }),
        json!({ "a": 1, "d": null }),
    ] {
        world.post("gone", data).await;
        assert!(world.live(run).await.is_some());
    }
    world.post("gone", json!({ "a": 1.0, "b": { "c": true }, "d": long })).await;
    assert!(world.live(run).await.is_none(), "the event has all values");
    assert!(world.live(lacks).await.is_some(), "nothing can match a missing value");
}

/// spec L29: `withinMs` bounds the time from the admission.
pub async fn after_its_time_an_event_cancels_nothing(world: &World) {
    let extra = json!({ "cancelOn":
        { "event": "order/cancelled", "match": { "order.id": "id" }, "withinMs": 1000 } });
    world.define(definition(&extra)).await;
    let early = world.send_for_run("order", json!({ "id": 1 })).await;
    let late = world.send_for_run("order", json!({ "id": 2 })).await;
    world.pass(1000);
    let by = call_off(world, 1).await;
    assert_eq!(world.cancelled(early).await, reason(by));
    world.pass(1);
    call_off(world, 2).await;
    assert!(world.live(late).await.is_some(), "the event came a millisecond too late");
}

/// spec L29: an open window or buffer is untouched; its run is concerned from its admission on.
pub async fn an_open_fold_is_untouched(world: &World) {
    let extra = json!({ "debounce": { "periodMs": 1000, "key": "id" } });
    world.define(definition(&extra)).await;
    world.send("order", json!({ "id": 1 })).await;
    call_off(world, 1).await;
    world.tick(1000).await;
    let run = world.lease_one().await;
    let by = call_off(world, 1).await;
    world.stopped(&run).await;
    assert_eq!(world.cancelled(run.id).await, reason(by));
}

/// spec L29: one event cancels any number of runs: the first 256 in its own transaction, the rest in
/// a chore, and none that was admitted after it.
pub async fn an_event_cancels_any_number_of_runs(world: &World) {
    world.define(definition(&json!({}))).await;
    let events = || (0..300).map(|_| event("order", &json!({ "id": 1 }))).collect::<Vec<_>>();
    world.post_all(events()).await;
    let posted = world.post("order/cancelled", json!({ "order": { "id": 1 } })).await;
    assert_eq!((posted.woke, posted.cancelled, posted.waking), (0, 256, true));
    assert_eq!(world.alive("order").await, 300 - 256);
    world.post_all(events()).await;
    world.sweep().await;
    assert_eq!(world.alive("order").await, 300, "the chore cancels exactly the rest");
    call_off(world, 1).await;
    world.sweep().await;
    world.check_quiet().await;
}

/// spec L29: runs that an event spares do not keep it from those behind them.
pub async fn an_event_reaches_the_runs_behind_those_that_it_spares(world: &World) {
    let rule = json!({
        "event": "order/cancelled",
        "match": { "order.id": "id" },
        "if": "async.data.least <= event.data.n",
    });
    world.define(definition(&json!({ "cancelOn": rule }))).await;
    let crowd = 2 * WOKEN_AT_ONCE + 40;
    let order = |n| event("order", &json!({ "id": 1, "n": n }));
    world.post_all((0..crowd).map(order).collect()).await;
    let data = json!({ "order": { "id": 1 }, "least": crowd - 20 });
    let posted = world.post("order/cancelled", data).await;
    assert_eq!((posted.cancelled, posted.waking), (0, true));
    world.sweep().await;
    assert_eq!(world.alive("order").await, crowd - 20);
}

/// spec L29: each entry of a long list with conditions cancels.
pub async fn a_run_has_many_conditions(world: &World) {
    let entry = |n: u32| {
        let same = format!("async.data.key{n} == event.data.id");
        json!({ "event": format!("cancelled{n}"), "if": same })
    };
    let rules: Vec<Value> = (0..16).map(entry).collect();
    world.define(definition(&json!({ "cancelOn": rules }))).await;
    for n in 0..16 {
        let run = world.send_for_run("order", json!({ "id": n })).await;
        assert_eq!(world.post("cancelled0", json!({ "key0": "other" })).await.cancelled, 0);
        let (name, key) = (format!("cancelled{n}"), format!("key{n}"));
        assert_eq!(world.post(&name, json!({ key: n })).await.cancelled, 1);
        assert_eq!(world.state(run).await, "cancelled");
    }
}

/// spec L29: a definition without the control costs no row, and the stored run no byte.
pub async fn a_workflow_without_it_pays_nothing(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({ "id": 1 })).await;
    assert_eq!(serde_json::to_value(&run).unwrap().get("listeners"), None);
    let waits = world.dump().await.into_iter().filter(|row| matches!(row, Row::Wait(_)));
    assert_eq!(waits.count(), 0);
}

/// spec L29: a child whose parent is cancelled by an event is cancelled, too.
pub async fn the_children_are_cancelled_with_the_run(world: &World) {
    world.define(definition(&json!({}))).await;
    world.define(json!({ "name": "child" })).await;
    let run = world.drive("order", json!({ "id": 1 })).await;
    world.suspend(&run, vec![crate::worker::for_child("call", "child", &json!({}))]).await;
    let child = world.lease_one().await;
    world.suspend(&child, vec![for_signal("go", "go")]).await;
    call_off(world, 1).await;
    assert_eq!(world.cancelled(child.id).await.0, format!("parent {} was cancelled", run.id));
    world.check_quiet().await;
}

/// spec L29: `why` of a run names the events that cancel it.
pub async fn why_names_the_events(world: &World) {
    let extra = json!({ "cancelOn":
        { "event": "gone", "match": { "id": "id" }, "withinMs": 1000 } });
    world.define(definition(&extra)).await;
    let run = world.send_for_run("order", json!({ "id": 1 })).await;
    let until = world.now().plus_ms(1000).rfc3339();
    let sentence = async || why(&*world.store, &world.ws, run).await.unwrap().unwrap().sentence;
    let end = format!("; an event `gone` with its values cancels it until {until}");
    assert!(sentence().await.ends_with(&end), "{}", sentence().await);
    let by = world.post("gone", json!({ "id": 1 })).await.id;
    assert_eq!(sentence().await, format!("it was cancelled: event `gone` ({by})"));
}
