//! PostgreSQL for tests: the server that the environment names, or a temporary cluster.
//!
//! [`url`] is the entry point. If `TIDEGATE_TEST_POSTGRES` is set, [`url`] returns it. Otherwise
//! `scripts/postgres` starts a cluster once per process, owned by an unprivileged user. A pipe
//! connects it with this process: when the pipe closes, also because the process was killed, the
//! server is stopped and its directory deleted. (A runner that starts a process per test would
//! start a cluster per test, so `scripts/test` starts one and sets the variable.)
//!
//! Without PostgreSQL, a test prints a message and is skipped; if `CI` is set, it fails.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::server::Server;

/// Maximum length of identifiers. PostgreSQL truncates longer ones, so that two schemas could get
/// the same name.
const LONGEST_IDENTIFIER: usize = 63;

/// Returns the URL of the PostgreSQL of this process's tests. If there is none, prints a message
/// and returns `None`.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
    match SHARED.get_or_init(Shared::find) {
        Some(Shared::Named(url)) => Some(url),
        Some(Shared::Own(cluster)) => Some(cluster.url()),
        None => None,
    }
}

/// Returns a schema name that no other call gets, in this process or another one.
///
/// The schema is neither created nor dropped here: the whole cluster is deleted later.
pub fn fresh_schema(prefix: &str) -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // A random number, because process ids are reused.
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(0));
    let name = format!("{prefix}_{process:016x}_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    assert!(name.len() <= LONGEST_IDENTIFIER, "schema prefix `{prefix}` is too long");
    name
}

/// A temporary cluster, which runs until the value is dropped or its process ends.
#[derive(Debug)]
pub struct Cluster(Server);

impl Cluster {
    /// Starts a separate cluster. Returns `None` if the machine has no PostgreSQL.
    pub fn start() -> Option<Cluster> {
        Server::start("postgres").map(Cluster)
    }

    /// As [`Self::start`], for a cluster that needs this much memory, in MB. Its files are in
    /// memory only if there is enough.
    pub fn start_with_room(megabytes: u64) -> Option<Cluster> {
        let room = megabytes.to_string();
        Server::start_for("postgres", &[("TIDEGATE_TEST_POSTGRES_ROOM", &room)]).map(Cluster)
    }

    /// Returns the URL to connect as a superuser.
    pub fn url(&self) -> &str {
        self.0.url()
    }
}

/// A temporary cluster that crashes, and fails over to a synchronous standby, on command.
#[derive(Debug)]
pub struct FaultyCluster {
    script: Server,
    url: String,
}

impl FaultyCluster {
    /// Starts a separate cluster. Returns `None` if the machine has no PostgreSQL.
    pub fn start() -> Option<Self> {
        let script = Server::start_with("postgres", &["--faults"])?;
        Some(Self { url: script.url().to_owned(), script })
    }

    /// Returns the URL of the server; after a crash, the URL that it had.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills every process of the server.
    pub fn crash(&mut self) {
        self.script.command("crash");
    }

    /// Restarts the crashed server.
    pub fn restart(&mut self) {
        self.url = self.script.command("restart");
    }

    /// Adds a synchronous standby, which every commit waits for from now on; returns its URL.
    pub fn add_standby(&mut self) -> String {
        self.script.command("standby")
    }

    /// Promotes the standby after a crash of the server. The next standby gets the URL of the
    /// crashed server.
    pub fn promote(&mut self) {
        self.url = self.script.command("promote");
    }
}

/// The server for all tests of one process.
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
        assert!(
            env::var_os("CI").is_none(),
            "PostgreSQL is missing: in CI its tests must not be skipped"
        );
        say_skipped();
        None
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test must print a message")]
fn say_skipped() {
    eprintln!("!!! NO POSTGRESQL: its tests are skipped; set TIDEGATE_TEST_POSTGRES or install it");
}
