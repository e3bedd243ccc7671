//! spec R16: a process that is stopped by a signal does not hold the lock of a gate for ever.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use tidegate_core::{
    reads::{Change, ReadSet},
    row::RowKey,
};
use tidegate_store::{PostgresOptions, PostgresStore};
use tidegate_testkit::sample;

use crate::rig::{Rig, apply, insert};

const URL: &str = "TIDEGATE_TRAP_URL";
const SCHEMA: &str = "TIDEGATE_TRAP_SCHEMA";
const LOCKED: &str = "the gate is locked";

fn reads() -> ReadSet {
    ReadSet::default().row(RowKey::Gate(sample::gate_key("main", "hot")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r16_a_stopped_process_does_not_hold_a_gate() {
    let Some(rig) = Rig::new().await else { return };
    let store = rig.store("a").await;
    insert(&store, vec![sample::gate("main", "hot", 1).into()]).await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped::child_that_stops_itself", "--ignored", "--nocapture"])
        .env(URL, &rig.url)
        .env(SCHEMA, &rig.schema)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(LOCKED)), "the child never locked the gate");
    let deleted = apply(&store, reads(), |snapshot| {
        snapshot.rows.keys().cloned().map(Change::Delete).collect()
    });
    let deleted = deleted.await;
    child.kill().unwrap();
    child.wait().unwrap();
    deleted.unwrap();
}

/// Not a test: the child process that [`r16_a_stopped_process_does_not_hold_a_gate`] starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs as a child of the test above"]
async fn child_that_stops_itself() {
    let Ok(url) = std::env::var(URL) else { return };
    let options = PostgresOptions {
        schema: std::env::var(SCHEMA).unwrap(),
        idle_timeout: Duration::from_millis(300),
        ..PostgresOptions::default()
    };
    let store = std::sync::Arc::new(PostgresStore::open(&url, options).await.unwrap());
    let stop = |_| {
        println!("{LOCKED}");
        let me = std::process::id().to_string();
        Command::new("kill").args(["-STOP", &me]).status().unwrap();
        Vec::new()
    };
    apply(&store, reads(), stop).await.unwrap();
}
