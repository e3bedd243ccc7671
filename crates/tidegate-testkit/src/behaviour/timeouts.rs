//! Timeouts: a limit on the total time of a run, in whatever state it is at its end.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Refusal},
    id::RunId,
    row::{Class, Ending, Phase, Purpose},
    run::record::Then,
};

use crate::world::{World, payload};

fn timed(ms: u64) -> Value {
    json!({ "name": "order", "timeoutMs": ms, "concurrency": { "limit": 1 } })
}

/// Returns the error of a failed run.
async fn fault(world: &World, run: RunId) -> String {
    match world.ended(run).await.map(|ended| ended.ending) {
        Some(Ending::Failed { error }) => error.code,
        other => panic!("{run} did not fail: {other:?}"),
    }
}

/// spec N20, timeouts: from its first start on a run has `timeoutMs`, whatever its state. Then it
/// fails, and the next run in the queue gets its slot.
pub async fn wherever_a_run_is_its_time_is_over(world: &World) {
    world.define(timed(1000)).await;
    for place in ["sleeping", "waiting", "in line", "ready", "paused"] {
        let first = world.send_for_run("order", json!({})).await;
        let run = world.lease_one().await;
        match place {
            "sleeping" => world.sleep(&run, "nap", 5000).await,
            "waiting" | "paused" => world.wait_for(&run, "wait", "go", &[]).await,
            _ => world.sleep(&run, "nap", 500).await,
        }
        let second = world.send_for_run("order", json!({})).await;
        world.tick(10).await;
        let driven = if place == "in line" { Some(world.lease_one().await) } else { None };
        if place != "in line" {
            world.cancel(second).await.unwrap();
        }
        if place == "paused" {
            world.pause(first).await.unwrap();
        }
        world.tick(989).await;
        assert!(world.live(first).await.is_some(), "{place}");
        let queued = if ["in line", "ready"].contains(&place) { "queued" } else { "waiting" };
        let expected = if place == "paused" { "paused" } else { queued };
        assert_eq!(world.state(first).await, expected, "{place}");
        world.tick(1).await;
        assert_eq!(fault(world, first).await, "TimedOut", "{place}");
        if let Some(driven) = driven {
            world.complete(&driven).await;
        }
        world.tick(10_000).await;
        assert_eq!(world.alive("order").await, 0, "{place}");
        assert_eq!(world.inside("order", Class::Whole, "(whole)").await, 0, "{place}");
        world.check_holds().await;
    }
}

/// spec timeouts, G7: a driven run that times out fails at once and can write nothing more; its
/// slot is freed when its worker has stopped.
pub async fn a_driven_run_is_stopped_when_its_time_is_over(world: &World) {
    let mut definition = timed(1000);
    definition["onFailure"] = json!(true);
    world.define(definition).await;
    let id = world.send_for_run("order", json!({})).await;
    let next = world.send_for_run("order", json!({})).await;
    let run = world.lease_one().await;
    world.register(&run, &["undo"]).await;
    world.tick(999).await;
    assert_eq!(world.state(id).await, "running");
    world.tick(1).await;
    assert_eq!(fault(world, id).await, "TimedOut");
    let late = world.report(&run, Vec::new(), Then::Complete(payload(&json!(1)))).await;
    assert!(matches!(late, Err(Refusal::Fenced { .. })), "{late:?}");
    let ended = Err(Refusal::Ended { run: id, state: "failed" });
    assert_eq!(world.cancel(id).await, ended);
    assert!(world.lease_all().await.is_empty(), "the slot was freed before the worker stopped");
    world.tick(100_000).await;
    world.stopped(&run).await;
    world.undo_of(id).await;
    assert_eq!(world.live_for(Purpose::OnFailure(id)).await.len(), 1, "it failed");
    let ready = world.lease_all().await;
    assert!(ready.iter().any(|run| run.id == next));
    assert_eq!(ready.len(), 3);
    world.check_holds().await;
}

/// spec timeouts: the wait for the first start does not count, but sleeping does. A wait that ends
/// before the timeout wakes the run.
pub async fn the_time_counts_from_the_first_start(world: &World) {
    world.define(timed(1000)).await;
    let first = world.drive("order", json!({})).await;
    let second = world.send_for_run("order", json!({})).await;
    world.tick(900).await;
    world.complete(&first).await;
    world.tick(900).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, second);
    let deadline = world.now().plus_ms(1000);
    assert_eq!(run.deadline, Some(deadline));
    world.sleep(&run, "nap", 400).await;
    assert_eq!(world.live(second).await.unwrap().due(), Some(world.now().plus_ms(400)));
    world.tick(400).await;
    let run = world.lease_one().await;
    assert_eq!(
        (run.fence, run.deadline),
        (2, Some(deadline)),
        "waking must not restart the timeout"
    );
    world.sleep(&run, "again", 5000).await;
    assert_eq!(world.live(second).await.unwrap().due(), Some(deadline));
    world.tick(599).await;
    assert_eq!(world.state(second).await, "waiting");
    world.tick(1).await;
    assert_eq!(fault(world, second).await, "TimedOut");
}

/// spec versions: the timeout is that of the run's version and is fixed at its start; a later
/// release does not change it.
pub async fn a_run_has_the_time_of_its_version(world: &World) {
    let version = |n: u32, ms: Option<u64>| match ms {
        Some(ms) => json!({ "name": "order", "version": n, "timeoutMs": ms }),
        None => json!({ "name": "order", "version": n }),
    };
    world.define(version(1, Some(1000))).await;
    let one = world.send_for_run("order", json!({})).await;
    world.define(version(2, None)).await;
    let two = world.send_for_run("order", json!({})).await;
    for run in world.lease_all().await {
        world.sleep(&run, "nap", 5000).await;
    }
    world.tick(1000).await;
    assert_eq!(fault(world, one).await, "TimedOut");
    assert_eq!(world.state(two).await, "waiting");
}

/// spec timeouts: a parent that waits for a child gets the timeout of the child as an error.
pub async fn a_parent_is_told_of_a_time_out(world: &World) {
    world.define(json!({ "name": "parent" })).await;
    world.define(timed(1000)).await;
    let parent = world.send_for_run("parent", json!({})).await;
    world.invoke(&world.lease_one().await, "child", "order", json!({})).await;
    let child = world.lease_one().await;
    world.sleep(&child, "nap", 5000).await;
    world.tick(1000).await;
    let answer = world.step_of(parent, "child").await.unwrap().result;
    assert_eq!(answer.unwrap_err().code, "TimedOut");
    assert_eq!(world.lease_one().await.id, parent);
}

/// Compensations and failure handlers have no timeout.
pub async fn what_follows_a_run_is_not_timed(world: &World) {
    let mut definition = timed(1000);
    definition["onFailure"] = json!(true);
    world.define(definition).await;
    let run = world.drive_with_undo("order", json!({})).await;
    world.fail(&run).await;
    let followers = world.lease_all().await;
    assert_eq!(followers.len(), 2);
    for follower in &followers {
        assert_eq!(follower.deadline, None);
        world.sleep(follower, "nap", 100_000).await;
    }
    world.tick(100_000).await;
    assert_eq!(world.drain().await.len(), 2);
}

/// `maxWaitMs` and `timeoutMs` do not affect each other.
pub async fn a_queued_request_gives_up_at_its_own_time(world: &World) {
    let respond =
        json!({ "concurrency": { "policy": "queue", "maxWaitMs": 300 }, "timeoutMs": 1000 });
    world.define_flow(json!({ "name": "chat", "actions": { "respond": respond } })).await;
    let first = world.call_for_run("chat", "respond", "s").await;
    let run = world.lease_one().await;
    let second = world.call_for_run("chat", "respond", "s").await;
    world.tick(300).await;
    assert_eq!(world.state(second).await, "cancelled");
    world.sleep(&run, "nap", 5000).await;
    world.tick(699).await;
    assert_eq!(
        world.live(first).await.unwrap().phase,
        Phase::Waiting,
        "`maxWaitMs` ended a run that holds its session"
    );
    world.tick(1).await;
    assert_eq!(fault(world, first).await, "TimedOut");
    assert!(matches!(world.resume(first).await, Err(Refusal::Ended { .. })));
    assert_ne!(world.pause(first).await, Ok(Answer::Done));
}

/// spec policies: `maxWaitMs` is the time in the queue of the session: it does not end a run that
/// holds the session and is queued for a slot.
pub async fn who_has_its_session_does_not_give_up(world: &World) {
    let limits = json!([{ "policy": "queue", "maxWaitMs": 300 }, { "limit": 1 }]);
    let actions = json!({ "respond": { "concurrency": limits } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let first = world.call_for_run("chat", "respond", "a").await;
    let second = world.call_for_run("chat", "respond", "b").await;
    let run = world.lease_one().await;
    assert_eq!(run.id, first);
    world.tick(300).await;
    assert_eq!(world.state(second).await, "queued");
    world.complete(&run).await;
    assert_eq!(world.lease_one().await.id, second);
}
