//! PostgreSQL for tests: the one that the environment names, or a throw-away cluster.
//!
//! [`url`] is the door. Where `TIDEGATE_TEST_POSTGRES` is set, it is the answer; otherwise
//! `scripts/postgres` starts a cluster once per process, owned by an unprivileged user and tied
//! to this process by a pipe: when the pipe closes, also because the process was killed, the
//! server is stopped and its directory deleted. (A runner that starts a process per test would
//! start a cluster per test, so `scripts/test` starts one and sets the variable.)
//!
//! Without PostgreSQL, a test says so and skips; where `CI` is set, a skip is a failure.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::server::Server;

/// PostgreSQL cuts longer identifiers, which would make two schemas one.
const LONGEST_IDENTIFIER: usize = 63;

/// The PostgreSQL of this process's tests; `None`, said loudly, where there is none.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
    match SHARED.get_or_init(Shared::find) {
        Some(Shared::Named(url)) => Some(url),
        Some(Shared::Own(cluster)) => Some(cluster.url()),
        None => None,
    }
}

/// A schema name that no other call gets, in this process or another one.
///
/// The schema is not created, and nobody drops it: the cluster is what gets thrown away.
pub fn fresh_schema(prefix: &str) -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Drawn rather than taken from the process id, which comes round again.
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(0));
    let name = format!("{prefix}_{process:016x}_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    assert!(name.len() <= LONGEST_IDENTIFIER, "schema prefix `{prefix}` is too long");
    name
}

/// A throw-away cluster, alive until it is dropped or its process ends.
#[derive(Debug)]
pub struct Cluster(Server);

impl Cluster {
    /// Starts a cluster of its own; `None` where the machine has no PostgreSQL.
    pub fn start() -> Option<Cluster> {
        Server::start("postgres").map(Cluster)
    }

    /// Starts a cluster that needs so much room, in MB, to lie in memory.
    pub fn start_with_room(megabytes: u64) -> Option<Cluster> {
        let room = megabytes.to_string();
        Server::start_for("postgres", &[("TIDEGATE_TEST_POSTGRES_ROOM", &room)]).map(Cluster)
    }

    /// Where to connect, as a superuser.
    pub fn url(&self) -> &str {
        self.0.url()
    }
}

/// A throw-away cluster that crashes, and fails over to a synchronous standby, when it is told to.
#[derive(Debug)]
pub struct FaultyCluster {
    script: Server,
    url: String,
}

impl FaultyCluster {
    /// Starts a cluster of its own; `None` where the machine has no PostgreSQL.
    pub fn start() -> Option<Self> {
        let script = Server::start_with("postgres", &["--faults"])?;
        Some(Self { url: script.url().to_owned(), script })
    }

    /// Where to connect to the server, or to where it was before it crashed.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills every process of the server.
    pub fn crash(&mut self) {
        self.script.command("crash");
    }

    /// Starts the crashed server again.
    pub fn restart(&mut self) {
        self.url = self.script.command("restart");
    }

    /// Adds a synchronous standby, which every commit waits for from now on; gives its address.
    pub fn add_standby(&mut self) -> String {
        self.script.command("standby")
    }

    /// Makes the standby the server, in place of one that has crashed. The next standby is where
    /// that one was.
    pub fn promote(&mut self) {
        self.url = self.script.command("promote");
    }
}

/// What all tests of one process use.
#[derive(Debug)]
enum Shared {
    Named(String),
    Own(Cluster),
}

impl Shared {
    fn find() -> Option<Shared> {
        if let Ok(url) = env::var("TIDEGATE_TEST_POSTGRES") {
            return Some(Shared::Named(url));
        }
        if let Some(cluster) = Cluster::start() {
            return Some(Shared::Own(cluster));
        }
        assert!(env::var_os("CI").is_none(), "no PostgreSQL, and in CI a skip is a failure");
        say_skipped();
        None
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen, and has no other voice")]
fn say_skipped() {
    eprintln!("!!! NO POSTGRESQL: its tests are skipped; set TIDEGATE_TEST_POSTGRES or install it");
}
