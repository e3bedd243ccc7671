//! Conditions that must not stall a server: a store that does not respond, a log without a reader,
//! other servers that are frozen, a busy machine, and a clock that steps back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    outage::unready_because_of,
    postgres::{Door, client, database},
    server::Server,
    target::Target,
};

/// Test timeout. It is reached only if an expected event never happens.
const PATIENCE: Duration = Duration::from_secs(100);

/// While the store does not respond, `/ready` answers from memory. It reports the store once a
/// heartbeat is overdue, and the server exits on a signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_says_nothing_answers_and_ends() {
    let Some(url) = database().await else { return };
    let door = Door::to(&url).await;
    let config = format!("store = \"{}\"\ndrainMs = 0\n", door.url);
    let mut server = Server::start(&config);
    assert_eq!(server.get("/ready").await.0, StatusCode::OK);
    door.freeze(true);
    let (status, answer) = server.get("/ready").await;
    assert_eq!(
        status,
        StatusCode::OK,
        "`/ready` must answer without a query to the store: {answer}"
    );
    assert!(answer["heartbeatAgeMs"].is_u64(), "{answer}");
    unready_because_of(&server, "store_unavailable").await;
    door.freeze(false);
    server.ready().await;
    door.freeze(true);
    server.signal("TERM");
    assert!(server.ended().await.success());
}

/// A server that starts on a database that does not respond exits on a signal.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_its_store_ends_when_it_is_told_to() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = format!("postgres://tidegate@{}/tidegate", silent.local_addr().unwrap());
    let mut server = Server::begin(&store, "");
    let (_connection, _) = silent.accept().await.unwrap();
    server.signal("TERM");
    assert!(server.ended().await.success(), "{}", server.log());
}

/// A server that waits at its start for a lock on the definitions logs that.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_says_so() {
    let Some(url) = database().await else { return };
    // The first start creates the schema.
    drop(Server::start(&format!("store = \"{url}\"\n")));
    let outside = client(&url).await;
    outside
        .batch_execute("begin; lock table tidegate.epoch in access exclusive mode")
        .await
        .unwrap();
    let mut server = Server::begin(&url, "");
    let began = std::time::Instant::now();
    let answer = loop {
        // Requests fail until the server listens, so they are repeated.
        if let Some((status, again, answer)) = server.try_ask("/ready", None).await {
            assert_eq!((status, again), (StatusCode::SERVICE_UNAVAILABLE, true), "{answer}");
            break answer;
        }
        assert!(began.elapsed() < PATIENCE, "the server never listens: {}", server.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(answer["error"], "starting", "{answer}");
    assert_eq!(server.get("/health").await.0, StatusCode::OK);
    outside.batch_execute("rollback").await.unwrap();
    server.ready().await;
    server.signal("TERM");
    assert!(server.ended().await.success());
}

/// A log without a reader fills its pipe; the server still handles requests and signals.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_stops_nothing() {
    let mut server = Server::start_unread("", "debug");
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    // Each request logs more than a hundred bytes; a pipe holds 64 KiB.
    for n in 0..1500 {
        let garbage = async {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(b"\0\r\n\r\n").await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let answered = tokio::time::timeout(PATIENCE, garbage).await;
        assert!(answered.is_ok(), "connection {n} is never answered");
    }
    assert_eq!(server.get("/ready").await.0, StatusCode::OK);
    server.signal("TERM");
    assert!(server.ended().await.success());
    let unread = server.unread();
    assert!(unread > 60_000, "the pipe was not full: {unread} bytes");
}

/// spec I14: the database's clock is set back by an hour, and a throttled key still waits only for
/// its period.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_back_stops_no_key() {
    let Some(url) = database().await else { return };
    let target = Target::kind().await;
    let server = Server::start(&format!(
        "store = \"{url}\"\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         throttle = {{ limit = 1, perMs = 2000 }}\n\
         [[workflow]]\nname = \"save\"\nurl = \"{}\"\ndebounce = {{ periodMs = 2000 }}\n",
        target.url, target.url
    ));
    let mut runs = vec![server.start_run("save", json!(0)).await];
    for n in 0..3 {
        runs.push(server.start_run("sync", json!(n)).await);
    }
    let back = "create or replace function tidegate.clock() returns bigint language sql as $$
        select (extract(epoch from clock_timestamp()) * 1000000)::bigint - 3600000000 $$";
    client(&url).await.batch_execute(back).await.unwrap();
    for run in &runs {
        server.until(run, "completed").await;
    }
}

/// Threads that use the CPU until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn with(threads: usize) -> Self {
        let on = Arc::new(AtomicBool::new(true));
        for _ in 0..threads {
            let on = on.clone();
            std::thread::spawn(move || while on.load(Ordering::Relaxed) {});
        }
        Self(on)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Servers start on a busy machine, next to others that are frozen under load and killed later.
/// Each one answers, becomes ready and exits on a signal. `TIDEGATE_TEST_FULL=1` starts 200.
#[tokio::test(flavor = "multi_thread")]
async fn servers_start_beside_frozen_ones() {
    let Some(url) = database().await else { return };
    let full = std::env::var_os("TIDEGATE_TEST_FULL").is_some();
    let (times, threads) = if full { (200, 20) } else { (3, 4) };
    let target = Target::kind().await;
    let config = format!(
        "store = \"{url}\"\ndrainMs = 0\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         concurrency = {{ limit = 3 }}\n[[workflow]]\nname = \"save\"\nurl = \"{}\"\n\
         debounce = {{ periodMs = 50, key = \"n\" }}\n",
        target.url, target.url
    );
    let _busy = Busy::with(threads);
    let mut frozen: Vec<Server> = Vec::new();
    for round in 0..times {
        let peer = begun(&config, round).await;
        flood(&peer).await;
        peer.signal("STOP");
        frozen.push(peer);
        if frozen.len() > 2 {
            // Dropping a server kills it; this one is frozen.
            drop(frozen.remove(0));
        }
        let mut server = begun(&config, round).await;
        let ready = tokio::time::timeout(PATIENCE, server.ready()).await;
        assert!(
            ready.is_ok(),
            "round {round}: the server never becomes ready; log: {}",
            server.log()
        );
        server.signal("TERM");
        assert!(server.ended().await.success(), "round {round}");
        if full {
            eprintln!("{} of {times} starts", round + 1);
        }
    }
}

/// Starts a server and returns it once it has printed its address.
async fn begun(config: &str, round: usize) -> Server {
    let config = config.to_owned();
    let started = tokio::task::spawn_blocking(move || Server::start(&config));
    let started = tokio::time::timeout(PATIENCE, started).await;
    started.unwrap_or_else(|_| panic!("round {round}: the server never starts")).unwrap()
}

/// Sends events without waiting for the answers.
async fn flood(server: &Server) {
    let events: Vec<_> = (0..40)
        .map(|n| json!({ "name": if n % 2 == 0 { "sync" } else { "save" }, "data": { "n": n } }))
        .collect();
    let posted = server.try_post("/events", json!(events).to_string());
    let _ = tokio::time::timeout(Duration::from_millis(50), posted).await;
}
