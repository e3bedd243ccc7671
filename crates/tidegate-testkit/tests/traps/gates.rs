//! spec R3, R8, R15: tests of locks, of the clock, and of hints, which are rows read without locks.

use std::sync::{Arc, Mutex};

use tidegate_core::{
    id::{RunId, Seq},
    reads::{Change, ReadSet, Scan, Snapshot},
    row::{Gate, GateKey, GateState, Hold, Phase, Place, Row, RowKey, Run},
    time::Timestamp,
};
use tidegate_store::{Decide, Decision, PostgresStore, Store};
use tidegate_testkit::sample;

use crate::rig::{Pause, Rig, apply, insert};

fn key() -> GateKey {
    sample::gate_key("main", "hot")
}

fn gate_reads() -> ReadSet {
    ReadSet::default().row(RowKey::Gate(key()))
}

fn gate_of(snapshot: &Snapshot) -> Option<Gate> {
    match snapshot.rows.get(&RowKey::Gate(key())) {
        Some(Some(Row::Gate(gate))) => Some(gate.clone()),
        _ => None,
    }
}

/// Returns the changes that add a holder to the gate, or create the gate with this holder.
fn hold(snapshot: &Snapshot, run: i64) -> Vec<Change> {
    let there = gate_of(snapshot);
    let mut gate = there.clone().unwrap_or_else(|| sample::gate("main", "hot", 1));
    if let GateState::Slots(slots) = &mut gate.state {
        slots.holders.push(Hold::new(RunId { seq: Seq(run), salt: 0 }, 1));
    }
    let row = Row::Gate(gate);
    vec![if there.is_some() { Change::Update(row) } else { Change::Insert(row) }]
}

async fn holders(store: &Arc<PostgresStore>) -> Vec<i64> {
    let snapshot = store.read(gate_reads()).await.unwrap();
    match gate_of(&snapshot).map(|gate| gate.state) {
        Some(GateState::Slots(slots)) => slots.holders.iter().map(|hold| hold.run.seq.0).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r3_a_gate_made_by_two_at_once_keeps_both() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    let (pause, mut stand_still) = Pause::new();
    let first = tokio::spawn({
        let a = a.clone();
        async move {
            let decide = move |snapshot: Snapshot| {
                stand_still();
                hold(&snapshot, 1)
            };
            apply(&a, gate_reads(), decide).await
        }
    });
    let paused = pause.reached().await;
    apply(&b, gate_reads(), |snapshot| hold(&snapshot, 2)).await.unwrap();
    paused.go_on();
    first.await.unwrap().unwrap();
    assert_eq!(holders(&a).await, [2, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r3_a_gate_deleted_while_another_waits_for_it_is_made_anew() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![sample::gate("main", "hot", 1).into()]).await;
    let (pause, mut stand_still) = Pause::new();
    let deleting = tokio::spawn({
        let a = a.clone();
        async move {
            let decide = move |_| {
                stand_still();
                vec![Change::Delete(RowKey::Gate(key()))]
            };
            apply(&a, gate_reads(), decide).await
        }
    });
    let paused = pause.reached().await;
    let holding = tokio::spawn({
        let b = b.clone();
        async move { apply(&b, gate_reads(), |snapshot| hold(&snapshot, 2)).await }
    });
    rig.until_it_waits("b").await;
    paused.go_on();
    deleting.await.unwrap().unwrap();
    holding.await.unwrap().unwrap();
    assert_eq!(holders(&a).await, [2]);
}

/// spec R15: a request that is repeated while its first attempt commits reads the effects of the
/// first attempt together with its reply, never without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r15_a_reply_is_read_after_all_that_it_was_committed_with() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![sample::gate("main", "hot", 1).into()]).await;
    let reply = Row::from(sample::reply("again", 7)).key();
    let reads = gate_reads().row(reply.clone());
    let (pause, mut stand_still) = Pause::new();
    let first = tokio::spawn({
        let (a, reads) = (a.clone(), reads.clone());
        async move {
            let decide = move |snapshot: Snapshot| {
                stand_still();
                let mut changes = hold(&snapshot, 1);
                changes.push(Change::Insert(sample::reply("again", 7).into()));
                changes
            };
            apply(&a, reads, decide).await
        }
    });
    let paused = pause.reached().await;
    let seen = Arc::new(Mutex::new(None));
    let second = tokio::spawn({
        let (b, seen) = (b.clone(), seen.clone());
        async move {
            let decide = move |snapshot: Snapshot| {
                let held =
                    gate_of(&snapshot).is_some_and(|gate| gate != sample::gate("main", "hot", 1));
                *seen.lock().unwrap() = Some((held, snapshot.rows[&reply].is_some()));
                Vec::new()
            };
            apply(&b, reads, decide).await
        }
    });
    rig.until_it_waits("b").await;
    paused.go_on();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    let expected = Some((true, true));
    assert_eq!(*seen.lock().unwrap(), expected, "the effects or the reply were not read");
}

fn in_line(seq: i64) -> Row {
    let place = Place { tier: 0, rank: sample::run(seq).rank };
    Row::from(Run { phase: Phase::Queued { gate: Seq(1), place }, ..sample::run(seq) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r15_a_line_is_read_after_the_gate_is_locked() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![sample::gate("main", "hot", 1).into()]).await;
    let (pause, mut stand_still) = Pause::new();
    let joining = tokio::spawn({
        let a = a.clone();
        async move {
            let decide = move |_| {
                stand_still();
                vec![Change::Insert(in_line(5)), Change::Insert(in_line(6))]
            };
            apply(&a, gate_reads(), decide).await
        }
    });
    let paused = pause.reached().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let serving = tokio::spawn({
        let (b, seen) = (b.clone(), seen.clone());
        let reads = gate_reads().scan(Scan::Queue(key()), 10);
        async move {
            let decide = move |snapshot: Snapshot| {
                seen.lock().unwrap().clone_from(&snapshot.scans[&Scan::Queue(key())].keys);
                Vec::new()
            };
            apply(&b, reads, decide).await
        }
    });
    rig.until_it_waits("b").await;
    paused.go_on();
    joining.await.unwrap().unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(*seen.lock().unwrap(), [RowKey::Run(Seq(5)), RowKey::Run(Seq(6))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r8_now_and_the_block_are_taken_after_the_locks() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![sample::gate("main", "hot", 1).into()]).await;
    let (pause, mut stand_still) = Pause::new();
    let stamps = Arc::new(Mutex::new(Vec::new()));
    let first = tokio::spawn({
        let (a, stamps) = (a.clone(), stamps.clone());
        let mut asked = false;
        let decide: Decide = Box::new(move |snapshot| {
            if !std::mem::replace(&mut asked, true) {
                stand_still();
                return Decision::Need(ReadSet::default().row(RowKey::Run(Seq(1))), snapshot);
            }
            stamps.lock().unwrap().push((snapshot.now, snapshot.block));
            Decision::Apply(Vec::new())
        });
        async move { a.transact(gate_reads(), decide).await }
    });
    let paused = pause.reached().await;
    let second = tokio::spawn({
        let (b, stamps) = (b.clone(), stamps.clone());
        async move {
            let decide = move |snapshot: Snapshot| {
                stamps.lock().unwrap().push((snapshot.now, snapshot.block));
                Vec::new()
            };
            apply(&b, gate_reads(), decide).await
        }
    });
    rig.until_it_waits("b").await;
    let meanwhile = Timestamp::from_micros(rig.clock().await);
    paused.go_on();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    let stamps = stamps.lock().unwrap();
    let (late, in_order) = (stamps[1].0 > meanwhile, stamps[0].0 <= stamps[1].0);
    assert!(late, "the clock was read before the wait for the lock: {stamps:?}, {meanwhile:?}");
    assert!(in_order, "the second holder of the lock has an earlier time: {stamps:?}");
    assert!(stamps[0].1 < stamps[1].1, "the second holder has smaller numbers: {stamps:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r15_a_run_is_changed_by_one_after_another() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![sample::run(1).into()]).await;
    let reads = ReadSet::default().row(RowKey::Run(Seq(1)));
    let fail = |snapshot: &Snapshot| {
        let run = snapshot.rows[&RowKey::Run(Seq(1))].as_ref().and_then(Row::as_run).unwrap();
        vec![Change::Update(Run { deaths: run.deaths + 1, ..run.clone() }.into())]
    };
    let (pause, mut stand_still) = Pause::new();
    let first = tokio::spawn({
        let (a, reads) = (a.clone(), reads.clone());
        async move {
            let decide = move |snapshot: Snapshot| {
                stand_still();
                fail(&snapshot)
            };
            apply(&a, reads, decide).await
        }
    });
    let paused = pause.reached().await;
    let second = tokio::spawn({
        let (b, reads) = (b.clone(), reads.clone());
        async move { apply(&b, reads, move |snapshot| fail(&snapshot)).await }
    });
    rig.until_it_waits("b").await;
    paused.go_on();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    let before = sample::run(1).deaths;
    let snapshot = a.read(reads).await.unwrap();
    let run = snapshot.rows[&RowKey::Run(Seq(1))].as_ref().and_then(Row::as_run).unwrap();
    assert_eq!(run.deaths, before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_only_a_hint_found_is_locked_before_it_changes() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    insert(&a, vec![Run { owner: Some(7), ..sample::run(1) }.into()]).await;
    let fail =
        |run: &Run| vec![Change::Update(Run { deaths: run.deaths + 1, ..run.clone() }.into())];
    let the_run = |snapshot: &Snapshot| {
        let key = RowKey::Run(Seq(1));
        let row = snapshot.rows.get(&key).cloned().flatten().or(snapshot.hints.get(&key).cloned());
        row.and_then(|row| row.as_run().cloned()).expect("the run exists")
    };
    let (pause, mut stand_still) = Pause::new();
    let hinted = tokio::spawn({
        let a = a.clone();
        async move {
            let reads = ReadSet::default().scan(Scan::Owned(7), 10);
            let decide = move |snapshot: Snapshot| {
                stand_still();
                fail(&the_run(&snapshot))
            };
            apply(&a, reads, decide).await
        }
    });
    let paused = pause.reached().await;
    let reads = ReadSet::default().row(RowKey::Run(Seq(1)));
    apply(&b, reads.clone(), move |snapshot| fail(&the_run(&snapshot))).await.unwrap();
    paused.go_on();
    hinted.await.unwrap().unwrap();
    assert_eq!(the_run(&b.read(reads).await.unwrap()).deaths, 2);
}
