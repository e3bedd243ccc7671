//! `latest`, as a mode of `singleton` and as a policy: the newest run displaces one that has not
//! started.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    flow::Verdict,
    id::RunId,
    row::{Class, Phase},
};
use tidegate_store::why;

use crate::{
    worker::for_child,
    world::{World, event, replaced, request, skipped},
};

async fn singleton(world: &World) {
    let singleton = json!({ "mode": "latest", "key": "doc" });
    world.define(json!({ "name": "build", "singleton": singleton })).await;
}

async fn build(world: &World, n: u64) -> Verdict {
    world.send("build", json!({ "doc": "a", "n": n })).await
}

fn displaced(by: RunId) -> (String, Option<RunId>) {
    ("displaced".to_owned(), Some(by))
}

/// Defines a chat with one action of each kind.
async fn chat(world: &World) {
    let actions = json!({
        "draft": { "concurrency": "latest" },
        "sketch": { "concurrency": "latest" },
        "say": { "concurrency": "queue" },
        "ask": { "concurrency": "reject" },
        "edit": { "concurrency": "restart" },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
}

async fn call(world: &World, action: &str) -> Verdict {
    world.call("chat", action, "s", json!({})).await
}

/// spec L21: one run executes and the newest one waits; the executing run is never displaced.
pub async fn the_newest_waits_and_the_started_one_goes_on(world: &World) {
    singleton(world).await;
    let first = world.drive("build", json!({ "doc": "a", "n": 1 })).await;
    let second = build(world, 2).await;
    assert_eq!(second.outcome(), "queued");
    let second = second.run().unwrap();
    let (third, gone) = replaced(&build(world, 3).await);
    assert_eq!(gone, second);
    assert_eq!(world.cancelled(second).await, displaced(third));
    assert_eq!(world.state(first.id).await, "running");
    // A sleeping run has started and is not displaced either.
    world.sleep(&first, "nap", 100).await;
    let (fourth, gone) = replaced(&build(world, 4).await);
    assert_eq!(gone, third);
    assert!(
        world.lease_all().await.is_empty(),
        "the newest run started before the end of the first"
    );
    world.tick(100).await;
    assert_eq!(world.drain().await, [first.id, fourth]);
    assert_eq!(world.input_of(fourth).await["n"], 4);
    world.check_holds().await;
}

/// spec L21: a holder that has not started is displaced, too, in any state, and the new run gets
/// its rank.
pub async fn an_unstarted_holder_is_displaced(world: &World) {
    for place in ["worker", "slot", "turn", "paused"] {
        let world = world.in_workspace(place);
        let mut definition =
            json!({ "name": "build", "singleton": { "mode": "latest", "key": "doc" } });
        match place {
            "slot" => definition["concurrency"] = json!({ "limit": 1 }),
            "turn" => definition["throttle"] = json!({ "limit": 1, "perMs": 60_000 }),
            _ => {}
        }
        world.define(definition).await;
        let send = async |doc: &str| world.send("build", json!({ "doc": doc })).await;
        let other = send("other").await.run().unwrap();
        let running = world.lease_one().await;
        assert_eq!(running.id, other);
        let old = send("a").await.run().unwrap();
        world.pass(5);
        let later = send("b").await.run().unwrap();
        if place == "paused" {
            assert_eq!(world.pause(old).await, Ok(Answer::Done));
        }
        let rank = world.live(old).await.unwrap().rank;
        world.pass(5);
        let (new, gone) = replaced(&send("a").await);
        assert_eq!((gone, world.cancelled(old).await), (old, displaced(new)), "{place}");
        assert_eq!(
            world.live(new).await.unwrap().rank,
            rank,
            "{place}: the new run must have the rank of the displaced one"
        );
        world.complete(&running).await;
        let mut done = Vec::new();
        for _ in 0..2 {
            world.tick(60_000).await;
            done.extend(world.drain().await);
        }
        assert_eq!(done, [new, later], "{place}: by rank");
        world.check_holds().await;
    }
}

/// spec L21: only runs with the same key are displaced; runs without the key count as one more key.
pub async fn only_runs_on_the_same_key_are_displaced(world: &World) {
    singleton(world).await;
    let mut runs = Vec::new();
    for data in [json!({ "doc": "a" }), json!({ "doc": "b" }), json!({})] {
        let verdict = world.send("build", data).await;
        assert_eq!(verdict.outcome(), "started");
        runs.push(verdict.run().unwrap());
    }
    let (new, gone) = replaced(&world.send("build", json!({})).await);
    assert_eq!(gone, runs[2]);
    assert_eq!(world.drain().await, [runs[0], runs[1], new]);
}

/// spec L21, C1: a displaced run frees its claim, and its event gets a receipt.
pub async fn a_displaced_run_gives_its_claim_back(world: &World) {
    let singleton = json!({ "mode": "latest" });
    let once = json!({ "key": "id" });
    world.define(json!({ "name": "build", "singleton": singleton, "idempotency": once })).await;
    let first = world.post("build", json!({ "id": 1 })).await;
    assert_eq!(world.send("build", json!({ "id": 1 })).await.outcome(), "deduped");
    let (second, _) = replaced(&world.send("build", json!({ "id": 2 })).await);
    let receipts = world.receipts_of(first.id).await;
    let old = first.runs[0].verdict.run().unwrap();
    let expected = json!({ "outcome": "displaced", "runId": old, "control": "singleton",
        "key": "(whole)" });
    assert_eq!(receipts, [expected]);
    let (third, gone) = replaced(&world.send("build", json!({ "id": 1 })).await);
    assert_eq!(gone, second, "the displaced run did not free its claim");
    assert_eq!(world.drain().await, [third]);
}

/// spec L21: a repeat of the first event gets the answer that its run was displaced.
pub async fn a_repeat_is_told_of_the_displacement(world: &World) {
    singleton(world).await;
    let mut first = event("build", &json!({ "doc": "a" }));
    first.dedupe_id = Some("x".to_owned());
    world.post_event(first.clone()).await;
    replaced(&build(world, 2).await);
    let again = world.post_event(first).await.to_value();
    assert_eq!(
        (&again["deduped"], &again["runs"][0]["outcome"]),
        (&json!(true), &json!("displaced"))
    );
}

/// spec L21: as a policy, `latest` displaces requests of its own action only; other requests of the
/// session keep their positions.
pub async fn a_policy_displaces_only_its_own_action(world: &World) {
    chat(world).await;
    let running = call(world, "say").await.run().unwrap();
    let running = (running, world.lease_one().await);
    let draft = call(world, "draft").await.run().unwrap();
    let queued = call(world, "say").await.run().unwrap();
    let sketch = call(world, "sketch").await.run().unwrap();
    assert_eq!(world.live(sketch).await.unwrap().replaced, None, "another action's");
    let (newer, gone) = replaced(&call(world, "draft").await);
    assert_eq!(gone, draft);
    assert_eq!(skipped(&call(world, "ask").await).0, running.0);
    world.complete(&running.1).await;
    assert_eq!(
        world.drain().await,
        [newer, queued, sketch],
        "the newer request must have the position of the displaced one"
    );
    world.check_holds().await;
}

/// spec L21: a request that displaces the unstarted holder of a session gets its slot, although
/// others are queued. If the holder has started, the request is queued.
pub async fn a_policy_takes_the_slot_of_an_unstarted_holder(world: &World) {
    chat(world).await;
    let first = call(world, "draft").await.run().unwrap();
    let queued = call(world, "say").await.run().unwrap();
    let (second, gone) = replaced(&call(world, "draft").await);
    assert_eq!(gone, first);
    let live = world.live(second).await.unwrap();
    assert_eq!(live.phase, Phase::Ready, "it has the slot");
    let driven = world.lease_one().await;
    assert_eq!(driven.id, second);
    let third = call(world, "draft").await;
    assert_eq!(
        third.outcome(),
        "queued",
        "the second request has started, so the third must be queued"
    );
    world.complete(&driven).await;
    assert_eq!(world.drain().await, [queued, third.run().unwrap()]);
}

/// spec L21: the new run gets the slot of an unstarted holder although a run with a better rank is
/// queued. Here the holder had overtaken that run by the policy `restart`.
pub async fn the_slot_of_a_holder_that_passed_others_is_taken(world: &World) {
    let action = |name: &str, version: u32, policy: &str| {
        json!({ "flow": "chat", "name": name,
        "version": version, "concurrency": policy })
    };
    world.define(action("say", 1, "queue")).await;
    world.define(action("edit", 1, "restart")).await;
    call(world, "say").await;
    let first = world.lease_one().await;
    let queued = call(world, "say").await.run().unwrap();
    let (edit, gone) = replaced(&call(world, "edit").await);
    assert_eq!(gone, first.id);
    world.stopped(&first).await;
    world.define(action("edit", 2, "latest")).await;
    let (newer, gone) = replaced(&call(world, "edit").await);
    assert_eq!(gone, edit);
    assert_eq!(world.live(newer).await.unwrap().phase, Phase::Ready, "it has the slot");
    assert_eq!(world.drain().await, [newer, queued]);
    world.check_holds().await;
}

/// spec L21: a run that displaces several gets the best of their ranks, also if the first in the
/// queue has a worse one. Here the first has replaced the started holder.
pub async fn of_several_displaced_runs_the_best_rank_is_inherited(world: &World) {
    let policies = [(1, "queue"), (2, "restart"), (3, "latest")];
    let defined = policies.map(|(version, policy)| {
        json!({ "flow": "chat", "name": "say", "version": version, "concurrency": policy })
    });
    let [queue, restart, latest] = defined;
    world.define(queue).await;
    call(world, "say").await;
    let first = world.lease_one().await;
    world.pass(5);
    let queued = call(world, "say").await.run().unwrap();
    let best = world.live(queued).await.unwrap().rank;
    world.pass(5);
    world.define(restart).await;
    let (restarted, gone) = replaced(&call(world, "say").await);
    assert_eq!(gone, first.id);
    world.pass(5);
    world.define(latest).await;
    let (newest, gone) = replaced(&call(world, "say").await);
    assert_eq!(gone, restarted, "the first in the queue");
    assert_eq!(world.cancelled(queued).await, displaced(newest));
    assert_eq!(world.live(newest).await.unwrap().rank, best);
    world.stopped(&first).await;
    assert_eq!(world.drain().await, [newest]);
    world.check_holds().await;
}

/// spec L21, replace: a `restart` of another action replaces the started holder and leaves the
/// queue unchanged.
pub async fn a_restart_leaves_the_newest_in_the_queue(world: &World) {
    chat(world).await;
    call(world, "draft").await;
    let draft = world.lease_one().await;
    let waits = call(world, "draft").await.run().unwrap();
    let (edit, gone) = replaced(&call(world, "edit").await);
    assert_eq!(gone, draft.id);
    let (newer, gone) = replaced(&call(world, "draft").await);
    assert_eq!(gone, waits);
    world.stopped(&draft).await;
    assert_eq!(world.drain().await, [edit, newer]);
    world.check_holds().await;
}

/// spec L21: a reply that waits for its message is displaced by the reply to the next message.
pub async fn a_reply_that_waits_for_its_message_is_displaced(world: &World) {
    let actions = json!({ "append": {}, "respond": { "concurrency": "latest" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let say = async || {
        let call = |action| Box::new(request("chat", action, Some("s"), None, &json!({})));
        let (ws, first, then) = (world.ws.clone(), call("append"), call("respond"));
        match world.run(Command::DispatchThen { ws, first, then }).await {
            Ok(Answer::AdmittedBoth(append, Some(respond))) => (append.verdict, respond.verdict),
            other => panic!("{other:?}"),
        }
    };
    let (append, respond) = say().await;
    let (again, newer) = say().await;
    let (newer, gone) = replaced(&newer);
    assert_eq!(gone, respond.run().unwrap());
    let appends = [append.run().unwrap(), again.run().unwrap()];
    let mut done = world.drain().await;
    assert_eq!(done.split_off(2), [newer], "the newer reply must run after its own message");
    assert_eq!(done, appends, "both messages must have completed");
}

/// spec L21: a step that invoked a displaced run fails with `Displaced`.
pub async fn a_parent_is_told_that_its_child_was_displaced(world: &World) {
    world.define(json!({ "name": "parent" })).await;
    singleton(world).await;
    let parent = world.drive("parent", json!({})).await;
    world.suspend(&parent, vec![for_child("child", "build", &json!({ "doc": "a" }))]).await;
    let (new, _) = replaced(&build(world, 2).await);
    let error = world.step_of(parent.id, "child").await.unwrap().result.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("Displaced", "displaced"));
    let ready: Vec<RunId> = world.lease_all().await.iter().map(|run| run.id).collect();
    assert!(ready.contains(&new) && ready.contains(&parent.id), "{ready:?}");
}

/// spec L21, G8: a child is refused if its own ancestor holds the gate: it is not queued, and does
/// not displace the ancestor.
pub async fn a_child_is_refused_by_its_ancestor(world: &World) {
    singleton(world).await;
    let parent = world.drive("build", json!({ "doc": "a" })).await;
    world.suspend(&parent, vec![for_child("child", "build", &json!({ "doc": "a" }))]).await;
    let error = world.step_of(parent.id, "child").await.unwrap().result.unwrap_err();
    assert_eq!(error.code, "HeldByAncestor");
    assert_eq!(world.lease_one().await.id, parent.id);
}

/// spec L21, replace: a compensation is never displaced: the new run waits for it.
pub async fn a_compensation_is_not_displaced(world: &World) {
    singleton(world).await;
    let first = world.drive_with_undo("build", json!({ "doc": "a" })).await;
    world.fail(&first).await;
    let undo = world.undo_of(first.id).await;
    let second = build(world, 2).await;
    assert_eq!(second.outcome(), "queued");
    assert_eq!(world.lease_one().await.id, undo.id);
    let undo = world.live(undo.id).await.unwrap();
    world.complete(&undo).await;
    assert_eq!(world.drain().await, [second.run().unwrap()]);
}

/// spec L21: all runs that were queued under an earlier release are displaced together.
pub async fn all_unstarted_runs_of_an_earlier_release_are_displaced(world: &World) {
    let flow = |version: u32, policy: &str| json!({ "flow": "chat", "name": "draft", "version": version, "concurrency": policy });
    world.define(flow(1, "queue")).await;
    let first = call(world, "draft").await.run().unwrap();
    let driven = world.lease_one().await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(call(world, "draft").await.run().unwrap());
    }
    world.define(flow(2, "latest")).await;
    let (new, gone) = replaced(&call(world, "draft").await);
    assert_eq!(gone, waiting[0], "the new run must have the position of the oldest queued run");
    for old in waiting {
        assert_eq!(world.cancelled(old).await, displaced(new));
    }
    assert_eq!(driven.id, first);
    world.complete(&driven).await;
    assert_eq!(world.drain().await, [new]);
    world.check_holds().await;
}

/// spec L21, F1: the run of a window displaces the run of an earlier window that has not started;
/// the receipts of its events say so.
pub async fn a_window_displaces_the_run_of_an_earlier_one(world: &World) {
    let debounce = json!({ "periodMs": 100 });
    let singleton = json!({ "mode": "latest" });
    world.define(json!({ "name": "save", "debounce": debounce, "singleton": singleton })).await;
    let mut events = Vec::new();
    for n in 0..2 {
        events.push(world.post("save", json!({ "n": n })).await);
    }
    let old = events[0].runs[0].verdict.run().unwrap();
    world.tick(100).await;
    let new = world.send_for_run("save", json!({ "n": 2 })).await;
    world.tick(100).await;
    assert_eq!(world.cancelled(old).await, displaced(new));
    let outcomes = async |n: usize| -> Vec<Value> {
        let receipts = world.receipts_of(events[n].id).await.into_iter();
        receipts.map(|receipt| receipt["outcome"].clone()).collect()
    };
    assert_eq!(outcomes(0).await, ["coalesced"], "it names the run");
    assert_eq!(outcomes(1).await, ["coalesced", "displaced"]);
    assert_eq!(world.drain().await, [new]);
}

/// spec explained: `why` of a displaced run names the newer run.
pub async fn why_names_the_newer_run(world: &World) {
    singleton(world).await;
    let old = build(world, 1).await.run().unwrap();
    let (new, _) = replaced(&build(world, 2).await);
    let why = why(&*world.store, &world.ws, old).await.unwrap().unwrap();
    assert_eq!(why.state, "cancelled");
    let said = format!("it was cancelled: displaced, and {new} runs in its place");
    assert_eq!(why.sentence, said);
    assert_eq!(world.inside("build", Class::Singleton, "a").await, 1);
}
