//! Purges of queues, and previews of overrides (spec L25, L26).

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    id::RunId,
    observe::overrides::{Effect, preview},
    overrides::{OverrideChange, Purged},
    row::{Ending, Row, RowKey, Work},
};
use tidegate_store::{dry_run, look};

use super::overrides::{change, pause, set, target};
use crate::world::{World, event};

fn purging(world: &World, of: Value, if_epoch: Option<i64>) -> Command {
    let (ws, target) = (world.ws.clone(), Box::new(target(of)));
    Command::Purge { ws, target, reason: "flood".to_owned(), if_epoch }
}

/// Previews a purge, then purges. Returns the number of waiting runs, which is the same in both
/// answers (spec I81), and of cancelled ones.
async fn purge(world: &World, of: Value) -> (u32, u32) {
    let command = purging(world, of, None);
    let seen = dry_run(&*world.store, (command.clone(), 0)).await.expect("the store works").0;
    let Ok(Answer::Purged(seen)) = seen else { panic!("no preview: {seen:?}") };
    let purged = match world.run(command).await {
        Ok(Answer::Purged(purged)) => purged,
        other => panic!("the purge is not accepted: {other:?}"),
    };
    let Purged { id, waiting, at_least, epoch } = purged;
    assert_eq!((seen.waiting, seen.at_least, seen.epoch), (waiting, at_least, epoch));
    world.sweep().await;
    match world.row(RowKey::Chore(id.seq)).await {
        Some(Row::Chore(chore)) => match chore.work {
            Work::Bulk(bulk) => {
                assert!(bulk.ended_at.is_some(), "{bulk:?}");
                (waiting, bulk.counts.done)
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

async fn sent(world: &World, name: &str, k: &str) -> RunId {
    world.send_for_run(name, json!({ "k": k })).await
}

async fn effect(world: &World, change: OverrideChange) -> Effect {
    let OverrideChange::Set { target, fields, reason, expires_at } = change else {
        panic!("only changes that set an override have fields");
    };
    let (author, at) = (None, world.now());
    let of = target.clone();
    let after =
        tidegate_core::overrides::Override { target, fields, reason, author, at, expires_at };
    look(&*world.store, &world.ws, |draft| preview(draft, &world.ws, &of, Some(&after)))
        .await
        .expect("a query")
}

/// spec L25: a purge cancels the runs that wait for one key: those inside, those of other keys and
/// those that come later go on.
pub async fn a_purge_cancels_the_queue_of_one_key_and_no_other_run(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1, "key": "k" } })).await;
    let inside = world.drive("sync", json!({ "k": "a" })).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(sent(world, "sync", "a").await);
    }
    let other = world.drive("sync", json!({ "k": "b" })).await;
    let behind = sent(world, "sync", "b").await;
    let of = json!({ "workflow": "sync", "control": "concurrency", "path": "k", "key": "a" });
    assert_eq!(purge(world, of.clone()).await, (3, 3));
    for run in waiting {
        let ended = world.ended(run).await.expect("it is cancelled");
        assert_eq!(ended.ending, Ending::Cancelled { reason: "flood".to_owned(), by: None });
    }
    let late = sent(world, "sync", "a").await;
    world.sweep().await;
    world.complete(&inside).await;
    world.complete(&other).await;
    assert_eq!(world.drain().await, [behind, late]);
    assert_eq!(purge(world, of).await, (0, 0));
    world.check_holds().await;
}

/// spec L25: without a control a purge cancels the runs of the workflow that have not started,
/// wherever they wait; a run that has started waits at a gate, too, and stays.
pub async fn a_purge_of_a_workflow_cancels_what_has_not_started(world: &World) {
    let definition = json!({
        "name": "sync",
        "throttle": { "limit": 2, "perMs": 1000, "burst": 2 },
        "concurrency": { "limit": 1 },
    });
    world.define(definition).await;
    let first = world.drive("sync", json!({})).await;
    world.sleep(&first, "nap", 10).await;
    let second = world.lease_all().await;
    assert_eq!(second.len(), 0, "only one was sent");
    let queued = world.drive("sync", json!({})).await;
    world.tick(10).await;
    for _ in 0..4 {
        world.send_for_run("sync", json!({})).await;
    }
    world.define(json!({ "name": "other" })).await;
    let other = world.send_for_run("other", json!({})).await;
    assert_eq!(purge(world, json!({ "workflow": "sync" })).await, (4, 4));
    world.complete(&queued).await;
    assert_eq!(world.drain().await.len(), 2, "the woken run and the other workflow");
    assert_eq!(world.state(first.id).await, "completed");
    assert_eq!(world.state(other).await, "completed");
}

/// spec L25: a purge of a pool cancels the runs of all workflows in its queues, of one key prefix.
pub async fn a_purge_of_a_pool_cancels_its_queues(world: &World) {
    let concurrency = json!({ "limit": 1, "key": "k" });
    world.put_pool(json!({ "name": "api", "concurrency": concurrency })).await;
    for name in ["chat", "index"] {
        world.define(json!({ "name": name, "concurrency": [{ "pool": "api" }] })).await;
    }
    for k in ["eu-1", "eu-2", "us-1"] {
        world.drive("chat", json!({ "k": k })).await;
        sent(world, "chat", k).await;
        sent(world, "index", k).await;
    }
    assert_eq!(purge(world, json!({ "pool": "api", "keyPrefix": "eu-" })).await, (4, 4));
    assert_eq!(purge(world, json!({ "pool": "api", "control": "concurrency" })).await, (2, 2));
    assert_eq!(world.alive("chat").await, 3, "what is inside goes on");
}

/// spec L25: a queue longer than a chunk is counted and cancelled as a whole.
pub async fn a_purge_counts_more_runs_than_one_chunk_and_cancels_them(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    world.drive("sync", json!({})).await;
    world.post_all((0..600).map(|n| event("sync", &json!({ "n": n }))).collect()).await;
    let of = json!({ "workflow": "sync", "control": "concurrency" });
    assert_eq!(purge(world, of).await, (600, 600));
    assert_eq!(world.alive("sync").await, 1);
    world.check_holds().await;
}

/// spec L26: a purge with `ifEpoch` is refused after any change; a target without a queue, too.
pub async fn a_purge_under_an_old_epoch_or_of_a_bad_target_is_refused(world: &World) {
    let definition = json!({
        "name": "sync",
        "rateLimit": { "limit": 1, "perMs": 1000 },
        "throttle": { "limit": 1, "perMs": 1000 },
    });
    world.define(definition).await;
    let seen = match world.run(purging(world, json!({ "workflow": "sync" }), None)).await {
        Ok(Answer::Purged(purged)) => purged.epoch,
        other => panic!("{other:?}"),
    };
    pause(world, json!({ "workflow": "sync" })).await;
    let code = async |of: Value, if_epoch: Option<i64>| {
        let refused = world.run(purging(world, of, if_epoch)).await;
        refused.map_err(|refusal: Refusal| refusal.code()).unwrap_err()
    };
    assert_eq!(code(json!({ "workflow": "sync" }), Some(seen)).await, "epoch_changed");
    for of in [
        json!({ "workflow": "sync", "control": "rateLimit" }),
        json!({ "workflow": "sync", "control": "throttle", "position": 1 }),
        json!({ "workflow": "sync", "control": "concurrency" }),
        json!({}),
    ] {
        assert_eq!(code(of.clone(), None).await, "bad_target", "{of}");
    }
    assert_eq!(code(json!({ "workflow": "no" }), None).await, "no_workflow");
    assert_eq!(code(json!({ "pool": "no" }), None).await, "no_pool");
}

/// spec L26: the preview of an override says how many waiting runs would enter at once.
pub async fn a_preview_says_how_many_runs_would_enter_or_wait(world: &World) {
    let limits = json!({ "limit": 1, "key": "k", "cost": "n" });
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    for k in ["a", "b"] {
        for _ in 0..4 {
            world.send_for_run("sync", json!({ "k": k })).await;
        }
    }
    let of = |more: Value| {
        let mut of = json!({ "workflow": "sync", "control": "concurrency", "path": "k" });
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of
    };
    let counts = |effect: Effect| (effect.enter, effect.wait);
    let all = of(json!({}));
    let three = effect(world, set(all.clone(), json!({ "limit": 3 }))).await;
    assert_eq!(counts(three), (4, 2), "2 of 3 for each key");
    let one = of(json!({ "key": "a" }));
    assert_eq!(counts(effect(world, set(one, json!({ "limit": 9 }))).await), (3, 0));
    assert_eq!(counts(effect(world, set(all.clone(), json!({ "limit": 1 }))).await), (0, 6));
    let paused = set(json!({ "workflow": "sync" }), json!({ "paused": true }));
    let stopped = effect(world, paused).await;
    assert_eq!(counts(stopped), (0, 8), "no run has started");
    change(world, set(all, json!({ "limit": 3 }))).await;
    world.sweep().await;
    assert_eq!(world.lease_all().await.len(), 6, "as the preview has said");
}
