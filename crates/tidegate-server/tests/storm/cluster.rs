//! PostgreSQL cluster of the storm test: a primary and a synchronous standby. The test crashes the
//! primary and promotes the standby.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tidegate_store::tokio_postgres::{Client, NoTls, connect};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    time::{Instant, sleep},
};

/// Maximum time for a database to answer, to be promoted, or to become a standby.
const PATIENCE: Duration = Duration::from_secs(60);

/// Poll interval.
const LOOK: Duration = Duration::from_millis(40);

/// Settings that differ from the defaults. Durability settings keep their defaults, because the
/// results must hold for real servers.
const SETTINGS: &str = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\n\
    max_connections = 200\nwal_level = replica\nmax_wal_senders = 10\nshared_buffers = '32MB'\n\
    wal_receiver_status_interval = 1\nwal_retrieve_retry_interval = '100ms'\n";

/// A database server and its data.
struct Node {
    data: PathBuf,
    port: u16,
    process: Child,
}

/// The primary and its standby.
pub(crate) struct Cluster {
    bin: PathBuf,
    folder: TempDir,
    /// Unprivileged user that runs the database servers, if this process is root.
    owner: Option<String>,
    password: String,
    primary: Node,
    standby: Option<Node>,
    /// Number of nodes created so far.
    made: u32,
}

impl Cluster {
    /// Starts the cluster. Returns `None` if the machine has no PostgreSQL.
    pub(crate) async fn start() -> Option<Self> {
        let bin = find_binaries()?;
        let folder = tempfile::Builder::new().prefix("tidegate-storm-").tempdir().unwrap();
        let owner = owner();
        if let Some(owner) = &owner {
            run(Command::new("chown").arg(owner).arg(folder.path())).await;
        }
        let password = format!("{:x}", crate::journal::now());
        let (data, file) = (folder.path().join("1"), folder.path().join("password"));
        std::fs::write(&file, &password).unwrap();
        run(as_owner(owner.as_deref(), &bin.join("initdb"))
            .args(["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"])
            .args(["--auth=password", &format!("--pwfile={}", file.display())])
            .arg(format!("--pgdata={}", data.display())))
        .await;
        let config = std::fs::read_to_string(data.join("postgresql.conf")).unwrap();
        std::fs::write(data.join("postgresql.conf"), config + SETTINGS).unwrap();
        let primary = launch(&bin, owner.as_deref(), data, free_port().await);
        let mut cluster = Self { bin, folder, owner, password, primary, standby: None, made: 1 };
        cluster.answers().await;
        cluster.rebuild_standby().await;
        Some(cluster)
    }

    /// Returns the port of the primary.
    pub(crate) fn port(&self) -> u16 {
        self.primary.port
    }

    /// Returns the URL of a database through this port, which may be that of a proxy.
    pub(crate) fn url(&self, port: u16, database: &str) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{port}/{database}", self.password)
    }

    /// Connects to the primary. Tries again until that succeeds.
    async fn answers(&self) -> Client {
        client(&self.url(self.primary.port, "postgres")).await
    }

    /// Creates the database of a round, and drops those of earlier rounds.
    pub(crate) async fn create_database(&self, seed: u64) -> String {
        let client = self.answers().await;
        let old = "select datname from pg_database where datname like 'storm_%'";
        for row in client.query(old, &[]).await.unwrap() {
            let name: String = row.get(0);
            let drop = format!("drop database {name} with (force)");
            client.batch_execute(&drop).await.unwrap();
        }
        let name = format!("storm_{seed}");
        client.batch_execute(&format!("create database {name}")).await.unwrap();
        name
    }

    /// Kills every process of the primary at once, and starts it again on the same data.
    pub(crate) async fn crash(&mut self) {
        kill_all(&mut self.primary).await;
        let (data, port) = (self.primary.data.clone(), self.primary.port);
        self.primary = launch(&self.bin, self.owner.as_deref(), data, port);
        drop(self.answers().await);
    }

    /// Kills the primary permanently and promotes its standby, which has all acknowledged commits.
    /// Returns the port of the new primary.
    pub(crate) async fn promote(&mut self) -> u16 {
        self.in_step().await;
        kill_all(&mut self.primary).await;
        let standby = self.standby.take().expect("there must be a standby before a promotion");
        let old = std::mem::replace(&mut self.primary, standby);
        std::fs::remove_dir_all(old.data).unwrap();
        let client = self.answers().await;
        // The new primary has no standby yet, so its commits must not wait for one.
        let promoted = client.query_one("select pg_promote(true, 60)", &[]).await.unwrap();
        assert!(promoted.get::<_, bool>(0), "the standby was not promoted");
        client.batch_execute("alter system set synchronous_standby_names = ''").await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        self.primary.port
    }

    /// Creates a new standby of the primary, and makes commits wait for it.
    pub(crate) async fn rebuild_standby(&mut self) {
        self.made += 1;
        let data = self.folder.path().join(self.made.to_string());
        run(as_owner(self.owner.as_deref(), &self.bin.join("pg_basebackup"))
            .args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf"])
            .arg(format!("--dbname={}", self.url(self.primary.port, "")))
            .arg(format!("--pgdata={}", data.display())))
        .await;
        let port = free_port().await;
        self.standby = Some(launch(&self.bin, self.owner.as_deref(), data, port));
        let client = self.answers().await;
        client.batch_execute("alter system set synchronous_standby_names = '*'").await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        self.in_step().await;
    }

    /// Waits until commits are synchronously replicated to the standby.
    async fn in_step(&self) {
        let client = self.answers().await;
        let began = Instant::now();
        let sql = "select count(*) from pg_stat_replication where sync_state = 'sync' \
            and state = 'streaming'";
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) != 1 {
            assert!(began.elapsed() < PATIENCE, "the standby does not become synchronous");
            sleep(LOOK).await;
        }
    }
}

/// Returns the directory of PostgreSQL's programs.
fn find_binaries() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut all: Vec<_> = all.map(|it| it.path().join("bin")).collect();
    all.sort();
    all.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// Returns the user that runs PostgreSQL if this process is root: PostgreSQL refuses to run as
/// root.
fn owner() -> Option<String> {
    let user = std::process::Command::new("id").arg("-u").output().unwrap().stdout;
    let is_user =
        |name: &&str| std::process::Command::new("id").arg(name).output().unwrap().status.success();
    (user == b"0\n").then(|| ["postgres", "nobody"].iter().copied().find(is_user).unwrap().into())
}

/// Returns a command that runs as the owner and is killed when this process ends.
fn as_owner(owner: Option<&str>, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(owner) = owner {
        let id = std::process::Command::new("id").args(["-g", owner]).output().unwrap().stdout;
        let group = String::from_utf8(id).unwrap();
        command.args(["--reuid", owner, "--regid", group.trim(), "--clear-groups"]);
    }
    // The owner may not be allowed to read the current directory of this process.
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).current_dir("/");
    command
}

async fn run(command: &mut Command) {
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn launch(bin: &Path, owner: Option<&str>, data: PathBuf, port: u16) -> Node {
    let log = data.with_extension("log");
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let process = as_owner(owner, &bin.join("postgres"))
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    Node { data, port, process }
}

async fn client(url: &str) -> Client {
    let began = Instant::now();
    loop {
        match connect(url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "PostgreSQL: {error}"),
        }
        sleep(LOOK).await;
    }
}

/// Kills a database server and all its backends with SIGKILL, and waits until all have exited:
/// otherwise the next server would find their shared memory and not start.
async fn kill_all(node: &mut Node) {
    let parent = node.process.id().expect("the node must be running");
    let children = children(parent);
    let pids = [parent].iter().chain(&children).map(u32::to_string).collect::<Vec<_>>();
    // An error is ignored: some processes may have exited meanwhile.
    let _ = std::process::Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status();
    node.process.wait().await.unwrap();
    while children.iter().any(|child| is_postgres(*child)) {
        sleep(LOOK).await;
    }
}

/// Returns the child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| status(*pid).is_some_and(|it| it.1 == parent)).collect()
}

fn is_postgres(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != 'Z')
}

/// Returns the state and the parent of a process.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name before the last `)` may contain any character, also `)`.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    Some((rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}
