//! Policies of actions for a busy session.

use serde_json::{Value, json};
use tidegate_core::{
    command::Refusal,
    id::RunId,
    row::{Ending, Row},
    run::record::Then,
};

use crate::world::{World, replaced, skipped, step, window};

/// Defines a flow with an action for each policy, all on the session.
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

/// spec B1, B2, B7: without a policy nothing waits, nothing is refused, and no key is held.
pub async fn without_a_policy_everything_runs(world: &World) {
    world.define_flow(json!({ "name": "chat", "actions": { "plain": {} } })).await;
    for _ in 0..5 {
        assert_eq!(outcome(world, "plain", "s").await, "started");
    }
    assert_eq!(world.lease_all().await.len(), 5, "all at the same time");
    let gates = world.dump().await.into_iter().filter(|row| matches!(row, Row::Gate(_)));
    assert_eq!(gates.count(), 0);
}

/// spec B5, B6, B8: the action's policy, else the flow's; the action's replaces it whole, key
/// included.
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
    assert_eq!(call("by_default").await, "skipped", "the flow rejects, by user");
    assert_eq!(call("own").await, "started", "the session is another key than the user");
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
        // A wait does not admit the next run: the hold is kept until the end.
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

/// spec B10: priority changes no order inside of a session: it is that of arrival.
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

/// spec B12: however the running request ends, the next one starts.
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
                assert!(world.lease_all().await.is_empty(), "until its worker has stopped");
                world.stopped(&run).await;
            }
            _ => {
                assert_eq!(world.lose(9).await, 1);
                assert_eq!(world.drain().await, [first, second], "it is taken up, then the next");
                continue;
            }
        }
        assert_eq!(world.drain().await, [second], "{end}");
    }
    world.check_holds().await;
}

/// spec B14, B15, B16, B17, B19, B40: a busy session refuses and names its holder; a free one does
/// not.
pub async fn reject_names_the_holder_and_forgets_the_refused(world: &World) {
    chat(world).await;
    for end in ["completed", "failed", "cancelled"] {
        let holder = world.call_for_run("chat", "summarise", "s").await;
        let refused = world.call("chat", "summarise", "s", json!({})).await;
        assert_eq!(skipped(&refused), (holder, "policy"));
        assert_eq!(world.alive("chat/summarise").await, 1, "what was refused left no run");
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
        assert!(world.drain().await.is_empty(), "what was refused is not started later");
    }
    assert_eq!(outcome(world, "summarise", "s").await, "started", "the same request again");
    world.check_holds().await;
}

/// spec B18: of requests in the same instant, on several engines, exactly one is admitted.
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

/// spec N33: a session is busy while any run holds it or is queued for it.
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

/// spec B2, B34: `allow` neither takes nor sees the gate: appends land while a respond runs.
pub async fn allow_neither_takes_nor_sees_the_gate(world: &World) {
    chat(world).await;
    let respond = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let queued = world.call_for_run("chat", "respond", "s").await;
    for _ in 0..10 {
        assert_eq!(outcome(world, "append", "s").await, "started");
    }
    assert_eq!(world.drain().await.len(), 10, "every append, while the respond runs");
    assert_eq!(running.id, respond);
    world.complete(&running).await;
    assert_eq!(world.drain().await, [queued]);
    assert_eq!(outcome(world, "append", "s").await, "started");
    assert_eq!(outcome(world, "summarise", "s").await, "started", "an append is not in its way");
    world.check_holds().await;
}

/// spec B41, B42: reject and idempotency are separate: one checks live runs, the other past ones.
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
    assert_eq!(call("both", 2).await, "started", "the refused one has claimed nothing");
    assert_eq!(call("only", 3).await, "started");
    assert_eq!(call("only", 4).await, "started", "idempotency alone arbitrates nothing");
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
            assert!(world.lease_all().await.is_empty(), "the holder has not stopped yet");
            let late = world.report(run, vec![step("late", &json!(1))], Then::Continue).await;
            assert!(matches!(late, Err(Refusal::Fenced { .. })), "it writes nothing any more");
            world.stopped(run).await;
        }
        assert_eq!(world.drain().await, [edit, first, second], "{phase}");
        world.check_holds().await;
    }
}

/// spec B44: restarts while the holder is being stopped replace each other, and no queued run.
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

/// spec B44: after a holder was cancelled by hand, restarts still leave one of them.
pub async fn restarts_after_a_cancel_by_hand_replace_each_other(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let before = world.call_for_run("chat", "respond", "s").await;
    world.cancel(holder).await.unwrap();
    let first = world.call("chat", "edit", "s", json!({})).await;
    assert_eq!(first.outcome(), "queued", "who only queues is not replaced");
    let after = world.call_for_run("chat", "respond", "s").await;
    let (second, gone) = replaced(&world.call("chat", "edit", "s", json!({})).await);
    assert_eq!(Some(gone), first.run());
    world.stopped(&running).await;
    assert_eq!(world.drain().await, [second, before, after]);
    world.check_holds().await;
}

/// spec B43: a burst gives one run, with the last input, and cancels none.
pub async fn debounce_coalesces_and_never_cancels(world: &World) {
    chat(world).await;
    let holder = world.call_for_run("chat", "respond", "s").await;
    let running = world.lease_one().await;
    let call = async |n: u32| window(&world.call("chat", "index", "s", json!({ "n": n })).await).0;
    let run: RunId = call(0).await;
    world.tick(999).await;
    assert_eq!(call(1).await, run);
    world.tick(1000).await;
    assert_eq!(world.state(run).await, "queued", "it waits for the running one");
    assert_eq!(world.state(holder).await, "running");
    for n in 2..4 {
        world.tick(5000).await;
        assert_eq!(call(n).await, run, "until it starts it takes newer ones with it");
    }
    world.complete(&running).await;
    let started = world.lease_one().await;
    assert_eq!(started.id, run, "at once");
    assert_eq!(world.input_of(run).await["input"], json!({ "n": 3 }));
    let next = call(4).await;
    assert_ne!(next, run, "what comes after its start is a new window");
    world.tick(1000).await;
    assert_eq!(world.state(run).await, "running");
    assert_eq!(world.state(next).await, "queued");
    world.complete(&started).await;
    assert_eq!(world.drain().await, [next]);
    world.tick(100_000).await;
    assert!(world.drain().await.is_empty());
    world.check_holds().await;
}

/// spec B43: each session has its own window, and a window whose run was cancelled takes no more
/// inputs.
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

/// spec A1, B43: the claim of a window that waits for the gate is that of its last input.
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
