//! Tests of the same rules with real commands: they check what an author of workflows would notice
//! if a rule were broken.

use std::sync::Arc;

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command},
    flow::Verdict,
    row::{GateState, Row, Run},
    run::record::Then,
};
use tidegate_store::{ManualClock, PostgresStore};
use tidegate_testkit::{
    sample::LEASE_MS,
    world::{World, append, event, increment},
};

use crate::{commits::behind_proxy, proxy::Fault, rig::Rig};

/// Returns a world that stands for one process on the shared store, with the server's clock.
fn process(store: Arc<PostgresStore>, engine: u128) -> World {
    World::new(store, Arc::new(ManualClock::default())).engine(engine)
}

async fn two_processes(rig: &Rig) -> (World, World) {
    (process(rig.store("a").await, 1), process(rig.store("b").await, 2))
}

fn sync(version: u32, limit: u32) -> serde_json::Value {
    let concurrency = json!({ "limit": limit, "key": "k" });
    json!({ "name": "sync", "version": version, "concurrency": concurrency })
}

/// Returns the number of holders of each gate, and whether it has a queue.
async fn gates(world: &World) -> Vec<(usize, bool)> {
    let slots = |row: &Row| match row.as_gate().map(|gate| &gate.state) {
        Some(GateState::Slots(slots)) => Some((slots.holders.len(), slots.head.is_some())),
        _ => None,
    };
    world.dump().await.iter().filter_map(slots).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r18_a_lowered_limit_binds_in_every_process() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = two_processes(&rig).await;
    a.define(sync(1, 2)).await;
    // Both processes now have cached the first version.
    for world in [&a, &b] {
        assert!(matches!(world.send("sync", json!({ "k": 1 })).await, Verdict::Started { .. }));
    }
    a.define(sync(2, 1)).await;
    let third = b.send("sync", json!({ "k": 1 })).await;
    assert!(matches!(third, Verdict::Queued { .. }), "{third:?}");
    let first = b.send("sync", json!({ "k": 2 })).await;
    assert!(matches!(first, Verdict::Started { .. }), "{first:?}");
    let second = b.send("sync", json!({ "k": 2 })).await;
    let queued = matches!(second, Verdict::Queued { .. });
    assert!(queued, "the verdict was decided by the old limit: {second:?}");

    // No run has lost its slot, and a freed slot is not handed on while there are too many holders.
    let inside = b.lease_all().await;
    assert_eq!(inside.len(), 3);
    b.complete(inside.iter().find(|run| run.version == 1).expect("two runs have version 1")).await;
    assert!(b.lease_all().await.is_empty());

    // When the other process raises the limit, the queued runs are admitted.
    a.define(sync(3, 2)).await;
    b.sweep().await;
    assert_eq!(b.lease_all().await.len(), 2);
    b.check_holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r3_the_first_events_of_a_key_meet_at_its_gate() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = two_processes(&rig).await;
    a.define(sync(1, 1)).await;
    for k in 0..30 {
        let data = json!({ "k": k });
        let (first, second) =
            tokio::join!(a.send("sync", data.clone()), b.send("sync", data.clone()));
        let started = [&first, &second].map(|verdict| matches!(verdict, Verdict::Started { .. }));
        assert_ne!(started[0], started[1], "not exactly one has started: {first:?}, {second:?}");
    }
    assert_eq!(gates(&a).await, [(1, true); 30]);
    a.check_holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r15_a_freed_place_is_handed_to_one() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = two_processes(&rig).await;
    a.define(sync(1, 2)).await;
    for _ in 0..40 {
        a.send("sync", json!({ "k": 1 })).await;
    }
    let mut done = 0;
    while done < 40 {
        let runs = a.lease_all().await;
        assert!((1..=2).contains(&runs.len()), "{} runs hold a slot, not 1 or 2", runs.len());
        done += runs.len();
        // Both processes free a slot at the same time, and both find the same first run in the
        // queue.
        tokio::join!(complete(&a, runs.first()), complete(&b, runs.get(1)));
        a.check_holds().await;
    }
}

async fn complete(world: &World, run: Option<&Run>) {
    if let Some(run) = run {
        world.complete(run).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_an_admission_whose_answer_is_lost_starts_one_run() {
    let Some(rig) = Rig::new().await else { return };
    let (store, proxy) = behind_proxy(&rig).await;
    let world = process(store, 1);
    world.define(sync(1, 1)).await;
    for (n, fault) in [Fault::CutAfter, Fault::CutBefore, Fault::FailBefore].into_iter().enumerate()
    {
        let mut event = event("sync", &json!({ "k": n }));
        event.dedupe_id = Some(n.to_string());
        proxy.at_next_commit(fault);
        let posted = world.post_event(event.clone()).await;
        assert!(!posted.deduped, "the first event with its dedupeId was taken for a repeat");
        let again = world.post_event(event).await;
        assert_eq!((again.id, again.deduped), (posted.id, true));
        assert_eq!(world.alive("sync").await, n + 1);
    }
    assert_eq!(gates(&world).await, [(1, false); 3]);
    world.check_holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r8_a_lease_is_lost_by_the_beat_that_others_saw() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = two_processes(&rig).await;
    a.define(sync(1, 1)).await;
    a.send("sync", json!({ "k": 1 })).await;
    assert!(a.store.heartbeat(a.engine, LEASE_MS).await.unwrap());
    let run = a.lease_one().await;
    // The engine has renewed its lease since its last heartbeat was read, so it is not marked dead
    // and its run is not reaped.
    assert!(a.store.heartbeat(a.engine, LEASE_MS).await.unwrap());
    let mark = |beat| Command::MarkDead { engine: a.engine, beat };
    let reap = || Command::Reap {
        known: Box::new(run.clone()),
        engine: a.engine,
        max_deaths: tidegate_core::run::sweep::MAX_DEATHS,
    };
    let no = Ok(Answer::Changed(false));
    assert_eq!(b.batch(vec![mark(1), reap()]).await, [no.clone(), no]);
    // The engine has not renewed its lease: it is marked dead, its next heartbeat returns false,
    // and its report is refused.
    let yes = Ok(Answer::Changed(true));
    assert_eq!(b.batch(vec![mark(2), reap()]).await, [yes.clone(), yes]);
    assert!(!a.store.heartbeat(a.engine, LEASE_MS).await.unwrap());
    let late = a.report(&run, Vec::new(), Then::Continue).await;
    assert_eq!(late.unwrap_err().code(), "fenced");
    assert_eq!(b.lease_one().await.id, run.id);
}

/// spec B3, N44: no write to a session is lost, not even the first one, for which there is no row
/// to lock yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_write_one_session_lose_nothing() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = two_processes(&rig).await;
    for round in 0..5 {
        let id = format!("session {round}");
        let write = async |world: &World, name: &str| {
            for n in 0..8 {
                world
                    .patch(&id, increment("count", 1), None)
                    .await
                    .expect("the counter is incremented");
                world.patch(&id, append(name, json!(n)), None).await.expect("the item is appended");
            }
        };
        tokio::join!(write(&a, "a"), write(&b, "b"), write(&a, "c"), write(&b, "d"));
        let list = json!([0, 1, 2, 3, 4, 5, 6, 7]);
        let expected = json!({ "count": 32, "a": list, "b": list, "c": list, "d": list });
        assert_eq!(a.document(&id).await, expected);
        assert_eq!(a.document_text(&id).await.map(|(version, _)| version), Some(64));
    }
}
