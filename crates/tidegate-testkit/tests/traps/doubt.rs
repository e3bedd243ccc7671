//! spec R10: only the token row shows the outcome of a transaction, and it is read under lock.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tidegate_core::{
    reads::{ReadSet, Snapshot},
    time::Timestamp,
};
use tidegate_store::{ManualClock, PostgresOptions, PostgresStore, StoreError};
use tidegate_testkit::{postgres::FaultyCluster, world::World};

use crate::{
    commits::{behind_proxy, behind_proxy_with, events, fresh_event, post},
    proxy::{Fault, Proxy},
    rig::{Pause, Rig, apply},
    steps,
};

/// Returns a query for a server process that waits for this wait event: a lock or a standby.
fn waiting(event: &str) -> String {
    format!("select pid from pg_stat_activity where wait_event = '{event}' limit 1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_server_process_that_is_still_committing_is_waited_for() {
    let Some(cluster) = FaultyCluster::start() else { return };
    let rig = Rig::on(cluster.url()).await;
    let (store, proxy) = behind_proxy(&rig).await;
    post(&store).await;
    rig.execute("alter system set synchronous_standby_names = 'absent'").await;
    rig.execute("select pg_reload_conf()").await;
    commits_wait(&rig, cluster.url()).await;
    proxy.at_next_commit(Fault::CutAfter);
    let posted = tokio::spawn(async move { (post(&store).await, store) });
    rig.until::<i32>(&waiting("SyncRep")).await;
    rig.until::<i32>(&waiting("transactionid")).await;
    assert!(!posted.is_finished(), "the store answered before the outcome was known");
    rig.execute("alter system reset synchronous_standby_names").await;
    rig.execute("select pg_reload_conf()").await;
    let (asked, store) = posted.await.unwrap();
    assert_eq!(asked, 1, "a committed transaction was repeated");
    assert_eq!(events(&store).await, 2);
}

/// If an administrator or a timeout cancels the wait for a standby, the server answers the commit
/// as done, although no standby has it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_commit_that_no_standby_has_is_not_acknowledged() {
    let Some(cluster) = FaultyCluster::start() else { return };
    let rig = Rig::on(cluster.url()).await;
    let store = rig.store("unreplicated").await;
    post(&store).await;
    rig.execute("alter system set synchronous_standby_names = 'absent'").await;
    rig.execute("select pg_reload_conf()").await;
    commits_wait(&rig, cluster.url()).await;
    let posted = tokio::spawn(async move { (post(&store).await, store) });
    let pid = rig.until::<i32>(&waiting("SyncRep")).await;
    rig.execute(&format!("select pg_cancel_backend({pid})")).await;
    // The store then queries the outcome, in a transaction that must wait for the standby, too.
    let asks = format!(
        "select pid from pg_stat_activity where wait_event = 'SyncRep' and pid <> {pid} limit 1"
    );
    tokio::select! {
        _ = rig.until::<i32>(&asks) => {}
        () = finished(&posted) => panic!("a commit was acknowledged that no standby has"),
    }
    assert!(!posted.is_finished());
    rig.execute("alter system reset synchronous_standby_names").await;
    rig.execute("select pg_reload_conf()").await;
    let (asked, store) = posted.await.unwrap();
    assert_eq!(asked, 1, "the committed transaction was repeated");
    assert_eq!(events(&store).await, 2);
}

/// Waits until commits wait for the standby. The checkpointer turns this on for all sessions some
/// time after the settings were reloaded.
async fn commits_wait(rig: &Rig, url: &str) {
    let (probe, stop) = (Rig::on(url).await, Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let probing = tokio::spawn(async move {
        while !stopped.load(Ordering::SeqCst) {
            probe.execute("create temp table probe (); drop table probe").await;
        }
    });
    let pid = rig.until::<i32>(&waiting("SyncRep")).await;
    stop.store(true, Ordering::SeqCst);
    rig.execute(&format!("select pg_cancel_backend({pid})")).await;
    probing.await.unwrap();
}

async fn finished<T>(task: &tokio::task::JoinHandle<T>) {
    while !task.is_finished() {
        tokio::task::yield_now().await;
    }
}

fn signal(name: &str, pid: i32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill {name} {pid}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_frozen_server_process_cannot_commit_once_its_outcome_is_known() {
    // Uses a separate cluster, because the test sends signals to a server process.
    let Some(cluster) = FaultyCluster::start() else { return };
    let rig = Rig::on(cluster.url()).await;
    // The timeout is so long that the server does not end the transaction before the process is
    // resumed.
    let options = PostgresOptions { idle_timeout: Duration::from_mins(1), ..rig.options() };
    let (store, proxy) = behind_proxy_with(&rig, options).await;
    post(&store).await;
    let (pause, mut stand_still) = Pause::new();
    let posted = {
        let store = store.clone();
        tokio::spawn(async move {
            let decide = move |snapshot: Snapshot| {
                stand_still();
                vec![fresh_event(&snapshot)]
            };
            apply(&store, ReadSet::default(), decide).await
        })
    };
    let going = pause.reached().await;
    let frozen = "select pid from pg_stat_activity where state = 'idle in transaction'";
    let pid = rig.until::<i32>(frozen).await;
    signal("-STOP", pid);
    proxy.at_next_commit(Fault::CutAfter);
    going.go_on();
    posted.await.unwrap().unwrap();
    assert_eq!(events(&store).await, 2, "the second attempt did not write its event");
    signal("-CONT", pid);
    // The resumed process reads the whole flight from its socket, including COMMIT.
    let through = format!(
        "select 1 from pg_stat_activity where pid = {pid}
            and state in ('idle', 'idle in transaction (aborted)')"
    );
    rig.until::<i32>(&through).await;
    assert_eq!(events(&store).await, 2, "the first attempt was committed, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_a_transaction_in_doubt_holds_up_no_other_token_row() {
    let Some(rig) = Rig::new().await else { return };
    let options = PostgresOptions { idle_timeout: Duration::from_mins(1), ..rig.options() };
    let proxy = Proxy::new(&rig.url).await;
    let url = format!("{}&application_name={}", proxy.url, rig.label("a"));
    let store = Arc::new(PostgresStore::open(&url, options).await.unwrap());
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(0)));
    let world = World::new(store.clone(), clock);
    world.define(json!({ "name": "order" })).await;
    let (first, second) = (steps::leased(&world).await, steps::leased(&world).await);
    let table = format!("{}.payment", rig.schema);
    rig.execute(&format!("create table {table} (n int)")).await;

    proxy.at_next_commit(Fault::Vanish);
    let doubted = {
        let (store, record) = (store.clone(), steps::recording(&world, &first));
        let table = table.clone();
        tokio::spawn(async move { steps::pay(&store, record, &table).await })
    };
    rig.until_it_waits("a").await;
    steps::pay(&store, steps::recording(&world, &second), &table).await.unwrap();
    post(&store).await;
    assert!(!doubted.is_finished(), "the outcome of the first step is known too early");
    rig.execute(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = left('{}', 63) and state = 'idle in transaction'",
        rig.label("a")
    ))
    .await;
    doubted.await.unwrap().unwrap_err();
    assert_eq!(rig.count(&table).await, 1, "only the second step must have paid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_without_its_token_row_an_outcome_is_unknown() {
    let Some(rig) = Rig::new().await else { return };
    let (store, proxy) = behind_proxy(&rig).await;
    post(&store).await;
    let (pause, mut stand_still) = Pause::new();
    let posted = {
        let store = store.clone();
        tokio::spawn(async move {
            let decide = move |snapshot: Snapshot| {
                stand_still();
                vec![fresh_event(&snapshot)]
            };
            apply(&store, ReadSet::default(), decide).await
        })
    };
    let going = pause.reached().await;
    rig.execute(&format!("delete from {}.tx_token", rig.schema)).await;
    proxy.at_next_commit(Fault::CutAfter);
    going.go_on();
    let answer = posted.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    assert_eq!(events(&store).await, 1);
    assert_eq!(post(&store).await, 1, "the next transaction did not get another token row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn token_rows_are_reused_and_swept_and_a_swept_one_is_replaced() {
    let Some(rig) = Rig::new().await else { return };
    let tokens = format!("{}.tx_token", rig.schema);
    let store = rig.store("a").await;
    for _ in 0..5 {
        post(&store).await;
    }
    assert_eq!(rig.count(&tokens).await, 1, "sequential transactions must share one token row");
    rig.execute(&format!("update {tokens} set at = at - interval '61 minutes'")).await;
    let other = rig.store("b").await;
    post(&other).await;
    assert_eq!(rig.count(&tokens).await, 1, "the old token row of the first store must be deleted");
    assert_eq!(post(&store).await, 2, "the first attempt must fail, the second get a new row");
    assert_eq!(rig.count(&tokens).await, 2);
    assert_eq!(events(&store).await, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_row_whose_making_is_not_answered_is_not_used() {
    for fault in [Fault::CutAfter, Fault::CutBefore, Fault::FailBefore] {
        let Some(rig) = Rig::new().await else { return };
        let (store, proxy) = behind_proxy(&rig).await;
        // The first COMMIT of a store is that of the insert of its first token row.
        proxy.at_next_commit(fault);
        assert_eq!(post(&store).await, 1, "{fault:?}");
        assert_eq!(events(&store).await, 1, "{fault:?}");
    }
}
