//! Pools that a single step passes: runs that park and queue for a step.

use serde_json::{Value, json};
use tidegate_core::{
    flow::step_pool::{PoolAnswer, PoolAsk},
    id::RunId,
    row::{Phase, Run},
    run::record::{NewWait, NewWaitOn, Then, Until},
};

use crate::world::{
    World,
    pools::{keyed, whole},
    step,
};

/// Declares pools of one limit, and the workflow `chat` with these controls.
async fn pools(world: &World, names: &[&str], limit: u32, controls: Value) {
    for name in names {
        world.put_pool(json!({ "name": name, "concurrency": { "limit": limit } })).await;
    }
    let mut definition = controls;
    definition["name"] = json!("chat");
    world.define(definition).await;
}

async fn chat(world: &World) -> Run {
    let run = world.send_for_run("chat", json!({})).await;
    let leased = world.lease_all().await;
    leased.into_iter().find(|it| it.id == run).expect("the run is ready")
}

async fn inside(world: &World, pool: &str) -> u64 {
    world.units_in(pool).await
}

/// Starts a run whose step `ask` has a place in these pools.
async fn holder(world: &World, asks: &[PoolAsk]) -> Run {
    let run = chat(world).await;
    assert_eq!(world.enter(&run, "ask", asks).await, PoolAnswer::Entered);
    run
}

/// Records `ask` and completes the run.
async fn finish(world: &World, run: &Run) {
    let done = Then::Complete(crate::world::payload(&json!("done")));
    world.report(run, vec![step("ask", &json!(1))], done).await.unwrap();
}

fn is_queued(run: &Run) -> bool {
    matches!(run.phase, Phase::Queued { .. })
}

/// spec L7, G2: a run that can only wait for the pool of a step gives its executing gates back and
/// queues for them again, in one order: a keyed pool comes before the limit of the workflow. It
/// gets its place from the commit that frees it, and begins with it.
pub async fn a_full_pool_parks_the_run(world: &World) {
    pools(world, &["gpu"], 1, json!({ "concurrency": { "limit": 2 } })).await;
    let gpu = [keyed("gpu", "acme", 1)];
    let first = holder(world, &gpu).await;
    let second = chat(world).await;
    let third = world.send_for_run("chat", json!({})).await;
    assert!(world.lease_all().await.is_empty(), "the workflow's own limit is full");
    assert_eq!(world.enter(&second, "ask", &gpu).await, PoolAnswer::Waits);
    world.park(&second, "ask", &gpu).await;
    let parked = world.live(second.id).await.unwrap();
    assert!(is_queued(&parked) && parked.in_pools == ["ask"], "{parked:?}");
    world.check_holds().await;
    let third = world.lease_all().await.pop().filter(|run| run.id == third);
    let third = third.expect("the parked run has given its own place back");
    finish(world, &first).await;
    let second = world.lease_one().await;
    assert_eq!((second.id, inside(world, "gpu").await), (parked.id, 1));
    assert_eq!(second.in_pools, ["ask"]);
    assert_eq!(world.enter(&second, "ask", &gpu).await, PoolAnswer::Entered, "it has its place");
    assert_eq!(inside(world, "gpu").await, 1, "the place was taken twice");
    world.complete(&third).await;
    finish(world, &second).await;
    assert_eq!(inside(world, "gpu").await, 0);
    world.check_holds().await;
}

/// spec L7, G4: runs that queue for a step and runs of workflows share the queue, in the order of
/// rank: a run keeps its rank while it parks.
pub async fn a_parked_run_keeps_its_rank(world: &World) {
    pools(world, &["gpu"], 1, json!({})).await;
    world.define(json!({ "name": "user", "concurrency": [{ "pool": "gpu" }] })).await;
    let gpu = [whole("gpu", 1)];
    let old = chat(world).await;
    let first = holder(world, &gpu).await;
    let user = world.send_for_run("user", json!({})).await;
    world.park(&old, "ask", &gpu).await;
    finish(world, &first).await;
    let old = world.lease_one().await;
    assert!(old.started);
    assert!(old.rank < world.live(user).await.unwrap().rank);
    finish(world, &old).await;
    assert_eq!(world.lease_one().await.id, user);
    world.check_holds().await;
}

/// spec L7, L5, I10: two runs that park for two pools each, named in opposite orders, and two that
/// each hold one of them, do not wait for each other.
pub async fn opposite_orders_do_not_deadlock(world: &World) {
    let own = json!({ "concurrency": { "limit": 4 } });
    pools(world, &["left", "right"], 1, own).await;
    let orders = [["left", "right"], ["right", "left"]];
    let orders = orders.map(|pools| pools.map(|pool| whole(pool, 1)));
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..4 {
        runs.push(chat(world).await);
    }
    // Each of two runs has one of the pools; then both want the other one in their next step.
    for (run, pool) in runs.iter().zip(["left", "right"]) {
        assert_eq!(world.enter(run, "one", &[whole(pool, 1)]).await, PoolAnswer::Entered);
    }
    for (n, run) in runs.iter().enumerate() {
        let asks = &orders[n % 2];
        assert_eq!(world.enter(run, "ask", asks).await, PoolAnswer::Waits);
        world.park(run, "ask", asks).await;
        world.check_holds().await;
    }
    let mut ended: Vec<RunId> = Vec::new();
    while let Some(run) = world.lease_all().await.pop() {
        assert_eq!((inside(world, "left").await, inside(world, "right").await), (1, 1));
        assert_eq!(run.in_pools, ["ask"]);
        finish(world, &run).await;
        ended.push(run.id);
    }
    assert_eq!(ended, runs.iter().map(|run| run.id).collect::<Vec<_>>(), "in the order of rank");
    world.check_holds().await;
}

/// spec L7, L5: runs that hold a pool for themselves and want more of it for a step do not wait for
/// each other: the hold of a parked run is taken anew, of summed cost.
pub async fn a_pool_that_the_run_holds_does_not_deadlock(world: &World) {
    let own = json!({ "concurrency": [{ "pool": "gpu" }] });
    pools(world, &["gpu"], 2, own).await;
    let (one, two) = (chat(world).await, chat(world).await);
    let gpu = [whole("gpu", 1)];
    for run in [&one, &two] {
        assert_eq!(world.enter(run, "ask", &gpu).await, PoolAnswer::Waits);
    }
    world.park(&two, "ask", &gpu).await;
    world.park(&one, "ask", &gpu).await;
    let first = world.lease_one().await;
    assert_eq!((first.id, inside(world, "gpu").await), (one.id, 2));
    world.check_holds().await;
    world.report(&first, vec![step("ask", &json!(1))], Then::Continue).await.unwrap();
    assert_eq!(inside(world, "gpu").await, 1, "the run keeps its own unit");
    assert!(world.lease_all().await.is_empty(), "the other needs two units");
    world.complete(&first).await;
    assert_eq!(world.lease_one().await.id, two.id);
    world.check_holds().await;
}

/// spec L7: the turn of a step is spent at the lease for which the run has queued; a step behind it
/// in the queue has its turn later.
pub async fn a_parked_run_waits_for_its_turn(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 1000 });
    let limit = json!({ "limit": 1 });
    world.put_pool(json!({ "name": "gpu", "throttle": rate, "concurrency": limit })).await;
    let controls = json!({ "concurrency": { "limit": 9 }, "throttle": [{ "pool": "gpu" }] });
    pools(world, &[], 0, controls).await;
    let gpu = [whole("gpu", 1)];
    let one = chat(world).await;
    let at = world.now();
    world.park(&one, "ask", &gpu).await;
    let why = world.why(one.id).await;
    assert_eq!(why.earliest, Some(at.plus_ms(1000)));
    assert_eq!(
        why.sentence,
        format!(
            "it waits for throttle of pool `gpu` (1 in 1000 ms, 1 at once), position \
             1 in the queue; freed by its turn, at {}; its step `ask` waits for throttle of pool \
             `gpu` and concurrency of pool `gpu`",
            at.plus_ms(1000).rfc3339()
        )
    );
    let controls: Vec<_> = why.gates.iter().map(|gate| (gate.control, &*gate.steps)).collect();
    let ask = &["ask".to_owned()][..];
    let none = &[][..];
    assert_eq!(controls, [("throttle", ask), ("concurrency", none), ("concurrency", ask)]);
    world.tick(999).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1).await;
    world.pass(500);
    let one = world.lease_one().await;
    assert_eq!(one.plan.len(), 3, "its own turn, its own limit, and the place of its step");
    finish(world, &one).await;
    let two = world.send_for_run("chat", json!({})).await;
    world.tick(999).await;
    assert!(world.lease_all().await.is_empty(), "the turn counts from the lease");
    world.tick(1).await;
    assert_eq!(world.lease_one().await.id, two);
    world.check_holds().await;
}

/// spec L7: a parked run that is cancelled leaves the queue, and one that is paused gives its turn
/// back and queues for the step again.
pub async fn a_parked_run_can_be_cancelled_and_paused(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 1000, "burst": 2 });
    let limit = json!({ "limit": 1 });
    world.put_pool(json!({ "name": "gpu", "throttle": rate, "concurrency": limit })).await;
    pools(world, &[], 0, json!({})).await;
    let gpu = [whole("gpu", 1)];
    let first = holder(world, &gpu).await;
    let (second, third) = (chat(world).await, chat(world).await);
    world.park(&second, "ask", &gpu).await;
    world.park(&third, "ask", &gpu).await;
    world.pause(second.id).await.unwrap();
    let paused = world.live(second.id).await.unwrap();
    assert_eq!((paused.phase, paused.entered), (Phase::Paused, 0), "it keeps no turn");
    world.check_holds().await;
    world.cancel(third.id).await.unwrap();
    assert_eq!(world.state(third.id).await, "cancelled");
    finish(world, &first).await;
    assert!(world.lease_all().await.is_empty());
    world.resume(second.id).await.unwrap();
    let second = world.lease_one().await;
    assert_eq!(second.in_pools, ["ask"]);
    finish(world, &second).await;
    assert_eq!(inside(world, "gpu").await, 0);
    world.check_holds().await;
}

/// spec L7: a run that also waits for something else queues for the step beside that wait. If the
/// wait has ended already, or the run is to be paused, it goes on, and its step asks again.
pub async fn a_run_with_an_answer_goes_on(world: &World) {
    pools(world, &["gpu"], 1, json!({})).await;
    let gpu = [whole("gpu", 1)];
    let first = holder(world, &gpu).await;
    let run = chat(world).await;
    let waits = || {
        let wait = |step: &str, on, until| NewWait { step: step.to_owned(), on, until };
        let go = NewWaitOn::Signal { name: "go".to_owned() };
        let pool = wait("ask", NewWaitOn::Pools(gpu.to_vec()), None);
        vec![wait("go", go, Some(Until::In(60_000))), pool]
    };
    world.report(&run, Vec::new(), Then::Suspend(waits())).await.unwrap();
    let parked = world.live(run.id).await.unwrap();
    assert!(is_queued(&parked) && parked.waits.len() == 1, "{parked:?}");
    finish(world, &first).await;
    let run = world.lease_one().await;
    world.leave(&run, "ask").await;
    let other = holder(world, &gpu).await;
    world.signal(run.id, "go", json!(1)).await.unwrap();
    world.report(&run, Vec::new(), Then::Suspend(waits())).await.unwrap();
    let run = world.lease_one().await;
    assert!(run.in_pools.is_empty() && run.plan.is_empty(), "{run:?}");
    world.pause(run.id).await.unwrap();
    world.park(&run, "ask", &gpu).await;
    assert_eq!(world.state(run.id).await, "paused");
    world.resume(run.id).await.unwrap();
    let run = world.lease_one().await;
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Waits);
    finish(world, &other).await;
    world.check_holds().await;
}

/// spec L7: a pool that was removed while a run was about to queue there lets the run go on; its
/// step asks again, and fails.
pub async fn a_removed_pool_fails_the_next_ask(world: &World) {
    pools(world, &["gpu"], 1, json!({})).await;
    let gpu = [whole("gpu", 1)];
    let first = holder(world, &gpu).await;
    let (queued, late) = (chat(world).await, chat(world).await);
    world.park(&queued, "ask", &gpu).await;
    world.pool(tidegate_core::pool::PoolCommand::Remove("gpu".into())).await.unwrap();
    world.park(&late, "ask", &gpu).await;
    world.sweep().await;
    let leased = world.lease_all().await;
    let late = leased.iter().find(|it| it.id == late.id).expect("it goes on");
    let PoolAnswer::Refused(error) = world.enter(late, "ask", &gpu).await else { panic!() };
    assert_eq!(error.code, "UnknownPool");
    assert!(leased.iter().any(|it| it.id == queued.id), "the queue of a removed pool is served");
    finish(world, &first).await;
    world.check_holds().await;
}
