//! Versions: the effect of a release on new runs, and of a newer version's first run on older ones.

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
    assert_eq!((first.version, second.unchanged), (1, true), "two spellings of one thing");
}

/// spec B145, B149, B159, N45: within one version a second run waits, says so, and starts by
/// itself; the first one's own steps are not limited.
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
        // While it sleeps, it is still the one active run (spec N48).
        world.suspend(&first, vec![world.nap("nap", 10), for_event("paid", "payment")]).await;
        assert!(world.lease_all().await.is_empty());
        world.tick(10).await;
        let first = world.lease_one().await;
        world.complete(&first).await;
        assert_eq!(world.drain().await, Vec::from_iter(second.run()));
        world.check_quiet().await;
    }
}

/// spec B146: a handoff does not affect other workflows and other workspaces.
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

/// spec B144, B147, N46: with `keyed` each value of the path has its own active run.
pub async fn keyed_runs_are_one_per_value(world: &World) {
    order(world, 1, keyed("drain")).await;
    let first = world.send("order", user(1)).await;
    let second = world.send("order", user(2)).await;
    let third = world.send("order", user(1)).await;
    assert!(matches!((&first, &second), (Verdict::Started { .. }, Verdict::Started { .. })));
    assert!(is_queued_at_handoff(&third), "{third:?}");
    assert_eq!(world.lease_all().await.len(), 2, "different values run side by side");
}

/// spec B148, B161: an input without the key is refused with the reason, by whichever ingress it
/// came; nothing is left of it but the event.
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

/// spec B150, B151, G7: the newer version's first run cancels older ones, with the reason, and
/// starts at once; where the old one is being driven, when its worker has stopped.
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
        assert_ne!(world.state(old.id).await, "cancelled", "a release by itself changes nothing");
        let new = world.send("order", json!({})).await;
        let run = new.run().expect("a run");
        let expected = matches!(&new, Verdict::Replaced { replaced, by, .. }
            if *replaced == old.id && by.control == "handoff");
        assert!(expected, "{place}: {new:?}");
        let reason = format!("superseded by version {}", version + 1);
        assert_eq!(world.cancelled(old.id).await, (reason, Some(run)));
        if place == "driven" {
            assert!(world.lease_all().await.is_empty(), "its worker may be inside an effect");
            world.stopped(&old).await;
        }
        let started = world.lease_one().await;
        assert_eq!((started.id, started.version), (run, version + 1), "{place}");
        assert_eq!(started.replaced, Some(old.id), "it can see what the old one did");
        // spec B152: runs of its own version wait, and are not cancelled.
        let second = world.send("order", json!({})).await;
        assert!(is_queued_at_handoff(&second), "{second:?}");
        assert_eq!(world.state(run).await, "running");
        world.complete(&started).await;
        assert_eq!(world.drain().await, Vec::from_iter(second.run()));
        world.check_quiet().await;
    }
}

/// spec versions: `supersede` moves older runs that have not started, in their places: the holder
/// of the gate, and all that are queued, also where the older version would have drained.
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

/// spec versions: a paused run that has not started is moved too, and so is one that is paused in
/// the queue.
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
    assert_eq!(world.drain().await, [], "the paused one has its place before it");
    world.resume(in_line).await.expect("it lives");
    let moved = world.lease_one().await;
    assert_eq!((moved.id, moved.version), (in_line, 2));
    world.complete(&moved).await;
    assert_eq!(world.drain().await, [new]);
}

/// spec B153, B154, N48: with `drain` older runs finish first, whatever they do, and the waiting
/// one starts by itself.
pub async fn drain_lets_older_runs_finish(world: &World) {
    order(world, 1, singleton("drain")).await;
    let old = world.drive("order", json!({})).await;
    order(world, 2, singleton("drain")).await;
    let new = world.send("order", json!({})).await;
    assert!(is_queued_at_handoff(&new), "{new:?}");
    world.suspend(&old, vec![for_event("paid", "payment")]).await;
    world.tick(100_000).await;
    assert!(world.lease_all().await.is_empty(), "waiting, the old one is still active");
    world.cancel(old.id).await.expect("it lives");
    let run = world.lease_one().await;
    assert_eq!((Some(run.id), run.version), (new.run(), 2), "cancelling it unblocks the line");
    world.complete(&run).await;
    world.check_quiet().await;
}

/// spec B153, P1: older queued runs go first too, whatever the priority of the newer version, and
/// keep their own version.
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

/// spec B155: keyed, the handoff is per key: a key without an old run starts at once.
pub async fn a_handover_is_per_key(world: &World) {
    for policy in ["drain", "supersede"] {
        let world = world.in_workspace(policy);
        order(&world, 1, keyed(policy)).await;
        let old = world.drive("order", user(1)).await;
        let apart = world.drive("order", user(2)).await;
        order(&world, 2, keyed(policy)).await;
        let free = world.drive("order", user(3)).await;
        assert_eq!(free.version, 2, "nothing old is in its way");
        let same = world.send("order", user(1)).await;
        assert!(world.lease_all().await.is_empty());
        if policy == "drain" {
            assert!(is_queued_at_handoff(&same), "{same:?}");
            world.complete(&old).await;
        } else {
            world.stopped(&old).await;
        }
        assert_eq!(world.lease_one().await.id, same.run().expect("a run"));
        assert_eq!(world.state(apart.id).await, "running", "another key is left alone");
    }
}

/// spec B156, B160: with `coexist` versions are counted apart, and each run shows its own.
pub async fn coexisting_versions_are_counted_apart(world: &World) {
    order(world, 1, singleton("coexist")).await;
    let old = world.drive("order", json!({})).await;
    order(world, 2, singleton("coexist")).await;
    let new = world.drive("order", json!({})).await;
    assert_eq!((old.version, new.version), (1, 2));
    let second = world.send("order", json!({})).await;
    assert!(is_queued_at_handoff(&second), "{second:?}");
    world.complete(&old).await;
    assert!(world.lease_all().await.is_empty(), "it waits for its own version");
    world.complete(&new).await;
    assert_eq!(world.drain().await, Vec::from_iter(second.run()));
    world.check_quiet().await;
}

/// spec B157, B158: a release by itself does nothing to runs, and a started run keeps its version
/// to its end.
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
        assert_eq!(run.version, 1, "it keeps its version");
        world.complete(&run).await;
        let waits = (world.lease_one().await, waits);
        assert_eq!((waits.0.id, waits.0.version), (waits.1, 1), "no run of version 2 has come");
        world.complete(&waits.0).await;
        world.check_quiet().await;
    }
}

/// spec B161: a posted event, an occurrence of a schedule, a parent's call and a request are all
/// subject to the same handoff rule.
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
    assert_eq!(done.len(), 4, "each in its turn, then the parent");
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
