//! spec R10 over crashes and promotions: the outcome of a transaction is decided by its own token,
//! and not by a number that a server assigns again.
//!
//! Two stores on a separate cluster. A COMMIT of one is not answered, the server crashes, and the
//! other one commits under the lost numbers before the first may query its outcome.

use std::{
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_core::{
    id::Seq,
    reads::{ReadSet, Snapshot},
};
use tidegate_store::{Decision, PostgresOptions, PostgresStore, Store, StoreError};
use tidegate_testkit::postgres::{FaultyCluster, fresh_schema};
use tokio_postgres::{Client, NoTls};

use crate::{
    commits::{fresh_event, post},
    proxy::{Fault, Proxy},
    rig::Rig,
};

/// Crashes, and promotions, of an ordinary run; with `TIDEGATE_TEST_FULL` there are more.
const TURNS: usize = 3;
const FULL_TURNS: usize = 50;

/// Commits of the other store after a crash: more than the numbers that a transaction takes.
const OTHERS: usize = 20;

/// Progress of a COMMIT before the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Far {
    /// The server never gets it: nothing was flushed.
    Unsent,
    /// The server is about to flush it, or waits for the standby.
    Unflushed,
    /// It is durable, and only the answer is missing.
    Durable,
}

const FAR: [Far; 3] = [Far::Unsent, Far::Unflushed, Far::Durable];

fn turns() -> usize {
    if env::var_os("TIDEGATE_TEST_FULL").is_some() { FULL_TURNS } else { TURNS }
}

/// Only a COMMIT flushes, which takes a tenth of a second where it is slow.
const SETTINGS: [&str; 4] = [
    "alter system set wal_writer_delay = '10s'",
    "alter system set autovacuum = off",
    "alter system set commit_siblings = 0",
    "select pg_reload_conf()",
];

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn set(url: &str, statements: &[&str]) {
    let client = connect(url).await;
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
}

struct Two {
    schema: String,
    proxy: Proxy,
    /// Connected through the proxy.
    doubting: Arc<PostgresStore>,
    /// Connected to all addresses of the cluster.
    other: Arc<PostgresStore>,
}

impl Two {
    async fn open(cluster: &FaultyCluster, all: &str) -> Self {
        let schema = fresh_schema("crash");
        let options = PostgresOptions {
            schema: schema.clone(),
            idle_timeout: Duration::from_mins(1),
            patience: Duration::from_mins(1),
            outcome_timeout: Duration::from_mins(1),
            ..PostgresOptions::default()
        };
        let proxy = Proxy::new(cluster.url()).await;
        let doubting = PostgresStore::open(&proxy.url, options.clone()).await.unwrap();
        let other = PostgresStore::open(all, options).await.unwrap();
        Self { schema, proxy, doubting: Arc::new(doubting), other: Arc::new(other) }
    }

    /// Starts a transaction whose COMMIT gets this far, and no answer. The store has a connection
    /// and a token row already, as no new connection gets through.
    async fn doubt(&self, far: Far) -> Doubted {
        self.proxy.shut();
        let fault = if far == Far::Unsent { Fault::Vanish } else { Fault::CutAfter };
        self.proxy.at_next_commit(fault);
        let (store, blocks) = (self.doubting.clone(), Arc::new(Mutex::new(Vec::new())));
        let asked = blocks.clone();
        let decide = move |snapshot: Snapshot| {
            asked.lock().unwrap().push(snapshot.block);
            Decision::Apply(vec![fresh_event(&snapshot)])
        };
        let task =
            tokio::spawn(async move { store.transact(ReadSet::default(), Box::new(decide)).await });
        self.proxy.struck().await;
        Doubted { task, blocks }
    }

    /// Lets the other store commit, then the first one query its outcome, and checks the result.
    async fn judge(&self, doubted: Doubted, far: Far, url: &str, turn: usize) {
        for _ in 0..OTHERS {
            post(&self.other).await;
        }
        self.proxy.open(url);
        let answer = tokio::time::timeout(Duration::from_mins(2), doubted.task).await;
        answer
            .expect("not stuck")
            .unwrap()
            .unwrap_or_else(|error| panic!("{turn} {far:?}: {error}"));
        let blocks = doubted.blocks.lock().unwrap().clone();
        let (last, before) = blocks.split_last().unwrap();
        let client = connect(url).await;
        assert_eq!(self.events(&client, *last).await, 1, "turn {turn}, {far:?}: acknowledged");
        for block in before.iter().filter(|block| *block != last) {
            assert_eq!(self.events(&client, *block).await, 0, "turn {turn}, {far:?}: twice");
        }
        if far == Far::Durable {
            assert_eq!(blocks.len(), 1, "turn {turn}: it had committed");
        }
    }

    async fn events(&self, client: &Client, block: Seq) -> i64 {
        let sql = format!("select count(*) from {}.event where seq = $1", self.schema);
        client.query_one(&sql, &[&block.0]).await.unwrap().get(0)
    }
}

/// A transaction that waits for the answer to its COMMIT.
struct Doubted {
    task: tokio::task::JoinHandle<Result<(), StoreError>>,
    /// The blocks of numbers of its attempts.
    blocks: Arc<Mutex<Vec<Seq>>>,
}

/// Waits until the last attempt's event can be seen.
async fn until_durable(two: &Two, doubted: &Doubted, url: &str) {
    let block = doubted.blocks.lock().unwrap()[0];
    let rig = Rig::on(url).await;
    let sql = format!("select 1 from {}.event where seq = {}", two.schema, block.0);
    rig.until::<i32>(&sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_an_outcome_is_judged_right_after_a_crash() {
    let Some(mut cluster) = FaultyCluster::start() else { return };
    set(cluster.url(), &SETTINGS).await;
    let two = Two::open(&cluster, cluster.url()).await;
    for turn in 0..turns() {
        let far = FAR[turn % FAR.len()];
        let delay = if far == Far::Unflushed { 100_000 } else { 0 };
        let slow = format!("alter system set commit_delay = {delay}");
        set(cluster.url(), &[&slow, "select pg_reload_conf()"]).await;
        post(&two.doubting).await;
        let doubted = two.doubt(far).await;
        if far == Far::Durable {
            until_durable(&two, &doubted, cluster.url()).await;
        }
        cluster.crash();
        cluster.restart();
        two.judge(doubted, far, cluster.url(), turn).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r10_an_outcome_is_judged_right_after_a_promotion() {
    let Some(mut cluster) = FaultyCluster::start() else { return };
    set(cluster.url(), &SETTINGS).await;
    let mut standby = cluster.add_standby();
    let (_, second) = standby.rsplit_once('@').unwrap();
    let (before, first) = cluster.url().rsplit_once('@').unwrap();
    let (first, _) = first.split_once('/').unwrap();
    let all = format!("{before}@{first},{second}?target_session_attrs=read-write");
    let two = Two::open(&cluster, &all).await;
    for turn in 0..turns() {
        let far = FAR[turn % FAR.len()];
        let primary = Rig::on(cluster.url()).await;
        post(&two.doubting).await;
        if far == Far::Unflushed {
            // Cut off from its log: COMMIT is flushed here, and waits.
            let alone = "alter system set primary_conninfo = ''";
            set(&standby, &[alone, "select pg_reload_conf()"]).await;
            let gone = "select 1 where not exists (select from pg_stat_replication)";
            primary.until::<i32>(gone).await;
        }
        let doubted = two.doubt(far).await;
        match far {
            Far::Unsent => {}
            Far::Unflushed => {
                let waits = "select pid from pg_stat_activity where wait_event = 'SyncRep' limit 1";
                primary.until::<i32>(waits).await;
            }
            Far::Durable => until_durable(&two, &doubted, cluster.url()).await,
        }
        cluster.crash();
        cluster.promote();
        two.judge(doubted, far, cluster.url(), turn).await;
        standby = cluster.add_standby();
    }
}

/// One address leads to a standby for a while, as behind a name or a virtual address that moves
/// before the promotion: that is an outage, and not a mistake in the settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_standby_that_is_not_promoted_yet_is_an_outage() {
    let Some(mut cluster) = FaultyCluster::start() else { return };
    let standby = cluster.add_standby();
    let proxy = Proxy::new(cluster.url()).await;
    let options = |patience| PostgresOptions {
        schema: fresh_schema("standby"),
        patience,
        ..PostgresOptions::default()
    };
    let open = PostgresStore::open(&proxy.url, options(Duration::from_millis(50))).await;
    let store = Arc::new(open.unwrap());
    post(&store).await;
    proxy.shut();
    cluster.crash();
    proxy.open(&standby);
    let decide = |snapshot: Snapshot| Decision::Apply(vec![fresh_event(&snapshot)]);
    let outcome = store.transact(ReadSet::default(), Box::new(decide)).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "tried until the time is up: {error}");
    assert!(error.to_string().contains("is a standby"), "{error}");
    cluster.promote();
    proxy.open(cluster.url());
    post(&store).await;
}
