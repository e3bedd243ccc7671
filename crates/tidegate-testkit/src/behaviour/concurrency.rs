//! Concurrency: how many are inside at once.

use serde_json::json;

use crate::world::World;

/// G1, B60, B66: a limit holds, nobody is dropped, everyone gets a turn.
pub async fn never_more_than_the_limit_are_driven(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 3 } })).await;
    for n in 0..10 {
        world.send("sync", json!({ "n": n })).await;
    }
    let mut done = 0;
    while done < 10 {
        let runs = world.lease_all().await;
        assert!(!runs.is_empty() && runs.len() <= 3, "{} at once", runs.len());
        assert!(world.lease_all().await.is_empty(), "the slots are taken");
        for run in runs {
            world.complete(&run).await;
            done += 1;
        }
    }
    world.check_holds().await;
}

/// G4, B67: the order is that of arrival, and a freed slot is handed on at once.
pub async fn waiters_are_served_in_their_order(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.push(world.send("sync", json!({ "n": n })).await.run().unwrap());
    }
    let mut served = Vec::new();
    for _ in 0..5 {
        let run = world.lease_one().await;
        served.push(run.id);
        world.complete(&run).await;
    }
    assert_eq!(served, sent);
}

/// G2, G3, B61, B64: sleeping frees the slot; waking queues for it again, at the old rank.
pub async fn a_sleeping_run_holds_no_slot_and_queues_again(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    world.send("sync", json!({ "n": 1 })).await;
    world.send("sync", json!({ "n": 2 })).await;
    world.send("sync", json!({ "n": 3 })).await;
    let first = world.lease_one().await;
    world.sleep(&first, "nap", 1000).await;
    let second = world.lease_one().await;
    assert_ne!(second.id, first.id);
    world.tick(1000).await;
    assert_eq!(world.state(first.id).await, "queued", "it waits for its slot");
    assert!(world.lease_all().await.is_empty());
    world.complete(&second).await;
    assert_eq!(world.lease_one().await.id, first.id, "it is older than the third");
    world.check_holds().await;
}
