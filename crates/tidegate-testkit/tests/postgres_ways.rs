//! Tests of connections to PostgreSQL: encrypted, through a pooler, lost, and refused.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate_core::{
    command::Command as Asked,
    reads::{Change, ReadSet, Snapshot},
    row::{Row, RowKey, Run},
    run::record::{Record, Then},
};
use tidegate_store::{
    Decision, ManualClock, PostgresOptions, PostgresStore, PostgresTransaction, SeededCommand,
    StepRecord, Store, StoreError, TransactionError,
};
use tidegate_testkit::{
    postgres::{Cluster, fresh_schema, url},
    sample,
    world::{World, step},
};
use tokio_postgres::{NoTls, SimpleQueryMessage};

const STUCK: Duration = Duration::from_secs(20);

fn options() -> PostgresOptions {
    PostgresOptions {
        schema: fresh_schema("ways"),
        patience: Duration::from_millis(500),
        ..PostgresOptions::default()
    }
}

async fn with(url: &str, settings: &str) -> Result<PostgresStore, StoreError> {
    let mark = if url.contains('?') { '&' } else { '?' };
    PostgresStore::open(&format!("{url}{mark}{settings}"), options()).await
}

/// A directory that is deleted on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(fresh_schema("tidegate-ways"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes two self-signed certificates: one for the host `db.example`, and an unrelated one. The
/// server runs it, so that the key file belongs to the server's user.
const MAKE_CERTIFICATES: &str = "copy (select 1) to program $$
    cat >/dev/null
    for name in db other; do
      openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$name.example \
        -addext subjectAltName=DNS:$name.example -keyout $name.key -out $name.pem
      chmod 600 $name.key
    done
    openssl req -newkey rsa:2048 -nodes -subj /CN=leaf -keyout leaf.key -out leaf.csr
    printf 'subjectAltName=DNS:db.example,IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' >leaf.ext
    openssl x509 -req -in leaf.csr -CA db.pem -CAkey db.key -CAcreateserial -days 2 \
      -extfile leaf.ext -out leaf.pem
    chmod 600 leaf.key
  $$";

/// Configures a cluster to use TLS with this certificate, and waits until it does.
async fn encrypted(cluster: &Cluster, certificate: &str, scratch: &Scratch) {
    let (client, connection) = tokio_postgres::connect(cluster.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(MAKE_CERTIFICATES).await.unwrap();
    for (name, value) in [("ssl_cert_file", "pem"), ("ssl_key_file", "key")] {
        let set = format!("alter system set {name} = '{certificate}.{value}'");
        client.batch_execute(&set).await.unwrap();
    }
    client.batch_execute("alter system set ssl = on").await.unwrap();
    client.batch_execute("select pg_reload_conf()").await.unwrap();
    for name in ["db.pem", "other.pem"] {
        let text: String =
            client.query_one("select pg_read_file($1)", &[&name]).await.unwrap().get(0);
        fs::write(scratch.0.join(name), text).unwrap();
    }
    // The new setting takes effect a moment after the reload.
    let begun = Instant::now();
    while let Err(error) = with(cluster.url(), "sslmode=require").await {
        assert!(begun.elapsed() < STUCK, "the server never accepted TLS: {error}");
    }
}

async fn check_modes(certificate: &str, host_is_named: bool) {
    let Some(cluster) = Cluster::start() else { return };
    let scratch = Scratch::new();
    encrypted(&cluster, certificate, &scratch).await;
    let root = |name: &str| scratch.0.join(name).display().to_string();
    let (good, bad) = (root("db.pem"), root("other.pem"));
    let ok = async |settings: &str| with(cluster.url(), settings).await.map(|_| ());
    for settings in ["sslmode=disable", "sslmode=prefer", "sslmode=require"] {
        ok(settings).await.unwrap();
    }
    ok(&format!("sslmode=verify-ca&sslrootcert={good}")).await.unwrap();
    for mode in ["require", "verify-ca", "verify-full"] {
        let error = ok(&format!("sslmode={mode}&sslrootcert={bad}")).await.unwrap_err();
        assert!(error.to_string().contains("invalid peer certificate"), "{mode}: {error}");
    }
    // The URL has the host 127.0.0.1, for which the certificate is not valid.
    let full = ok(&format!("sslmode=verify-full&sslrootcert={good}")).await;
    match (host_is_named, full) {
        (true, full) => full.unwrap(),
        (false, full) => {
            let error = full.unwrap_err().to_string();
            assert!(error.contains("not valid for name"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_signed_certificate_is_checked_as_far_as_sslmode_says() {
    check_modes("db", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_an_authority_is_checked_by_chain_and_name() {
    check_modes("leaf", true).await;
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let Some(url) = url() else { return };
    let error = with(url, "sslmode=require").await.unwrap_err().to_string();
    assert!(error.contains("TLS"), "{error}");
}

#[tokio::test]
async fn a_server_that_may_lose_a_commit_is_refused() {
    let Some(url) = url() else { return };
    let careless = "options=-c%20synchronous_commit%3Doff";
    let error = with(url, careless).await.unwrap_err().to_string();
    assert!(error.contains("synchronous_commit=off"), "{error}");
    let allowed = PostgresOptions { allow_unsafe_durability: true, ..options() };
    PostgresStore::open(&format!("{url}?{careless}"), allowed).await.unwrap();
}

/// A function `version()` in another schema hides that of the server, and returns the text of
/// another product.
#[tokio::test]
async fn a_server_that_is_not_postgresql_is_refused() {
    let Some(url) = url() else { return };
    let schema = options().schema;
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let fake = format!(
        "create schema {schema}; create function {schema}.version() returns text language sql \
         return 'PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu, 64-bit'"
    );
    client.batch_execute(&fake).await.unwrap();
    let hidden = format!("options=-c%20search_path%3D{schema},pg_catalog");
    let error = with(url, &hidden).await.unwrap_err().to_string();
    assert!(error.contains("is not PostgreSQL but `PostgreSQL 15.2-YB-"), "{error}");
    assert!(error.contains("set the option `allow_other_servers`"), "{error}");
    let allowed = PostgresOptions { allow_other_servers: true, ..options() };
    PostgresStore::open(&format!("{url}?{hidden}"), allowed).await.unwrap();
}

/// If the address has several hosts, the first one that answers and can be written to is used.
#[tokio::test]
async fn an_address_may_name_several_hosts() {
    let Some(url) = url() else { return };
    let (before, after) = url.split_once('@').unwrap();
    let (host, rest) = after.split_once('/').unwrap();
    let hosts = format!("{before}@127.0.0.1:1,{host}/{rest}?target_session_attrs=read-write");
    PostgresStore::open(&hosts, options()).await.unwrap();
    let only_reads = "options=-c%20default_transaction_read_only%3Don";
    let error = PostgresStore::open(&format!("{hosts}&{only_reads}"), options()).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("does not allow writes"), "{error}");
}

/// A frozen server accepts connections and never answers: connecting to it times out, and the next
/// host is tried.
#[tokio::test]
async fn a_host_that_says_nothing_is_given_up() {
    let Some(url) = url() else { return };
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = silent.local_addr().unwrap();
    let hold = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
    });
    let quick = || PostgresOptions { connect_timeout: Duration::from_millis(200), ..options() };
    for mode in ["disable", "prefer"] {
        let address = format!("postgres://tidegate@{host}/tidegate?sslmode={mode}");
        let opened = tokio::time::timeout(STUCK, PostgresStore::open(&address, quick())).await;
        let opened = opened.unwrap_or_else(|_| panic!("sslmode={mode}: connecting never ends"));
        assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
    }
    let (before, rest) = url.rsplit_once('@').unwrap();
    let address = format!("{before}@{host},{rest}");
    let opened = tokio::time::timeout(STUCK, PostgresStore::open(&address, quick())).await;
    opened.expect("the next host is tried").unwrap();
    hold.abort();
}

#[tokio::test]
async fn a_wake_up_reaches_another_process() {
    let Some(url) = url() else { return };
    let shared = options();
    let a = PostgresStore::open(url, shared.clone()).await.unwrap();
    let b = PostgresStore::open(url, shared).await.unwrap();
    let mut wakes = b.wakes();
    // The first wake-up is sent when the store begins to listen.
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
    a.wake();
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_outlives_its_connections() {
    let Some(url) = url() else { return };
    let shared = PostgresOptions { patience: STUCK, ..options() };
    let label = format!("application_name={}", shared.schema);
    let b = PostgresStore::open(url, shared.clone()).await.unwrap();
    let a = PostgresStore::open(&format!("{url}?{label}"), shared.clone()).await.unwrap();
    let mut wakes = a.wakes();
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
    assert!(a.heartbeat(1, sample::LEASE_MS).await.unwrap());
    let nothing = || Box::new(|_| Decision::Apply(Vec::new()));
    a.transact(ReadSet::default(), nothing()).await.unwrap();

    let (outside, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1";
    let ended = outside.query(end, &[&shared.schema]).await.unwrap().len();
    assert!(ended >= 3, "fewer than 3 connections (committer, listener, heartbeat): {ended}");

    a.transact(ReadSet::default(), nothing()).await.unwrap();
    a.read(ReadSet::default()).await.unwrap();
    assert!(a.heartbeat(1, sample::LEASE_MS).await.unwrap());
    // When the store listens again, it sends a wake-up, because it may have missed some.
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
    b.wake();
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
}

/// A pooler in transaction mode with fewer server connections than clients.
struct Pooler {
    child: Child,
    url: String,
    _scratch: Scratch,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pooler {
    /// Starts a pooler. Prints a message and returns `None` if pgbouncer is not installed.
    async fn start(server: &str) -> Option<Self> {
        let binary = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(Path::new);
        let Some(binary) = binary.into_iter().find(|path| path.exists()) else {
            say_skipped();
            return None;
        };
        let config: tokio_postgres::Config = server.parse().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let scratch = Scratch::new();
        let file = scratch.0.join("pgbouncer.ini");
        let password = String::from_utf8_lossy(config.get_password().unwrap_or_default());
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname={} user={} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n",
            config.get_ports()[0],
            config.get_dbname().unwrap(),
            config.get_user().unwrap(),
        );
        fs::write(&file, text).unwrap();
        // pgbouncer refuses to run as root.
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(binary);
            command
        } else {
            Command::new(binary)
        };
        let child = command.arg("-q").arg(&file).stderr(Stdio::null()).spawn().unwrap();
        let url = format!("postgres://tidegate@127.0.0.1:{port}/postgres?sslmode=disable");
        let pooler = Self { child, url, _scratch: scratch };
        let begun = Instant::now();
        while tokio_postgres::connect(&pooler.url, NoTls).await.is_err() {
            assert!(begun.elapsed() < STUCK, "pgbouncer does not answer");
            tokio::task::yield_now().await;
        }
        Some(pooler)
    }
}

#[expect(clippy::print_stderr, reason = "a test can report that it is skipped only by printing")]
fn say_skipped() {
    eprintln!("!!! NO PGBOUNCER: its test is skipped; install the package `pgbouncer`");
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output().unwrap();
    user.stdout == b"0\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pooler_in_transaction_mode_is_enough() {
    let Some(url) = url() else { return };
    let Some(pooler) = Pooler::start(url).await else { return };
    let options = PostgresOptions {
        pooler: true,
        listen_url: Some(url.to_owned()),
        committers: 4,
        patience: Duration::from_secs(15),
        ..options()
    };
    let store = Arc::new(PostgresStore::open(&pooler.url, options).await.unwrap());
    let key = RowKey::Gate(sample::gate_key("main", "k"));
    let reads = ReadSet::default().catalog(&"main".into()).row(key.clone());
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (store, reads) = (store.clone(), reads.clone());
            tokio::spawn(async move {
                store.transact(reads, Box::new(|snapshot| Decision::Apply(add(&snapshot)))).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let snapshot = store.read(reads).await.unwrap();
    assert!(matches!(&snapshot.rows[&key], Some(Row::Gate(gate)) if gate.id.0 == 16));
    assert!(store.heartbeat(7, sample::LEASE_MS).await.unwrap());
    assert!(store.heartbeat(7, sample::LEASE_MS).await.unwrap());
    assert_eq!(store.dump().await.unwrap().len(), 2);
    let mut wakes = store.wakes();
    wakes.mark_unchanged();
    store.wake();
    tokio::time::timeout(STUCK, wakes.changed()).await.unwrap().unwrap();
}

/// The driver prepares the statements of a step, and queries for the types that it uses. Neither
/// may stay prepared on the server connection, which another client uses next.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transactional_step_goes_through_a_pooler() {
    let Some(url) = url() else { return };
    let Some(pooler) = Pooler::start(url).await else { return };
    let options = PostgresOptions { pooler: true, ..options() };
    let schema = options.schema.clone();
    let store = Arc::new(PostgresStore::open(&pooler.url, options).await.unwrap());
    let (outside, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for n in 0..12 {
        let mood = format!("create type {schema}.mood_{n} as enum ('glad')");
        outside.batch_execute(&mood).await.unwrap();
    }
    let world = World::new(store.clone(), Arc::new(ManualClock::default()));
    world.define(json!({ "name": "feel" })).await;
    for _ in 0..12 {
        world.send("feel", json!({})).await;
    }
    let runs = world.lease_all().await.into_iter().enumerate();
    let feeling = runs.map(|(n, run)| {
        let (store, record) = (store.clone(), recording(&world, &run));
        let sql = format!("select 'glad'::{schema}.mood_{n}");
        tokio::spawn(async move {
            let step = |tx: PostgresTransaction| async move {
                let row = tx.query_one(&sql, &[]).await.unwrap();
                let mood = row.columns()[0].type_().name().to_owned();
                if n % 2 == 0 { Ok(mood) } else { Err(mood) }
            };
            match store.transact_with(STUCK, step, |_| vec![record]).await {
                Ok(StepRecord { value: mood, .. }) | Err(TransactionError::Step(mood)) => mood,
                Err(other) => panic!("{other}"),
            }
        })
    });
    for (n, felt) in feeling.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(felt.await.unwrap(), format!("mood_{n}"));
    }
    // Checks all three server connections of the pooler: each open transaction uses another one.
    let mut clients = Vec::new();
    for _ in 0..3 {
        let (client, connection) = tokio_postgres::connect(&pooler.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("begin").await.unwrap();
        let left = client.simple_query("select name from pg_prepared_statements").await.unwrap();
        let left = left.iter().filter(|it| matches!(it, SimpleQueryMessage::Row(_))).count();
        assert_eq!(left, 0, "statements are still prepared on a server connection");
        clients.push(client);
    }
}

fn recording(world: &World, run: &Run) -> SeededCommand {
    let report = Record {
        run: run.id.seq,
        engine: run.owner.unwrap(),
        fence: run.fence,
        steps: vec![step("feel", &json!(1))],
        then: Then::Continue,
        ..Record::default()
    };
    world.salted(Asked::Record { known: Box::new(run.clone()), report })
}

fn add(snapshot: &Snapshot) -> Vec<Change> {
    match snapshot.rows.values().next() {
        Some(Some(Row::Gate(gate))) => {
            let mut gate = gate.clone();
            gate.id.0 += 1;
            vec![Change::Update(gate.into())]
        }
        _ => vec![Change::Insert(sample::gate("main", "k", 1).into())],
    }
}
