//! Header `Idempotency-Key`: a repeated request takes effect once and gets the same answer.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use tidegate_store::tokio_postgres;
use tidegate_testkit::postgres;

use crate::{
    server::{Raw, Server},
    target::Target,
};

fn flow(url: &str) -> String {
    format!(
        r#"
        [[workflow]]
        name = "order"
        url = "{url}/order"
        [[flow]]
        name = "shop"
        concurrency = "queue"
        actions.buy = {{ url = "{url}/buy" }}
        actions.once = {{ url = "{url}/once", concurrency = "reject" }}
        "#
    )
}

async fn ask(server: &Server, path: &str, key: &str, body: impl ToString) -> Raw {
    let headers = [("idempotency-key", key)];
    server.raw("POST", path, &headers, &body.to_string()).await.expect("an answer")
}

/// spec B225, N81: a repeated request gets the first answer byte for byte, also if it is an error,
/// and marked as replayed. A temporary error is not stored. A different request with the same key
/// is refused.
#[tokio::test]
async fn the_first_answer_is_repeated() {
    let target = Target::kind().await;
    target.open(false);
    let mut server = Server::start(&flow(&target.url));
    let event = json!({ "name": "order", "data": 1 });
    let run = server.start_run("order", json!(0)).await;
    let table = [
        ("/events".to_owned(), event.clone(), 202),
        ("/flows/shop/actions/buy".to_owned(), json!({ "session": "s" }), 202),
        (format!("/runs/{run}/pause"), json!({}), 200),
        (format!("/runs/{run}/signals/go"), json!(1), 200),
        ("/flows/shop/actions/none".to_owned(), json!({}), 404),
        ("/events".to_owned(), json!({ "nam": 1 }), 422),
        ("/events?dryRun=true".to_owned(), event.clone(), 200),
        ("/workflows/order/release".to_owned(), json!({ "version": 1 }), 200),
    ];
    let mut answer = Vec::new();
    for (n, (path, body, status)) in table.iter().enumerate() {
        let first = ask(&server, path, &n.to_string(), body).await;
        assert_eq!((first.status, first.header("idempotency-replayed")), (*status, ""), "{path}");
        answer.push(first);
    }
    server.raw("POST", &format!("/runs/{run}/resume"), &[], "").await.unwrap();
    for again in 0..2 {
        for (n, ((path, body, _), first)) in table.iter().zip(&answer).enumerate() {
            let repeat = ask(&server, path, &n.to_string(), body).await;
            assert_eq!((repeat.status, &repeat.text), (first.status, &first.text), "{path}");
            assert_eq!(repeat.header("idempotency-replayed"), "true", "{path}");
            assert_eq!(repeat.header("content-type"), first.header("content-type"), "{path}");
        }
        if again == 0 {
            server.crash_and_restart();
        }
    }
    let other = ask(&server, "/events", "0", json!({ "name": "order", "data": 2 })).await;
    assert_eq!((other.status, &other.json()["error"]), (422, &json!("idempotency_mismatch")));
    let elsewhere = ask(&server, "/flows/shop/actions/buy", "0", json!({})).await;
    assert_eq!(
        elsewhere.status, 202,
        "the same key with another path must be accepted: {}",
        elsewhere.text
    );
    let long = ask(&server, "/events", &"k".repeat(256), &event).await;
    assert_eq!((long.status, &long.json()["error"]), (422, &json!("bad_idempotency_key")));
    let (path, one) = ("/flows/shop/actions/once", json!({ "session": "one" }));
    let first = ask(&server, path, "a", &one).await;
    let busy = ask(&server, path, "b", &one).await;
    assert_eq!((first.status, busy.status), (202, 409), "{}", busy.text);
    target.open(true);
    let run = first.json()["requestId"].as_str().unwrap().to_owned();
    server.until(&run, "completed").await;
    assert_eq!(
        ask(&server, path, "b", &one).await.status,
        202,
        "the key must be usable after a temporary error"
    );
    let (_, runs) = server.get("/runs?workflow=order&limit=500").await;
    assert_eq!(
        runs["runs"].as_array().unwrap().len(),
        2,
        "there must be two runs, one of them without a key"
    );
}

/// spec B226: a request that is repeated while the first one is in progress gets the same result,
/// and never starts a second run.
#[tokio::test]
async fn a_repeat_waits_for_the_same_run() {
    let target = Target::kind().await;
    target.open(false);
    let server = Arc::new(Server::start(&flow(&target.url)));
    let buy = |server: Arc<Server>, wait: u32| async move {
        let path = format!("/flows/shop/actions/buy?wait={wait}");
        ask(&server, &path, "k", json!({ "session": "s" })).await
    };
    let first = tokio::spawn(buy(server.clone(), 60_000));
    target.called(1).await;
    let again = tokio::spawn(buy(server.clone(), 60_000));
    let other = buy(server.clone(), 1).await;
    assert_eq!(
        other.json()["error"],
        "idempotency_mismatch",
        "the same key with another query must be refused"
    );
    target.open(true);
    let (first, again) = (first.await.unwrap(), again.await.unwrap());
    assert_eq!((first.status, &first.json()["state"]), (200, &json!("completed")));
    assert_eq!((again.status, again.text), (200, first.text));
    assert_eq!(target.calls().len(), 1);
}

/// Creates a database for the test.
async fn database() -> Option<String> {
    let url = postgres::url()?;
    let name = postgres::fresh_schema("server");
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("create database {name}")).await.unwrap();
    let (server, _) = url.rsplit_once('/').expect("a database");
    Some(format!("{server}/{name}"))
}

const KEYS: usize = 60;

/// Returns the path and body of the n-th request.
fn request(n: usize) -> (&'static str, String) {
    if n.is_multiple_of(2) {
        ("/events", json!({ "name": "order", "data": n }).to_string())
    } else {
        ("/flows/shop/actions/buy", json!({ "input": n }).to_string())
    }
}

/// spec B228: two servers use one PostgreSQL. One is killed while it answers, and all requests are
/// repeated through the other. A request that got an answer gets the same one again, and every
/// request takes effect once.
#[tokio::test]
async fn a_killed_server_loses_and_doubles_nothing() {
    let Some(store) = database().await else { return };
    let target = Target::kind().await;
    let logs = tempfile::tempdir().unwrap();
    let start = |name: &str| Server::start_on(&store, &flow(&target.url), &logs.path().join(name));
    let (first, second) = (Arc::new(start("first")), start("second"));
    let answered = Arc::new(tokio::sync::Semaphore::new(0));
    let asked: Vec<_> = (0..KEYS)
        .map(|n| {
            let (server, answered) = (first.clone(), answered.clone());
            tokio::spawn(async move {
                let (path, body) = request(n);
                let headers = [("idempotency-key", n.to_string())];
                let headers = headers.each_ref().map(|(name, key)| (*name, key.as_str()));
                let answer = server.raw("POST", path, &headers, &body).await;
                answered.add_permits(1);
                answer
            })
        })
        .collect();
    // Waits until some requests are answered; others are still in progress.
    let some = u32::try_from(KEYS / 3).unwrap();
    answered.acquire_many(some).await.unwrap().forget();
    first.crash();
    let mut known = 0;
    for (n, first) in asked.into_iter().enumerate() {
        let (path, body) = request(n);
        let again = ask(&second, path, &n.to_string(), body).await;
        assert_eq!(again.status, 202, "{}", again.text);
        if let Some(first) = first.await.unwrap() {
            known += 1;
            assert_eq!(
                again.text, first.text,
                "the repeated request with key {n} got another answer"
            );
            assert_eq!(again.header("idempotency-replayed"), "true");
        }
    }
    assert!(known >= KEYS / 3, "too few requests were answered before the kill: {known}");
    let (_, reply) = second.get("/runs?limit=500").await;
    let runs: BTreeSet<_> =
        reply["runs"].as_array().unwrap().iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(runs.len(), KEYS, "every key must have one run");
    for run in &runs {
        second.until(run.trim_matches('"'), "completed").await;
    }
    let called: BTreeSet<_> =
        target.calls().iter().map(|it| it.header("tidegate-run").to_owned()).collect();
    assert_eq!(called.len(), KEYS, "the service must be called once for every run");
}

/// spec N81: an idempotency key is valid within its workspace, method and path.
#[tokio::test]
async fn a_key_of_another_workspace_is_another_key() {
    let server = Server::start("workspaces = [\"other\"]");
    let ask = async |ws: &str, path: &str, body: serde_json::Value| {
        let headers = [("idempotency-key", "k"), ("tidegate-workspace", ws)];
        let answer = server.raw("POST", path, &headers, &body.to_string()).await.unwrap();
        (answer.status, answer.header("idempotency-replayed") == "true", answer.text)
    };
    let event = |data: i32| json!({ "name": "a", "data": data });
    let (status, replayed, first) = ask("default", "/events", event(1)).await;
    assert_eq!((status, replayed), (202, false), "{first}");
    let (status, replayed, other) = ask("other", "/events", event(2)).await;
    assert_eq!(
        (status, replayed),
        (202, false),
        "the same key in another workspace must be a new request: {other}"
    );
    let (status, replayed, text) =
        ask("default", "/streams/s/events", json!({ "events": [{ "name": "a" }] })).await;
    assert_eq!(
        (status, replayed),
        (201, false),
        "the same key with another path must be a new request: {text}"
    );
    for (ws, data, reply) in [("default", 1, &first), ("other", 2, &other)] {
        let (status, replayed, again) = ask(ws, "/events", event(data)).await;
        assert_eq!((status, replayed, &again), (202, true, reply), "{ws}");
    }
    let (status, _, text) = ask("default", "/events", event(2)).await;
    assert_eq!((status, text.contains("idempotency_mismatch")), (422, true), "{text}");
}
