//! Servers of a round: processes of the real binary. Each start of a server is an incarnation with
//! its own name.

use std::{fs::OpenOptions, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    lanes::{self, HOOK_SECRET, LANES, Revisions, Way},
    load::Front,
    proxy::Proxy,
    service::Service,
};

/// Maximum time for a server to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drain timeout after SIGTERM.
const DRAIN_MS: &str = "2000";

/// One server of the round, which may be killed and started again as a new incarnation.
pub(crate) struct Server {
    letter: char,
    /// Lease in milliseconds.
    pub(crate) ttl: u64,
    incarnation: u32,
    process: Option<Child>,
    /// URL of the server's store.
    store: String,
    /// Proxy to the server's database, if it has one.
    pub(crate) proxy: Option<Arc<Proxy>>,
    /// Whether the process is stopped by SIGSTOP.
    pub(crate) frozen: bool,
}

impl Server {
    /// Returns the name of the current incarnation, which is also the secret of its call
    /// signatures.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.letter, self.incarnation)
    }

    fn signal(&self, signal: &str) {
        let Some(pid) = self.process.as_ref().and_then(Child::id) else { return };
        let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
        assert!(
            status.unwrap().success(),
            "sending signal {signal} to server {} failed",
            self.name()
        );
    }
}

/// All servers, their config file and their service.
pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) front: Front,
    service: Service,
    folder: PathBuf,
    revisions: Revisions,
}

impl Fleet {
    /// Starts one server for each store URL, with its lease.
    pub(crate) async fn start(
        folder: PathBuf,
        service: Service,
        stores: Vec<(String, u64, Option<Arc<Proxy>>)>,
    ) -> Self {
        let mut fleet = Self {
            servers: Vec::new(),
            front: Front::new(),
            service,
            folder,
            revisions: Revisions::new(),
        };
        fleet.write_config();
        for (letter, (store, ttl, proxy)) in ('a'..).zip(stores) {
            let (incarnation, frozen) = (0, false);
            let server = Server { letter, ttl, incarnation, process: None, store, proxy, frozen };
            fleet.servers.push(server);
            fleet.front.urls.write().unwrap().push(String::new());
            fleet.launch(fleet.servers.len() - 1).await;
        }
        fleet
    }

    fn write_config(&self) {
        let config = lanes::config(&self.service.url, &self.revisions);
        std::fs::write(self.folder.join("tidegate.toml"), config).unwrap();
    }

    /// Starts a new incarnation of a server whose process has exited.
    pub(crate) async fn launch(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.incarnation += 1;
        let name = server.name();
        self.service.expect(&name);
        let log = self.folder.join(format!("{}.log", server.letter));
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let config = self.folder.join("tidegate.toml").display().to_string();
        let binary = std::env::var("TIDEGATE_BINARY");
        // `setpriv` kills the server when this test process ends, however it ends.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned()))
            .args(["serve", "--listen", "127.0.0.1:0", "--config", &config])
            .args(["--store", &server.store])
            .env_clear()
            .env("TIDEGATE_LEASE_TTL_MS", server.ttl.to_string())
            .env("TIDEGATE_DRAIN_MS", DRAIN_MS)
            .env("TIDEGATE_SIGNING_SECRET", &name)
            .env("TIDEGATE_LOG", "info")
            .env("HOOK_SECRET", HOOK_SECRET)
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = timeout(PATIENCE, lines.next_line()).await;
        let first = first.unwrap_or_else(|_| panic!("server {name} did not start in time"));
        let first = first.unwrap().unwrap_or_else(|| {
            panic!("server {name} ended: see its log in {}", self.folder.display())
        });
        let (_, url) = first.split_once(" listening on ").expect("an address");
        server.process = Some(process);
        url.clone_into(&mut self.front.urls.write().unwrap()[at]);
    }

    pub(crate) async fn kill(&mut self, at: usize) {
        let mut process = self.servers[at].process.take().expect("the server must be running");
        process.kill().await.unwrap();
    }

    /// Sends SIGTERM. Returns whether the server has exited in time.
    pub(crate) async fn terminate(&mut self, at: usize) -> bool {
        self.servers[at].signal("-TERM");
        let mut process = self.servers[at].process.take().expect("the server must be running");
        let ended = timeout(PATIENCE, process.wait()).await.is_ok();
        if !ended {
            process.kill().await.unwrap();
        }
        ended
    }

    pub(crate) fn freeze(&mut self, at: usize, frozen: bool) {
        self.servers[at].signal(if frozen { "-STOP" } else { "-CONT" });
        self.servers[at].frozen = frozen;
    }

    /// Raises the revision of every definition in the config file, and makes one server reload it.
    pub(crate) fn reload(&mut self, at: usize) {
        self.revise();
        self.servers[at].signal("-HUP");
    }

    /// Raises the revision of every definition in the config file.
    pub(crate) fn revise(&mut self) {
        for lane in LANES.iter().chain([&lanes::CLOCK]) {
            *self.revisions.entry(lane.name).or_insert(1) += 1;
        }
        self.write_config();
    }

    /// Redefines one workflow over HTTP with the next revision. Returns whether the answer was 200.
    pub(crate) async fn put(&mut self, pick: usize) -> bool {
        let all: Vec<_> = LANES.iter().filter(|lane| lane.way == Way::Event).collect();
        let lane = all[pick % all.len()];
        let revision = self.revisions.entry(lane.name).or_insert(1);
        *revision += 1;
        let body = lanes::body(lane, &self.service.url, *revision).to_string();
        self.write_config();
        let key = json!(["storm", lane.name, *self.revisions.get(lane.name).unwrap()]).to_string();
        let make = |http: &reqwest::Client, url: &str| {
            let request = http.put(format!("{url}/workflows/{}", lane.name));
            let request = request.header("content-type", "application/json");
            request.header("idempotency-key", &key).body(body.clone())
        };
        matches!(self.front.ask(make).await.1, Some((200, _)))
    }
}
