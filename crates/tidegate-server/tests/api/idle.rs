//! Database load of an idle server.

use std::time::Duration;

use tidegate_testkit::postgres::Cluster;

use crate::{postgres::client, server::Server};

/// Idle time; the test bounds a count, not a time.
const QUIET: Duration = Duration::from_secs(6);

/// Maximum number of transaction ids in that time: a heartbeat, and one of PostgreSQL itself.
const MOST: i64 = 2;

/// An idle server uses transaction ids for heartbeats only: PostgreSQL has to vacuum for each, in
/// all tables of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_takes_no_transaction_ids() {
    // Transaction ids are shared by the whole cluster.
    let Some(cluster) = Cluster::start() else { return };
    let config = format!(
        "store = \"{}\"\n[[workflow]]\nname = \"sync\"\nurl = \"http://127.0.0.1:9/\"\n\
         triggers = [\"sync\", {{ stream = \"paid\" }}]\n",
        cluster.url()
    );
    let server = Server::start_with(&config, &[("TIDEGATE_LEASE_TTL_MS", "30000")]);
    server.ready().await;
    // Waits until the startup work is done.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let outside = client(cluster.url()).await;
    let next = async || {
        let next = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        outside.query_one(next, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = next().await;
    tokio::time::sleep(QUIET).await;
    let taken = next().await - before;
    assert!(taken <= MOST, "{taken} transaction ids in {QUIET:?}");
}
