//! Cost: a run takes several units of a limit.

use serde_json::{Value, json};
use tidegate_core::{
    flow::Verdict,
    id::RunId,
    row::{Row, Run},
};
use tidegate_store::why;

use crate::world::World;

/// Sends an event with this cost; returns its run.
async fn sent(world: &World, cost: u32) -> RunId {
    world.send("job", json!({ "mb": cost })).await.run().expect("a run")
}

/// Returns the runs that a worker gets now, by their numbers in `runs`.
async fn leased(world: &World, runs: &[RunId]) -> Vec<usize> {
    let leased = world.lease_all().await;
    leased.iter().filter_map(|run| runs.iter().position(|id| *id == run.id)).collect()
}

async fn rejection(world: &World, data: Value) -> String {
    let verdict = world.send("job", data).await;
    let Verdict::Rejected { control, reason } = verdict else { panic!("{verdict:?}") };
    format!("{control}: {reason}")
}

/// spec L8: the costs of the holders never exceed the limit, and no run passes the first in the
/// queue, also if there is room for it.
pub async fn the_first_in_the_queue_waits_until_there_is_room_for_it(world: &World) {
    let limit = json!({ "limit": 5, "cost": "mb" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    let runs = [sent(world, 3).await, sent(world, 3).await, sent(world, 1).await];
    let first = world.lease_one().await;
    assert_eq!(first.id, runs[0]);
    assert!(world.lease_all().await.is_empty(), "a cost of 1 passed the first in the queue");
    let due = world
        .dump()
        .await
        .into_iter()
        .any(|row| matches!(row, Row::Gate(gate) if gate.due.is_some()));
    assert!(!due, "a gate without room for the first in its queue asks for no sweep");
    world.sweep().await;
    assert!(world.lease_all().await.is_empty(), "the sweep admitted a run without room");
    world.complete(&first).await;
    assert_eq!(leased(world, &runs).await, [1, 2]);
    world.check_holds().await;
}

/// spec L8: a cost above the limit is rejected at its arrival, and so is a value that is no cost.
/// Without a value the cost is 1.
pub async fn a_cost_that_never_fits_is_rejected_with_its_value(world: &World) {
    let limit = json!({ "limit": 5, "cost": "mb" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    let said = rejection(world, json!({ "mb": 7 })).await;
    assert_eq!(said, "concurrency: cost 7 exceeds limit 5 of concurrency");
    for (value, shown) in [
        (json!(0), "0"),
        (json!(-1), "-1"),
        (json!(1.5), "1.5"),
        (json!("3"), "\"3\""),
        (json!(1_000_001), "1000001"),
        (json!([1]), "[1]"),
        (json!(true), "true"),
    ] {
        let said = rejection(world, json!({ "mb": value })).await;
        let rule = "cost `mb` must be a whole number from 1 to 1000000";
        assert_eq!(said, format!("concurrency: {rule}, got {shown}"));
    }
    assert_eq!(world.alive("job").await, 0);
    for data in [json!({}), json!({ "mb": null }), json!({ "mb": 1.0 }), json!({ "mb": 2 })] {
        assert!(matches!(world.send("job", data).await, Verdict::Started { .. }));
    }
    let queued = world.send("job", json!({})).await;
    assert!(matches!(queued, Verdict::Queued { .. }), "1 + 1 + 1 + 2 is the limit: {queued:?}");
}

/// spec L8: a queued run whose cost exceeds a limit that was lowered later enters alone.
pub async fn after_a_lower_limit_a_large_run_enters_alone(world: &World) {
    let limited = |version: u32, limit: u32| {
        let limit = json!({ "limit": limit, "cost": "mb" });
        json!({ "name": "job", "version": version, "concurrency": limit })
    };
    world.define(limited(1, 9)).await;
    let runs = [sent(world, 5).await, sent(world, 7).await, sent(world, 2).await];
    let first = world.lease_one().await;
    world.define(limited(2, 6)).await;
    let why = why(&*world.store, &world.ws, runs[1]).await.unwrap().expect("an explanation");
    let room = "freed by the end of all of its holders: it takes more than the limit and enters";
    let gate = "it waits for concurrency of the whole workflow (6 at once, 5 taken, it takes 7)";
    let sentence = format!("{gate}, position 1 in the queue; {room} alone");
    assert!(why.sentence.starts_with(&sentence), "{}", why.sentence);
    world.complete(&first).await;
    let alone = world.lease_one().await;
    assert_eq!(alone.id, runs[1]);
    assert!(world.lease_all().await.is_empty(), "a run entered beside a cost above the limit");
    world.complete(&alone).await;
    assert_eq!(leased(world, &runs).await, [2]);
    world.check_holds().await;
}

/// spec L8, G3: a run that wakes takes its cost again, and waits for room for it.
pub async fn a_run_that_wakes_takes_its_cost_again(world: &World) {
    let limit = json!({ "limit": 4, "cost": "mb" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    let runs = [sent(world, 3).await, sent(world, 2).await];
    let first = world.lease_one().await;
    world.sleep(&first, "nap", 10).await;
    let second = world.lease_one().await;
    world.tick(10).await;
    assert!(world.lease_all().await.is_empty(), "2 + 3 exceeds 4");
    world.complete(&second).await;
    assert_eq!(leased(world, &runs).await, [0]);
}

/// spec L8, P1: a run that goes before the others enters if there is room for it, also while the
/// next run waits for more room.
pub async fn a_run_with_a_better_rank_enters_the_room_that_is_left(world: &World) {
    let with = |version: u32, shift: Value| {
        let limit = json!({ "limit": 5, "cost": "mb" });
        json!({ "name": "job", "version": version, "concurrency": limit, "priority": shift })
    };
    world.define(with(1, Value::Null)).await;
    let first = sent(world, 3).await;
    let large = sent(world, 4).await;
    world.define(with(2, json!({ "shiftMs": 1000 }))).await;
    // The release asks for a sweep of the gate, which must not hide what the arrival does.
    world.sweep().await;
    let urgent = sent(world, 2).await;
    world.sweep().await;
    assert_eq!(leased(world, &[first, large, urgent]).await, [2, 0]);
    world.check_holds().await;
}

/// spec L9: a throttle rejects no cost: one above the burst starts when the meter is full, and
/// delays the next start by its whole cost.
pub async fn a_throttle_delays_by_the_whole_cost(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 10, "burst": 3, "cost": "mb" });
    world.define(json!({ "name": "job", "throttle": throttle })).await;
    let runs = [sent(world, 1).await, sent(world, 8).await, sent(world, 2).await];
    let mut started = Vec::new();
    for ms in 0..130 {
        for run in world.lease_all().await {
            started.push((ms, runs.iter().position(|id| *id == run.id).unwrap()));
            world.complete(&run).await;
        }
        world.tick(1).await;
    }
    // 1 unit is spent at 0 and is back at 10; then 8 are spent, of which 7 are back at 80.
    assert_eq!(started, [(0, 0), (10, 1), (80, 2)]);
}

/// spec L9, M2: a rate limit drops what does not fit now, and rejects a cost above its burst.
pub async fn a_rate_limit_spends_the_cost(world: &World) {
    let limit = json!({ "limit": 4, "perMs": 1000, "cost": "mb" });
    world.define(json!({ "name": "job", "rateLimit": limit })).await;
    let said = rejection(world, json!({ "mb": 5 })).await;
    assert_eq!(said, "rateLimit: cost 5 exceeds the burst 4 of rateLimit");
    sent(world, 3).await;
    let dropped = world.send("job", json!({ "mb": 2 })).await;
    let Verdict::Dropped { retry_at, .. } = dropped else { panic!("{dropped:?}") };
    assert_eq!(retry_at.micros() - world.now().micros(), 250_000, "one unit is missing");
    sent(world, 1).await;
    world.clock.set(retry_at);
    let dropped = world.send("job", json!({ "mb": 2 })).await;
    assert!(matches!(dropped, Verdict::Dropped { .. }), "the unit was spent: {dropped:?}");
}

/// spec L8: a batch costs the sum of its events, and is flushed before it would exceed the limit.
pub async fn a_batch_costs_the_sum_of_its_events(world: &World) {
    let (limit, batch) =
        (json!({ "limit": 5, "cost": "mb" }), json!({ "maxSize": 9, "timeoutMs": 50 }));
    world.define(json!({ "name": "job", "concurrency": limit, "batch": batch })).await;
    let runs = [sent(world, 2).await, sent(world, 2).await, sent(world, 2).await];
    assert_eq!(runs[0], runs[1], "2 + 2 fit into 5");
    assert_ne!(runs[1], runs[2], "2 + 2 + 2 do not");
    world.tick(50).await;
    let first = world.lease_one().await;
    assert_eq!(first.id, runs[0]);
    assert!(world.lease_all().await.is_empty(), "4 + 2 exceeds 5");
    world.complete(&first).await;
    let second = world.lease_one().await;
    world.complete(&second).await;
    let again = world.replay(runs[0]).await;
    let run: Run = world.live(again).await.expect("a live run");
    assert_eq!(run.plan[0].costs.one(), 4, "a replay of a batch has its cost");
}

/// spec L8, F1: a window costs what its kept event costs.
pub async fn a_window_costs_its_last_event(world: &World) {
    let (limit, window) = (json!({ "limit": 5, "cost": "mb" }), json!({ "periodMs": 20 }));
    world.define(json!({ "name": "job", "concurrency": limit, "debounce": window })).await;
    sent(world, 5).await;
    let run = sent(world, 2).await;
    world.tick(20).await;
    assert_eq!(world.live(run).await.expect("a live run").plan[0].costs.one(), 2);
}

/// spec L8, F1: a window that has fired costs what its newest event costs, until its run starts.
pub async fn a_fired_window_costs_its_newest_event(world: &World) {
    let window = json!({ "policy": "debounce", "periodMs": 10 });
    let limits = json!([window, { "limit": 5, "cost": "input.mb" }]);
    world.define(json!({ "flow": "chat", "name": "index", "concurrency": limits })).await;
    let call = async |mb: u32| world.call("chat", "index", "s", json!({ "mb": mb })).await;
    call(1).await;
    world.tick(10).await;
    let first = world.lease_one().await;
    let second = call(5).await.run().expect("a run");
    world.tick(10).await;
    assert_eq!(call(2).await.run(), Some(second), "it joins the run that waits for the session");
    let costs = world.live(second).await.expect("a live run").plan;
    assert_eq!(costs.last().expect("a limit").costs.one(), 2);
    world.complete(&first).await;
    assert_eq!(world.drain().await, [second]);
    world.check_holds().await;
}
