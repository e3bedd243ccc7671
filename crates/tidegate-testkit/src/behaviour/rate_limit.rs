//! Rate limit: events over the limit are dropped.

use serde_json::{Value, json};
use tidegate_core::{flow::Verdict, row::Row};

use crate::world::{World, event};

/// Builds a workflow with this limit. `burst` is given if it differs from the limit.
fn limited(limit: u32, per_ms: u64, burst: Option<u32>) -> Value {
    let mut limit = json!({ "limit": limit, "perMs": per_ms });
    if let Some(burst) = burst {
        limit["burst"] = json!(burst);
    }
    json!({ "name": "audit", "rateLimit": limit })
}

/// Sends `count` events at once; returns how many were admitted.
async fn admitted(world: &World, count: usize) -> usize {
    let events = (0..count).map(|_| event("audit", &json!({}))).collect();
    let posted = world.post_all(events).await;
    let outcomes = posted.iter().map(|posted| &posted.runs[0].verdict);
    outcomes.filter(|verdict| matches!(verdict, Verdict::Started { .. })).count()
}

/// spec M2, B77, B78: events up to the limit are admitted; the others make no run, and their
/// verdict has the exact time for a retry, in microseconds.
pub async fn the_overflow_is_dropped_and_told_when_to_come_again(world: &World) {
    world.define(limited(3, 1000, None)).await;
    assert_eq!(admitted(world, 3).await, 3);
    let posted = world.post("audit", json!({})).await;
    let Verdict::Dropped { by, retry_at } = &posted.runs[0].verdict else { panic!("{posted:?}") };
    assert_eq!((by.control, by.key.as_str()), ("rateLimit", "(whole)"));
    let said = posted.runs[0].to_value();
    assert_eq!((&said["dropped"], &said["outcome"]), (&json!(true), &json!("dropped")));
    assert!(said.get("runId").is_none());
    assert_eq!(world.alive("audit").await, 3, "no run is created");
    let wait = retry_at.micros() - world.now().micros();
    assert_eq!(wait, 333_334);
    world.clock.set(tidegate_core::time::Timestamp::from_micros(retry_at.micros() - 1));
    assert_eq!(admitted(world, 1).await, 0, "an event was admitted a microsecond too early");
    world.clock.set(*retry_at);
    assert_eq!(admitted(world, 1).await, 1, "exactly then");
}

/// spec M2, B81: tokens refill at `limit` per `perMs`, up to the burst.
pub async fn capacity_comes_back_evenly(world: &World) {
    world.define(limited(4, 1000, None)).await;
    assert_eq!(admitted(world, 9).await, 4);
    world.tick(249).await;
    assert_eq!(admitted(world, 9).await, 0);
    world.tick(1).await;
    assert_eq!(admitted(world, 9).await, 1);
    world.tick(500).await;
    assert_eq!(admitted(world, 9).await, 2);
    world.tick(60_000).await;
    assert_eq!(admitted(world, 9).await, 4, "unused tokens were saved beyond the burst");
}

/// spec M2: the burst is the number of events that are admitted at once; a single event is always
/// admitted.
pub async fn the_burst_says_how_many_come_at_once(world: &World) {
    world.define(limited(10, 1000, Some(1))).await;
    assert_eq!(admitted(world, 5).await, 1);
    for _ in 0..20 {
        world.tick(100).await;
        assert_eq!(admitted(world, 1).await, 1, "a single event must be admitted");
    }
}

/// spec M2, B84, B131: in any interval of length w at most burst + ⌊w·limit/perMs⌋ are admitted,
/// over all engines.
pub async fn no_interval_admits_more_than_promised(world: &World) {
    world.define(limited(7, 1000, Some(3))).await;
    let engines = [world.engine(11), world.engine(12)];
    let mut state = 99_u64;
    let mut times = Vec::new();
    for n in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        world.pass((state >> 33) % 150);
        let verdict = engines[n % 2].send("audit", json!({})).await;
        if matches!(verdict, Verdict::Started { .. }) {
            times.push(world.now().micros());
        }
    }
    assert!(times.len() > 50, "{} were admitted", times.len());
    for (n, from) in times.iter().enumerate() {
        for (m, to) in times.iter().enumerate().skip(n) {
            let allowed = 3 + (to - from) * 7 / 1_000_000;
            assert!(i64::try_from(m - n + 1).unwrap() <= allowed);
        }
    }
}

/// spec M2, B84, B131: events that several engines post at the same time count against one limit.
pub async fn engines_that_race_are_counted_together(world: &World) {
    world.define(limited(10, 60_000, None)).await;
    let engines = [world.engine(11), world.engine(12), world.engine(13)];
    let [a, b, c] = &engines;
    let (a, b, c) = tokio::join!(admitted(a, 8), admitted(b, 8), admitted(c, 8));
    assert_eq!(a + b + c, 10);
}

/// spec B82: many events with one key do not affect another key.
pub async fn a_hot_key_does_not_affect_another(world: &World) {
    let limit = json!({ "limit": 2, "perMs": 1000, "key": "ip" });
    world.define(json!({ "name": "audit", "rateLimit": limit })).await;
    for n in 0..20 {
        let verdict = world.send("audit", json!({ "ip": "hot" })).await;
        assert_eq!(matches!(verdict, Verdict::Started { .. }), n < 2);
    }
    for _ in 0..2 {
        let verdict = world.send("audit", json!({ "ip": "cold" })).await;
        assert!(matches!(verdict, Verdict::Started { .. }));
    }
}

/// spec A3, B79, B80: a dropped event is recorded, wakes the runs that wait for it, and starts the
/// other workflows.
pub async fn a_dropped_event_still_does_all_else(world: &World) {
    world.define(limited(1, 1000, None)).await;
    world.define(json!({ "name": "other", "triggers": [{ "event": "audit" }] })).await;
    world.define(json!({ "name": "waiter" })).await;
    world.post("audit", json!({})).await;
    world.send("waiter", json!({})).await;
    let waiter = world.lease_all().await.into_iter().find(|run| run.workflow == "waiter").unwrap();
    world.wait_for(&waiter, "wait", "audit", &[]).await;
    let posted = world.post("audit", json!({ "n": 2 })).await;
    assert_eq!((posted.woke, posted.runs.len()), (1, 2));
    assert!(matches!(posted.runs[0].verdict, Verdict::Dropped { .. }));
    assert!(matches!(posted.runs[1].verdict, Verdict::Started { .. }));
    let rows = world.dump().await;
    assert!(rows.iter().any(|row| matches!(row, Row::Event(event) if event.id == posted.id)));
    let receipts = world.receipts(posted.id).await;
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0].verdict["outcome"], json!("dropped"));
}

/// spec M2, B83: with the same burst, throttle delays exactly the events that a rate limit drops.
pub async fn throttle_and_rate_limit_agree_on_the_overflow(world: &World) {
    for burst in [1_u32, 2, 5] {
        let world = world.in_workspace(&format!("w{burst}"));
        let rate = json!({ "limit": 4, "perMs": 1000, "burst": burst });
        world.define(json!({ "name": "drop", "rateLimit": rate })).await;
        world.define(json!({ "name": "delay", "throttle": rate })).await;
        let mut state = u64::from(burst);
        for n in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            world.pass((state >> 33) % 300);
            let dropped = world.send("drop", json!({})).await;
            let delayed = world.send("delay", json!({})).await;
            let dropped = matches!(dropped, Verdict::Dropped { .. });
            if let Verdict::Queued { run, .. } = delayed {
                // Like the dropped event, the delayed run must not count: it is cancelled before
                // its start.
                world.cancel(run).await.unwrap();
                assert!(
                    dropped,
                    "event {n} with burst {burst} was delayed by throttle, but not dropped"
                );
            } else {
                assert!(
                    !dropped,
                    "event {n} with burst {burst} was dropped, but not delayed by throttle"
                );
            }
            world.lease_all().await;
        }
    }
}

/// spec M2, controls: after a change of the limit, earlier admissions still count, each as one
/// token of the new limit.
pub async fn a_new_rate_remembers_what_was_admitted(world: &World) {
    let version = |number: u32, limit: u32, per_ms: u64| {
        let mut definition = limited(limit, per_ms, None);
        definition["version"] = json!(number);
        definition
    };
    world.define(version(1, 10, 1000)).await;
    assert_eq!(admitted(world, 10).await, 10);
    world.define(version(2, 100, 1000)).await;
    assert_eq!(
        admitted(world, 200).await,
        90,
        "10 of 100 tokens must be spent after the limit was raised"
    );
    world.define(version(3, 100, 100_000)).await;
    assert_eq!(
        admitted(world, 200).await,
        0,
        "all tokens must be spent after the rate was lowered"
    );
    world.tick(999).await;
    assert_eq!(admitted(world, 1).await, 0);
    world.tick(1).await;
    assert_eq!(admitted(world, 9).await, 1, "one a second");
    world.define(version(4, 5, 1000)).await;
    assert_eq!(
        admitted(world, 9).await,
        0,
        "more than 5 tokens must be spent after the limit was lowered"
    );
    world.tick(200).await;
    assert_eq!(admitted(world, 9).await, 1);
}
