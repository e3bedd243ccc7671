//! The PostgreSQL harness answers, gives unique names, and leaves nothing behind.

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

/// Set for the child that [`a_cluster_goes_when_its_owner_is_killed`] kills.
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
    assert!(!directory.exists(), "{} is left behind", directory.display());
}

/// The cluster is in memory if there is room, on disk if not: no machine has a terabyte.
#[tokio::test]
async fn a_cluster_lies_in_memory_if_there_is_room() {
    let memory = Path::new("/dev/shm");
    for (megabytes, in_memory) in [(1, memory.is_dir()), (1 << 30, false)] {
        let Some(cluster) = Cluster::start_with_room(megabytes) else { return };
        let directory = directory_of(&cluster).await;
        assert_eq!(directory.starts_with(memory), in_memory, "{megabytes} MB: {directory:?}");
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
    // The owner prints nothing if the machine has no PostgreSQL.
    let Some(directory) = directory else {
        assert!(Cluster::start().is_none(), "the owner started no cluster");
        return;
    };
    wait_until_gone(&directory);
}

/// The other half of [`a_cluster_goes_when_its_owner_is_killed`]; by itself it does nothing.
#[tokio::test]
async fn owner_that_waits_to_be_killed() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let Some(cluster) = Cluster::start() else { return };
    println!("directory: {}", directory_of(&cluster).await.display());
    io::stdin().read_to_end(&mut Vec::new()).expect("the parent holds the other end");
}

#[test]
fn no_two_schemas_have_one_name() {
    let [first, second] = [postgres::fresh_schema("gates"), postgres::fresh_schema("gates")];
    assert_ne!(first, second);
    assert!(first.starts_with("gates_"));
}

/// Returns the first column of the first row, as text.
async fn ask(url: &str, query: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it listens");
    let connection = tokio::spawn(connection);
    let row = client.query_one(query, &[]).await.expect("the query is valid");
    let answer = row.get(0);
    drop(client);
    connection.await.expect("the connection does not panic").expect("it closes cleanly");
    answer
}

/// Returns the directory that must be deleted with the cluster.
async fn directory_of(cluster: &Cluster) -> PathBuf {
    let data = PathBuf::from(ask(cluster.url(), "show data_directory").await);
    data.parent().expect("the data lies inside the cluster's directory").to_owned()
}

/// Waits in real time: the process that deletes the directory is no child of the test, and has no
/// clock that a test could move.
fn wait_until_gone(directory: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while directory.exists() {
        assert!(Instant::now() < deadline, "{} is left behind", directory.display());
        thread::sleep(Duration::from_millis(5));
    }
}
