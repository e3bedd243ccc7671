//! Outages of the database.

use std::{collections::BTreeSet, time::Duration};

use reqwest::StatusCode;
use serde_json::json;

use crate::{
    postgres::{Door, database},
    server::Server,
    target::Target,
};

/// PostgreSQL fails while runs are in progress: the server reports the outage, loses no run, and
/// recovers by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_back_is_gone_on_with() {
    let Some(url) = database().await else { return };
    let (door, target) = (Door::to(&url).await, Target::kind().await);
    target.open(false);
    let server = Server::start(&format!(
        "store = \"{}\"\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         concurrency = {{ limit = 2 }}",
        door.url, target.url
    ));
    let mut runs = BTreeSet::new();
    for n in 0..4 {
        runs.insert(server.start_run("sync", json!(n)).await);
    }
    target.called(2).await;
    assert_eq!(server.get("/ready").await.0, StatusCode::OK);
    door.open(false);
    let event = json!({ "name": "sync", "data": 4, "dedupeId": "late" }).to_string();
    unready_because_of(&server, "store_unavailable").await;
    let (_, again, _) = server.try_ask("/ready", None).await.unwrap();
    assert!(again, "the answer must have `Retry-After`");
    assert_eq!(
        server.get("/health").await.0,
        StatusCode::OK,
        "the health check must succeed during an outage"
    );
    // The service answers the calls while the store cannot record the answers.
    target.open(true);
    if std::env::var_os("TIDEGATE_TEST_FULL").is_some() {
        // This outage is longer than the request timeout.
        let (status, again, answer) = server.try_ask("/events", Some(event.clone())).await.unwrap();
        assert_eq!((status, again), (StatusCode::SERVICE_UNAVAILABLE, true), "{answer}");
    }
    let (late, ()) = tokio::join!(server.try_ask("/events", Some(event.clone())), async {
        // The test ends the outage once the server has reported it.
        assert_eq!(server.try_ask("/ready", None).await.unwrap().0, 503);
        door.open(true);
    });
    let (status, _, answer) = late.unwrap();
    assert_eq!(
        status,
        StatusCode::ACCEPTED,
        "a request during a short outage must wait and succeed: {answer}"
    );
    let (_, answer) = server.get("/runs?limit=10").await;
    let all: BTreeSet<String> = answer["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        all.is_superset(&runs) && all.len() == 5,
        "wrong runs: got {all:?}, acknowledged {runs:?}"
    );
    for run in &all {
        server.until(run, "completed").await;
    }
    let called: BTreeSet<String> =
        target.calls().iter().map(|call| call.header("tidegate-run").to_owned()).collect();
    assert_eq!(called, all);
    tokio::time::timeout(Duration::from_secs(60), async {
        while server.try_ask("/ready", None).await.unwrap().0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the server must become ready again");
}

/// After `rm` of the store's file, the server could still write to the open file, but the data
/// would be lost. So it acknowledges no write and reports the problem, whether or not another
/// server has created a new file at the same path.
#[tokio::test]
async fn a_file_that_is_removed_under_the_server_takes_no_more_events() {
    let target = Target::kind().await;
    let config = format!("[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n", target.url);
    let server = Server::start_on_file(&config);
    let run = server.start_run("sync", json!(0)).await;
    server.until(&run, "completed").await;
    for ending in ["", "-wal", "-shm", ".lock"] {
        std::fs::remove_file(server.file(&format!("tidegate.db{ending}"))).unwrap();
    }
    let event = json!({ "name": "sync", "data": 1 }).to_string();
    let (status, _, reply) = server.try_ask("/events", Some(event.clone())).await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{reply}");
    assert_eq!(reply["error"], "store_file_gone");
    let (status, problem) = server.get("/ready").await;
    let gone = (StatusCode::SERVICE_UNAVAILABLE, "store_file_gone".into());
    assert_eq!(
        (status, problem["error"].clone()),
        gone,
        "the commit must report the failure, not a heartbeat"
    );
    unready_because_of(&server, "store_file_gone").await;
    let log = server.file("other.log");
    let other = Server::start_on(
        &format!("sqlite:{}", server.file("tidegate.db")),
        &config,
        std::path::Path::new(&log),
    );
    other.start_run("sync", json!(2)).await;
    let (status, _, reply) = server.try_ask("/events", Some(event)).await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{reply}");
    unready_because_of(&server, "store_file_gone").await;
    server.logged("tidegate.db was removed").await;
    server.logged("tidegate.db was replaced").await;
    assert_eq!(other.get("/runs").await.1["runs"].as_array().unwrap().len(), 1);
}

/// Waits until `/ready` reports this code, which follows from the last write. `/ready` is public,
/// so its answer must not contain a path.
pub(crate) async fn unready_because_of(server: &Server, code: &str) {
    let began = std::time::Instant::now();
    loop {
        let (status, problem) = server.get("/ready").await;
        if status == StatusCode::SERVICE_UNAVAILABLE && problem["error"] == code {
            let text = problem.to_string();
            return assert!(!text.contains(".db") && !text.contains('/'), "{text}");
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "`/ready` never reports `{code}`: {problem}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
