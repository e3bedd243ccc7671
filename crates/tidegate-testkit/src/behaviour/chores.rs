//! Chores: work that is too much for one transaction is done in chunks, once and in order.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    id::ChoreId,
    row::{Bulk, BulkCounts, BulkFilter, BulkWhat, Chore, Ending, Row, RowKey, Run, Work},
    run::{
        chore::KEPT_MS,
        record::{NewWait, Record, Then},
        wake::WOKEN_AT_ONCE,
    },
};

use crate::{
    worker::{for_child, for_event, for_event_with},
    world::{World, event},
};

/// Number of runs that needs more than two chunks.
const CROWD: usize = 2 * WOKEN_AT_ONCE + 40;

/// Returns `count` runs of a workflow that are suspended in this wait.
async fn crowd(world: &World, workflow: &str, count: usize, wait: &NewWait) -> Vec<Run> {
    world.post_all(vec![event(workflow, &json!({})); count]).await;
    let mut runs = Vec::new();
    while runs.len() < count {
        runs.extend(world.lease_all().await);
    }
    let suspend = |run: &Run| Command::Record {
        known: Box::new(run.clone()),
        report: Record {
            run: run.id.seq,
            engine: world.engine,
            fence: run.fence,
            then: Then::Suspend(vec![wait.clone()]),
            ..Record::default()
        },
    };
    for answer in world.batch(runs.iter().map(suspend).collect()).await {
        answer.expect("the lease is good");
    }
    runs
}

/// Returns the answers that the waits of a step got, each with the number of waits.
async fn answers(world: &World, step: &str) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for row in world.dump().await {
        if let Row::Step(row) = row
            && row.id == step
        {
            let answer = row.result.expect("an answer").as_str().to_owned();
            *counts.entry(answer).or_default() += 1;
        }
    }
    counts.into_iter().collect()
}

async fn chores(world: &World) -> Vec<Chore> {
    let rows = world.dump().await.into_iter();
    rows.filter_map(|row| if let Row::Chore(chore) = row { Some(chore) } else { None }).collect()
}

async fn sweep_one(world: &World, chore: &Chore) {
    let known = Box::new(chore.clone());
    assert_eq!(world.run(Command::SweepChore { known }).await, Ok(Answer::Done));
}

/// spec N16, I33: an event wakes all runs that waited when it was posted, each once, in any number.
/// It does not wake runs that begin to wait while the chunks are processed.
pub async fn an_event_wakes_a_crowd_chunk_by_chunk(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let seven = for_event_with("paid", "payment", &[("id", json!(7))]);
    crowd(world, "order", CROWD, &for_event("paid", "payment")).await;
    crowd(world, "order", 10, &seven).await;
    let eight = for_event_with("paid", "payment", &[("id", json!(8))]);
    let other = crowd(world, "order", 1, &eight).await;
    let posted = world.post("payment", json!({ "id": 7, "n": 1 })).await;
    assert_eq!((posted.woke as usize, posted.waking), (WOKEN_AT_ONCE, true));
    assert_eq!(posted.to_value()["waking"], true);
    let woken = world.drain().await.len();
    // This run begins to wait while hundreds of earlier waits have no answer yet.
    let late = crowd(world, "order", 1, &seven).await;
    world.sweep().await;
    let first = r#"{"id":7,"n":1}"#.to_owned();
    assert_eq!(answers(world, "paid").await, [(first.clone(), CROWD + 10)]);
    for run in late.iter().chain(&other) {
        assert_eq!(world.state(run.id).await, "waiting");
    }
    assert_eq!(chores(world).await, []);
    assert_eq!(
        world.post("payment", json!({ "id": 7 })).await.woke,
        1,
        "the run that began to wait late was not woken"
    );
    assert_eq!(
        world.post("payment", json!({ "id": 8 })).await.woke,
        1,
        "the run that waits for id 8 was not woken"
    );
    assert_eq!(woken + world.drain().await.len(), CROWD + 12);
    world.check_quiet().await;
}

/// spec N17: while an event's waiters are being woken, the next event of its name is queued behind
/// it: every wait is answered by the first event that matches it.
pub async fn events_of_a_name_wake_in_their_order(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let any = for_event("paid", "payment");
    crowd(world, "order", CROWD, &any).await;
    assert!(world.post("payment", json!(1)).await.waking);
    let woken = world.drain().await.len();
    crowd(world, "order", 3, &any).await;
    let posted = world.post("payment", json!(2)).await;
    assert_eq!(
        (posted.woke, posted.waking),
        (0, true),
        "the second event must wait until the first has woken its runs"
    );
    // An event of another name wakes its runs at once.
    crowd(world, "order", 2, &for_event("told", "refund")).await;
    assert_eq!(world.post("refund", json!(0)).await.woke, 2);
    let [first, second] = &chores(world).await[..] else {
        panic!("expected one chore for each event")
    };
    sweep_one(world, second).await;
    assert_eq!(answers(world, "paid").await, [("1".to_owned(), WOKEN_AT_ONCE)]);
    sweep_one(world, first).await;
    sweep_one(world, first).await;
    assert_eq!(answers(world, "paid").await, [("1".to_owned(), CROWD)]);
    sweep_one(world, first).await;
    sweep_one(world, second).await;
    let both = [("1".to_owned(), CROWD), ("2".to_owned(), 3)];
    assert_eq!(answers(world, "paid").await, both);
    assert_eq!(woken + world.drain().await.len(), CROWD + 5);
    world.check_quiet().await;
}

/// spec N19: a family of runs that is too large for one transaction is cancelled in chunks.
pub async fn a_large_family_is_cancelled_in_chunks(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "part", "concurrency": { "limit": 1, "key": "n" } })).await;
    let parent = world.drive("order", json!({})).await;
    let child = |n: usize| for_child(&format!("part {n}"), "part", &json!({ "n": n }));
    let count = 800;
    world.suspend(&parent, (0..count).map(child).collect()).await;
    assert_eq!(world.alive("part").await, count);
    assert_eq!(world.cancel(parent.id).await, Ok(Answer::Done));
    assert_eq!(world.state(parent.id).await, "cancelled");
    assert!(!chores(world).await.is_empty(), "they do not fit");
    world.sweep().await;
    assert_eq!(world.alive("part").await, 0);
    let reason = format!("parent {} was cancelled", parent.id);
    for row in world.dump().await {
        if let Row::Ended(ended) = row
            && ended.workflow == "part"
        {
            let why = Ending::Cancelled { reason: reason.clone(), by: None };
            assert_eq!(ended.ending, why);
        }
    }
    world.check_quiet().await;
}

async fn bulk(world: &World, what: BulkWhat, filter: Value) -> ChoreId {
    let filter: BulkFilter = serde_json::from_value(filter).expect("a filter");
    match world.run(Command::Bulk { ws: world.ws.clone(), what, filter }).await {
        Ok(Answer::Left(id)) => id,
        other => panic!("unexpected answer of a bulk operation: {other:?}"),
    }
}

async fn progress(world: &World, id: ChoreId) -> Option<Bulk> {
    match world.row(RowKey::Chore(id.seq)).await {
        Some(Row::Chore(Chore { work: Work::Bulk(bulk), .. })) => Some(bulk),
        _ => None,
    }
}

fn cancel() -> BulkWhat {
    BulkWhat::Cancel { reason: "all of it".to_owned() }
}

/// spec N13: a bulk operation processes all runs that were admitted before it, in any state, chunk
/// by chunk. Its progress can be read meanwhile, and for a day after its end.
pub async fn a_bulk_operation_goes_chunk_by_chunk(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let runs = crowd(world, "order", CROWD, &for_event("paid", "payment")).await;
    let driven = world.drive("order", json!({})).await;
    let id = bulk(world, cancel(), json!({})).await;
    assert_eq!(world.alive("order").await, CROWD + 1, "runs ended before the first chunk");
    let later = world.drive("order", json!({})).await;
    let counts = |done: usize| BulkCounts { done: u32::try_from(done).expect("few"), refused: 0 };
    let [chore] = &chores(world).await[..] else { panic!("one chore") };
    sweep_one(world, chore).await;
    let now = progress(world, id).await.expect("it can be read");
    assert!(now.counts.done > 0 && now.counts.done < u32::try_from(CROWD).expect("few"));
    assert_eq!(now.ended_at, None);
    world.sweep().await;
    let end = progress(world, id).await.expect("it can be read");
    assert_eq!((end.counts, end.ended_at), (counts(CROWD + 1), Some(world.now())));
    assert_eq!(world.cancelled(runs[0].id).await, ("all of it".to_owned(), None));
    assert_eq!(world.cancelled(driven.id).await, ("all of it".to_owned(), None));
    assert_eq!(
        world.state(later.id).await,
        "running",
        "a run was cancelled that started after the bulk operation"
    );
    world.stopped(&driven).await;
    world.complete(&later).await;
    world.check_quiet().await;
    world.tick(KEPT_MS - 1).await;
    assert!(progress(world, id).await.is_some());
    world.tick(1).await;
    assert!(progress(world, id).await.is_none());
}

/// spec N13: a filter restricts a bulk operation, and runs that need no change are not counted.
pub async fn a_bulk_operation_does_what_its_filter_says(world: &World) {
    world.define(json!({ "name": "order", "version": 1, "concurrency": { "limit": 1 } })).await;
    world.define(json!({ "name": "mail", "app": "post", "triggers": [{ "event": "m" }] })).await;
    let stranger = world.in_workspace("b");
    stranger.define(json!({ "name": "order" })).await;
    let foreign = stranger.drive("order", json!({})).await;
    let first = world.drive("order", json!({})).await;
    let queued = world.start("order", json!({})).await;
    world.pass(1000);
    let mail = world.drive("m", json!({})).await;
    world.sleep(&mail, "nap", 60_000).await;
    let early = serde_json::to_value(world.now()).expect("a moment");
    let table = [
        (json!({ "app": "nobody's" }), 0),
        (json!({ "workflow": "order", "app": "post" }), 0),
        (json!({ "workflow": "order", "version": 2 }), 0),
        (json!({ "workflow": "mail", "queuedBefore": early }), 0),
        (json!({ "state": "paused" }), 0),
        (json!({ "workflow": "order", "state": "queued" }), 1),
        (json!({ "app": "post", "state": "waiting" }), 1),
        (json!({ "workflow": "order", "version": 1, "queuedBefore": early }), 2),
        (json!({}), 3),
    ];
    for (filter, expected) in table {
        let id = bulk(world, BulkWhat::Pause, filter.clone()).await;
        world.sweep().await;
        let done = progress(world, id).await.expect("it can be read").counts;
        assert_eq!(done, BulkCounts { done: expected, refused: 0 }, "{filter}");
        let id = bulk(world, BulkWhat::Pause, filter.clone()).await;
        world.sweep().await;
        let again = progress(world, id).await.expect("it can be read").counts;
        assert_eq!(
            again,
            BulkCounts::default(),
            "{filter}: runs that were paused already were counted"
        );
        let id = bulk(world, BulkWhat::Resume, json!({})).await;
        world.sweep().await;
        let back = progress(world, id).await.expect("it can be read").counts;
        assert_eq!(back.done, expected, "{filter}");
    }
    for (run, state) in [(first.id, "running"), (queued, "queued"), (mail.id, "waiting")] {
        assert_eq!(world.state(run).await, state);
    }
    bulk(world, cancel(), json!({ "state": "waiting" })).await;
    bulk(world, cancel(), json!({ "workflow": "order", "state": "running" })).await;
    world.sweep().await;
    assert_eq!(world.state(mail.id).await, "cancelled");
    assert_eq!(world.state(first.id).await, "cancelled");
    assert_eq!(world.state(queued).await, "queued");
    assert_eq!(stranger.state(foreign.id).await, "running");
    world.stopped(&first).await;
    assert_eq!(world.drain().await, [queued]);
    world.check_quiet().await;
}
