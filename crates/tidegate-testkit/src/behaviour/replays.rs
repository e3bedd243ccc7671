//! Replays: a new run from an ended run, from its start or from one of its steps.

use serde_json::{Value, json};
use tidegate_core::{
    command::Refusal,
    flow::Verdict,
    id::{RunId, Seq},
    row::{Class, Purpose, Run},
    run::record::{Recorded, Then},
};

use crate::world::{World, payload, skipped, step};

/// Leases the ready run and records steps with these ids; the run continues.
async fn with_steps(world: &World, ids: &[&str]) -> Run {
    let run = world.lease_one().await;
    for id in ids {
        let recorded = world.report(&run, vec![step(id, &json!(id))], Then::Continue).await;
        assert_eq!(recorded, Ok(Recorded::GoOn));
    }
    run
}

/// Returns a run of `order` that recorded these steps and failed.
async fn failed_after(world: &World, ids: &[&str]) -> RunId {
    world.send("order", json!({ "id": 7 })).await;
    let run = with_steps(world, ids).await;
    world.fail(&run).await;
    run.id
}

/// spec N12, replay: a replay is a new run with the same input and its own effect keys; the old run
/// does not change.
pub async fn a_replay_is_a_new_run_of_the_same_input(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for end in ["completed", "failed", "cancelled"] {
        let old = world.send_for_run("order", json!({ "end": end })).await;
        let run = with_steps(world, &["a"]).await;
        match end {
            "completed" => world.complete(&run).await,
            "failed" => world.fail(&run).await,
            _ => {
                world.cancel(old).await.unwrap();
                world.stopped(&run).await;
            }
        }
        let new = world.replay(old).await;
        let run = world.lease_one().await;
        assert_eq!((run.id, run.replay_of, run.effects()), (new, Some(old), new), "{end}");
        assert_eq!(world.input_of(new).await, json!({ "end": end }));
        assert!(world.steps_in_order(new).await.is_empty(), "{end}");
        world.complete(&run).await;
        assert_eq!(world.ended(new).await.unwrap().replay_of, Some(old));
        assert_eq!(world.state(old).await, end);
    }
}

/// spec replay: a replay uses the released version.
pub async fn a_replay_is_of_the_current_version(world: &World) {
    world.define(json!({ "name": "order", "version": 1 })).await;
    let old = failed_after(world, &[]).await;
    world.define(json!({ "name": "order", "version": 2 })).await;
    let outcome = world.try_replay(old, None, None).await.unwrap();
    assert_eq!(outcome.version, 2);
    assert_eq!(world.lease_one().await.version, 2);
}

/// spec N12: a replay may have another input; the replay of an action is in the same session.
pub async fn a_replay_may_have_another_input(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let old = failed_after(world, &[]).await;
    let outcome = world.try_replay(old, Some(json!({ "id": 8 })), None).await.unwrap();
    assert_eq!(world.input_of(outcome.verdict.run().unwrap()).await, json!({ "id": 8 }));
    assert_eq!(world.input_of(old).await, json!({ "id": 7 }), "the input of the old run changed");
    world.drain().await;
    let actions = json!({ "respond": { "concurrency": "queue" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let old = world.call("chat", "respond", "s", json!(1)).await.run().unwrap();
    world.complete(&world.lease_one().await).await;
    let holder = world.call("chat", "respond", "s", json!(2)).await.run().unwrap();
    let outcome = world.try_replay(old, Some(json!([3])), None).await.unwrap();
    let new = outcome.verdict.run().unwrap();
    assert!(matches!(outcome.verdict, Verdict::Queued { .. }), "{outcome:?}");
    let expected = json!({ "session": "s", "user": null, "input": [3], "metadata": {} });
    assert_eq!(world.input_of(new).await, expected);
    assert_eq!(world.drain().await, [holder, new]);
}

/// spec N12: the replay of a batch has all its events; if another input is given, it has one.
pub async fn a_batch_is_replayed_whole(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000 });
    world.define(json!({ "name": "order", "batch": batch })).await;
    for n in 0..3 {
        world.send("order", json!(n)).await;
    }
    let mut run = world.lease_one().await;
    let all = vec![json!(0), json!(1), json!(2)];
    let first = run.id;
    for _ in 0..2 {
        world.fail(&run).await;
        let new = world.replay(run.id).await;
        run = world.lease_one().await;
        assert_eq!((run.id, run.batch()), (new, first));
        assert_eq!(world.inputs_of(run.batch()).await, Some(all.clone()));
        assert_eq!(run.source, world.ended(first).await.unwrap().source);
    }
    world.fail(&run).await;
    let outcome = world.try_replay(run.id, Some(json!(9)), None).await.unwrap();
    let new = outcome.verdict.run().unwrap();
    assert_eq!(world.input_of(new).await, json!(9));
    assert_eq!(world.inputs_of(new).await, None);
}

/// spec A5: a replay passes gates and throttle, and ignores idempotency, rate limit and folds.
pub async fn a_replay_passes_gates_and_throttle_only(world: &World) {
    let definition = json!({
        "name": "order",
        "idempotency": { "key": "id" },
        "rateLimit": { "limit": 1, "perMs": 1_000_000 },
        "debounce": { "periodMs": 100 },
        "concurrency": { "limit": 1 },
        "throttle": { "limit": 1, "perMs": 1000 },
    });
    world.define(definition).await;
    world.send("order", json!({ "id": 7 })).await;
    world.tick(100).await;
    let run = world.lease_one().await;
    world.fail(&run).await;
    let first = world.replay(run.id).await;
    let second = world.replay(run.id).await;
    assert_eq!(world.state(first).await, "queued", "no window opens");
    assert!(world.lease_all().await.is_empty(), "the replay started before its throttle turn");
    world.tick(1000).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, first);
    world.tick(1000).await;
    assert!(world.lease_all().await.is_empty(), "the slot is taken");
    world.complete(&run).await;
    assert_eq!(world.lease_one().await.id, second);
    world.check_holds().await;
}

/// spec A5, A2: a gate that refuses runs also refuses a replay, which then leaves only a receipt.
pub async fn a_replay_may_be_refused_by_a_gate(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "skip" } })).await;
    let old = failed_after(world, &["a", "b"]).await;
    let holder = world.send_for_run("order", json!({ "id": 8 })).await;
    for from in [None, Some("b")] {
        let outcome = world.try_replay(old, None, from).await.unwrap();
        assert_eq!(skipped(&outcome.verdict), (holder, "singleton"));
    }
    assert_eq!(world.alive("order").await, 1);
    world.drain().await;
    let new = world.replay(old).await;
    assert_eq!(world.lease_one().await.id, new);
}

/// spec N12, replay: a retry from a step keeps the recorded steps before it, in order. Its effect
/// keys are those of the first run, however often it is retried.
pub async fn a_retry_goes_on_from_a_step(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.send("order", json!({ "id": 7 })).await;
    let run = world.lease_one().await;
    let steps = ["z", "y", "pay", "x"].map(|id| step(id, &json!(id)));
    world.report(&run, steps.to_vec(), Then::Continue).await.unwrap();
    world.fail(&run).await;
    let second = world.retry(run.id, "pay").await;
    assert_eq!(
        world.steps_in_order(second).await,
        ["z", "y"],
        "steps of one report must keep their order"
    );
    let kept = world.step_of(second, "z").await.unwrap();
    assert_eq!(kept.result, Ok(payload(&json!("z"))));
    let again = with_steps(world, &["pay", "w"]).await;
    assert_eq!((again.id, again.effects()), (second, run.id));
    world.complete(&again).await;
    let third = world.retry(second, "w").await;
    assert_eq!(world.steps_in_order(third).await, ["z", "y", "pay"]);
    let again = world.lease_one().await;
    assert_eq!((again.replay_of, again.effects()), (Some(second), run.id), "the first of all");
    world.complete(&again).await;
    let fourth = world.replay(third).await;
    assert_eq!(world.lease_one().await.effects(), fourth, "a replay must have its own effect keys");
}

/// A retry uses the version that recorded the steps, because their ids belong to its code. It does
/// so even if a newer version supersedes other runs.
pub async fn a_retry_stays_in_its_version(world: &World) {
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    let version = |n: u32| json!({ "name": "order", "version": n, "handoff": handoff });
    world.define(version(1)).await;
    let old = failed_after(world, &["a", "b"]).await;
    world.define(version(2)).await;
    let holder = world.send_for_run("order", json!({})).await;
    let outcome = world.try_replay(old, None, Some("b")).await.unwrap();
    assert_eq!(outcome.version, 1);
    let retry = outcome.verdict.run().unwrap();
    assert_eq!(
        world.state(retry).await,
        "queued",
        "a retry of an older version replaced the holder"
    );
    let newer = world.send_for_run("order", json!({})).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, holder);
    world.complete(&run).await;
    let run = world.lease_one().await;
    assert_eq!((run.id, run.version), (retry, 1));
    world.complete(&run).await;
    let run = world.lease_one().await;
    assert_eq!((run.id, run.version), (newer, 2));
    world.check_holds().await;
}

/// spec versions: runs that got a newer version keep it when an older run is retried.
pub async fn a_retry_takes_nobody_back_to_its_version(world: &World) {
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    let version = |n: u32| json!({ "name": "order", "version": n, "handoff": handoff });
    world.define(version(1)).await;
    let old = failed_after(world, &["a", "b"]).await;
    let holder = world.drive("order", json!({})).await;
    let waiting = world.send_for_run("order", json!({})).await;
    world.define(version(2)).await;
    let newer = world.send_for_run("order", json!({})).await;
    let retry = world.retry(old, "b").await;
    world.stopped(&holder).await;
    for (id, version) in [(waiting, 2), (retry, 1), (newer, 2)] {
        let run = world.lease_one().await;
        assert_eq!((run.id, run.version), (id, version));
        world.complete(&run).await;
    }
}

/// spec N12: a replay of an unknown or live run, or from a step that was never recorded, is
/// refused, with a suggestion.
pub async fn what_cannot_be_replayed_is_said_so(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let old = failed_after(world, &["reserve", "charge"]).await;
    let unknown = RunId { seq: Seq(1), salt: 1 };
    let stranger = RunId { salt: old.salt ^ 1, ..old };
    for run in [unknown, stranger] {
        assert_eq!(world.try_replay(run, None, None).await, Err(Refusal::NoRun(run)));
    }
    let tenant = world.in_workspace("other");
    assert_eq!(tenant.try_replay(old, None, None).await, Err(Refusal::NoRun(old)));
    let refused = |step: &str, hint: &str| {
        Err(Refusal::NoStep { run: old, step: step.to_owned(), hint: hint.to_owned() })
    };
    let near = world.try_replay(old, None, Some("chrage")).await;
    assert_eq!(near, refused("chrage", "did you mean `charge`?"));
    let far = world.try_replay(old, None, Some("xyz")).await;
    assert_eq!(far, refused("xyz", "the last were `reserve`, `charge`"));
    let live = world.replay(old).await;
    for _ in 0..2 {
        assert_eq!(world.try_replay(live, None, None).await, Err(Refusal::NotEnded(live)));
        world.lease_all().await;
    }
    assert_eq!(tenant.try_replay(live, None, None).await, Err(Refusal::NoRun(live)));
    let bare = world.live(live).await.unwrap();
    world.complete(&bare).await;
    let none = world.try_replay(live, None, Some("a")).await;
    let hint = "it has recorded none, replay it from its start".to_owned();
    assert_eq!(none, Err(Refusal::NoStep { run: live, step: "a".into(), hint }));
}

/// A retry does not keep compensated steps. A completed run was not compensated: its registered
/// compensations are passed to the new run.
pub async fn what_was_undone_is_not_kept(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for fails in [true, false] {
        world.send("order", json!({})).await;
        let run = with_steps(world, &["look"]).await;
        world.register(&run, &["undo"]).await;
        let pay = vec![step("pay", &json!(1))];
        world.report(&run, pay, Then::Continue).await.unwrap();
        if !fails {
            world.complete(&run).await;
            let new = world.retry(run.id, "pay").await;
            let again = world.lease_one().await;
            assert_eq!((again.id, again.compensations), (new, 1));
            world.fail(&again).await;
            world.undo_of(new).await;
            return;
        }
        world.fail(&run).await;
        let (step, first) = ("pay".to_owned(), "undo".to_owned());
        let refused = Err(Refusal::Undone { run: run.id, step, first });
        assert_eq!(world.try_replay(run.id, None, Some("pay")).await, refused);
        let new = world.retry(run.id, "undo").await;
        assert_eq!(world.steps_in_order(new).await, ["look"]);
        world.drain().await;
    }
}

/// spec replace: a failed compensation can be retried. The retry compensates the same run and
/// passes no gates.
pub async fn an_undoing_can_be_tried_again(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "skip" } })).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.fail(&run).await;
    let undo = with_steps(world, &["a", "b"]).await;
    world.fail(&undo).await;
    let holder = world.send_for_run("order", json!({})).await;
    let fixed = world.try_replay(undo.id, Some(json!(1)), None).await;
    assert_eq!(fixed, Err(Refusal::InputFixed(undo.id)));
    let again = world.retry(undo.id, "b").await;
    let row = world.live(again).await.unwrap();
    assert_eq!((row.purpose, row.replay_of), (Purpose::Compensates(run.id), Some(undo.id)));
    assert_eq!((row.effects(), row.source), (undo.id, run.source));
    assert_eq!(world.steps_in_order(again).await, ["a"]);
    let ready: Vec<RunId> = world.lease_all().await.iter().map(|run| run.id).collect();
    assert_eq!(ready, [holder, again]);
    assert_eq!(world.inside("order", Class::Singleton, "(whole)").await, 1);
}

/// A run that was cancelled while driven has ended, but its replay starts only after its worker has
/// stopped.
pub async fn a_replay_of_a_stopping_run_waits_for_its_stop(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    let old = world.send_for_run("order", Value::Null).await;
    let run = world.lease_one().await;
    world.cancel(old).await.unwrap();
    let new = world.replay(old).await;
    assert!(world.lease_all().await.is_empty());
    world.stopped(&run).await;
    assert_eq!(world.lease_one().await.id, new);
    world.check_holds().await;
}
