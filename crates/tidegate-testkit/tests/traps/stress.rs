//! Stress test of the lock order: transactions on the same rows never deadlock.

use std::sync::Arc;

use tidegate_core::{
    id::Seq,
    reads::{Change, ReadSet, Snapshot},
    row::{Gate, LogHead, Row, RowKey, Stream},
};
use tidegate_store::{Decide, Decision, PostgresStore, Store};
use tidegate_testkit::sample;

use crate::rig::Rig;

const TASKS: u64 = 12;
const ROUNDS: u64 = 60;

/// Pseudo-random number generator that returns the same numbers in every run of the test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn key(dice: &mut Dice) -> RowKey {
    let n = dice.below(8);
    match dice.below(6) {
        0 | 1 => RowKey::Gate(sample::gate_key("main", &n.to_string())),
        2 => RowKey::Run(Seq(i64::try_from(n).unwrap())),
        3 => RowKey::Stream("main".into(), n.to_string()),
        4 => Row::from(sample::session(&n.to_string())).key(),
        _ => RowKey::LogHead(n.to_string().into()),
    }
}

fn row(key: &RowKey) -> Row {
    if let RowKey::Gate(key) = key {
        return Gate { key: key.clone(), ..sample::gate("main", "", 1) }.into();
    }
    if let RowKey::Session(_, _, _, id) = key {
        return sample::session(id).into();
    }
    if let RowKey::Stream(ws, name) = key {
        let (ws, name) = (ws.clone(), name.clone());
        return Stream { ws, name, id: Seq(1), head: -1, closed: false }.into();
    }
    let RowKey::LogHead(ws) = key else { panic!("this test makes no row for {key:?}") };
    LogHead { ws: ws.clone(), pos: 0 }.into()
}

/// Returns changes that insert the missing rows, and update or delete the existing ones.
fn churn(snapshot: &Snapshot, dice: u64) -> Vec<Change> {
    let mut dice = Dice(dice);
    let runs_first = |key: &RowKey| matches!(key, RowKey::Run(_));
    snapshot
        .rows
        .iter()
        .filter_map(|(key, there)| match there {
            // Runs are not inserted: two inserts of the same run would be an error.
            None if runs_first(key) => None,
            None => Some(Change::Insert(row(key))),
            Some(_) if dice.below(3) == 0 && !runs_first(key) => Some(Change::Delete(key.clone())),
            Some(row) => Some(Change::Update(row.clone())),
        })
        .collect()
}

async fn task(store: Arc<PostgresStore>, seed: u64) {
    let mut dice = Dice(seed);
    for _ in 0..ROUNDS {
        let mut reads = ReadSet::default();
        for _ in 0..=dice.below(6) {
            reads = reads.row(key(&mut dice));
        }
        let more = ReadSet::default().row(key(&mut dice)).row(key(&mut dice));
        let salt = dice.below(u64::MAX);
        let decide: Decide = Box::new(move |snapshot| {
            if more.rows.iter().all(|key| snapshot.rows.contains_key(key)) {
                Decision::Apply(churn(&snapshot, salt))
            } else {
                Decision::Need(more.clone(), snapshot)
            }
        });
        store.transact(reads, decide).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_transactions_never_deadlock() {
    let Some(rig) = Rig::new().await else { return };
    let mut options = rig.options();
    options.committers = 6;
    let stores = [rig.store_with("a", options.clone()).await, rig.store_with("b", options).await];
    crate::rig::insert(&stores[0], (0..8).map(|seq| sample::run(seq).into()).collect()).await;
    let before = rig.deadlocks().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            let store = stores[usize::try_from(seed % 2).unwrap()].clone();
            tokio::spawn(task(store, seed))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // The server adds the deadlocks of a session to its statistics when the session ends.
    drop(stores);
    rig.until_gone("a").await;
    rig.until_gone("b").await;
    assert_eq!(rig.deadlocks().await, before);
}
