//! spec R17, L29, L35: events, waits and admissions in transactions at the same time. Those with
//! one value run one after the other; those with different values do not wait for each other.

use std::sync::Arc;

use serde_json::json;
use tidegate_core::{
    command::{Batch, Command, decide, probe},
    id::RunId,
    row::{Run, Workspace},
    run::record::{Record, Then},
    time::Timestamp,
};
use tidegate_store::{Decide, Decision, ManualClock, PostgresStore, Store};
use tidegate_testkit::{
    worker::for_event_with,
    world::{World, event},
};
use tokio::task::JoinHandle;

use crate::rig::{Going, Pause, Rig};

/// A store, and a world on it.
async fn world(rig: &Rig, name: &str) -> (Arc<PostgresStore>, World) {
    let store = rig.store(name).await;
    (store.clone(), World::new(store, Arc::new(ManualClock::new(Timestamp::from_micros(0)))))
}

/// Executes a command, whose transaction stops while it holds all its locks.
async fn stopped(store: &Arc<PostgresStore>, command: Command) -> (Going, JoinHandle<()>) {
    let batch = vec![(command, 7)];
    let reads = probe(&batch, &store.catalogs(), &Arc::default(), Timestamp::from_micros(0));
    let (pause, mut stand_still) = Pause::new();
    let decide: Decide = Box::new(move |snapshot| match decide(&batch, snapshot) {
        Batch::Decided(changes, _) => {
            stand_still();
            Decision::Apply(changes)
        }
        Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
    });
    let store = store.clone();
    let task = tokio::spawn(async move { store.transact(reads, decide).await.unwrap() });
    (pause.reached().await, task)
}

fn post(ws: &Workspace, name: &str, id: u32) -> Command {
    Command::Post { ws: ws.clone(), events: vec![event(name, &json!({ "id": id, "n": 0 }))] }
}

/// A report with which a run begins to wait for the event of its value.
fn begin_wait(world: &World, run: &Run, path: &str, id: u32) -> Command {
    let wait = for_event_with("wait", "paid", &[(path, json!(id))]);
    let report = Record::new(run.id.seq, world.engine, run.fence, Then::Suspend(vec![wait]));
    Command::Record { known: Box::new(run.clone()), report }
}

async fn define(world: &World) {
    world
        .define(json!({
            "name": "order",
            "cancelOn": { "event": "gone", "match": { "id": "id" } },
        }))
        .await;
}

/// Drives a run of this value.
async fn drive(world: &World, id: u32) -> Run {
    world.drive("order", json!({ "id": id })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_beginning_wait_holds_up_only_events_of_its_value() {
    let Some(rig) = Rig::new().await else { return };
    let ((a, at_a), (_, at_b)) = (world(&rig, "a").await, world(&rig, "b").await);
    define(&at_a).await;
    // The first wait makes the path known: from then on, waits take only the latch of their value.
    let runs = [drive(&at_a, 1).await, drive(&at_a, 2).await];
    at_a.run(begin_wait(&at_a, &runs[0], "id", 1)).await.unwrap();
    let (going, wait) = stopped(&a, begin_wait(&at_a, &runs[1], "id", 2)).await;
    let woke = async |id: u32| at_b.post("paid", json!({ "id": id })).await.woke;
    assert_eq!(woke(3).await, 0, "the event does not wait for the transaction");
    assert_eq!(woke(1).await, 1, "the event does not wait for the transaction");
    let (same, ()) = tokio::join!(woke(2), async {
        rig.until_it_waits("b").await;
        going.go_on();
    });
    wait.await.unwrap();
    assert_eq!(same, 1, "the event of the value waits, and ends the wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_wait_on_a_path_and_an_event_do_not_miss_each_other() {
    let Some(rig) = Rig::new().await else { return };
    let ((a, at_a), (_, at_b)) = (world(&rig, "a").await, world(&rig, "b").await);
    define(&at_a).await;
    let runs = [drive(&at_a, 1).await, drive(&at_a, 2).await];
    // The wait is first: the event waits for it and ends it.
    let (going, wait) = stopped(&a, begin_wait(&at_a, &runs[0], "id", 1)).await;
    let (posted, ()) = tokio::join!(at_b.post("paid", json!({ "id": 1 })), async {
        rig.until_it_waits("b").await;
        going.go_on();
    });
    wait.await.unwrap();
    assert_eq!(posted.woke, 1);
    // The event is first, and knows no wait on the path: the wait begins after it.
    let (going, post) = stopped(&a, post(&at_a.ws, "paid", 2)).await;
    let (begun, ()) = tokio::join!(at_b.run(begin_wait(&at_a, &runs[1], "n", 0)), async {
        rig.until_it_waits("b").await;
        going.go_on();
    });
    post.await.unwrap();
    begun.unwrap();
    assert_eq!(at_b.state(runs[1].id).await, "waiting", "the event is from before the wait");
    assert_eq!(at_b.post("paid", json!({ "n": 0 })).await.woke, 1);
}

/// Neither waits for the other: of an event and an admission at the same time, either may be first
/// (spec L29). An event after the commit of the admission cancels the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_and_an_admission_do_not_wait_for_each_other() {
    let Some(rig) = Rig::new().await else { return };
    let ((a, at_a), (_, at_b)) = (world(&rig, "a").await, world(&rig, "b").await);
    define(&at_a).await;
    let known = drive(&at_a, 9).await;
    let (going, admission) = stopped(&a, post(&at_a.ws, "order", 1)).await;
    at_b.post("gone", json!({ "id": 1 })).await;
    going.go_on();
    admission.await.unwrap();
    assert_eq!(live(&at_b, 1).await.len(), 1, "the event was posted before the run was admitted");
    at_b.post("gone", json!({ "id": 1 })).await;
    assert_eq!(live(&at_b, 1).await, [] as [RunId; 0], "the run was admitted before the event");
    assert!(at_b.live(known.id).await.is_some());
}

/// Returns the live runs whose listener has this value.
async fn live(world: &World, id: u32) -> Vec<RunId> {
    let value = tidegate_core::run::wait::encoded(
        &tidegate_testkit::world::payload(&json!({ "id": id })),
        "id",
    );
    let rows = world.dump().await.into_iter();
    let runs = rows.filter_map(|row| row.as_run().cloned());
    let is_of = |run: &Run| run.listeners.iter().any(|it| Some(&it.value) == value.as_ref());
    runs.filter(is_of).map(|run| run.id).collect()
}
