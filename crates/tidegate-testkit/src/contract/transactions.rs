//! Contract of transactions: isolation on shared rows, atomicity, number blocks, catalogs,
//! heartbeats and wakes.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use tidegate_core::{
    id::Seq,
    reads::{BLOCK, Change, ReadSet, Scan, Snapshot},
    row::{Engine, Epoch, Row, RowKey, Run, Workspace},
};
use tidegate_store::{Decide, Decision, MAX_ROUNDS, Store, StoreError};

use super::{change, insert, row, seen};
use crate::sample;

/// An acknowledged write is visible to transactions and to plain reads.
pub async fn what_one_transaction_writes_the_next_one_reads(store: &Arc<dyn Store>) {
    let key = RowKey::Run(Seq(1));
    for fence in 0..5 {
        let run = Row::from(Run { fence, ..sample::run(1) });
        let one =
            if fence == 0 { Change::Insert(run.clone()) } else { Change::Update(run.clone()) };
        change(store, vec![one]).await.unwrap();
        assert_eq!(row(store, key.clone()).await, Some(run.clone()));
        let snapshot = store.read(ReadSet::default().row(key.clone())).await.unwrap();
        assert_eq!(snapshot.rows[&key], Some(run));
    }
}

/// If a decision requests more rows, they are added to the snapshot; the rows read before stay in
/// it.
pub async fn a_decision_may_ask_for_more(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1), sample::run(2), sample::run(3)]).await;
    insert(store, [sample::gate("main", "early", 9)]).await;
    let gate = RowKey::Gate(sample::gate_key("main", "early"));
    // The last key sorts before the others, so that some stores have to restart the transaction.
    let wanted = [RowKey::Run(Seq(2)), RowKey::Run(Seq(3)), gate];
    let (chain, log) = (wanted.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = log.clone();
    let decide: Decide = Box::new(move |snapshot: Snapshot| {
        let missing = chain.iter().find(|key| !snapshot.rows.contains_key(*key));
        if let Some(key) = missing {
            return Decision::Need(ReadSet::default().row(key.clone()), snapshot);
        }
        seen.lock().unwrap().push(snapshot);
        let run = Run { fence: 1, ..sample::run(3) };
        Decision::Apply(vec![Change::Update(run.into())])
    });
    store.transact(ReadSet::default().row(RowKey::Run(Seq(1))), decide).await.unwrap();
    let snapshot = log.lock().unwrap().pop().expect("the decision was called");
    for key in wanted.iter().chain([&RowKey::Run(Seq(1))]) {
        assert!(snapshot.rows[key].is_some(), "{key:?}");
    }
    assert_eq!(
        row(store, RowKey::Run(Seq(3))).await,
        Some(Run { fence: 1, ..sample::run(3) }.into())
    );
}

/// If a decision requests a scan again with a greater limit, the scan is read again.
pub async fn a_wider_scan_replaces_a_narrow_one(store: &Arc<dyn Store>) {
    insert(store, (1..=9).map(|n| sample::step(1, &n.to_string()))).await;
    let scan = Scan::Steps(Seq(1));
    let (asked, log) = (scan.clone(), Arc::new(Mutex::new(Vec::new())));
    let lengths = log.clone();
    let decide: Decide = Box::new(move |snapshot: Snapshot| {
        let found = &snapshot.scans[&asked];
        let (limit, length) = (found.limit, found.keys.len());
        lengths.lock().unwrap().push((limit, length));
        if length < limit as usize {
            return Decision::Apply(Vec::new());
        }
        Decision::Need(ReadSet::default().scan(asked.clone(), limit * 4), snapshot)
    });
    store.transact(ReadSet::default().scan(scan, 2), decide).await.unwrap();
    assert_eq!(*log.lock().unwrap(), [(2, 2), (8, 8), (32, 9)]);
}

/// The number of rounds is limited, so that a wrong decision does not hold its locks for ever.
pub async fn a_decision_that_never_has_enough_is_given_up(store: &Arc<dyn Store>) {
    let asked = Arc::new(Mutex::new(0i64));
    let count = asked.clone();
    let decide: Decide = Box::new(move |snapshot| {
        let mut count = count.lock().unwrap();
        *count += 1;
        Decision::Need(ReadSet::default().row(RowKey::Run(Seq(*count))), snapshot)
    });
    let outcome = store.transact(ReadSet::default(), decide).await;
    assert!(matches!(outcome, Err(StoreError::TooManyRounds)), "{outcome:?}");
    let asked = usize::try_from(*asked.lock().unwrap()).unwrap();
    assert!(
        asked <= MAX_ROUNDS + 1,
        "the decision was called {asked} times, over the limit of rounds"
    );
    insert(store, [sample::run(1)]).await;
}

/// If a decision panics, its transaction changes nothing, and the store continues to work.
pub async fn a_decision_that_panics_changes_nothing(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1)]).await;
    let (shared, key) = (store.clone(), RowKey::Run(Seq(1)));
    let reads = ReadSet::default().row(key.clone());
    let fails: Decide = Box::new(|_| panic!("expected panic of this test"));
    let panics = tokio::spawn(async move {
        let shared = AssertUnwindSafe(shared);
        shared.transact(reads, fails).await
    });
    assert!(panics.await.is_err(), "the panic did not reach the caller");
    change(store, vec![Change::Delete(key)]).await.unwrap();
    assert_eq!(store.dump().await.unwrap(), []);
}

/// Blocks of numbers do not overlap, even if transactions are concurrent, empty or failing.
pub async fn blocks_of_numbers_never_overlap(store: &Arc<dyn Store>) {
    let mut blocks = Vec::new();
    for _ in 0..10 {
        blocks.push(seen(store, ReadSet::default()).await.block.0);
        let wrong = change(store, vec![Change::Delete(RowKey::Run(Seq(1)))]).await;
        assert!(wrong.is_err());
    }
    assert!(blocks.is_sorted_by(|a, b| a + BLOCK <= *b), "{blocks:?}");
    assert!(blocks[0] > 0, "numbers must begin after 0: {blocks:?}");

    let together = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { seen(&store, ReadSet::default()).await.block.0 })
    });
    for block in together.collect::<Vec<_>>() {
        blocks.push(block.await.unwrap());
    }
    blocks.sort_unstable();
    assert!(blocks.is_sorted_by(|a, b| a + BLOCK <= *b), "{blocks:?}");
}

/// Time is monotonic between transactions that share a lock.
pub async fn time_does_not_move_back(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1)]).await;
    let mut last = store.read(ReadSet::default()).await.unwrap().now;
    for _ in 0..20 {
        let now = seen(store, ReadSet::default().row(RowKey::Run(Seq(1)))).await.now;
        assert!(now >= last, "the time went back: {now} after {last}");
        last = now;
    }
}

/// A catalog has the definitions of its workspace, and of no other.
pub async fn a_catalog_holds_the_definitions_of_its_workspace(store: &Arc<dyn Store>) {
    let (main, other): (Workspace, Workspace) = ("main".into(), "other".into());
    let foreign = tidegate_core::row::Def { ws: other.clone(), ..sample::def(3, "mail", 1) };
    let defs = [sample::def(2, "order", 2), sample::def(1, "order", 1), foreign];
    insert(store, defs.map(Row::from).into_iter().chain([Epoch { ws: main.clone(), n: 7 }.into()]))
        .await;
    let reads = ReadSet::default().catalog(&main).catalog(&other).catalog(&"none".into());
    let snapshot = seen(store, reads).await;
    let lanes = |ws: &str| -> Vec<i64> {
        let mut lanes: Vec<_> = snapshot.catalogs[ws].defs().iter().map(|def| def.lane.0).collect();
        lanes.sort_unstable();
        lanes
    };
    assert_eq!((snapshot.catalogs["main"].epoch, lanes("main")), (7, vec![1, 2]));
    assert_eq!((snapshot.catalogs["other"].epoch, lanes("other")), (0, vec![3]));
    assert_eq!((snapshot.catalogs["none"].epoch, lanes("none")), (0, vec![]));
    assert_eq!(store.catalogs()["main"].epoch, 7);
}

/// A changed definition is read in the next transaction; the catalog in memory is only a cache.
pub async fn a_catalog_is_read_anew_when_the_epoch_changes(store: &Arc<dyn Store>) {
    let main: Workspace = "main".into();
    let reads = || ReadSet::default().catalog(&main);
    let epoch = |n| Row::from(Epoch { ws: main.clone(), n });
    assert_eq!(seen(store, reads()).await.catalogs[&main].defs().len(), 0);
    insert(store, [epoch(1), sample::def(1, "order", 1).into()]).await;
    assert_eq!(seen(store, reads()).await.catalogs[&main].defs().len(), 1);
    let changes = vec![Change::Update(epoch(2)), Change::Insert(sample::def(2, "order", 2).into())];
    change(store, changes).await.unwrap();
    assert_eq!(store.read(reads()).await.unwrap().catalogs[&main].defs().len(), 2);
    assert_eq!(seen(store, reads()).await.catalogs[&main].epoch, 2);
    assert_eq!(store.catalogs()[&main].epoch, 2);
}

/// An unchanged catalog is not built again, because it would cost every transaction.
pub async fn an_unchanged_catalog_is_not_built_again(store: &Arc<dyn Store>) {
    let main: Workspace = "main".into();
    insert(store, [Row::from(Epoch { ws: main.clone(), n: 1 }), sample::def(1, "a", 1).into()])
        .await;
    let reads = || ReadSet::default().catalog(&main);
    let first = seen(store, reads()).await.catalogs[&main].clone();
    let second = seen(store, reads()).await.catalogs[&main].clone();
    assert!(Arc::ptr_eq(&first, &second));
}

/// A store updates its cached catalog with the definitions that it writes, so that it does not read
/// them again.
pub async fn a_store_follows_the_definitions_that_it_writes(store: &Arc<dyn Store>) {
    let main: Workspace = "main".into();
    let epoch = |n| Row::from(Epoch { ws: main.clone(), n });
    seen(store, ReadSet::default().catalog(&main)).await;
    insert(store, [epoch(1), sample::def(1, "a", 1).into()]).await;
    let changes = vec![Change::Update(epoch(2)), Change::Insert(sample::def(2, "b", 1).into())];
    change(store, changes).await.unwrap();
    let followed = store.catalogs()[&main].clone();
    assert_eq!((followed.epoch, followed.defs().len()), (2, 2));
    let read = seen(store, ReadSet::default().catalog(&main)).await.catalogs[&main].clone();
    assert!(Arc::ptr_eq(&followed, &read));
}

/// Each heartbeat raises a counter in the row of the engine.
pub async fn a_first_beat_makes_an_engine_and_later_ones_renew_it(store: &Arc<dyn Store>) {
    let mut last = 0;
    for _ in 0..3 {
        assert!(store.heartbeat(u128::MAX - 5, sample::LEASE_MS).await.unwrap());
        let Some(Row::Engine(engine)) = row(store, RowKey::Engine(u128::MAX - 5)).await else {
            panic!("the engine must have a row");
        };
        assert!(!engine.dead);
        assert!(engine.beat > last, "{} after {last}", engine.beat);
        assert_eq!(
            engine.lease_ms,
            Some(sample::LEASE_MS),
            "other engines need the lease time of this one"
        );
        last = engine.beat;
    }
}

/// The heartbeat of an engine that was marked dead is refused, and the engine stays dead.
pub async fn a_dead_engine_does_not_beat_again(store: &Arc<dyn Store>) {
    assert!(store.heartbeat(5, sample::LEASE_MS).await.unwrap());
    let Some(Row::Engine(engine)) = row(store, RowKey::Engine(5)).await else {
        panic!("the engine must have a row");
    };
    let dead = Row::from(Engine { dead: true, ..engine });
    change(store, vec![Change::Update(dead.clone())]).await.unwrap();
    assert!(!store.heartbeat(5, sample::LEASE_MS).await.unwrap());
    assert_eq!(row(store, RowKey::Engine(5)).await, Some(dead));
    assert!(store.heartbeat(6, sample::LEASE_MS).await.unwrap(), "others go on");
}

/// The heartbeat of an engine whose row was deleted is refused: its id is not used again.
pub async fn an_engine_that_was_cleared_away_does_not_come_back(store: &Arc<dyn Store>) {
    assert!(store.heartbeat(5, sample::LEASE_MS).await.unwrap());
    change(store, vec![Change::Delete(RowKey::Engine(5))]).await.unwrap();
    assert!(!store.heartbeat(5, sample::LEASE_MS).await.unwrap());
    assert_eq!(row(store, RowKey::Engine(5)).await, None);
}

/// A wake is only a hint, but it arrives at listeners.
pub async fn a_wake_reaches_whoever_listens(store: &Arc<dyn Store>) {
    let mut wakes = store.wakes();
    wakes.mark_unchanged();
    store.wake();
    wakes.changed().await.expect("wakes end only with the store");
}

/// Decisions on one row happen one after another, and each sees the writes of the one before.
pub async fn transactions_that_happen_together_lose_no_update(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1)]).await;
    let together = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let key = RowKey::Run(Seq(1));
            let reads = ReadSet::default().row(key.clone());
            let decide: Decide = Box::new(move |snapshot: Snapshot| {
                let Some(Row::Run(run)) = snapshot.rows[&key].clone() else { panic!("no run") };
                let run = Run { fence: run.fence + 1, ..*run };
                Decision::Apply(vec![Change::Update(run.into())])
            });
            store.transact(reads, decide).await
        })
    });
    for one in together.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    let run = Run { fence: 20, ..sample::run(1) };
    assert_eq!(row(store, RowKey::Run(Seq(1))).await, Some(run.into()));
}
