//! Several limits of one throttle or rate limit.

use serde_json::{Value, json};
use tidegate_core::flow::Verdict;

use crate::world::World;

/// Advances the clock in milliseconds and leases all ready runs at each; returns the start times.
async fn starts(world: &World, ms: u64) -> Vec<u64> {
    let mut started = Vec::new();
    for n in 0..ms {
        for run in world.lease_all().await {
            started.push(n);
            world.complete(&run).await;
        }
        world.tick(1).await;
    }
    started
}

async fn send_many(world: &World, count: usize, data: Value) {
    for _ in 0..count {
        world.send("call", data.clone()).await;
    }
}

/// spec L11: with two limits of one key both hold, each by its own meter.
pub async fn both_limits_of_a_throttle_hold(world: &World) {
    let throttle = json!([
        { "limit": 1, "perMs": 10, "burst": 2 },
        { "limit": 3, "perMs": 300, "burst": 3 },
    ]);
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    send_many(world, 5, json!({})).await;
    // Two at once by the first limit, one more 10 ms later; then the second limit decides.
    assert_eq!(starts(world, 320).await, [0, 0, 10, 100, 200]);
}

/// spec L11: each limit has its own cost.
pub async fn each_limit_counts_its_own_cost(world: &World) {
    let throttle = json!([
        { "limit": 1, "perMs": 10 },
        { "limit": 100, "perMs": 1000, "burst": 100, "cost": "tokens" },
    ]);
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    send_many(world, 3, json!({ "tokens": 45 })).await;
    // 90 tokens are spent at 10 ms. The third run needs 45 free ones of 100.
    assert_eq!(starts(world, 400).await, [0, 10, 350]);
}

/// spec L11, A2: no limit is spent by an event that another limit drops.
pub async fn a_dropped_event_spends_no_limit(world: &World) {
    let limit = json!([
        { "limit": 3, "perMs": 1000 },
        { "limit": 1, "perMs": 100, "key": "user" },
    ]);
    world.define(json!({ "name": "call", "rateLimit": limit })).await;
    let outcome =
        async |user: &str| world.send("call", json!({ "user": user })).await.outcome().to_owned();
    assert_eq!(outcome("a").await, "started");
    for _ in 0..5 {
        assert_eq!(outcome("a").await, "dropped", "by the limit of the user");
    }
    assert_eq!(outcome("b").await, "started");
    assert_eq!(outcome("c").await, "started", "the drops of a spent the whole limit");
    assert_eq!(outcome("d").await, "dropped", "by the whole limit");
    world.tick(334).await;
    assert_eq!(outcome("d").await, "started", "the drop spent the limit of the user");
}

/// spec L5, G5: a run takes the turn of its key before that of the whole workflow, so that a full
/// key delays no other one.
pub async fn a_full_key_delays_no_other_key(world: &World) {
    let throttle = json!([
        { "limit": 1, "perMs": 10, "burst": 2 },
        { "limit": 1, "perMs": 1000, "key": "user" },
    ]);
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    send_many(world, 4, json!({ "user": "noisy" })).await;
    send_many(world, 1, json!({ "user": "quiet" })).await;
    assert_eq!(starts(world, 20).await, [0, 0], "three runs of the noisy user are in its queue");
    world.check_holds().await;
}

/// spec L11: a release may add a limit and remove it; the meters of the others stay.
pub async fn a_release_adds_and_removes_a_limit(world: &World) {
    let with = |version: u32, throttle: Value| json!({ "name": "call", "version": version, "throttle": throttle });
    let (fast, slow) = (json!({ "limit": 1, "perMs": 10 }), json!({ "limit": 1, "perMs": 100 }));
    world.define(with(1, fast.clone())).await;
    send_many(world, 3, json!({})).await;
    assert_eq!(starts(world, 5).await, [0]);
    world.define(with(2, json!([fast, slow]))).await;
    assert_eq!(starts(world, 50).await, [5], "the new limit begins with the next start");
    world.define(with(3, fast)).await;
    world.sweep().await;
    assert_eq!(starts(world, 10).await, [0], "the slow limit is gone");
}

/// spec L11: the verdict of a queued run has the time at which all limits agree.
pub async fn the_verdict_has_the_time_of_the_latest_limit(world: &World) {
    let throttle = json!([{ "limit": 1, "perMs": 10 }, { "limit": 1, "perMs": 100 }]);
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    send_many(world, 1, json!({})).await;
    let run = world.lease_one().await;
    world.complete(&run).await;
    let queued = world.send("call", json!({})).await;
    let Verdict::Queued { start_at, .. } = queued else { panic!("{queued:?}") };
    let wait = start_at.expect("a time").micros() - world.now().micros();
    assert_eq!(wait, 100_000);
}
