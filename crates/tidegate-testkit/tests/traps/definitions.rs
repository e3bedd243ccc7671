//! spec R18: definitions are rows, and all engines decide by the same definitions.

use std::sync::{Arc, Mutex};

use tidegate_core::{
    reads::{Change, Latch, Mode, ReadSet, Snapshot},
    row::{Epoch, Workspace},
};
use tidegate_store::PostgresStore;
use tidegate_testkit::sample;

use crate::rig::{Pause, Rig, apply};

fn ws() -> Workspace {
    "main".into()
}

fn epoch(n: i64) -> tidegate_core::row::Row {
    Epoch { ws: ws(), n }.into()
}

/// Returns the names of the definitions that a new transaction of a store gets.
async fn ruling(store: &Arc<PostgresStore>) -> Vec<String> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let decide = {
        let seen = seen.clone();
        move |snapshot: Snapshot| {
            let defs = snapshot.catalogs[&ws()].defs();
            *seen.lock().unwrap() = defs.iter().map(|def| def.name.clone()).collect();
            Vec::new()
        }
    };
    apply(store, ReadSet::default().catalog(&ws()), decide).await.unwrap();
    seen.lock().unwrap().clone()
}

fn exclusive() -> ReadSet {
    ReadSet::default().latch(Latch::Definitions(ws()), Mode::Exclusive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r18_a_release_rules_in_the_next_transaction_everywhere() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    assert!(ruling(&a).await.is_empty());
    assert!(ruling(&b).await.is_empty());
    let first = vec![Change::Insert(sample::def(1, "one", 1).into()), Change::Insert(epoch(1))];
    apply(&a, exclusive(), move |_| first.clone()).await.unwrap();
    assert_eq!(ruling(&b).await, ["one"]);
    assert_eq!(ruling(&a).await, ["one"]);

    // A transaction waits for a release in progress, so that it does not decide by the old
    // definitions.
    let (pause, mut stand_still) = Pause::new();
    let release = tokio::spawn({
        let a = a.clone();
        async move {
            let decide = move |_| {
                stand_still();
                vec![Change::Insert(sample::def(2, "two", 1).into()), Change::Update(epoch(2))]
            };
            apply(&a, exclusive(), decide).await
        }
    });
    let paused = pause.reached().await;
    let asking = tokio::spawn({
        let b = b.clone();
        async move { ruling(&b).await }
    });
    rig.until_it_waits("b").await;
    paused.go_on();
    release.await.unwrap().unwrap();
    assert_eq!(asking.await.unwrap(), ["one", "two"]);
}
