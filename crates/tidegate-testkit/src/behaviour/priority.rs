//! Priority and rank: the order in which ready runs are leased.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    id::RunId,
    run::record::{Record, Then},
};

use crate::world::{World, lease, payload};

/// Builds a workflow whose runs are ranked as if they had arrived `shift_ms` earlier.
fn shifted(name: &str, shift_ms: u64) -> Value {
    json!({ "name": name, "priority": { "shiftMs": shift_ms } })
}

/// Leases runs one by one until none is ready; returns them in order.
async fn order(world: &World) -> Vec<RunId> {
    let mut order = Vec::new();
    loop {
        let leased = world.lease(1).await;
        assert!(leased.len() <= 1);
        let Some(run) = leased.first() else { return order };
        order.push(run.id);
        world.complete(run).await;
    }
}

/// spec L2, P2: the workflows of a workspace are served in turn. Inside a workflow the rank
/// decides, however a run became ready.
pub async fn ready_runs_are_leased_in_turns(world: &World) {
    for name in ["a", "b", "c"] {
        world.define(json!({ "name": name })).await;
    }
    world.define(json!({ "name": "limited", "concurrency": { "limit": 1 } })).await;
    let sleeper = world.send_for_run("b", json!({})).await;
    world.sleep(&world.lease_one().await, "nap", 100).await;
    let mut sent = Vec::new();
    for name in ["c", "limited", "limited", "b", "a", "c", "c"] {
        sent.push(world.send_for_run(name, json!({})).await);
    }
    world.tick(100).await;
    let [c1, limited1, limited2, b, a, c2, c3] = sent[..] else { panic!("seven were sent") };
    let expected = [c1, limited1, a, sleeper, c2, limited2, b, c3];
    assert_eq!(
        order(world).await,
        expected,
        "turns must continue after `b`, where the sleeper kept its rank"
    );
}

/// spec L2: the next run of a workflow waits for at most one lease of each other workflow with
/// ready runs, however many runs they have, also if versions of it are served side by side.
pub async fn a_flood_delays_others_by_one_lease_each(world: &World) {
    let names = ["a", "b", "c", "d"];
    for name in names {
        world.define(json!({ "name": name, "version": 1 })).await;
        world.define(json!({ "name": name, "version": 2 })).await;
    }
    for name in ["a", "b", "d"] {
        for version in [2, 1] {
            let (ws, app, name) = (world.ws.clone(), "default".to_owned(), name.to_owned());
            let release = Command::Release { ws, app, name: name.clone(), version };
            assert!(world.run(release).await.is_ok());
            for _ in 0..20 {
                world.send(&name, json!({})).await;
            }
        }
    }
    world.complete(&world.lease(1).await[0]).await;
    for round in 0..10 {
        let late = world.send_for_run("c", json!({})).await;
        let mut others = 0;
        loop {
            let leased = world.lease(1).await;
            world.complete(&leased[0]).await;
            if leased[0].id == late {
                break;
            }
            others += 1;
        }
        assert!(others < names.len(), "round {round}: {others} other runs were leased before");
    }
}

/// spec P2: a run that becomes ready in the transaction of a lease is leased in its turn, too.
pub async fn what_becomes_ready_with_a_lease_is_leased_in_its_turn(world: &World) {
    world.define(json!({ "name": "limited", "concurrency": { "limit": 1 } })).await;
    world.define(json!({ "name": "plain" })).await;
    world.send_for_run("limited", json!({})).await;
    let waiting = world.send_for_run("limited", json!({})).await;
    let driven = world.lease_one().await;
    let young = world.send_for_run("plain", json!({})).await;
    let done = Then::Complete(payload(&json!(null)));
    let (run, engine, fence) = (driven.id.seq, world.engine, driven.fence);
    let report = Record::new(run, engine, fence, done);
    let (ws, lanes) = (world.ws.clone(), world.lanes().await);
    let lease = lease(ws, engine, lanes, 1);
    let commands =
        vec![Command::Record { known: Box::new(driven), report }, lease.clone(), lease.clone()];
    let leased: Vec<_> = world
        .batch(commands)
        .await
        .into_iter()
        .filter_map(|answer| {
            let Ok(Answer::Leased(runs)) = answer else { return None };
            Some(runs.iter().map(|run| run.id).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(leased[0], [waiting], "the turn of `limited` comes before that of `plain`");
    let rest = world.lease_all().await.into_iter().map(|run| run.id);
    assert_eq!(leased[1].iter().copied().chain(rest).collect::<Vec<_>>(), [young]);
    world.check_holds().await;
}

/// spec P2: an engine leases only versions that it serves, and runs of other versions do not delay
/// it.
pub async fn an_engine_takes_only_what_it_serves(world: &World) {
    let a = world.define(json!({ "name": "a" })).await;
    let b = world.define(json!({ "name": "b" })).await;
    let first = world.send_for_run("a", json!({})).await;
    let second = world.send_for_run("b", json!({})).await;
    world.enlist().await;
    for (lane, expected) in [(b.lane, second), (a.lane, first)] {
        let (ws, engine, lanes) = (world.ws.clone(), world.engine, vec![lane]);
        let leased = world.run(lease(ws, engine, lanes, 1)).await;
        let Ok(Answer::Leased(runs)) = leased else { panic!("{leased:?}") };
        assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [expected]);
    }
}

/// spec P2, B132: workspaces are independent: one tenant's backlog delays no other tenant.
pub async fn workspaces_are_leased_apart(world: &World) {
    let other = world.in_workspace("b");
    for world in [world, &other] {
        world.define(shifted("sync", 10_000)).await;
    }
    for _ in 0..50 {
        world.send("sync", json!({})).await;
    }
    let late = other.send_for_run("sync", json!({})).await;
    assert_eq!(other.lease_one().await.id, late);
    let leased = world.lease_all().await;
    assert_eq!(leased.len(), 50);
    assert!(leased.iter().all(|run| run.ws == world.ws));
}

/// spec P1, B102, B103: priority moves a run ahead of runs that arrived earlier by at most the
/// shift.
pub async fn a_shift_moves_a_run_ahead_by_at_most_itself(world: &World) {
    world.define(json!({ "name": "job", "version": 1 })).await;
    let urgent = json!({ "name": "job", "version": 2, "priority": { "shiftMs": 1000 } });
    world.define(urgent).await;
    let send = async |version: u32| {
        let (ws, app, name) = (world.ws.clone(), "default".to_owned(), "job".to_owned());
        assert!(world.run(Command::Release { ws, app, name, version }).await.is_ok());
        world.send_for_run("job", json!({})).await
    };
    for (gap, ahead) in [(0, true), (1, true), (999, true), (1000, false), (1001, false)] {
        let plain = send(1).await;
        world.tick(gap).await;
        let urgent = send(2).await;
        let expected = if ahead { [urgent, plain] } else { [plain, urgent] };
        assert_eq!(order(world).await, expected, "{gap} ms later");
        world.tick(10_000).await;
    }
}

/// spec P1, B105: priority does not change the order within one workflow.
pub async fn the_own_order_is_unchanged(world: &World) {
    let mut definition = shifted("urgent", 60_000);
    definition["concurrency"] = json!({ "limit": 2 });
    world.define(definition).await;
    let mut sent = Vec::new();
    for _ in 0..6 {
        sent.push(world.send_for_run("urgent", json!({})).await);
        world.tick(7).await;
    }
    assert_eq!(order(world).await, sent);
}

/// spec P1, B104: a run with priority overtakes others in a full queue, and the limit still holds.
pub async fn priority_does_not_break_a_limit(world: &World) {
    let version = |number: u32, shift_ms: Option<u64>| {
        let mut definition =
            json!({ "name": "sync", "version": number, "concurrency": { "limit": 1 } });
        if let Some(shift_ms) = shift_ms {
            definition["priority"] = json!({ "shiftMs": shift_ms });
        }
        definition
    };
    world.define(version(1, None)).await;
    let mut plain = Vec::new();
    for _ in 0..3 {
        plain.push(world.send_for_run("sync", json!({})).await);
        world.tick(100).await;
    }
    let driven = world.lease_one().await;
    world.define(version(2, Some(150))).await;
    let urgent = world.send_for_run("sync", json!({})).await;
    assert!(world.lease_all().await.is_empty(), "the limit holds");
    world.complete(&driven).await;
    // `urgent` was sent 200 ms after the second plain run and 100 ms after the third.
    assert_eq!(order(world).await, [plain[1], urgent, plain[2]]);
    world.check_holds().await;
}
