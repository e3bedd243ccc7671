//! Children: what happens to them when their parent is cancelled, fails or completes before them.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Refusal},
    row::{Run, WaitOn},
    run::{
        end::GENERATIONS_AT_ONCE,
        record::{NewWait, Then, Until},
    },
};

use crate::{
    worker::{for_child, for_event, for_signal},
    world::{World, payload, replaced},
};

/// States in which a child can be when its parent is cancelled.
const PLACES: [&str; 6] = ["line", "ready", "driven", "sleeping", "waiting", "paused"];

/// Returns the child that a parent waits for under this step.
async fn child_of(world: &World, parent: &Run, step: &str) -> Run {
    let live = world.live(parent.id).await.expect("the parent lives");
    let wait = live.waits.iter().find(|wait| wait.step == step).expect("it waits");
    let WaitOn::Child { run } = &wait.on else { panic!("it waits for {:?}", wait.on) };
    world.live(*run).await.expect("the child lives")
}

/// Brings a parent and its child into that state of the child. Returns both, and the run that
/// blocks the child, if any.
async fn family(world: &World, place: &str) -> (Run, Run, Option<Run>) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "part", "concurrency": { "limit": 1 } })).await;
    let in_the_way = match place {
        "line" => Some(world.drive("part", json!({})).await),
        _ => None,
    };
    let parent = world.drive("order", json!({})).await;
    world.suspend(&parent, vec![for_child("part", "part", &json!({}))]).await;
    let child = child_of(world, &parent, "part").await;
    if ["driven", "sleeping", "waiting"].contains(&place) {
        let driven = world.lease_one().await;
        match place {
            "sleeping" => world.sleep(&driven, "nap", 1000).await,
            "waiting" => world.suspend(&driven, vec![for_event("paid", "payment")]).await,
            _ => {}
        }
    } else if place == "paused" {
        assert_eq!(world.pause(child.id).await, Ok(Answer::Done));
    }
    let child = world.live(child.id).await.expect("the child lives");
    (parent, child, in_the_way)
}

/// spec N19: cancelling a parent cancels the child that it waits for, in any state of the child and
/// in the same transaction. Both runs record the reason, and no row of them remains.
pub async fn a_cancelled_parent_takes_its_children_along(world: &World) {
    for place in PLACES {
        let world = world.in_workspace(place);
        let (parent, child, in_the_way) = family(&world, place).await;
        assert_eq!(world.cancel(parent.id).await, Ok(Answer::Done), "{place}");
        assert_eq!(world.cancelled(parent.id).await, ("by hand".to_owned(), None));
        let reason = format!("parent {} was cancelled", parent.id);
        assert_eq!(world.cancelled(child.id).await, (reason, None), "{place}");
        assert_eq!(
            world.came_of(parent.id, "part").await,
            None,
            "the cancelled parent got an answer from its child"
        );
        assert_eq!(world.post("payment", json!({})).await.woke, 0, "{place}");
        if place == "driven" {
            let fenced = Err(Refusal::Fenced { run: child.id.seq, fence: child.fence });
            assert_eq!(world.record(&child, "late", json!(1)).await, fenced);
            world.start("part", json!({})).await;
            assert!(
                world.lease_all().await.is_empty(),
                "the slot was freed before the worker of the child stopped"
            );
            world.stopped(&child).await;
            assert_eq!(world.drain().await.len(), 1, "its slot is free");
        }
        if let Some(other) = in_the_way {
            world.complete(&other).await;
        }
        world.tick(5000).await;
        assert!(world.lease_all().await.is_empty(), "{place}");
        world.check_quiet().await;
    }
}

/// spec N19: a parent that is replaced or superseded is cancelled, and its children with it.
pub async fn whoever_replaces_a_parent_ends_its_children_too(world: &World) {
    world.define(json!({ "name": "part" })).await;
    let handoff = json!({ "type": "singleton", "onNewVersion": "supersede" });
    let versioned = |version| json!({ "name": "next", "version": version, "handoff": handoff });
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    world.define(versioned(1)).await;
    for name in ["order", "next"] {
        let parent = world.drive(name, json!({})).await;
        world.suspend(&parent, vec![for_child("part", "part", &json!({}))]).await;
        let child = world.lease_one().await;
        if name == "next" {
            world.define(versioned(2)).await;
        }
        let (new, old) = replaced(&world.send(name, json!({})).await);
        assert_eq!(old, parent.id);
        let reason = format!("parent {} was cancelled", parent.id);
        assert_eq!(world.cancelled(child.id).await, (reason, None), "{name}");
        world.stopped(&child).await;
        assert_eq!(
            world.drain().await,
            [new],
            "the new run waited for the child of the run that it replaced"
        );
        world.check_quiet().await;
    }
}

/// spec N19: the children of a run that timed out are cancelled.
pub async fn a_parent_that_took_too_long_takes_its_children_along(world: &World) {
    world.define(json!({ "name": "order", "timeoutMs": 1000 })).await;
    world.define(json!({ "name": "part" })).await;
    let parent = world.drive("order", json!({})).await;
    world.suspend(&parent, vec![for_child("part", "part", &json!({}))]).await;
    let child = child_of(world, &parent, "part").await;
    world.tick(1000).await;
    assert_eq!(world.state(parent.id).await, "failed");
    let reason = format!("parent {} took too long", parent.id);
    assert_eq!(world.cancelled(child.id).await, (reason, None));
    world.check_quiet().await;
}

/// spec N19: a child continues if its parent completes, fails or stops waiting for it; the end of
/// such a child wakes no run.
pub async fn a_child_that_nobody_waits_for_goes_on(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for end in ["completed", "failed", "timed out"] {
        let parent = world.drive("order", json!({})).await;
        let until = Some(Until::In(100));
        let wait = NewWait { until, ..for_child("part", "order", &json!({})) };
        world.suspend(&parent, vec![wait, for_signal("go", "go")]).await;
        let child = world.lease_one().await;
        match end {
            "timed out" => world.tick(100).await,
            _ => world.signal(parent.id, "go", json!({})).await.map(drop).expect("it waits"),
        }
        let parent = world.lease_one().await;
        let then = match end {
            "completed" => Then::Complete(payload(&json!("without it"))),
            "failed" => Then::Fail(tidegate_core::row::RunError::new("Boom", "boom")),
            _ => Then::Continue,
        };
        world.report(&parent, Vec::new(), then).await.expect("the lease is good");
        if end == "timed out" {
            assert_eq!(world.cancel(parent.id).await, Ok(Answer::Done));
            world.stopped(&parent).await;
        }
        assert_eq!(world.state(child.id).await, "running", "{end}");
        world.complete(&child).await;
        world.check_quiet().await;
    }
}

/// spec N19, G4: the transaction that cancels a child with its parent also hands on the child's
/// slots.
pub async fn what_a_cancelled_child_held_goes_to_the_next(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    world.define(json!({ "name": "part", "concurrency": { "limit": 1, "span": "run" } })).await;
    let parent = world.drive("order", json!({})).await;
    world.suspend(&parent, vec![for_child("part", "part", &json!({}))]).await;
    let child = world.lease_one().await;
    world.sleep(&child, "nap", 1000).await;
    let next = world.start("part", json!({})).await;
    assert!(world.lease_all().await.is_empty());
    let (new, _) = replaced(&world.send("order", json!({})).await);
    let leased = world.lease_all().await;
    assert_eq!(leased.iter().map(|run| run.id).collect::<Vec<_>>(), [next, new]);
    for run in &leased {
        world.complete(run).await;
    }
    world.check_quiet().await;
}

/// spec N19: descendants are cancelled at any depth and in any number.
pub async fn a_line_of_descendants_is_cancelled_together(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 100, "key": "n" } })).await;
    let first = world.drive("order", json!({ "n": 0 })).await;
    let mut parent = first.clone();
    let mut line = Vec::new();
    // More generations than are cancelled in one transaction.
    for n in 1..=2 * GENERATIONS_AT_ONCE + 1 {
        let two = ["a", "b"].map(|step| for_child(step, "order", &json!({ "n": n, "is": step })));
        world.suspend(&parent, two.to_vec()).await;
        line.extend(world.lease_all().await);
        parent = line.last().expect("two children").clone();
    }
    assert_eq!(world.alive("order").await, line.len() + 1);
    assert_eq!(world.cancel(first.id).await, Ok(Answer::Done));
    world.sweep().await;
    assert_eq!(world.alive("order").await, 0);
    for child in &line {
        let (reason, by) = world.cancelled(child.id).await;
        assert!(reason.starts_with("parent run_") && by.is_none(), "{reason}");
        world.stopped(child).await;
    }
    world.check_quiet().await;
}
