//! Bounds of queues: a full queue refuses the new run, or displaces a waiting one.

use serde_json::{Value, json};
use tidegate_core::{
    event::NewEvent,
    flow::Verdict,
    id::RunId,
    row::{GateState, Row},
};

use crate::{
    worker::for_child,
    world::{World, buffer, event, window},
};

/// Defines a workflow with one limit of one run, and the given bound of its queue.
async fn bounded(world: &World, limit: Value, queue: Value) {
    let mut limit = limit;
    limit["queue"] = queue;
    world.define(json!({ "name": "work", "concurrency": limit })).await;
}

fn run_limit() -> Value {
    json!({ "limit": 1, "span": "run" })
}

async fn work(world: &World, n: u64) -> Verdict {
    world.send("work", json!({ "n": n, "k": "a" })).await
}

/// Returns the runs of `count` new events, which all have to wait or to start.
async fn admitted(world: &World, count: u64) -> Vec<RunId> {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(work(world, n).await.run().expect("an admitted run"));
    }
    runs
}

/// Returns the number of waiting runs that refused an event.
#[track_caller]
fn refused(verdict: &Verdict) -> u32 {
    match verdict {
        Verdict::QueueFull { waiting, .. } => *waiting,
        other => panic!("expected a full queue, got {other:?}"),
    }
}

async fn displaced(world: &World, run: RunId) -> bool {
    world
        .ended(run)
        .await
        .is_some_and(|ended| ended.ending.result().is_err_and(|error| error.code == "Displaced"))
}

/// Returns the number of waiting runs in the row of the workflow's only gate.
async fn counted(world: &World) -> Option<u32> {
    world.dump().await.iter().find_map(|row| match row {
        Row::Gate(gate) if gate.key.is_of(&world.ws) => match &gate.state {
            GateState::Slots(slots) => Some(slots.waiting),
            _ => None,
        },
        _ => None,
    })?
}

/// spec L19: in every control that has a queue, the run that would exceed the bound is refused. It
/// consumes nothing, its event gets a receipt, and a freed place takes the next run.
pub async fn a_full_queue_refuses_the_newcomer(world: &World) {
    let queue = json!({ "maxWaiting": 2 });
    let controls = [
        ("whole", json!({ "concurrency": { "limit": 1, "queue": queue } })),
        ("keyed", json!({ "concurrency": { "limit": 1, "key": "k", "queue": queue } })),
        ("run", json!({ "concurrency": { "limit": 1, "span": "run", "queue": queue } })),
        (
            "handoff",
            json!({ "handoff": { "type": "keyed", "keyField": "k", "onNewVersion": "drain",
                "queue": queue } }),
        ),
    ];
    for (name, mut definition) in controls {
        let world = world.in_workspace(name);
        definition["name"] = json!("work");
        definition["idempotency"] = json!({ "key": "n" });
        definition["rateLimit"] = json!({ "limit": 4, "perMs": 3_600_000 });
        world.define(definition).await;
        let runs = admitted(&world, 3).await;
        let first = world.lease_one().await;
        let posted = world.post("work", json!({ "n": 7, "k": "a" })).await;
        assert_eq!(refused(&posted.runs[0].verdict), 2, "{name}");
        let receipts = world.receipts_of(posted.id).await;
        let last = receipts.last().unwrap();
        assert_eq!(
            (&last["outcome"], &last["error"], &last["waiting"]),
            (&json!("rejected"), &json!("QueueFull"), &json!(2)),
            "{name}"
        );
        world.complete(&first).await;
        let again = work(&world, 7).await;
        assert_eq!(again.outcome(), "queued", "{name}: the refused event must spend nothing");
        assert_eq!(work(&world, 8).await.outcome(), "dropped", "{name}: four tokens are spent");
        let expected = [runs[1], runs[2], again.run().unwrap()];
        assert_eq!(world.drain().await, expected, "{name}");
        assert_eq!(first.id, runs[0]);
        world.check_holds().await;
    }
}

/// spec L19: the policy `queue` bounds the queue of a session; other sessions have queues of their
/// own.
pub async fn a_session_with_a_full_queue_refuses_the_request(world: &World) {
    let policy = json!({ "policy": "queue", "queue": { "maxWaiting": 1 } });
    let actions = json!({ "say": { "concurrency": policy }, "look": { "concurrency": "queue" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let call = async |action, session| world.call("chat", action, session, json!({})).await;
    assert_eq!(call("say", "s").await.outcome(), "started");
    assert_eq!(call("say", "s").await.outcome(), "queued");
    assert_eq!(refused(&call("say", "s").await), 1);
    assert_eq!(call("say", "t").await.outcome(), "started");
    // The bound is that of the action that is called: this one has none.
    assert_eq!(call("look", "s").await.outcome(), "queued");
    assert_eq!(refused(&call("say", "s").await), 2);
    world.check_holds().await;
}

/// spec L19: a bound of 0 refuses all runs that cannot start at once.
pub async fn without_a_queue_a_run_starts_at_once_or_never(world: &World) {
    bounded(world, json!({ "limit": 2 }), json!({ "maxWaiting": 0 })).await;
    admitted(world, 2).await;
    assert_eq!(refused(&work(world, 2).await), 0);
    let leased = world.lease_all().await;
    world.complete(&leased[0]).await;
    assert_eq!(work(world, 3).await.outcome(), "started");
    world.check_holds().await;
}

/// spec L19: `dropOldest` cancels the first run of the queue, `dropNewest` the last; the new run
/// joins. By rank, not by arrival.
pub async fn a_full_queue_displaces_a_waiting_run(world: &World) {
    for (mode, gone) in [("dropOldest", [1, 2]), ("dropNewest", [3, 4])] {
        let world = world.in_workspace(mode);
        bounded(&world, run_limit(), json!({ "maxWaiting": 3, "onOverflow": mode })).await;
        let mut runs = admitted(&world, 4).await;
        for n in 4..6 {
            let verdict = work(&world, n).await;
            assert_eq!(verdict.outcome(), "queued", "{mode}");
            runs.push(verdict.run().unwrap());
            assert_eq!(counted(&world).await, Some(3), "{mode}");
        }
        let mut left = Vec::new();
        for (n, run) in runs.into_iter().enumerate() {
            if gone.contains(&n) {
                assert!(displaced(&world, run).await, "{mode}: run {n}");
            } else {
                left.push(run);
            }
        }
        assert_eq!(world.drain().await, left, "{mode}");
        world.check_holds().await;
    }
}

/// spec L19: a displaced run gives back its claim and its slots at earlier gates, but no token of
/// the rate limit. Its event gets a receipt.
pub async fn a_displaced_run_gives_back_what_it_holds(world: &World) {
    world
        .define(json!({
            "name": "work",
            "singleton": { "key": "k", "mode": "skip" },
            "idempotency": { "key": "n" },
            "rateLimit": { "limit": 4, "perMs": 3_600_000 },
            "concurrency": { "limit": 1, "span": "run",
                "queue": { "maxWaiting": 1, "onOverflow": "dropOldest" } },
        }))
        .await;
    let send = async |n: u64, k: &str| world.send("work", json!({ "n": n, "k": k })).await;
    send(1, "a").await;
    let posted = world.post("work", json!({ "n": 2, "k": "b" })).await;
    let old = posted.runs[0].verdict.run().unwrap();
    assert_eq!(send(3, "c").await.outcome(), "queued");
    assert!(displaced(world, old).await);
    let receipts = world.receipts_of(posted.id).await;
    let expected = json!({ "outcome": "displaced", "runId": old, "control": "concurrency",
        "key": "(whole)" });
    assert_eq!(receipts.last(), Some(&expected));
    // Its claim and its singleton are free, and its token is spent: this is the fourth.
    assert_eq!(send(2, "b").await.outcome(), "queued");
    assert_eq!(send(5, "e").await.outcome(), "dropped");
    assert_eq!(world.drain().await.len(), 2);
    world.check_holds().await;
}

/// spec L19: on the gate of a session a request displaces only requests of its own action. Without
/// one it is refused.
pub async fn a_request_displaces_only_its_own_action(world: &World) {
    for mode in ["dropOldest", "dropNewest"] {
        let world = world.in_workspace(mode);
        let queue = json!({ "maxWaiting": 2, "onOverflow": mode });
        let policy = json!({ "policy": "queue", "queue": queue });
        let actions = json!({ "say": { "concurrency": policy },
            "look": { "concurrency": "queue" } });
        world.define_flow(json!({ "name": "chat", "actions": actions })).await;
        let call = async |action| world.call("chat", action, "s", json!({})).await;
        let mut left = vec![call("look").await.run().unwrap(), call("look").await.run().unwrap()];
        left.push(call("look").await.run().unwrap());
        assert_eq!(refused(&call("say").await), 2, "{mode}");
        world.cancel(left.pop().unwrap()).await.unwrap();
        let first = call("say").await.run().unwrap();
        let look = call("look").await.run().unwrap();
        let second = call("say").await.run().unwrap();
        assert!(displaced(&world, first).await, "{mode}");
        left.extend([look, second]);
        assert_eq!(world.drain().await, left, "{mode}");
        world.check_holds().await;
    }
}

/// spec L19: a run that comes from the queue of an earlier gate joins a full queue, and is not
/// displaced from it.
pub async fn a_run_from_an_earlier_queue_joins_and_stays(world: &World) {
    for mode in ["reject", "dropOldest", "dropNewest"] {
        let world = world.in_workspace(mode);
        world
            .define(json!({
                "name": "work",
                "handoff": { "type": "keyed", "keyField": "h", "onNewVersion": "drain" },
                "concurrency": { "limit": 1, "key": "k", "span": "run",
                    "queue": { "maxWaiting": 1, "onOverflow": mode } },
            }))
            .await;
        let send = async |h: &str, k: &str| {
            world.pass(1);
            world.send("work", json!({ "h": h, "k": k })).await
        };
        let inside = send("x", "full").await.run().unwrap();
        let before = send("y", "other").await.run().unwrap();
        let leased = world.lease_all().await;
        let [inside, before] = [inside, before]
            .map(|id| leased.iter().find(|run| run.id == id).expect("a started run").clone());
        // The second of `y` waits at the handoff, the run of `z` at the limit.
        let (early, late) = match mode {
            "dropNewest" => {
                let late = send("z", "full").await.run().unwrap();
                (send("y", "full").await.run().unwrap(), late)
            }
            _ => {
                let early = send("y", "full").await.run().unwrap();
                (early, send("z", "full").await.run().unwrap())
            }
        };
        world.complete(&before).await;
        assert_eq!(world.state(early).await, "queued", "{mode}: it joins the full queue");
        world.check_holds().await;
        let newcomer = send("w", "full").await;
        if mode == "reject" {
            assert_eq!(refused(&newcomer), 2);
            world.complete(&inside).await;
            assert_eq!(world.drain().await, [early, late]);
            continue;
        }
        assert!(displaced(&world, late).await, "{mode}: the run that was admitted to this queue");
        world.complete(&inside).await;
        assert_eq!(world.drain().await, [early, newcomer.run().unwrap()], "{mode}");
        world.check_holds().await;
    }
}

/// spec L19: wakes and retries join a full queue; the bound counts them.
pub async fn a_wake_and_a_retry_join_a_full_queue(world: &World) {
    for kind in ["wake", "retry"] {
        let world = world.in_workspace(kind);
        bounded(&world, json!({ "limit": 1 }), json!({ "maxWaiting": 1 })).await;
        let first = world.drive("work", json!({ "n": 1 })).await;
        if kind == "wake" {
            world.sleep(&first, "nap", 10).await;
        } else {
            world.back_off(&first, "step", 10).await;
        }
        let second = world.drive("work", json!({ "n": 2 })).await;
        let third = work(&world, 3).await.run().unwrap();
        world.tick(10).await;
        assert_eq!(counted(&world).await, Some(2), "{kind}");
        assert_eq!(refused(&work(&world, 4).await), 2, "{kind}");
        world.complete(&second).await;
        assert_eq!(world.drain().await, [first.id, third], "{kind}");
        world.check_holds().await;
    }
}

/// spec L19, F4: a window whose run a full queue would refuse stays open, and takes events, until
/// there is room.
pub async fn a_refused_window_stays_open(world: &World) {
    for most in [0, 1] {
        let world = world.in_workspace(&format!("most {most}"));
        let concurrency = json!({ "limit": 1, "queue": { "maxWaiting": most } });
        let debounce = json!({ "periodMs": 100, "key": "d" });
        world
            .define(json!({ "name": "work", "debounce": debounce, "concurrency": concurrency }))
            .await;
        let send = async |d: u64, n: u64| world.send("work", json!({ "d": d, "n": n })).await;
        let mut runs = Vec::new();
        for d in 0..=most {
            runs.push(window(&send(d, 0).await).0);
            world.tick(100).await;
        }
        let first = world.lease_one().await;
        let (held, _) = window(&send(9, 1).await);
        world.tick(100).await;
        assert!(world.live(held).await.is_none(), "most {most}: the queue is full");
        world.tick(500).await;
        assert_eq!(window(&send(9, 2).await).0, held, "most {most}: the window is still open");
        assert_eq!(first.id, runs[0]);
        world.complete(&first).await;
        world.sweep().await;
        runs.remove(0);
        runs.push(held);
        assert_eq!(world.drain().await, runs, "most {most}");
        assert_eq!(world.input_of(held).await["n"], 2, "most {most}");
        world.check_quiet().await;
    }
}

/// spec L19, F4: a full buffer that a full queue refuses stays open; each of its parts becomes a
/// run when there is room. No event is lost.
pub async fn a_refused_buffer_loses_no_event(world: &World) {
    world
        .define(json!({
            "name": "work",
            "batch": { "maxSize": 2, "timeoutMs": 60_000 },
            "concurrency": { "limit": 1, "queue": { "maxWaiting": 1 } },
        }))
        .await;
    let mut runs = Vec::new();
    for n in 0..9 {
        let verdict = world.send("work", json!({ "n": n })).await;
        let run = if n < 4 { verdict.run().unwrap() } else { buffer(&verdict).0 };
        runs.push(run);
    }
    world.tick(60_000).await;
    runs.dedup();
    assert_eq!(runs.len(), 5);
    let mut done = Vec::new();
    for _ in 0..5 {
        done.extend(world.drain().await);
        world.tick(60_000).await;
    }
    assert_eq!(done, runs);
    let mut seen = Vec::new();
    for run in runs {
        let events = world.inputs_of(run).await.unwrap();
        seen.extend(events.iter().map(|data| data["n"].as_u64().unwrap()));
    }
    assert_eq!(seen, (0..9).collect::<Vec<u64>>());
    world.check_quiet().await;
}

/// spec L19: the bound is that of the current release. A queue that grew without one is counted
/// when the bound is first checked.
pub async fn a_release_changes_the_bound(world: &World) {
    let define = async |queue: Value| {
        let mut limit = run_limit();
        if !queue.is_null() {
            limit["queue"] = queue;
        }
        let versions = world.lanes().await.len();
        world
            .define(json!({ "name": "work", "version": versions + 1, "concurrency": limit }))
            .await;
    };
    define(Value::Null).await;
    let mut runs = admitted(world, 6).await;
    assert_eq!(counted(world).await, None, "without a bound nothing is counted");
    define(json!({ "maxWaiting": 4 })).await;
    assert_eq!(refused(&work(world, 6).await), 4);
    define(json!({ "maxWaiting": 3, "onOverflow": "dropNewest" })).await;
    runs.push(work(world, 7).await.run().unwrap());
    assert_eq!(counted(world).await, Some(5), "a release evicts no run");
    assert!(displaced(world, runs.remove(5)).await);
    define(Value::Null).await;
    runs.extend(admitted(world, 2).await);
    world.check_holds().await;
    assert_eq!(world.drain().await, runs);
    define(json!({ "maxWaiting": 1 })).await;
    admitted(world, 2).await;
    assert_eq!(refused(&work(world, 9).await), 1);
    world.check_holds().await;
}

/// spec L19: events of one transaction see each other in the queue.
pub async fn events_at_once_fill_a_queue_in_their_order(world: &World) {
    for (mode, left) in
        [("reject", [0, 1, 2]), ("dropOldest", [0, 3, 4]), ("dropNewest", [0, 1, 4])]
    {
        let world = world.in_workspace(mode);
        bounded(&world, run_limit(), json!({ "maxWaiting": 2, "onOverflow": mode })).await;
        let events: Vec<NewEvent> = (0..5).map(|n| event("work", &json!({ "n": n }))).collect();
        let posted = world.post_all(events).await;
        let runs: Vec<_> = posted.iter().map(|posted| posted.runs[0].verdict.run()).collect();
        let left: Vec<RunId> = left.into_iter().filter_map(|n: usize| runs[n]).collect();
        assert_eq!(world.drain().await, left, "{mode}");
        world.check_holds().await;
    }
}

/// spec L19, A5: a step fails if the queue refuses its child, and if its child is displaced.
pub async fn a_parent_is_told_of_a_full_queue(world: &World) {
    world.define(json!({ "name": "parent" })).await;
    bounded(world, run_limit(), json!({ "maxWaiting": 1, "onOverflow": "dropNewest" })).await;
    admitted(world, 1).await;
    let parent = world.lease_all().await;
    assert_eq!(parent.len(), 1);
    let parent = world.drive("parent", json!({})).await;
    world.suspend(&parent, vec![for_child("child", "work", &json!({ "n": 1 }))]).await;
    admitted(world, 1).await;
    let error = world.step_of(parent.id, "child").await.unwrap().result.unwrap_err();
    assert_eq!(error.code, "Displaced");
    world
        .define(json!({ "name": "work", "version": 2, "concurrency": { "limit": 1,
        "span": "run", "queue": { "maxWaiting": 1 } } }))
        .await;
    let again = world.lease_one().await;
    assert_eq!(again.id, parent.id);
    world.suspend(&again, vec![for_child("again", "work", &json!({ "n": 2 }))]).await;
    let error = world.step_of(parent.id, "again").await.unwrap().result.unwrap_err();
    assert_eq!(error.code, "QueueFull");
    world.check_holds().await;
}

/// spec L19: a run that leaves the queue in another way makes room: it is cancelled, or expires.
pub async fn a_run_that_leaves_the_queue_makes_room(world: &World) {
    world
        .define(json!({ "name": "work", "startWithinMs": 1000,
            "concurrency": { "limit": 1, "queue": { "maxWaiting": 1 } } }))
        .await;
    let running = world.drive("work", json!({ "n": 0 })).await;
    let waits = admitted(world, 1).await[0];
    refused(&work(world, 2).await);
    world.cancel(waits).await.unwrap();
    assert_eq!(counted(world).await, None);
    let waits = admitted(world, 1).await[0];
    refused(&work(world, 3).await);
    world.tick(1000).await;
    assert_eq!(world.cancelled(waits).await.0, "expired");
    let next = admitted(world, 1).await[0];
    world.complete(&running).await;
    assert_eq!(world.drain().await, [next]);
    world.check_holds().await;
}
