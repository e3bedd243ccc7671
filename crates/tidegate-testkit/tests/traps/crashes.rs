//! spec R10 after crashes and promotions: the outcome of a transaction is decided by its random
//! token, and not by a transaction number, which the server may assign a second time after a crash.
//!
//! Two stores use a separate cluster. A COMMIT of the first store is not answered, the server
//! crashes, and the second store commits with the same transaction numbers. Then the first store
//! queries the outcome of its COMMIT.

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

/// Number of crashes or promotions in a test: by default, and with `TIDEGATE_TEST_FULL`.
const TURNS: usize = 3;
const FULL_TURNS: usize = 50;

/// Number of commits of the other store after a crash: more than the transaction numbers that were
/// lost in the crash.
const OTHERS: usize = 20;

/// How far a COMMIT has come before the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Far {
    /// The server has not received the COMMIT.
    Unsent,
    /// The server has received the COMMIT, and has not flushed it yet or waits for the standby.
    Unflushed,
    /// The COMMIT is durable, but the store has no answer.
    Durable,
}

const FAR: [Far; 3] = [Far::Unsent, Far::Unflushed, Far::Durable];

fn turns() -> usize {
    if env::var_os("TIDEGATE_TEST_FULL").is_some() { FULL_TURNS } else { TURNS }
}

/// Server settings with which only a COMMIT flushes the log, and `commit_delay` can delay it.
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
    /// The store whose COMMIT is not answered, connected through the proxy.
    doubting: Arc<PostgresStore>,
    /// The other store, connected to all addresses of the cluster.
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

    /// Starts a transaction whose COMMIT gets this far and is not answered. The store must already
    /// have a connection and a token row, because the proxy refuses new connections.
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

    /// The other store commits, then the first store may query the outcome of its COMMIT. Checks
    /// that the event was written once.
    async fn judge(&self, doubted: Doubted, far: Far, url: &str, turn: usize) {
        for _ in 0..OTHERS {
            post(&self.other).await;
        }
        self.proxy.open(url);
        let answer = tokio::time::timeout(Duration::from_mins(2), doubted.task).await;
        answer
            .expect("the transaction ends in time")
            .unwrap()
            .unwrap_or_else(|error| panic!("turn {turn}, {far:?}: transact failed: {error}"));
        let blocks = doubted.blocks.lock().unwrap().clone();
        let (last, before) = blocks.split_last().unwrap();
        let client = connect(url).await;
        let written = self.events(&client, *last).await;
        assert_eq!(written, 1, "turn {turn}, {far:?}: the acknowledged event is lost");
        for block in before.iter().filter(|block| *block != last) {
            let written = self.events(&client, *block).await;
            assert_eq!(written, 0, "turn {turn}, {far:?}: an earlier attempt was committed, too");
        }
        if far == Far::Durable {
            assert_eq!(blocks.len(), 1, "turn {turn}: a committed transaction was repeated");
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
    /// The blocks of sequence numbers that its attempts got.
    blocks: Arc<Mutex<Vec<Seq>>>,
}

/// Waits until the event of the first attempt can be read, that is, until it is committed.
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
            // Disconnects the standby from the primary: COMMIT is flushed on the primary, and waits
            // for the standby.
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

/// The address leads to a standby for a while, for example because a host name or virtual address
/// is moved before the standby is promoted. That is an outage, not an error in the settings.
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
    assert!(matches!(error, StoreError::Unavailable(_)), "the error is not an outage: {error}");
    assert!(error.to_string().contains("is a standby"), "{error}");
    cluster.promote();
    proxy.open(cluster.url());
    post(&store).await;
}
