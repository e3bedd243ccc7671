//! Versions: the effect of a release on new runs, and of a newer version's first run on older runs.

use serde_json::{Value, json};
use tidegate_core::{definition::Definition, flow::Verdict, version::Registered};

use crate::{
    worker::{for_child, for_event},
    world::World,
};

/// Registers a version of `order` with these controls.
async fn order(world: &World, version: u32, controls: Value) -> Registered {
    world.define(definition(version, controls)).await
}

fn definition(version: u32, controls: Value) -> Value {
    let mut definition = json!({ "name": "order", "version": version });
    let Value::Object(controls) = controls else { panic!("controls are an object") };
    definition.as_object_mut().expect("an object").extend(controls);
    definition
}

fn singleton(policy: &str) -> Value {
    json!({ "handoff": { "type": "singleton", "onNewVersion": policy } })
}

fn keyed(policy: &str) -> Value {
    json!({ "handoff": { "type": "keyed", "keyField": "user.id", "onNewVersion": policy } })
}

fn user(id: u32) -> Value {
    json!({ "user": { "id": id } })
}

fn is_queued_at_handoff(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Queued { by, .. } if by.control == "handoff")
}

/// spec B141, B142, B143, A4: an incomplete handoff is refused.
pub async fn an_incomplete_handoff_is_refused(world: &World) {
    let table = [
        (json!({ "type": "singleton" }), "onNewVersion"),
        (json!({ "onNewVersion": "drain" }), "type"),
        (json!({ "type": "keyed", "onNewVersion": "drain" }), "keyField"),
        (json!({ "type": "keyd", "keyField": "a", "onNewVersion": "drain" }), "keyed"),
        (json!({ "type": "singleton", "onNewVersion": "drian" }), "drain"),
        (json!({ "type": "singleton", "keyField": "a", "onNewVersion": "drain" }), "keyField"),
        (json!({ "type": "singleton", "onNewVersion": "drain", "onOld": 1 }), "onOld"),
    ];
    for (handoff, named) in table {
        for spelling in ["handoff", "concurrency"] {
            if spelling == "concurrency" && handoff.get("type").is_none() {
                continue; // without its type it reads as a limit
            }
            let definition = json!({ "name": "order", (spelling): handoff });
            let errors = Definition::parse(&definition).expect_err("it is refused").to_string();
            assert!(errors.contains(named), "{definition}: {errors}");
        }
    }
    let good = json!({ "type": "keyed", "keyField": "user.id", "onNewVersion": "drain" });
    let first = world.define(json!({ "name": "order", "handoff": good })).await;
    let second = world.define(json!({ "name": "order", "concurrency": good })).await;
    assert_eq!(
        (first.version, second.unchanged),
        (1, true),
        "`concurrency` and `handoff` with the same value must be equal"
    );
}

/// spec B145, B149, B159, N45: with a handoff of type `singleton`, a second run of the same version
/// is queued until the first ends, and its verdict says so. The handoff does not limit the steps of
/// the first run.
pub async fn within_one_version_a_second_run_waits(world: &World) {
    for (policy, n) in [("supersede", 1), ("drain", 2), ("coexist", 3)] {
        let world = world.in_workspace(policy);
        order(&world, n, singleton(policy)).await;
        let first = world.drive("order", json!({})).await;
        let second = world.send("order", json!({})).await;
        assert!(is_queued_at_handoff(&second), "{policy}: {second:?}");
        assert!(world.lease_all().await.is_empty());
        for step in ["one", "two", "three"] {
            world.record(&first, step, json!(1)).await.expect("the lease is good");
        }
        // While the first run sleeps, it is still the one active run (spec N48).
        world.suspend(&first, vec![world.nap("nap", 10), for_event("paid", "payment")]).await;
        assert!(world.lease_all().await.is_empty());
        world.tick(10).await;
        let first = world.lease_one().await;
        world.complete(&first).await;
        assert_eq!(world.drain().await, Vec::from_iter(second.run()));
        world.check_quiet().await;
    }
}

/// spec B146: a handoff applies to one workflow of one workspace.
pub async fn a_handoff_is_of_one_workflow_and_workspace(world: &World) {
    let other = world.in_workspace("b");
    for world in [world, &other] {
        order(world, 1, singleton("supersede")).await;
        let definition = json!({ "name": "other", "version": 1 });
        world.define(definition).await;
    }
    let run = world.drive("order", json!({})).await;
    let elsewhere = other.drive("order", json!({})).await;
    let beside = world.drive("other", json!({})).await;
    order(world, 2, singleton("supersede")).await;
    world.send("order", json!({})).await;
    assert_eq!(world.state(run.id).await, "cancelled");
    assert_eq!(world.state(elsewhere.id).await, "running");
    assert_eq!(world.state(beside.id).await, "running");
    assert!(is_queued_at_handoff(&other.send("order", json!({})).await));
}

/// spec B144, B147, N46: with `keyed`, each value of the path has its own active run.
pub async fn keyed_runs_are_one_per_value(world: &World) {
    order(world, 1, keyed("drain")).await;
    let first = world.send("order", user(1)).await;
    let second = world.send("order", user(2)).await;
    let third = world.send("order", user(1)).await;
    assert!(matches!((&first, &second), (Verdict::Started { .. }, Verdict::Started { .. })));
    assert!(is_queued_at_handoff(&third), "{third:?}");
    assert_eq!(
        world.lease_all().await.len(),
        2,
        "runs with different values must run at the same time"
    );
}

/// spec B148, B161: an input without the key is refused with the reason, however it arrives; only
/// its event is stored.
pub async fn an_input_without_the_key_is_refused(world: &World) {
    order(world, 1, keyed("drain")).await;
    for data in [json!({}), json!({ "user": { "id": null } }), json!({ "user": { "id": [] } })] {
        let verdict = world.send("order", data).await;
        assert!(matches!(verdict, Verdict::Rejected { control: "handoff", .. }), "{verdict:?}");
        assert_eq!(verdict.outcome(), "rejected");
    }
    let parent = world.drive("order", user(1)).await;
    world.suspend(&parent, vec![for_child("child", "order", &json!({}))]).await;
    let fault = world.came_of(parent.id, "child").await.expect("answered").expect_err("refused");
    assert!(fault.message.contains("user.id"), "{}", fault.message);
    world.drain().await;
    world.check_quiet().await;
}

/// spec B150, B151, G7: the first run of a newer version cancels older runs, with the reason, and
/// starts at once. If the older run is driven, it starts when that worker has stopped.
pub async fn supersede_cancels_older_runs(world: &World) {
    for (n, place) in ["driven", "asleep", "paused", "event"].into_iter().enumerate() {
        let version = 2 * u32::try_from(n).expect("a small number") + 1;
        order(world, version, singleton("supersede")).await;
        let old = world.drive("order", json!({})).await;
        match place {
            "asleep" => world.sleep(&old, "nap", 1000).await,
            "event" => world.suspend(&old, vec![for_event("paid", "payment")]).await,
            "paused" => {
                world.pause(old.id).await.expect("it lives");
                world.record(&old, "pay", json!(1)).await.expect("the lease is good");
            }
            _ => {}
        }
        let released = order(world, version + 1, singleton("supersede")).await.released;
        assert_eq!(released.map(|released| released.older), Some(1));
        assert_ne!(world.state(old.id).await, "cancelled", "a release alone changed a run");
        let new = world.send("order", json!({})).await;
        let run = new.run().expect("a run");
        let expected = matches!(&new, Verdict::Replaced { replaced, by, .. }
            if *replaced == old.id && by.control == "handoff");
        assert!(expected, "{place}: {new:?}");
        let reason = format!("superseded by version {}", version + 1);
        assert_eq!(world.cancelled(old.id).await, (reason, Some(run)));
        if place == "driven" {
            assert!(
                world.lease_all().await.is_empty(),
                "the new run started before the worker of the old one stopped"
            );
            world.stopped(&old).await;
        }
        let started = world.lease_one().await;
        assert_eq!((started.id, started.version), (run, version + 1), "{place}");
        assert_eq!(
            started.replaced,
            Some(old.id),
            "the new run must have the id of the run that it superseded"
        );
        // spec B152: runs of the same version are queued, not cancelled.
        let second = world.send("order", json!({})).await;
        assert!(is_queued_at_handoff(&second), "{second:?}");
        assert_eq!(world.state(run).await, "running");
        world.complete(&started).await;
        assert_eq!(world.drain().await, Vec::from_iter(second.run()));
        world.check_quiet().await;
    }
}

/// spec versions: `supersede` gives older runs that have not started the new version, and they keep
/// their positions: the holder of the gate and all queued runs, even if the older version had the
/// policy `drain`.
pub async fn supersede_moves_unstarted_runs_in_their_places(world: &World) {
    for older in ["supersede", "drain"] {
        for first_is_driven in [true, false] {
            let world = world.in_workspace(&format!("{older}-{first_is_driven}"));
            order(&world, 1, singleton(older)).await;
            let mut sent = Vec::new();
            for n in 0..3 {
                sent.push(world.start("order", json!({ "n": n })).await);
            }
            let driven = if first_is_driven { Some(world.lease_one().await) } else { None };
            order(&world, 2, singleton("supersede")).await;
            sent.push(world.start("order", json!({ "n": 3 })).await);
            if let Some(driven) = driven {
                assert_eq!(world.state(sent.remove(0)).await, "cancelled");
                world.stopped(&driven).await;
            }
            for expected in sent {
                let run = world.lease_one().await;
                assert_eq!((run.id, run.version), (expected, 2), "after {older}");
                world.complete(&run).await;
            }
            world.check_quiet().await;
        }
    }
}

/// spec versions: `supersede` gives a paused run that has not started the new version, too, whether
/// it holds the gate or is queued.
pub async fn supersede_moves_a_paused_run_that_has_not_started(world: &World) {
    order(world, 1, singleton("supersede")).await;
    let holding = world.start("order", json!({})).await;
    let in_line = world.start("order", json!({})).await;
    for run in [holding, in_line] {
        world.pause(run).await.expect("it lives");
    }
    order(world, 2, singleton("supersede")).await;
    let new = world.start("order", json!({})).await;
    world.resume(holding).await.expect("it lives");
    assert_eq!(world.lease_one().await.version, 2);
    world.cancel(holding).await.expect("it lives");
    world.stopped(&world.live(holding).await.expect("stopping")).await;
    assert_eq!(world.drain().await, [], "the paused run must be served before the new one");
    world.resume(in_line).await.expect("it lives");
    let moved = world.lease_one().await;
    assert_eq!((moved.id, moved.version), (in_line, 2));
    world.complete(&moved).await;
    assert_eq!(world.drain().await, [new]);
}

/// spec B153, B154, N48: with `drain` older runs end first, whatever they wait for; then the queued
/// run starts.
pub async fn drain_lets_older_runs_finish(world: &World) {
    order(world, 1, singleton("drain")).await;
    let old = world.drive("order", json!({})).await;
    order(world, 2, singleton("drain")).await;
    let new = world.send("order", json!({})).await;
    assert!(is_queued_at_handoff(&new), "{new:?}");
    world.suspend(&old, vec![for_event("paid", "payment")]).await;
    world.tick(100_000).await;
    assert!(world.lease_all().await.is_empty(), "the new run started while an older one waits");
    world.cancel(old.id).await.expect("it lives");
    let run = world.lease_one().await;
    assert_eq!(
        (Some(run.id), run.version),
        (new.run(), 2),
        "the new run must start when the older one is cancelled"
    );
    world.complete(&run).await;
    world.check_quiet().await;
}

/// spec B153, P1: with `drain`, older queued runs start first and keep their version, whatever the
/// priority of the newer version.
pub async fn drain_keeps_the_order_of_versions(world: &World) {
    order(world, 1, singleton("drain")).await;
    let mut sent = Vec::new();
    for n in 0..3 {
        sent.push((world.start("order", json!({ "n": n })).await, 1));
        world.pass(10);
    }
    let mut controls = singleton("drain");
    controls["priority"] = json!({ "shiftMs": 1_000_000 });
    order(world, 2, controls.clone()).await;
    sent.push((world.start("order", json!({ "n": 3 })).await, 2));
    controls["priority"] = json!({ "shiftMs": 2_000_000 });
    order(world, 3, controls).await;
    sent.push((world.start("order", json!({ "n": 4 })).await, 3));
    for (expected, version) in sent {
        let run = world.lease_one().await;
        assert_eq!((run.id, run.version), (expected, version));
        world.complete(&run).await;
    }
    world.check_quiet().await;
}

/// spec B155: with `keyed`, the handoff is per key: a run whose key has no older run starts at
/// once.
pub async fn a_handover_is_per_key(world: &World) {
    for policy in ["drain", "supersede"] {
        let world = world.in_workspace(policy);
        order(&world, 1, keyed(policy)).await;
        let old = world.drive("order", user(1)).await;
        let apart = world.drive("order", user(2)).await;
        order(&world, 2, keyed(policy)).await;
        let free = world.drive("order", user(3)).await;
        assert_eq!(free.version, 2, "a run was delayed by an older run of another key");
        let same = world.send("order", user(1)).await;
        assert!(world.lease_all().await.is_empty());
        if policy == "drain" {
            assert!(is_queued_at_handoff(&same), "{same:?}");
            world.complete(&old).await;
        } else {
            world.stopped(&old).await;
        }
        assert_eq!(world.lease_one().await.id, same.run().expect("a run"));
        assert_eq!(world.state(apart.id).await, "running", "the run of another key was changed");
    }
}

/// spec B156, B160: with `coexist` each version has its own active run, and each run shows its
/// version.
pub async fn coexisting_versions_are_counted_apart(world: &World) {
    order(world, 1, singleton("coexist")).await;
    let old = world.drive("order", json!({})).await;
    order(world, 2, singleton("coexist")).await;
    let new = world.drive("order", json!({})).await;
    assert_eq!((old.version, new.version), (1, 2));
    let second = world.send("order", json!({})).await;
    assert!(is_queued_at_handoff(&second), "{second:?}");
    world.complete(&old).await;
    assert!(
        world.lease_all().await.is_empty(),
        "the run must wait for the active run of its own version"
    );
    world.complete(&new).await;
    assert_eq!(world.drain().await, Vec::from_iter(second.run()));
    world.check_quiet().await;
}

/// spec B157, B158: a release alone does not change runs, and a started run keeps its version until
/// its end.
pub async fn a_release_by_itself_changes_nothing(world: &World) {
    for policy in ["supersede", "drain", "coexist"] {
        let world = world.in_workspace(policy);
        order(&world, 1, singleton(policy)).await;
        let run = world.drive("order", json!({})).await;
        let waits = world.start("order", json!({})).await;
        order(&world, 2, singleton(policy)).await;
        world.sweep().await;
        world.record(&run, "pay", json!(1)).await.expect("the lease is good");
        world.sleep(&run, "nap", 5).await;
        world.tick(5).await;
        let run = world.lease_one().await;
        assert_eq!(run.version, 1, "the started run changed its version");
        world.complete(&run).await;
        let waits = (world.lease_one().await, waits);
        assert_eq!(
            (waits.0.id, waits.0.version),
            (waits.1, 1),
            "the queued run changed its version without a run of version 2"
        );
        world.complete(&waits.0).await;
        world.check_quiet().await;
    }
}

/// spec B161: events, schedules, calls of parents and requests all obey the handoff.
pub async fn every_way_in_meets_the_handoff(world: &World) {
    order(world, 1, singleton("drain")).await;
    world.define(json!({ "name": "parent" })).await;
    let old = world.drive("order", json!({})).await;
    let mut scheduled = singleton("drain");
    scheduled["triggers"] = json!(["order", { "cron": "@daily", "onOverlap": "allow" }]);
    order(world, 2, scheduled).await;
    let parent = world.drive("parent", json!({})).await;
    let posted = world.send("order", json!({})).await;
    let planned = world.occur("order", "@daily").await;
    for verdict in [&posted, &planned] {
        assert!(is_queued_at_handoff(verdict), "{verdict:?}");
    }
    world.suspend(&parent, vec![for_child("child", "order", &json!({}))]).await;
    assert!(world.lease_all().await.is_empty());
    assert_eq!(world.alive("order").await, 4);
    world.complete(&old).await;
    let done = world.drain().await;
    assert_eq!(done.len(), 4, "expected three runs one after another, then the parent");
    assert_eq!((done.first().copied(), done.last()), (posted.run(), Some(&parent.id)));

    let action = |version: u32| {
        json!({
            "name": "chat",
            "actions": { "say": {
                "version": version, "handoff": { "type": "singleton", "onNewVersion": "supersede" },
            } },
        })
    };
    world.define_flow(action(1)).await;
    world.call("chat", "say", "s", json!({})).await;
    let old = world.lease_one().await;
    world.define_flow(action(2)).await;
    let new = world.call("chat", "say", "t", json!({})).await;
    assert!(matches!(new, Verdict::Replaced { replaced, .. } if replaced == old.id), "{new:?}");
    world.stopped(&old).await;
    assert_eq!(world.drain().await, Vec::from_iter(new.run()));
    world.check_quiet().await;
}
