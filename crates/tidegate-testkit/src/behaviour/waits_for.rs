//! `waitsFor`: events from the admission of a run on are kept until the run waits for them.

use serde_json::{Value, json};
use tidegate_core::{
    row::{ListenerEffect, Row, Run},
    run::wake::WOKEN_AT_ONCE,
};

use crate::{
    worker::{for_event, for_event_with},
    world::{World, event},
};

async fn define(world: &World) {
    world
        .define(json!({
            "name": "onboard",
            "waitsFor": [{ "event": "verified", "match": { "user.id": "id" } }],
        }))
        .await;
}

async fn verify(world: &World, id: u32, n: u32) -> u32 {
    world.post("verified", json!({ "user": { "id": id }, "n": n })).await.woke
}

#[expect(clippy::unnecessary_wraps, reason = "compared with the answer of the world")]
fn answer(id: u32, n: u32) -> Option<Result<String, tidegate_core::row::RunError>> {
    Some(Ok(json!({ "n": n, "user": { "id": id } }).to_string()))
}

/// Lets a run wait for the event in this step, and returns the run if it goes on at once.
async fn wait(world: &World, run: &Run, step: &str) -> Option<Run> {
    world.suspend(run, vec![for_event(step, "verified")]).await;
    let state = world.state(run.id).await;
    if state == "waiting" { None } else { Some(world.lease_one().await) }
}

/// spec L35: an event during a sleep is found by the wait after it, and consumed once.
pub async fn an_event_during_a_sleep_is_seen_by_the_wait_after_it(world: &World) {
    define(world).await;
    let run = world.drive("onboard", json!({ "id": 1 })).await;
    world.sleep(&run, "two days", 1000).await;
    assert_eq!(verify(world, 1, 1).await, 0, "the run does not wait for it yet");
    assert_eq!(verify(world, 2, 2).await, 0);
    world.tick(1000).await;
    let run = world.lease_one().await;
    let run = wait(world, &run, "a").await.expect("the event is in the inbox");
    assert_eq!(world.came_of(run.id, "a").await, answer(1, 1));
    assert!(wait(world, &run, "b").await.is_none(), "an event was consumed twice");
    assert_eq!(verify(world, 1, 3).await, 1);
    assert_eq!(world.came_of(run.id, "b").await, answer(1, 3));
    let run = world.lease_one().await;
    assert!(wait(world, &run, "c").await.is_none(), "the wait's event entered the inbox, too");
    assert_eq!(world.cancel(run.id).await.map(drop), Ok(()));
    world.check_quiet().await;
}

/// spec L35: events are consumed in the order of their arrival, each by the first wait that it
/// matches.
pub async fn events_are_consumed_in_order(world: &World) {
    define(world).await;
    let mut run = world.drive("onboard", json!({ "id": 1 })).await;
    for n in 1..=3 {
        verify(world, 1, n).await;
    }
    let second = for_event_with("second", "verified", &[("n", json!(2))]);
    world.suspend(&run, vec![second]).await;
    run = world.lease_one().await;
    assert_eq!(world.came_of(run.id, "second").await, answer(1, 2));
    for (step, n) in [("first", 1), ("third", 3)] {
        run = wait(world, &run, step).await.expect("the event is in the inbox");
        assert_eq!(world.came_of(run.id, step).await, answer(1, n));
    }
    assert!(wait(world, &run, "none").await.is_none());
}

/// spec L35: an event that ends a wait does not enter the inbox, whichever is found first.
pub async fn an_event_ends_a_wait_or_enters_the_inbox(world: &World) {
    define(world).await;
    let waits: [&[(&str, Value)]; 3] = [&[], &[("n", json!(1))], &[("zz", json!(true))]];
    for fields in waits {
        let run = world.drive("onboard", json!({ "id": 1 })).await;
        world.suspend(&run, vec![for_event_with("wait", "verified", fields)]).await;
        let data = json!({ "n": 1, "user": { "id": 1 }, "zz": true });
        assert_eq!(world.post("verified", data).await.woke, 1, "{fields:?}");
        let run = world.lease_one().await;
        assert!(wait(world, &run, "again").await.is_none(), "the event came twice: {fields:?}");
        assert_eq!(world.cancel(run.id).await.map(drop), Ok(()));
    }
}

/// spec L35: an inbox has room for 100 events of one name. Later ones are dropped and counted.
pub async fn the_inbox_is_bounded(world: &World) {
    define(world).await;
    let run = world.drive("onboard", json!({ "id": 1 })).await;
    for n in 1..=101 {
        verify(world, 1, n).await;
    }
    let live = world.live(run.id).await.expect("it has not ended");
    let ListenerEffect::Keep { kept, dropped, .. } = live.listeners[0].effect else {
        panic!("not an inbox: {live:?}")
    };
    assert_eq!((kept, dropped), (100, 1));
    let run = wait(world, &run, "first").await.expect("the inbox is full");
    assert_eq!(world.came_of(run.id, "first").await, answer(1, 1));
    verify(world, 1, 102).await;
    let last = for_event_with("last", "verified", &[("n", json!(102))]);
    world.suspend(&run, vec![last]).await;
    assert_eq!(world.lease_one().await.id, run.id, "there is room again");
}

/// spec L35, N16: an event enters the inboxes of any number of runs, chunk by chunk, once each.
pub async fn an_event_enters_any_number_of_inboxes(world: &World) {
    define(world).await;
    let crowd = 2 * WOKEN_AT_ONCE + 40;
    world.post_all(vec![event("onboard", &json!({ "id": 1 })); crowd]).await;
    assert!(world.post("verified", json!({ "user": { "id": 1 } })).await.waking);
    world.sweep().await;
    let rows = world.dump().await;
    let kept = rows.iter().filter_map(Row::as_run).map(|run| match run.listeners[0].effect {
        ListenerEffect::Keep { kept, .. } => kept,
        ListenerEffect::Cancel => panic!("not an inbox: {run:?}"),
    });
    assert_eq!(kept.filter(|kept| *kept == 1).count(), crowd);
    assert!(!rows.iter().any(|row| matches!(row, Row::Chore(_))), "the chore has ended");
}
