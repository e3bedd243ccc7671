//! `startWithinMs`: a run that no worker has leased within this time is cancelled as expired.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    id::{EventId, RunId},
    row::{Class, Ending, Phase},
    run::sweep,
};
use tidegate_store::why;

use crate::{
    worker::for_child,
    world::{World, event, payload, request, window},
};

/// The `startWithinMs` of every definition below.
const MS: u64 = 1000;

/// The states in which a run can wait for its first start.
const PLACES: [&str; 7] =
    ["slot", "run slot", "turn", "worker", "paused", "paused turn", "handoff"];

/// Returns a definition with which a second run waits in this state.
fn definition(place: &str) -> Value {
    let control = match place {
        "slot" => json!({ "concurrency": { "limit": 1 } }),
        "run slot" => json!({ "concurrency": { "limit": 1, "span": "run" } }),
        "turn" | "paused turn" => json!({ "throttle": { "limit": 1, "perMs": 60_000 } }),
        "handoff" => json!({ "handoff": { "type": "singleton", "onNewVersion": "drain" } }),
        _ => json!({}),
    };
    let mut definition = json!({ "name": "order", "startWithinMs": MS });
    definition.as_object_mut().unwrap().extend(control.as_object().unwrap().clone());
    definition
}

fn expired() -> (String, Option<RunId>) {
    ("expired".to_owned(), None)
}

/// Returns the outcomes of an event's receipts, oldest first.
async fn outcomes(world: &World, event: EventId) -> Vec<Value> {
    let receipts = world.receipts_of(event).await.into_iter();
    receipts.map(|receipt| receipt["outcome"].clone()).collect()
}

/// spec L20: a run that waits for its first start, in any state, is cancelled exactly when its time
/// is over, and leaves no hold.
pub async fn wherever_a_run_waits_it_expires(world: &World) {
    for place in PLACES {
        let world = world.in_workspace(place);
        world.define(definition(place)).await;
        let first = world.drive("order", json!({})).await;
        let second = world.send_for_run("order", json!({})).await;
        if place.starts_with("paused") {
            assert_eq!(world.pause(second).await, Ok(Answer::Done));
        }
        world.tick(MS - 1).await;
        assert!(
            world.live(second).await.is_some(),
            "{place}: the run expired a millisecond too early"
        );
        world.tick(1).await;
        assert_eq!(world.cancelled(second).await, expired(), "{place}");
        assert_eq!(world.state(first.id).await, "running", "{place}: a started run expired");
        // The slot, the throttle turn and the position in the queue of the expired run are free.
        world.complete(&first).await;
        world.tick(60_000).await;
        let third = world.send_for_run("order", json!({})).await;
        assert_eq!(world.lease_one().await.id, third, "{place}");
        world.check_holds().await;
    }
}

/// spec L20: a run that was leased once does not expire: neither in a sleep, a retry, a queue or a
/// pause, nor after the death of its engine.
pub async fn a_run_that_was_leased_never_expires(world: &World) {
    for place in ["sleeping", "retrying", "queued", "paused", "reaped"] {
        let world = world.in_workspace(place);
        world.define(definition("slot")).await;
        let run = world.drive("order", json!({})).await;
        let mut other = None;
        match place {
            "sleeping" => world.sleep(&run, "nap", 5 * MS).await,
            "retrying" => world.back_off(&run, "call", 5 * MS).await,
            "queued" => {
                world.sleep(&run, "nap", 1).await;
                other = Some(world.drive("order", json!({})).await);
            }
            "paused" => {
                world.sleep(&run, "nap", 1).await;
                assert_eq!(world.pause(run.id).await, Ok(Answer::Done));
            }
            _ => assert_eq!(world.lose(world.engine).await, 1),
        }
        world.tick(4 * MS).await;
        assert!(world.live(run.id).await.is_some(), "{place}");
        assert_eq!(why_of(&world, run.id).await.expires_at, None, "{place}");
        if place == "paused" {
            assert_eq!(world.resume(run.id).await, Ok(Answer::Done));
        }
        if let Some(other) = other {
            world.complete(&other).await;
        }
        world.tick(MS).await;
        let again = world.engine(7).lease_one().await;
        assert_eq!(again.id, run.id, "{place}");
    }
}

/// spec L20: an expired run is never leased, however late the sweep is.
pub async fn a_late_sweep_lets_no_expired_run_start(world: &World) {
    world.define(definition("worker")).await;
    let late = world.send_for_run("order", json!({})).await;
    world.pass(MS - 1);
    let in_time = world.send_for_run("order", json!({})).await;
    world.pass(1);
    assert_eq!(world.lease_one().await.id, in_time, "an expired run was leased");
    assert_eq!(world.state(late).await, "queued", "no sweep has cancelled the expired run yet");
    world.sweep().await;
    assert_eq!(world.cancelled(late).await, expired());
}

/// spec L20, F4: the time counts from the moment when the run is queued, not while its window or
/// buffer is open or held.
pub async fn the_time_counts_from_the_flush(world: &World) {
    let folds = [
        json!({ "debounce": { "periodMs": 5 * MS } }),
        json!({ "batch": { "maxSize": 9, "timeoutMs": 5 * MS } }),
        json!({ "debounce": { "periodMs": 1 }, "singleton": { "mode": "skip" } }),
    ];
    for (n, mut definition) in folds.into_iter().enumerate() {
        let name = format!("w{n}");
        (definition["name"], definition["startWithinMs"]) = (json!(name), json!(MS));
        let held = definition.get("singleton").is_some();
        world.define(definition.clone()).await;
        let blocker = if held {
            let (_, _) = window(&world.send(&name, json!({})).await);
            world.tick(1).await;
            Some(world.lease_one().await)
        } else {
            None
        };
        let run = world.send_for_run(&name, json!({ "n": 1 })).await;
        world.tick(5 * MS).await;
        if let Some(blocker) = &blocker {
            assert_eq!(world.state(run).await, "none", "{definition}: the held window was flushed");
            world.complete(blocker).await;
            world.sweep().await;
        }
        assert_eq!(world.state(run).await, "queued", "{definition}");
        let why = why_of(world, run).await;
        assert_eq!(why.expires_at, Some(world.now().plus_ms(MS)), "{definition}");
        world.tick(MS).await;
        assert_eq!(world.cancelled(run).await, expired(), "{definition}");
    }
}

/// spec L20, C1: an expired run frees its idempotency claim; each event of a batch gets a receipt.
pub async fn an_expired_run_gives_its_claims_back(world: &World) {
    let once = json!({ "key": "id", "periodMs": 600_000 });
    let mut single = definition("worker");
    single["idempotency"] = once.clone();
    world.define(single).await;
    let first = world.post("order", json!({ "id": 1 })).await;
    assert_eq!(world.send("order", json!({ "id": 1 })).await.outcome(), "deduped");
    world.tick(MS).await;
    assert_eq!(outcomes(world, first.id).await, ["expired"]);
    assert_eq!(world.send("order", json!({ "id": 1 })).await.outcome(), "started");
    world.drain().await;

    let batch = json!({ "maxSize": 3, "timeoutMs": 60_000 });
    let definition =
        json!({ "name": "index", "startWithinMs": MS, "idempotency": once, "batch": batch });
    world.define(definition).await;
    let mut posted = Vec::new();
    for id in 1..=3 {
        posted.push(world.post("index", json!({ "id": id })).await);
    }
    let run = posted[2].runs[0].verdict.run().unwrap();
    world.tick(MS).await;
    assert_eq!(world.cancelled(run).await, expired());
    assert_eq!(outcomes(world, posted[0].id).await, ["buffered"], "it names the run");
    assert_eq!(outcomes(world, posted[2].id).await, ["expired"], "it had no receipt");
    for id in 1..=3 {
        let again = world.send("index", json!({ "id": id })).await;
        assert!(again.run().is_some(), "{id}: {again:?}");
    }
}

/// spec L20: an expired batch frees all its claims, even if they do not fit into one transaction.
pub async fn a_large_batch_gives_all_its_claims_back(world: &World) {
    let size = 1100;
    let definition = json!({ "name": "index", "startWithinMs": MS,
        "idempotency": { "key": "id", "periodMs": 600_000 },
        "batch": { "maxSize": size, "timeoutMs": 60_000 } });
    world.define(definition).await;
    let ids: Vec<u64> = (0..size).collect();
    for ids in ids.chunks(100) {
        let events = ids.iter().map(|id| event("index", &json!({ "id": id }))).collect();
        world.post_all(events).await;
    }
    world.tick(MS).await;
    assert_eq!(world.alive("index").await, 0);
    let claims = world.dump().await;
    let claims = claims.iter().filter_map(tidegate_core::row::Row::as_gate);
    let claims = claims.filter(|gate| gate.key.class() == Some(Class::Idempotency));
    assert_eq!(claims.count(), 0);
}

/// spec L20, A2: an expired run does not return its token of the rate limit, but frees its throttle
/// turn.
pub async fn an_expired_run_gives_back_its_turn_and_not_its_token(world: &World) {
    let mut rated = definition("worker");
    rated["rateLimit"] = json!({ "limit": 1, "perMs": 60_000 });
    world.define(rated).await;
    world.send_for_run("order", json!({})).await;
    world.tick(MS).await;
    assert_eq!(
        world.send("order", json!({})).await.outcome(),
        "dropped",
        "the token must stay spent"
    );

    let throttle = json!({ "limit": 1, "perMs": 60_000 });
    world.define(json!({ "name": "mail", "startWithinMs": MS, "throttle": throttle })).await;
    let first = world.send_for_run("mail", json!({})).await;
    assert_eq!(world.live(first).await.unwrap().phase, Phase::Ready, "it has the turn");
    world.tick(MS - 1).await;
    let second = world.send_for_run("mail", json!({})).await;
    world.tick(1).await;
    assert_eq!(world.cancelled(first).await, expired());
    assert_eq!(
        world.lease_one().await.id,
        second,
        "the second run must get the throttle turn at once"
    );
}

/// spec L20: a step that waits for an expired run fails with `Expired`, and continues if it handles
/// this error.
pub async fn a_parent_is_told_that_its_child_expired(world: &World) {
    world.define(json!({ "name": "parent" })).await;
    world.define(definition("slot")).await;
    let blocker = world.drive("order", json!({})).await;
    let parent = world.drive("parent", json!({})).await;
    world.suspend(&parent, vec![for_child("child", "order", &json!({}))]).await;
    world.tick(MS).await;
    let error = world.step_of(parent.id, "child").await.unwrap().result.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("Expired", "expired"));
    assert_eq!(world.lease_one().await.id, parent.id);
    world.complete(&blocker).await;
    world.check_holds().await;
}

/// spec L20: the time of a replay counts from the replay.
pub async fn a_replay_has_its_own_time(world: &World) {
    world.define(definition("worker")).await;
    let first = world.send_for_run("order", json!({})).await;
    world.tick(MS).await;
    let again = world.replay(first).await;
    world.tick(MS - 1).await;
    assert_eq!(world.state(again).await, "queued");
    world.tick(1).await;
    assert_eq!(world.cancelled(again).await, expired());
}

/// spec L20: a reply that waits for its message expires, too; the message continues.
pub async fn a_run_behind_another_expires(world: &World) {
    let respond = json!({ "startWithinMs": MS });
    let actions = json!({ "append": {}, "respond": respond });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let call = |action| Box::new(request("chat", action, Some("s"), None, &json!({})));
    let (ws, first, then) = (world.ws.clone(), call("append"), call("respond"));
    let answer = world.run(Command::DispatchThen { ws, first, then }).await;
    let Ok(Answer::AdmittedBoth(append, Some(respond))) = answer else { panic!("{answer:?}") };
    let respond = respond.verdict.run().unwrap();
    assert_eq!(world.live(respond).await.unwrap().phase, Phase::Waiting);
    world.tick(MS).await;
    assert_eq!(world.cancelled(respond).await, expired());
    assert_eq!(world.drain().await, [append.verdict.run().unwrap()]);
}

/// spec L20: a request that arrives after the run of its window has expired opens a new window,
/// even if the sweep is late.
pub async fn no_request_joins_a_run_that_has_expired(world: &World) {
    let policy = json!({ "policy": "debounce", "periodMs": 10 });
    let action = json!({ "startWithinMs": MS, "concurrency": policy });
    world.define_flow(json!({ "name": "chat", "actions": { "suggest": action } })).await;
    world.call_for_run("chat", "suggest", "s").await;
    world.tick(10).await;
    let running = world.lease_one().await;
    let second = world.call_for_run("chat", "suggest", "s").await;
    world.tick(10).await;
    world.pass(MS - 1);
    assert_eq!(world.call_for_run("chat", "suggest", "s").await, second, "it still joins");
    world.pass(1);
    let third = world.call_for_run("chat", "suggest", "s").await;
    assert_ne!(third, second);
    world.sweep().await;
    assert_eq!(world.cancelled(second).await, expired());
    world.tick(10).await;
    world.complete(&running).await;
    assert_eq!(world.lease_one().await.id, third);
}

/// spec L20: a release changes `startWithinMs` only for runs that are queued later. A run that gets
/// a newer version keeps its time.
pub async fn a_run_keeps_the_time_of_its_admission(world: &World) {
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    let version = |version: u32, ms: u64| {
        json!({ "name": "order", "version": version,
        "startWithinMs": ms, "handoff": handoff })
    };
    world.define(version(1, MS)).await;
    let first = world.drive("order", json!({})).await;
    let second = world.send_for_run("order", json!({})).await;
    world.define(version(2, 5 * MS)).await;
    let third = world.send_for_run("order", json!({})).await;
    world.stopped(&first).await;
    assert_eq!(world.live(second).await.unwrap().version, 2, "it has moved");
    world.tick(MS).await;
    assert_eq!(world.cancelled(second).await, expired());
    assert_eq!(world.lease_one().await.id, third);
}

/// spec explained: `why` says when a run will expire, and later that it expired.
pub async fn why_says_when_a_run_expires(world: &World) {
    world.define(definition("slot")).await;
    let first = world.drive("order", json!({})).await;
    let second = world.send_for_run("order", json!({})).await;
    let at = world.now().plus_ms(MS);
    let why = why_of(world, second).await;
    assert_eq!(why.expires_at, Some(at));
    let said = format!("; it expires at {} unless it starts before", at.rfc3339());
    assert!(why.sentence.ends_with(&said), "{}", why.sentence);
    assert_eq!(why_of(world, first.id).await.expires_at, None);
    world.tick(MS).await;
    let why = why_of(world, second).await;
    assert_eq!((why.state, why.expires_at), ("cancelled", None));
    assert_eq!(why.sentence, "it was cancelled: expired, as it had not started in time");
}

async fn why_of(world: &World, run: RunId) -> tidegate_core::explain::Why {
    why(&*world.store, &world.ws, run).await.unwrap().unwrap()
}

/// spec L20: the time is stored in the run's row, where any engine finds it; a step back of the
/// clock delays it by at most `startWithinMs`.
pub async fn the_time_is_a_row_that_any_process_finds(world: &World) {
    world.define(definition("slot")).await;
    let blocker = world.drive("order", json!({})).await;
    let second = world.send_for_run("order", json!({})).await;
    let row = world.live(second).await.unwrap();
    assert_eq!(row.due(), Some(world.now().plus_ms(MS)));
    let look = sweep::look(&row.into(), world.now(), false);
    assert!(matches!(look, Some((_, Command::SweepRun { run, .. })) if run == second.seq));
    world.clock.set(world.now().minus_ms(3_600_000));
    world.sweep().await;
    assert_eq!(world.state(second).await, "queued");
    world.tick(MS).await;
    assert_eq!(world.cancelled(second).await, expired());
    world.complete(&blocker).await;
}

/// spec L20, policies: the earlier of `maxWaitMs` and `startWithinMs` ends the wait, each with its
/// own reason.
pub async fn the_earlier_of_two_bounds_ends_the_wait(world: &World) {
    for (max_wait, reason) in
        [(MS - 1, sweep::WAITED_TOO_LONG), (MS, Ending::EXPIRED), (MS + 1, Ending::EXPIRED)]
    {
        let world = world.in_workspace(&format!("w{max_wait}"));
        let policy = json!({ "policy": "queue", "maxWaitMs": max_wait });
        let action = json!({ "startWithinMs": MS, "concurrency": policy });
        world.define_flow(json!({ "name": "chat", "actions": { "say": action } })).await;
        world.call_for_run("chat", "say", "s").await;
        let first = world.lease_one().await;
        let second = world.call_for_run("chat", "say", "s").await;
        world.tick(MS).await;
        assert_eq!(world.cancelled(second).await, (reason.to_owned(), None), "{max_wait}");
        let output = tidegate_core::run::record::Then::Complete(payload(&json!(1)));
        world.report(&first, Vec::new(), output).await.unwrap();
        world.check_holds().await;
    }
}
