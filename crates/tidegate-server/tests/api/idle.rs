//! Database load of an idle server.

use std::time::Duration;

use tidegate_testkit::postgres::Cluster;

use crate::{postgres::client, server::Server};

/// Time for which the server is idle. The test limits a count, not a time.
const QUIET: Duration = Duration::from_secs(6);

/// Maximum number of transaction ids used in that time: one for a heartbeat, and one by PostgreSQL
/// itself.
const MOST: i64 = 2;

/// An idle server uses transaction ids for heartbeats only. Each used id makes PostgreSQL vacuum
/// all tables of the cluster sooner.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_takes_no_transaction_ids() {
    // A cluster of its own: transaction ids are shared by all databases of a cluster.
    let Some(cluster) = Cluster::start() else { return };
    let config = format!(
        "store = \"{}\"\n[[workflow]]\nname = \"sync\"\nurl = \"http://127.0.0.1:9/\"\n\
         triggers = [\"sync\", {{ stream = \"paid\" }}]\n",
        cluster.url()
    );
    let server = Server::start_with(&config, &[("TIDEGATE_LEASE_TTL_MS", "30000")]);
    server.ready().await;
    // Waits until the work after the start is done.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let outside = client(cluster.url()).await;
    let next = async || {
        let next = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        outside.query_one(next, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = next().await;
    tokio::time::sleep(QUIET).await;
    let taken = next().await - before;
    assert!(taken <= MOST, "an idle server used {taken} transaction ids in {QUIET:?}");
}
