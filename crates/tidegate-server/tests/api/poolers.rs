//! PostgreSQL behind a connection pooler, and failover to another host.

use reqwest::StatusCode;
use serde_json::json;
use tidegate_testkit::pgbouncer;

use crate::{
    outage::unready_because_of,
    postgres::{Door, client, database, through},
    server::Server,
    target::Target,
};

/// Basic tests through PgBouncer in transaction mode: runs are called and queued, and other servers
/// take over the runs of a killed one. Wake-ups use a direct connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_works_behind_a_pooler() {
    let (Some(direct), Some(pooler)) = (database().await, pgbouncer::url()) else { return };
    let target = Target::kind().await;
    let config = format!(
        "store = \"{}\"\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         concurrency = {{ limit = 1 }}\n\
         [postgres]\npooler = true\nlistenUrl = \"{direct}\"\nschema = \"behind\"",
        through(pooler, &direct),
        target.url
    );
    let mut server = Server::start(&config);
    assert_eq!(server.get("/ready").await.0, StatusCode::OK);
    target.open(false);
    let mut runs = Vec::new();
    for n in 0..4 {
        runs.push(server.start_run("sync", json!(n)).await);
    }
    target.called(1).await;
    server.crash_and_restart();
    target.open(true);
    for run in &runs {
        server.until(run, "completed").await;
    }
    let keys: Vec<_> =
        target.calls().iter().map(|call| call.header("idempotency-key").to_owned()).collect();
    assert_eq!(keys, [0, 0, 1, 2, 3].map(|n: usize| format!("{}:call", runs[n])));
    let database = client(&direct).await;
    let count = "select count(*) from pg_tables where schemaname = 'behind'";
    let tables: i64 = database.query_one(count, &[]).await.unwrap().get(0);
    assert!(tables > 0, "the tables must be in the schema of the setting");
}

/// The primary moves to another host of the connection string, and the server connects to it
/// without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_follows_the_primary_to_another_host() {
    let Some(url) = database().await else { return };
    let (first, second) = (Door::to(&url).await, Door::to(&url).await);
    second.open(false);
    let (before, rest) = first.url.rsplit_once('@').unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let other = second.url.rsplit_once('@').unwrap().1.split_once('/').unwrap().0;
    let hosts = format!("{before}@{host},{other}/{name}?target_session_attrs=read-write");
    let target = Target::kind().await;
    let server = Server::start(&format!(
        "store = \"{hosts}\"\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"",
        target.url
    ));
    let run = server.start_run("sync", json!(1)).await;
    server.until(&run, "completed").await;
    first.open(false);
    unready_because_of(&server, "store_unavailable").await;
    second.open(true);
    // The request waits for the end of the failover.
    let run = server.start_run("sync", json!(2)).await;
    server.until(&run, "completed").await;
    server.ready().await;
}
