//! Retention: old rows of ended runs are deleted in chunks; rows that others refer to stay.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command},
    id::{RunId, Seq},
    retention::{Forgotten, Past},
    row::{Row, RowKey},
    run::{
        output::NewChunk,
        record::{Record, Then},
    },
    time::Timestamp,
};
use tidegate_store::check_up;

use crate::world::{World, payload, step};

const DAY_MS: u64 = 86_400_000;

/// Deletes one chunk of old rows.
async fn part(world: &World, past: Past, before: Timestamp, after: Seq, most: u32) -> Forgotten {
    match world.run(Command::Forget { past, before, after, most }).await {
        Ok(Answer::Forgotten(forgotten)) => forgotten,
        other => panic!("unexpected answer to a deletion: {other:?}"),
    }
}

/// Deletes all old rows of all kinds, as an engine does; returns their number.
async fn forget(world: &World, before: Timestamp) -> u32 {
    let mut rows = 0;
    for past in [Past::Events, Past::Runs, Past::Receipts] {
        let mut after = Some(Seq(i64::MIN));
        let mut parts = 0;
        while let Some(from) = after {
            let done = part(world, past, before, from, 3).await;
            (rows, after, parts) = (rows + done.rows, done.next, parts + 1);
            assert!(parts < 1000, "the deletion does not end");
        }
    }
    rows
}

/// Repeats the deletion until nothing is deleted: an event is deleted only after the run that
/// refers to it.
async fn forget_all(world: &World, before: Timestamp) {
    while forget(world, before).await > 0 {}
}

/// Returns the kinds of the rows of ended runs, events and receipts that are left.
async fn left(world: &World) -> Vec<&'static str> {
    let kind = |row: &Row| match row {
        Row::Event(_) => Some("event"),
        Row::Ended(_) => Some("ended"),
        Row::Step(_) => Some("step"),
        Row::Item(_) => Some("item"),
        Row::Signal(_) => Some("signal"),
        Row::Chunk(_) => Some("chunk"),
        Row::Receipt(_) => Some("receipt"),
        _ => None,
    };
    world.dump().await.iter().filter_map(kind).collect()
}

async fn is_kept(world: &World, run: RunId) -> bool {
    world.row(RowKey::Ended(run.seq)).await.is_some()
}

/// spec retention: an ended run is deleted with its steps, chunks and signals, however many, and
/// its event.
pub async fn old_runs_go_with_all_that_is_theirs(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    world.signal(run.id, "never", json!(1)).await.unwrap();
    let chunk = |n| NewChunk { step: String::new(), attempt: 0, n, data: payload(&json!("chunk")) };
    let report = Record {
        steps: (0..150).map(|n| step(&format!("s{n}"), &json!(n))).collect(),
        chunks: (0..70).map(chunk).collect(),
        ..Record::new(run.id.seq, world.engine, run.fence, Then::Continue)
    };
    let known = Box::new(run.clone());
    world.run(Command::Record { known, report }).await.unwrap();
    world.pass(DAY_MS);
    world.complete(&run).await;
    let ended = world.now();
    forget_all(world, ended).await;
    assert!(is_kept(world, run.id).await, "a run that just ended was deleted");
    assert_eq!(left(world).await.len(), 1 + 150 + 70 + 1 + 1);
    let young = world.drive("order", json!({})).await;
    world.pass(1);
    forget_all(world, ended.plus_ms(1)).await;
    assert_eq!(left(world).await, ["event"], "the young run's");
    world.complete(&young).await;
}

/// spec retention: an event stays while a live or ended run, a batch or a window refers to it.
pub async fn what_is_relied_on_stays(world: &World) {
    world.define(json!({ "name": "sleep" })).await;
    world.define(json!({ "name": "quiet", "debounce": { "periodMs": 40 * DAY_MS } })).await;
    let batch = json!({ "maxSize": 10, "timeoutMs": 40 * DAY_MS });
    world.define(json!({ "name": "many", "batch": batch })).await;
    let sleeper = world.drive("sleep", json!({})).await;
    world.sleep(&sleeper, "nap", 50 * DAY_MS).await;
    let before = world.post("quiet", json!({ "n": 1 })).await.id;
    let last = world.post("quiet", json!({ "n": 2 })).await.id;
    let items = [world.post("many", json!(1)).await.id, world.post("many", json!(2)).await.id];
    let nobody = world.post("nobody", json!({})).await.id;
    world.pass(35 * DAY_MS);
    forget_all(world, world.now().minus_ms(30 * DAY_MS)).await;
    let kept = |id: tidegate_core::id::EventId| world.row(RowKey::Event(id.seq));
    for id in [sleeper.source.first(), last, items[0], items[1]] {
        assert!(kept(id).await.is_some(), "{id} is relied on");
    }
    for id in [before, nobody] {
        assert!(kept(id).await.is_none(), "event {id} is unreferenced and was not deleted");
    }
    assert!(!left(world).await.contains(&"receipt"), "receipts must be deleted by their age");
    // The window and the buffer become runs with their events; when those runs are old, all rows
    // are deleted.
    world.tick(20 * DAY_MS).await;
    let mut runs = world.lease_all().await;
    assert_eq!(runs.len(), 3);
    world.pass(35 * DAY_MS);
    forget_all(world, world.now().minus_ms(30 * DAY_MS)).await;
    for run in &runs {
        assert!(
            kept(run.source.first()).await.is_some(),
            "the event of {} was deleted, but its run is driven",
            run.workflow
        );
    }
    while let Some(run) = runs.pop() {
        world.complete(&run).await;
    }
    world.pass(31 * DAY_MS);
    forget_all(world, world.now().minus_ms(30 * DAY_MS)).await;
    assert_eq!(left(world).await, Vec::<&str>::new());
}

/// spec retention: an ended run is kept while its replay is live, and can be replayed until it is
/// deleted.
pub async fn the_source_of_a_replay_stays(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let first = world.drive("order", json!({ "n": 1 })).await;
    world.complete(&first).await;
    let (ws, run) = (world.ws.clone(), first.id);
    let replay = Command::Replay { ws, run, input: None, from_step: None, function_key: None };
    let again = world.run(replay.clone()).await;
    assert!(matches!(again, Ok(Answer::Admitted(_))), "{again:?}");
    let second = world.lease_one().await;
    world.pass(35 * DAY_MS);
    let before = || world.now().minus_ms(30 * DAY_MS);
    forget_all(world, before()).await;
    assert!(is_kept(world, first.id).await);
    world.complete(&second).await;
    forget_all(world, before()).await;
    assert!(!is_kept(world, first.id).await, "an old run without a live replay was not deleted");
    assert_eq!(left(world).await, ["event", "ended"], "the second run must still have its input");
    let refused = world.run(replay).await.expect_err("it is gone");
    assert_eq!(refused.code(), "no_run");
    world.pass(35 * DAY_MS);
    forget_all(world, before()).await;
    assert_eq!(left(world).await, Vec::<&str>::new());
}

/// Deletion continues after the last chunk and stops at the first young row. A cancelled run whose
/// worker has not stopped is kept.
pub async fn a_pass_goes_part_by_part(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for _ in 0..7 {
        world.start("order", json!({})).await;
    }
    world.drain().await;
    world.pass(DAY_MS);
    let driven = world.drive("order", json!({})).await;
    world.cancel(driven.id).await.unwrap();
    let now = world.now().plus_ms(1);
    let first = part(world, Past::Runs, now, Seq(i64::MIN), 4).await;
    assert_eq!(first.rows, 4);
    let second = part(world, Past::Runs, now, first.next.expect("there is more"), 4).await;
    assert_eq!(second.rows, 3);
    let third = part(world, Past::Runs, now, second.next.expect("it was full"), 4).await;
    assert_eq!(third, Forgotten { rows: 0, next: None });
    assert!(is_kept(world, driven.id).await, "a run was deleted before its worker stopped");
    world.stopped(&driven).await;
    assert_eq!(part(world, Past::Runs, now, Seq(i64::MIN), 4).await.rows, 1);
    let early = part(world, Past::Events, now.minus_ms(2 * DAY_MS), Seq(i64::MIN), 3).await;
    assert_eq!(
        early,
        Forgotten { rows: 0, next: None },
        "the scan must stop at the first young row"
    );
}

/// spec I48: a receipt may be kept longer than its run. The store records up to where runs were
/// deleted, so the check reports no missing run, whatever the retention settings.
pub async fn a_receipt_may_outlive_its_run(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    world.send("order", json!(1)).await;
    world.send("order", json!(2)).await;
    assert_eq!(world.drain().await.len(), 2);
    world.pass(1);
    let gone = part(world, Past::Runs, world.now(), Seq(i64::MIN), 9).await;
    assert!(gone.rows >= 2, "{gone:?}");
    assert!(
        left(world).await.contains(&"receipt"),
        "the second run was queued and must have a receipt"
    );
    let all = |visit| world.store.walk(visit);
    let report = check_up(None, Timestamp::default(), all).await.unwrap();
    assert_eq!(report.findings, []);
}
