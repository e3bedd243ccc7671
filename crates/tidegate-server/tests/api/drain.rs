//! Graceful shutdown: calls in progress may end, and other runs are handed over.

use reqwest::StatusCode;
use serde_json::json;

use crate::{postgres::database, server::Server, target::Target};

/// Drain timeout that is never reached: the servers of these tests exit for other reasons.
const LONG: (&str, &str) = ("TIDEGATE_DRAIN_MS", "600000");

/// Lease that is long enough not to expire on a busy machine while a call is held open.
const LEASE: (&str, &str) = ("TIDEGATE_LEASE_TTL_MS", "30000");

/// Config whose call timeout is never reached: a server waits for a held call as long as the test
/// needs.
fn config(target: &Target) -> String {
    let url = &target.url;
    format!("[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\ncallTimeoutMs = 600000")
}

/// Returns the idempotency keys of all calls so far.
fn keys(target: &Target) -> Vec<String> {
    let calls = target.calls();
    calls.iter().map(|call| call.header("idempotency-key").to_owned()).collect()
}

/// Waits until `/ready` reports draining.
async fn drains(server: &Server) {
    loop {
        let (status, _, answer) =
            server.try_ask("/ready", None).await.expect("a draining server must answer");
        if answer["error"] == "draining" {
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A call in progress at SIGTERM is made once; it completes and is recorded. Meanwhile the server
/// answers requests but starts no new runs.
#[tokio::test]
async fn a_call_under_way_ends_before_the_server() {
    let target = Target::kind().await;
    let mut server = Server::start_with(&config(&target), &[LONG, LEASE]);
    assert_eq!(server.get("/ready").await.0, StatusCode::OK);
    target.open(false);
    let run = server.start_run("sync", json!(1)).await;
    target.called(1).await;
    server.signal("TERM");
    drains(&server).await;
    let (status, answer) = server.get("/ready").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let detail = "the server is draining and starts no new runs; active runs: 1";
    assert_eq!(answer["detail"], detail);
    assert_eq!(server.get(&format!("/runs/{run}")).await.1["state"], "running");
    let late = server.start_run("sync", json!(2)).await;
    target.open(true);
    assert!(server.ended().await.success());
    assert_eq!(
        keys(&target),
        [format!("{run}:call")],
        "the call must be made once, and no new run started"
    );
    server.restart();
    server.until(&run, "completed").await;
    server.until(&late, "completed").await;
    assert_eq!(keys(&target), [format!("{run}:call"), format!("{late}:call")]);
}

/// A second signal hands over the runs at once: the next server repeats the call with the same
/// idempotency key.
#[tokio::test]
async fn a_second_signal_hands_over_at_once() {
    for second in ["TERM", "INT"] {
        let target = Target::kind().await;
        let mut server = Server::start_with(&config(&target), &[LONG, LEASE]);
        target.open(false);
        let run = server.start_run("sync", json!(1)).await;
        target.called(1).await;
        server.signal("TERM");
        drains(&server).await;
        server.signal(second);
        assert!(server.ended().await.success(), "{second}");
        target.open(true);
        server.restart();
        server.until(&run, "completed").await;
        assert_eq!(keys(&target), [format!("{run}:call"), format!("{run}:call")], "{second}");
    }
}

/// Endless event streams end when the server shuts down, and do not delay it.
#[tokio::test]
async fn whoever_only_watches_holds_up_no_end() {
    let mut server = Server::start("");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut watched = Vec::new();
    for path in ["/live", "/events/stream", "/runs/stream"] {
        watched.push(client.get(format!("{}{path}", server.url())).send().await.unwrap());
    }
    server.signal("TERM");
    for answer in watched {
        let path = answer.url().path().to_owned();
        assert!(answer.text().await.is_ok(), "{path} is cut off");
    }
    assert!(server.ended().await.success());
    assert!(!server.log().contains("closed connections with open requests"), "{}", server.log());
}

/// Runs that have not ended at the drain timeout are handed over.
#[tokio::test]
async fn a_drain_has_an_end() {
    let target = Target::kind().await;
    let mut server = Server::start_with(&config(&target), &[("TIDEGATE_DRAIN_MS", "100")]);
    target.open(false);
    let run = server.start_run("sync", json!(1)).await;
    target.called(1).await;
    server.signal("TERM");
    assert!(server.ended().await.success());
    target.open(true);
    server.restart();
    server.until(&run, "completed").await;
    assert_eq!(target.calls().len(), 2);
    let said = Server::refused("drainMs = \"soon\"");
    assert!(said.contains("`drainMs` must be a whole number from 0 to 3600000"), "{said}");
}

/// While one of two servers drains, the other starts all new runs, whichever got the request.
#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_new_runs() {
    let Some(store) = database().await else { return };
    let target = Target::kind().await;
    let config = format!("store = \"{store}\"\n{}", config(&target));
    let mut first = Server::start_with(&config, &[LONG, LEASE]);
    target.open(false);
    let held = first.start_run("sync", json!(0)).await;
    target.called(1).await;
    first.signal("TERM");
    drains(&first).await;
    let second = Server::start_with(&config, &[]);
    let asked = [first.start_run("sync", json!(1)).await, second.start_run("sync", json!(2)).await];
    target.called(3).await;
    target.open(true);
    for run in &asked {
        second.until(run, "completed").await;
    }
    assert!(first.ended().await.success());
    second.until(&held, "completed").await;
    let mut made = keys(&target);
    made.sort_unstable();
    let mut expected: Vec<_> = asked.iter().chain([&held]).map(|it| format!("{it}:call")).collect();
    expected.sort_unstable();
    assert_eq!(made, expected, "each run must make its call once");
}
