//! Policies of actions: what happens to a request while its session is busy.

use serde_json::{Value, json};
use tidegate_core::{
    command::Refusal,
    id::RunId,
    row::{Ending, Row},
    run::record::Then,
};

use crate::world::{World, replaced, skipped, step, window};

/// Defines a flow with one action for each policy, all with the session as key.
async fn chat(world: &World) {
    let quiet = json!({ "concurrency": { "policy": "debounce", "periodMs": 1000 } });
    let actions = json!({
        "append": { "concurrency": "allow" },
        "respond": { "concurrency": "queue" },
        "retry": { "concurrency": { "policy": "queue" } },
        "summarise": { "concurrency": "reject" },
        "edit": { "concurrency": "restart" },
        "index": quiet,
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
}

/// Returns the outcome of a call.
async fn outcome(world: &World, action: &str, session: &str) -> &'static str {
    world.call("chat", action, session, Value::Null).await.outcome()
}

/// spec B1, B2, B7: without a policy no request waits or is refused, and no key is held.
pub async fn without_a_policy_everything_runs(world: &World) {
    world.define_flow(json!({ "name": "chat", "actions": { "plain": {} } })).await;
    for _ in 0..5 {
        assert_eq!(outcome(world, "plain", "s").await, "started");
    }
    assert_eq!(world.lease_all().await.len(), 5, "all runs must be driven at the same time");
    let gates = world.dump().await.into_iter().filter(|row| matches!(row, Row::Gate(_)));
    assert_eq!(gates.count(), 0);
}

/// spec B5, B6, B8: the policy of the action applies, otherwise that of the flow; the action's
/// policy replaces that of the flow completely, including the key.
pub async fn the_action_decides_else_the_flow(world: &World) {
    let default = json!({ "policy": "reject", "key": "user" });
    let actions = json!({
        "by_default": {},
        "own": { "concurrency": "queue" },
        "own_with_key": { "concurrency": { "policy": "queue", "key": "user" } },
        "free": { "concurrency": "allow" },
    });
    let flow = json!({ "name": "chat", "concurrency": default, "actions": actions });
    world.define_flow(flow).await;
    let call = async |action: &str| {
        let request = crate::world::request("chat", action, Some("s"), Some("u"), &json!({}));
        world.dispatch(request).await.verdict.outcome()
    };
    assert_eq!(call("by_default").await, "started");
    assert_eq!(call("by_default").await, "skipped", "the policy of the flow is `reject` by user");
    assert_eq!(call("own").await, "started", "the action's key is the session, not the user");
    assert_eq!(call("own").await, "queued");
    assert_eq!(call("own_with_key").await, "queued", "behind the first");
    assert_eq!(call("free").await, "started");
    world.check_holds().await;
}

/// spec B10, B11, B13: requests of one session start in order of arrival over all actions, one at a
/// time, and each runs once.
pub async fn a_queue_is_served_in_order_over_all_actions(world: &World) {
    chat(world).await;
    let mut sent = Vec::new();
    for n in 0..9 {
        let action = ["respond", "retry"][n % 2];
        sent.push(world.call_for_run("chat", action, "s").await);
        world.tick(1).await;
    }
    let mut served = Vec::new();
    while let [run] = world.lease_all().await.as_slice() {
        assert!(world.lease_all().await.is_empty());
        // A waiting run does not admit the next one: it keeps its hold until its end.
        world.sleep(run, "think", 10).await;
        assert!(world.lease_all().await.is_empty());
        world.tick(10).await;
        let run = world.lease_one().await;
        served.push(run.id);
        world.complete(&run).await;
    }
    assert_eq!(served, sent);
    world.check_holds().await;
}

/// spec B10: priority does not change the order inside a session, which is by arrival.
pub async fn a_queue_goes_by_arrival_whatever_the_priority(world: &World) {
    let actions = json!({
        "respond": { "concurrency": "queue" },
        "urgent": { "concurrency": "queue", "priority": { "shiftMs": 60_000 } },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let mut sent = Vec::new();
    for action in ["respond", "respond", "urgent", "respond", "urgent"] {
        sent.push(world.call_for_run("chat", action, "s").await);
    }
    assert_eq!(world.drain().await, sent);
}

/// spec B12: the next request starts, however the running one ends.
pub async fn a_queue_goes_on_however_the_running_one_ends(world: &World) {
    chat(world).await;
    for end in ["completed", "failed", "cancelled", "lost"] {
        let first = world.call_for_run("chat", "respond", end).await;
        let second = world.call_for_run("chat", "respond", end).await;
        let doomed = world.engine(9);
        let run = doomed.lease_one().await;
        assert_eq!(run.id, first);
        match end {
            "completed" => world.complete(&run).await,
            "failed" => world.fail(&run).await,
            "cancelled" => {
                world.cancel(first).await.unwrap();
                assert!(
                    world.lease_all().await.is_empty(),
                    "the next run started before the worker stopped"
                );
                world.stopped(&run).await;
            }
            _ => {
                assert_eq!(world.lose(9).await, 1);
                assert_eq!(
                    world.drain().await,
                    [first, second],
                    "the lost run must be driven again, then the next one"
                );
                continue;
            }
        }
        assert_eq!(world.drain().await, [second], "{end}");
    }
    world.check_holds().await;
}

/// spec B14, B15, B16, B17, B19, B40: `reject` refuses requests to a busy session and names the
/// holder; to a free session it admits them.
pub async fn reject_names_the_holder_and_forgets_the_refused(world: &World) {
    chat(world).await;
    for end in ["completed", "failed", "cancelled"] {
        let holder = world.call_for_run("chat", "summarise", "s").await;
        let refused = world.call("chat", "summarise", "s", json!({})).await;
        assert_eq!(skipped(&refused), (holder, "policy"));
        assert_eq!(world.alive("chat/summarise").await, 1, "a refused request left a run behind");
        let run = world.lease_one().await;
        world.sleep(&run, "think", 10).await;
        assert_eq!(skipped(&world.call("chat", "summarise", "s", json!({})).await).0, holder);
        world.tick(10).await;
        let run = world.lease_one().await;
        match end {
            "completed" => world.complete(&run).await,
            "failed" => world.fail(&run).await,
            _ => {
                world.cancel(run.id).await.unwrap();
                world.stopped(&run).await;
            }
        }
        assert!(world.drain().await.is_empty(), "a refused request was started later");
    }
    assert_eq!(
        outcome(world, "summarise", "s").await,
        "started",
        "the refused request must be admitted when it is sent again"
    );
    world.check_holds().await;
}

/// spec B18: of concurrent requests on several engines, exactly one is admitted.
pub async fn of_rejecting_requests_at_once_one_is_admitted(world: &World) {
    chat(world).await;
    let (b, c) = (world.engine(2), world.engine(3));
    let (one, two, three) = tokio::join!(
        world.call("chat", "summarise", "s", json!(1)),
        b.call("chat", "summarise", "s", json!(2)),
        c.call("chat", "summarise", "s", json!(3)),
    );
    let verdicts = [one, two, three];
    let winner = verdicts.iter().find_map(tidegate_core::flow::Verdict::run).unwrap();
    let refused = verdicts.iter().filter(|verdict| verdict.run().is_none());
    assert!(refused.clone().all(|verdict| skipped(verdict).0 == winner));
    assert_eq!(refused.count(), 2);
    assert_eq!(world.drain().await, [winner]);
}

/// spec N33: a session is busy while a run holds it or is queued for it.
pub async fn reject_sees_who_waits(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "respond", "s").await;
    let waiter = world.call_for_run("chat", "respond", "s").await;
    assert_eq!(skipped(&world.call("chat", "summarise", "s", json!({})).await).0, holder);
    let run = world.lease_one().await;
    world.cancel(holder).await.unwrap();
    assert_eq!(skipped(&world.call("chat", "summarise", "s", json!({})).await).0, waiter);
    world.stopped(&run).await;
    assert_eq!(skipped(&world.call("chat", "summarise", "s", json!({})).await).0, waiter);
    assert_eq!(world.drain().await, [waiter]);
    assert_eq!(outcome(world, "summarise", "s").await, "started");
    world.check_holds().await;
}

/// spec B2, B34: a run under `allow` does not take the gate and is not blocked by it: appends run
/// while a respond runs.
pub async fn allow_neither_takes_nor_sees_the_gate(world: &World) {
    chat(world).await;
    let respond = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let queued = world.call_for_run("chat", "respond", "s").await;
    for _ in 0..10 {
        assert_eq!(outcome(world, "append", "s").await, "started");
    }
    assert_eq!(world.drain().await.len(), 10, "every append must run while the respond runs");
    assert_eq!(running.id, respond);
    world.complete(&running).await;
    assert_eq!(world.drain().await, [queued]);
    assert_eq!(outcome(world, "append", "s").await, "started");
    assert_eq!(
        outcome(world, "summarise", "s").await,
        "started",
        "a run under `allow` blocked the session"
    );
    world.check_holds().await;
}

/// spec B41, B42: reject and idempotency are independent: one checks live runs, the other past
/// ones.
pub async fn idempotency_and_arbitration_are_apart(world: &World) {
    let once = json!({ "key": "input.id" });
    let actions = json!({
        "both": { "concurrency": "reject", "idempotency": once },
        "only": { "idempotency": once },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let call = async |action: &str, id: u32| {
        world.call("chat", action, "s", json!({ "id": id })).await.outcome()
    };
    assert_eq!(call("both", 1).await, "started");
    assert_eq!(call("both", 1).await, "deduped", "during the first");
    assert_eq!(call("both", 2).await, "skipped");
    assert_eq!(world.drain().await.len(), 1);
    assert_eq!(call("both", 1).await, "deduped", "after the first");
    assert_eq!(call("both", 2).await, "started", "the refused request took a claim");
    assert_eq!(call("only", 3).await, "started");
    assert_eq!(call("only", 4).await, "started", "idempotency alone must not arbitrate");
    assert_eq!(call("only", 3).await, "deduped");
}

/// spec B44, G7: a restart replaces the holder in every state; queued runs keep their positions.
pub async fn restart_replaces_the_holder_and_keeps_the_queue(world: &World) {
    for phase in ["ready", "driven", "sleeping", "paused"] {
        let flow = json!({ "name": phase, "actions": {
            "respond": { "concurrency": "queue" }, "edit": { "concurrency": "restart" }
        } });
        world.define_flow(flow).await;
        let holder = world.call_for_run(phase, "respond", "s").await;
        let first = world.call_for_run(phase, "respond", "s").await;
        let second = world.call_for_run(phase, "respond", "s").await;
        let driven = if phase == "ready" { None } else { Some(world.lease_one().await) };
        match (phase, &driven) {
            ("sleeping", Some(run)) => world.sleep(run, "nap", 60_000).await,
            ("paused", Some(run)) => {
                world.pause(holder).await.unwrap();
                assert!(
                    world.report(run, vec![step("a", &json!(1))], Then::Continue).await.is_ok()
                );
            }
            _ => {}
        }
        let (edit, gone) = replaced(&world.call(phase, "edit", "s", json!({})).await);
        assert_eq!((gone, world.state(holder).await), (holder, "cancelled"), "{phase}");
        if let (Some(run), "driven") = (&driven, phase) {
            assert!(
                world.lease_all().await.is_empty(),
                "the new run started before the worker of the holder stopped"
            );
            let late = world.report(run, vec![step("late", &json!(1))], Then::Continue).await;
            assert!(
                matches!(late, Err(Refusal::Fenced { .. })),
                "the replaced run accepted a report"
            );
            world.stopped(run).await;
        }
        assert_eq!(world.drain().await, [edit, first, second], "{phase}");
        world.check_holds().await;
    }
}

/// spec B44: restarts while the holder is being stopped replace each other, but no queued run.
pub async fn restarts_replace_each_other(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "edit", "s").await;
    let running = world.lease_one().await;
    let waiter = world.call_for_run("chat", "respond", "s").await;
    let (second, gone) = replaced(&world.call("chat", "edit", "s", json!({})).await);
    assert_eq!(gone, holder);
    let (third, gone) = replaced(&world.call("chat", "edit", "s", json!({})).await);
    assert_eq!(gone, second);
    let ending = world.ended(second).await.unwrap().ending;
    assert_eq!(ending, Ending::Cancelled { reason: "replaced".into(), by: Some(third) });
    world.stopped(&running).await;
    assert_eq!(world.drain().await, [third, waiter]);
    world.check_holds().await;
}

/// spec B44: if the holder was cancelled by hand, restarts still replace each other, so that one of
/// them remains.
pub async fn restarts_after_a_cancel_by_hand_replace_each_other(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let before = world.call_for_run("chat", "respond", "s").await;
    world.cancel(holder).await.unwrap();
    let first = world.call("chat", "edit", "s", json!({})).await;
    assert_eq!(first.outcome(), "queued", "a run that is only queued was replaced");
    let after = world.call_for_run("chat", "respond", "s").await;
    let (second, gone) = replaced(&world.call("chat", "edit", "s", json!({})).await);
    assert_eq!(Some(gone), first.run());
    world.stopped(&running).await;
    assert_eq!(world.drain().await, [second, before, after]);
    world.check_holds().await;
}

/// spec B43: a burst of requests makes one run with the last input, and cancels no run.
pub async fn debounce_coalesces_and_never_cancels(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let call = async |n: u32| window(&world.call("chat", "index", "s", json!({ "n": n })).await).0;
    let run: RunId = call(0).await;
    world.tick(999).await;
    assert_eq!(call(1).await, run);
    world.tick(1000).await;
    assert_eq!(world.state(run).await, "queued", "the run must wait for the end of the holder");
    assert_eq!(world.state(holder).await, "running");
    for n in 2..4 {
        world.tick(5000).await;
        assert_eq!(call(n).await, run, "a queued run of a window must take newer inputs");
    }
    world.complete(&running).await;
    let started = world.lease_one().await;
    assert_eq!(started.id, run, "at once");
    assert_eq!(world.input_of(run).await["input"], json!({ "n": 3 }));
    let next = call(4).await;
    assert_ne!(next, run, "a request after the start must open a new window");
    world.tick(1000).await;
    assert_eq!(world.state(run).await, "running");
    assert_eq!(world.state(next).await, "queued");
    world.complete(&started).await;
    assert_eq!(world.drain().await, [next]);
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty());
    world.check_holds().await;
}

/// spec B43: each session has its own window; if the run of a window was cancelled, the window
/// takes no more inputs.
pub async fn a_cancelled_window_takes_no_more(world: &World) {
    chat(world).await;
    world.call_for_run("chat", "respond", "s").await;
    let holder = world.lease_one().await;
    let run = world.call_for_run("chat", "index", "s").await;
    let other = world.call_for_run("chat", "index", "t").await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [other]);
    world.cancel(run).await.unwrap();
    let next = world.call_for_run("chat", "index", "s").await;
    assert_ne!(next, run);
    world.complete(&holder).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [next]);
    world.check_holds().await;
}

/// spec A1, B43: the run of a fired window that is queued at the gate has the claim of its last
/// input.
pub async fn a_waiting_window_claims_its_last_input(world: &World) {
    let policy = json!({ "policy": "debounce", "periodMs": 1000 });
    let actions = json!({
        "respond": { "concurrency": "queue" },
        "index": { "concurrency": policy, "idempotency": { "key": "input.id" } },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    world.call_for_run("chat", "respond", "s").await;
    let holder = world.lease_one().await;
    let call = async |id: u32| world.call("chat", "index", "s", json!({ "id": id })).await;
    let (run, _) = window(&call(1).await);
    world.tick(1000).await;
    assert_eq!(window(&call(2).await).0, run);
    world.complete(&holder).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(call(2).await.outcome(), "deduped");
    assert_eq!(call(1).await.outcome(), "coalesced", "it never ran");
}
