//! Idempotency and `dedupeId`: the first event wins for a period.

use serde_json::{Value, json};
use tidegate_core::{
    event::{NewEvent, Posted},
    flow::Verdict,
};

use crate::world::{World, event, replaced, window};

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Builds an event with a `dedupeId`.
fn marked(name: &str, id: &str, data: &Value) -> NewEvent {
    NewEvent { dedupe_id: Some(id.to_owned()), ..event(name, data) }
}

/// Counts the events in the store.
async fn recorded(world: &World) -> usize {
    let rows = world.dump().await;
    rows.iter().filter(|row| matches!(row, tidegate_core::row::Row::Event(_))).count()
}

/// spec C1, B116, B117: the first event with a key starts a run; a later one with the same key does
/// not, and its verdict says so.
pub async fn the_first_event_of_a_key_runs_and_the_others_do_not(world: &World) {
    let once = json!({ "key": "order.id", "periodMs": 1000 });
    world.define(json!({ "name": "bill", "idempotency": once })).await;
    let first = world.post("bill", json!({ "order": { "id": 7 } })).await;
    let run = first.runs[0].verdict.run().unwrap();
    for same in [json!(7), json!(7.0)] {
        let verdict = world.send("bill", json!({ "order": { "id": same } })).await;
        let Verdict::Deduped { by, first: winner, run: its } = &verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((by.control, *winner, *its), ("idempotency", first.id, Some(run)));
        let value = verdict.to_value();
        assert_eq!((&value["deduped"], &value["runId"]), (&json!(true), &Value::Null));
    }
    assert_eq!(world.send("bill", json!({ "order": { "id": "7" } })).await.outcome(), "started");
    assert_eq!(world.send("bill", json!({ "order": { "id": 8 } })).await.outcome(), "started");
    assert_eq!(world.drain().await.len(), 3);
}

/// spec C1, A3, B118, B119, B120: a repeat is recorded, wakes waiters, and triggers other
/// workflows.
pub async fn a_repeat_is_still_an_event(world: &World) {
    world.define(json!({ "name": "bill", "idempotency": { "key": "id" } })).await;
    world.define(json!({ "name": "audit", "triggers": ["bill"] })).await;
    world.define(json!({ "name": "waiter", "triggers": ["begin"] })).await;
    world.post("bill", json!({ "id": 1 })).await;
    world.drain().await;
    world.send("begin", json!({})).await;
    let waiter = world.lease_one().await;
    world.wait_for(&waiter, "paid", "bill", &[("id", json!(1))]).await;
    let repeat = world.post("bill", json!({ "id": 1 })).await;
    assert_eq!(world.data_of(repeat.id).await, json!({ "id": 1 }));
    assert_eq!((repeat.deduped, repeat.woke), (false, 1), "the event itself must not be deduped");
    let outcomes: Vec<_> = repeat.runs.iter().map(|outcome| outcome.verdict.outcome()).collect();
    assert_eq!(outcomes, ["started", "deduped"]);
    let receipts = world.receipts_of(repeat.id).await;
    assert_eq!(receipts.len(), 1);
    assert_eq!((&receipts[0]["outcome"], &receipts[0]["key"]), (&json!("deduped"), &json!("1")));
    assert_eq!(world.drain().await.len(), 2, "expected the run that waited and the run of `audit`");
}

/// spec C1, B121, B122: repeats do not extend the period, and after its end an event with the key
/// starts a run again.
pub async fn repeats_do_not_extend_the_window(world: &World) {
    let once = json!({ "key": "id", "periodMs": 1000 });
    world.define(json!({ "name": "bill", "idempotency": once })).await;
    for swept in [true, false] {
        assert_eq!(world.send("bill", json!({ "id": 1 })).await.outcome(), "started");
        for _ in 0..3 {
            world.tick(333).await;
            assert_eq!(world.send("bill", json!({ "id": 1 })).await.outcome(), "deduped");
        }
        if swept {
            world.tick(1).await;
        } else {
            world.pass(1);
        }
    }
    assert_eq!(world.send("bill", json!({ "id": 1 })).await.outcome(), "started");
    assert_eq!(world.drain().await.len(), 3);
}

/// spec C1, B123: the period goes on after the end of the run, however it ended.
pub async fn the_window_outlives_the_run(world: &World) {
    let once = json!({ "key": "id", "periodMs": 1000 });
    world.define(json!({ "name": "bill", "idempotency": once })).await;
    for end in ["completed", "failed", "cancelled", "never started"] {
        let run = world.send_for_run("bill", json!({ "id": end })).await;
        match end {
            "completed" => world.complete(&world.lease_one().await).await,
            "failed" => world.fail(&world.lease_one().await).await,
            "cancelled" => {
                let run = world.lease_one().await;
                world.cancel(run.id).await.unwrap();
                world.stopped(&run).await;
            }
            _ => assert!(world.cancel(run).await.is_ok()),
        }
        world.tick(999).await;
        assert_eq!(world.send("bill", json!({ "id": end })).await.outcome(), "deduped", "{end}");
        world.tick(1).await;
        assert_eq!(world.send("bill", json!({ "id": end })).await.outcome(), "started", "{end}");
        world.drain().await;
    }
}

/// spec B124, B125: without a key, the workflow has one run per period; without a period, one per
/// day.
pub async fn by_default_one_run_of_the_workflow_a_day(world: &World) {
    world.define(json!({ "name": "bill", "idempotency": {} })).await;
    assert_eq!(world.send("bill", json!({ "id": 1 })).await.outcome(), "started");
    world.tick(DAY_MS - 1).await;
    assert_eq!(world.send("bill", json!({ "id": 2 })).await.outcome(), "deduped");
    world.tick(1).await;
    assert_eq!(world.send("bill", json!({ "id": 3 })).await.outcome(), "started");
}

/// spec B53, B56, B132: all events without the key share one claim; other tenants and workflows
/// have their own claims.
pub async fn claims_are_apart(world: &World) {
    let other = world.in_workspace("b");
    for tenant in [world, &other] {
        for name in ["bill", "ship"] {
            tenant.define(json!({ "name": name, "idempotency": { "key": "id" } })).await;
            assert_eq!(tenant.send(name, json!({ "id": "a" })).await.outcome(), "started");
            assert_eq!(tenant.send(name, json!({})).await.outcome(), "started");
            assert_eq!(tenant.send(name, json!({ "id": [] })).await.outcome(), "deduped");
        }
    }
}

/// spec C1, B126: of repeated events that are posted concurrently on several engines, exactly one
/// starts a run.
pub async fn of_repeats_at_once_exactly_one_runs(world: &World) {
    world.define(json!({ "name": "bill", "idempotency": { "key": "id" } })).await;
    let (b, c) = (world.engine(2), world.engine(3));
    for id in 0..5 {
        let data = json!({ "id": id });
        let several = vec![event("bill", &data), event("bill", &data)];
        let (one, two, three, four) = tokio::join!(
            world.post("bill", data.clone()),
            b.post("bill", data.clone()),
            c.post("bill", data.clone()),
            b.post_all(several),
        );
        let all = [one, two, three].into_iter().chain(four);
        let started = all.filter(|posted| posted.runs[0].verdict.run().is_some()).count();
        assert_eq!(started, 1);
        assert_eq!(world.drain().await.len(), 1);
    }
}

/// spec C1: a run that is replaced before its first step frees its claim; a run that is replaced
/// later does not.
pub async fn a_run_replaced_before_its_first_step_gives_its_claim_back(world: &World) {
    let once = json!({ "key": "id" });
    world.define(json!({ "name": "bill", "idempotency": once, "singleton": {} })).await;
    world.send("bill", json!({ "id": 1 })).await;
    let (second, _) = replaced(&world.send("bill", json!({ "id": 2 })).await);
    assert_eq!(world.send("bill", json!({ "id": 2 })).await.outcome(), "deduped");
    let (third, gone) = replaced(&world.send("bill", json!({ "id": 1 })).await);
    assert_eq!(gone, second, "the first run never started, so its key must be free again");
    let started = world.lease_one().await;
    assert_eq!(started.id, third);
    let (fourth, _) = replaced(&world.send("bill", json!({ "id": 2 })).await);
    assert_eq!(
        world.send("bill", json!({ "id": 1 })).await.outcome(),
        "deduped",
        "a started run lost its claim"
    );
    world.stopped(&started).await;
    assert_eq!(world.drain().await, [fourth]);
    world.check_holds().await;
}

/// spec C1: a run that is replaced before its first step does not free a claim that expired and was
/// then taken by another run.
pub async fn a_replaced_run_gives_back_no_claim_of_another(world: &World) {
    for swept in [true, false] {
        let world = world.in_workspace(if swept { "swept" } else { "not swept" });
        let once = json!({ "key": "id", "periodMs": 1000 });
        let alone = json!({ "mode": "cancel", "key": "group" });
        world.define(json!({ "name": "bill", "idempotency": once, "singleton": alone })).await;
        let send = async |group: &str, id: u32| {
            world.send("bill", json!({ "group": group, "id": id })).await
        };
        let first = send("a", 1).await.run().unwrap();
        if swept {
            world.tick(1000).await;
        } else {
            world.pass(1000);
        }
        let second = send("b", 1).await.run().unwrap();
        let (third, gone) = replaced(&send("a", 2).await);
        assert_eq!(gone, first, "the first run was not replaced");
        let verdict = send("c", 1).await;
        let Verdict::Deduped { run, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(run, Some(second), "the claim must belong to the second run");
        assert_eq!(
            world.drain().await,
            [third, second],
            "the third run must have the position of the first"
        );
        world.check_holds().await;
    }
}

/// spec C1: a run of a fired window that takes a newer event does not free a claim of the earlier
/// event that expired and was then taken by another run.
pub async fn a_window_that_goes_on_gives_back_no_claim_of_another(world: &World) {
    let quiet = json!({ "policy": "debounce", "periodMs": 100 });
    let once = json!({ "key": "input.id", "periodMs": 1000 });
    let index = json!({ "name": "index", "concurrency": quiet, "idempotency": once });
    world.define_flow(json!({ "name": "chat", "actions": [index] })).await;
    let call = async |session: &str, id: u32| {
        world.call("chat", "index", session, json!({ "id": id })).await
    };
    let (_, _) = window(&call("s", 0).await);
    world.tick(100).await;
    let running = world.lease_one().await;
    let (waits, _) = window(&call("s", 1).await);
    world.tick(100).await;
    assert_eq!(world.state(waits).await, "queued", "the run of the fired window must be queued");
    world.tick(1000).await;
    let (other, _) = window(&call("t", 1).await);
    world.tick(100).await;
    let driven = world.lease_one().await;
    assert_eq!(driven.id, other, "the claim of the first period has not expired");
    assert_eq!(
        window(&call("s", 2).await).0,
        waits,
        "a queued run of a window must take a newer event"
    );
    assert_eq!(call("u", 1).await.outcome(), "deduped", "the claim of the other run was freed");
    world.complete(&driven).await;
    world.complete(&running).await;
    assert_eq!(world.drain().await, [waits]);
    assert_eq!(world.input_of(waits).await["input"], json!({ "id": 2 }));
}

/// spec C1: a buffer whose run is refused when it is flushed does not free a claim that expired and
/// was then taken by another run.
pub async fn a_refused_buffer_gives_back_no_claim_of_another(world: &World) {
    let once = json!({ "key": "id", "periodMs": 1500 });
    let batch = json!({ "maxSize": 9, "timeoutMs": 2000, "key": "group" });
    let index = json!({ "name": "index", "version": 1, "batch": batch, "idempotency": once });
    world.define(index.clone()).await;
    let send = async |data: Value| world.send("index", data).await;
    let first = send(json!({ "id": 1 })).await.run().unwrap();
    world.tick(1500).await;
    assert_eq!(send(json!({ "id": 2 })).await.run(), Some(first));
    let second = send(json!({ "id": 1, "group": "b" })).await.run().unwrap();
    assert_ne!(second, first, "the second group must have a buffer of its own");
    let handoff = json!({ "type": "keyed", "keyField": "group", "onNewVersion": "drain" });
    let mut newer = index;
    (newer["version"], newer["handoff"]) = (json!(2), handoff);
    world.define(newer).await;
    world.tick(500).await;
    assert_eq!(
        world.state(first).await,
        "cancelled",
        "the release requires a group, and the buffer has none"
    );
    let again = async |id: u32| send(json!({ "id": id, "group": "c" })).await.outcome();
    assert_eq!(again(1).await, "deduped", "the claim of the second run was freed");
    assert_eq!(again(2).await, "buffered", "the claim of the refused buffer was not freed");
}

/// spec A1: a window takes the claim of its last event when it fires, and none before.
pub async fn a_window_claims_its_last_event_when_it_fires(world: &World) {
    let (debounce, once) = (json!({ "periodMs": 1000, "key": "doc" }), json!({ "key": "id" }));
    world.define(json!({ "name": "save", "debounce": debounce, "idempotency": once })).await;
    let (a, _) = window(&world.send("save", json!({ "doc": "a", "id": 1 })).await);
    window(&world.send("save", json!({ "doc": "a", "id": 2 })).await);
    world.pass(500);
    let late = world.post("save", json!({ "doc": "b", "id": 2 })).await;
    window(&late.runs[0].verdict);
    world.tick(500).await;
    assert_eq!(world.drain().await, [a]);
    let verdict = world.send("save", json!({ "doc": "c", "id": 2 })).await;
    assert_eq!(verdict.outcome(), "deduped", "the fired window took no claim");
    let (c, _) = window(&world.send("save", json!({ "doc": "c", "id": 1 })).await);
    world.tick(1000).await;
    assert_eq!(world.drain().await, [c], "id 1 must be free, and id 2 must have one run");
    let receipts = world.receipts_of(late.id).await;
    assert_eq!(receipts.len(), 2, "{receipts:?}");
    assert_eq!(
        receipts[1]["outcome"], "deduped",
        "the receipt of the second event with id 2 must say so"
    );
}

/// spec C2, B127, B128: a repeated `dedupeId` is dropped before any control acts.
pub async fn a_repeated_dedupe_id_is_dropped_before_anything(world: &World) {
    world.define(json!({ "name": "bill" })).await;
    world.define(json!({ "name": "audit", "triggers": ["bill", "other"] })).await;
    world.define(json!({ "name": "waiter", "triggers": ["begin"] })).await;
    let first = world.post_event(marked("bill", "x", &json!({ "id": 1 }))).await;
    assert!(!first.deduped);
    world.drain().await;
    world.send("begin", json!({})).await;
    world.wait_for(&world.lease_one().await, "paid", "bill", &[]).await;
    let before = recorded(world).await;
    for name in ["bill", "other"] {
        let repeat = world.post_event(marked(name, "x", &json!({ "id": 2 }))).await;
        assert_eq!((repeat.id, repeat.deduped, repeat.woke), (first.id, true, 0), "{name}");
        let answer = |posted: &Posted| {
            let runs = posted.to_value()["runs"].as_array().cloned().unwrap_or_default();
            let of = |run: &Value| {
                (run["workflow"].clone(), run["outcome"].clone(), run["runId"].clone())
            };
            runs.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            answer(&repeat),
            answer(&first),
            "a repeat must get the answer of the first event"
        );
    }
    assert_eq!(recorded(world).await, before, "no record");
    assert!(world.drain().await.is_empty(), "a repeated event started or woke a run");
    assert_eq!(world.post_event(marked("bill", "y", &json!({}))).await.woke, 1);
}

/// spec C2, B129: from 24 hours after the first event on, its `dedupeId` counts as new; repeats do
/// not extend this time.
pub async fn a_dedupe_id_is_remembered_for_a_day(world: &World) {
    world.define(json!({ "name": "bill" })).await;
    let first = world.post_event(marked("bill", "x", &json!({}))).await;
    world.tick(DAY_MS - 1).await;
    assert!(world.post_event(marked("bill", "x", &json!({}))).await.deduped);
    world.tick(1).await;
    let second = world.post_event(marked("bill", "x", &json!({}))).await;
    assert!(!second.deduped && second.id != first.id);
    assert_eq!(world.drain().await.len(), 2);
}

/// spec C2: a `dedupeId` may also be repeated inside one request; the same id of another tenant is
/// independent.
pub async fn a_dedupe_id_is_one_per_workspace(world: &World) {
    let other = world.in_workspace("b");
    for tenant in [world, &other] {
        tenant.define(json!({ "name": "bill" })).await;
        let ids = ["x", "y", "x", "X"];
        let events = ids.iter().enumerate().map(|(n, id)| marked("bill", id, &json!({ "n": n })));
        let posted = tenant.post_all(events.collect()).await;
        let deduped: Vec<_> = posted.iter().map(|posted| posted.deduped).collect();
        assert_eq!(deduped, [false, false, true, false]);
        assert_eq!(posted[2].id, posted[0].id);
        assert_eq!(tenant.drain().await.len(), 3);
    }
}

/// spec C2, B130: if the answer to a request was lost, the request can be sent again with its ids,
/// to any engine.
pub async fn a_lost_answer_can_be_asked_for_again(world: &World) {
    world.define(json!({ "name": "bill" })).await;
    let request = || vec![marked("bill", "x", &json!(1)), marked("bill", "y", &json!(2))];
    let other = world.engine(2);
    let (one, two) = tokio::join!(world.post_all(request()), other.post_all(request()));
    let third = other.post_all(request()).await;
    let ids = |posted: &[Posted]| posted.iter().map(|posted| posted.id).collect::<Vec<_>>();
    assert_eq!(ids(&one), ids(&two));
    assert_eq!(ids(&one), ids(&third));
    assert_ne!(one[0].deduped, two[0].deduped, "exactly one of the two posts must be the first");
    assert_eq!(world.drain().await.len(), 2);
}

/// spec A3: a repeated post gets the current outcome of the event, not the first answer.
pub async fn a_repeated_event_is_told_what_it_came_to_by_now(world: &World) {
    let save = json!({
        "name": "save", "debounce": { "periodMs": 1000 }, "concurrency": { "limit": 1 },
    });
    world.define(save).await;
    world.define(json!({ "name": "audit", "triggers": ["save"] })).await;
    world.post("save", json!({ "n": 0 })).await;
    world.tick(1000).await;
    let driven = world.lease_all().await;
    let post = async || world.post_event(marked("save", "d", &json!({ "n": 1 }))).await;
    let answer = |posted: &Posted| -> Vec<Value> {
        let value = posted.to_value();
        let runs = value["runs"].as_array().unwrap().iter();
        runs.map(|run| json!([run["workflow"], run["outcome"]])).collect()
    };
    let first = post().await;
    let (started, coalesced) = (json!(["audit", "started"]), json!(["save", "coalesced"]));
    assert_eq!(answer(&first), [started.clone(), coalesced.clone()]);
    let again = post().await;
    assert_eq!((again.deduped, again.id), (true, first.id));
    assert_eq!(
        answer(&again),
        [started.clone(), coalesced],
        "no run has started yet, so the answer must be the same"
    );
    world.tick(1000).await;
    let later = post().await;
    assert_eq!((later.deduped, later.id), (true, first.id));
    assert_eq!(
        answer(&later),
        [started, json!(["save", "queued"])],
        "the window has fired, so the answer must be `queued`"
    );
    for run in driven {
        world.complete(&run).await;
    }
    assert_eq!(world.drain().await.len(), 2, "it was taken once");
}
