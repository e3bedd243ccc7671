//! spec R17: a post of an event and a wait for it run one after the other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tidegate_core::{
    id::Seq,
    reads::{Change, Latch, Mode, ReadSet, Scan, Snapshot},
    row::{RowKey, WaitRow},
};
use tidegate_testkit::sample;

use crate::rig::{Pause, Rig, apply};

fn wait() -> WaitRow {
    WaitRow {
        ws: "main".into(),
        name: "paid".to_owned(),
        path: String::new(),
        value: Vec::new(),
        run: Seq(1),
        step: "wait".to_owned(),
    }
}

fn topic() -> Latch {
    Latch::Topic("main".into(), "paid".to_owned())
}

fn waits() -> Scan {
    let (name, path, step) = ("paid".to_owned(), String::new(), String::new());
    Scan::Waits("main".into(), name, path, Vec::new(), Seq(i64::MIN), step)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r17_a_post_and_a_wait_do_not_miss_each_other() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    let woken = Arc::new(AtomicBool::new(false));
    let (pause, mut stand_still) = Pause::new();
    let post = tokio::spawn({
        let (a, woken) = (a.clone(), woken.clone());
        let reads = ReadSet::default().latch(topic(), Mode::Shared).scan(waits(), 10);
        async move {
            let decide = move |snapshot: Snapshot| {
                if !snapshot.scans[&waits()].keys.is_empty() {
                    woken.store(true, Ordering::SeqCst);
                }
                stand_still();
                vec![Change::Insert(sample::event(1, "{}").into())]
            };
            apply(&a, reads, decide).await
        }
    });
    let paused = pause.reached().await;
    let waiting = tokio::spawn({
        let (b, woken) = (b.clone(), woken.clone());
        let reads = ReadSet::default().latch(topic(), Mode::Exclusive).row(RowKey::Event(Seq(1)));
        async move {
            let decide = move |snapshot: Snapshot| {
                if snapshot.rows[&RowKey::Event(Seq(1))].is_some() {
                    woken.store(true, Ordering::SeqCst);
                }
                vec![Change::Insert(wait().into())]
            };
            apply(&b, reads, decide).await
        }
    });
    while !waiting.is_finished() && !rig.waits("b").await {
        tokio::task::yield_now().await;
    }
    paused.go_on();
    post.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    assert!(woken.load(Ordering::SeqCst), "neither the post nor the wait saw the other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shared_latches_are_held_together() {
    let Some(rig) = Rig::new().await else { return };
    let (a, b) = (rig.store("a").await, rig.store("b").await);
    let reads = ReadSet::default().latch(topic(), Mode::Shared);
    let (pause, mut stand_still) = Pause::new();
    let first = tokio::spawn({
        let (a, reads) = (a.clone(), reads.clone());
        async move {
            let decide = move |_| {
                stand_still();
                Vec::new()
            };
            apply(&a, reads, decide).await
        }
    });
    let paused = pause.reached().await;
    apply(&b, reads, |_| Vec::new()).await.unwrap();
    paused.go_on();
    first.await.unwrap().unwrap();
}
