//! Tests of the PostgreSQL test harness: clusters answer and are deleted, and schema names are
//! unique.

use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tidegate_testkit::postgres::{self, Cluster};
use tokio_postgres::NoTls;

/// Environment variable of the child process that [`a_cluster_goes_when_its_owner_is_killed`]
/// kills.
const OWNER: &str = "TIDEGATE_TESTKIT_OWNER";

#[tokio::test]
async fn the_cluster_answers() {
    let Some(url) = postgres::url() else { return };
    assert_eq!(ask(url, "select '1'").await, "1");
}

#[tokio::test]
async fn durability_is_left_at_its_defaults() {
    let Some(cluster) = Cluster::start() else { return };
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(ask(cluster.url(), &format!("show {setting}")).await, "on", "{setting}");
    }
}

#[tokio::test]
async fn a_dropped_cluster_leaves_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let directory = directory_of(&cluster).await;
    assert!(directory.exists());
    drop(cluster);
    assert!(!directory.exists(), "{} was not deleted", directory.display());
}

/// A cluster is in memory if the required memory is free, and on disk if not. No machine has the
/// petabyte that the second case requires.
#[tokio::test]
async fn a_cluster_lies_in_memory_if_there_is_room() {
    let memory = Path::new("/dev/shm");
    for (megabytes, in_memory) in [(1, memory.is_dir()), (1 << 30, false)] {
        let Some(cluster) = Cluster::start_with_room(megabytes) else { return };
        let directory = directory_of(&cluster).await;
        let is_there = directory.starts_with(memory);
        assert_eq!(is_there, in_memory, "wrong place for {megabytes} MB: {directory:?}");
    }
}

#[test]
fn a_cluster_goes_when_its_owner_is_killed() {
    let mut owner = Command::new(env::current_exe().expect("a test is a program"))
        .args(["--exact", "owner_that_waits_to_be_killed", "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test can start itself");
    let stdout = BufReader::new(owner.stdout.take().expect("standard output is piped"));
    let directory = stdout
        .lines()
        .map(|line| line.expect("the owner writes text"))
        .find_map(|line| line.split_once("directory: ").map(|(_, path)| PathBuf::from(path)));
    owner.kill().expect("the owner is a child of this process");
    owner.wait().expect("the owner is a child of this process");
    // The child prints no directory if the machine has no PostgreSQL.
    let Some(directory) = directory else {
        assert!(Cluster::start().is_none(), "the child process could not start a cluster");
        return;
    };
    wait_until_gone(&directory);
}

/// Child process of [`a_cluster_goes_when_its_owner_is_killed`]; as an ordinary test it does
/// nothing.
#[tokio::test]
async fn owner_that_waits_to_be_killed() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start() else { return };
    println!("directory: {}", directory_of(&cluster).await.display());
    io::stdin().read_to_end(&mut Vec::new()).expect("standard input is a pipe from the parent");
}

#[test]
fn no_two_schemas_have_one_name() {
    let [first, second] = [postgres::fresh_schema("gates"), postgres::fresh_schema("gates")];
    assert_ne!(first, second);
    assert!(first.starts_with("gates_"));
}

/// Returns the first column of the first row, as text.
async fn ask(url: &str, query: &str) -> String {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.expect("the server accepts connections");
    let connection = tokio::spawn(connection);
    let row = client.query_one(query, &[]).await.expect("the query is valid");
    let answer = row.get(0);
    drop(client);
    let closed = connection.await.expect("the connection task does not panic");
    closed.expect("the connection closes without an error");
    answer
}

/// Returns the directory that must be deleted with the cluster.
async fn directory_of(cluster: &Cluster) -> PathBuf {
    let data = PathBuf::from(ask(cluster.url(), "show data_directory").await);
    data.parent().expect("the data lies inside the cluster's directory").to_owned()
}

/// Waits until the directory is deleted. Waits in real time, because another process deletes it,
/// whose clock the test cannot advance.
fn wait_until_gone(directory: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while directory.exists() {
        assert!(Instant::now() < deadline, "{} was not deleted", directory.display());
        thread::sleep(Duration::from_millis(5));
    }
}
