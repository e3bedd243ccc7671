//! The policy `restart` is atomic: runs that write parts of their session's document replace each
//! other, servers are killed, and readers see only the writes of complete runs.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fleet::{Fleet, Front, On};

const SESSIONS: usize = 10;
/// Number of times that a server is killed.
const KILLS: usize = 2;
/// Parts of the document. A run writes each in a step of its own.
const PARTS: [&str; 3] = ["a", "b", "c"];

/// Service that writes the parts of a session's document, one after another.
#[derive(Clone, Default)]
struct Writer {
    front: Arc<OnceLock<Front>>,
}

/// Writes the parts for a run. If the run was replaced, a write is refused, and the service stops.
async fn serve(State(writer): State<Writer>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let run = headers["tidegate-run"].to_str().unwrap();
    let session = body["session"]["id"].as_str().unwrap();
    for part in PARTS {
        let value = json!({ "run": run, "n": body["input"] });
        let change = json!({ "op": "set", "path": part, "value": value, "step": part });
        let make = |http: &reqwest::Client, url: &str| {
            let request = http.patch(format!("{url}/sessions/draft/{session}"));
            request.header("tidegate-run", run).body(change.to_string())
        };
        let answer = writer.front.get().expect("the servers must be started").ask(make).await;
        match answer.status().as_u16() {
            200 => {}
            409 => return StatusCode::SERVICE_UNAVAILABLE,
            status => {
                panic!("a write of run {run} got status {status}: {}", answer.text().await.unwrap())
            }
        }
    }
    StatusCode::OK
}

/// Returns the run that wrote all parts of a document; `None` if no run has written yet.
fn writer_of(document: &Value) -> Option<&str> {
    let state = &document["state"];
    if state.is_null() {
        return None;
    }
    let [first, ..] = PARTS;
    for part in PARTS {
        assert_eq!(
            state[part], state[first],
            "all parts of the document must be of one run: {state}"
        );
    }
    state[first]["run"].as_str()
}

/// Reads all sessions until `over` is set. Every document must be that of one complete run. Returns
/// the number of reads.
async fn observe(front: Front, over: Arc<AtomicBool>) -> usize {
    let mut looks = 0;
    while !over.load(Ordering::Relaxed) {
        for n in 0..SESSIONS {
            let make =
                |http: &reqwest::Client, url: &str| http.get(format!("{url}/sessions/draft/s{n}"));
            let Ok(text) = front.ask(make).await.text().await else { continue };
            writer_of(&serde_json::from_str(&text).unwrap());
            looks += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    looks
}

/// Sends requests to a session one after another. Most of them come so fast that they replace the
/// previous one before it completes. Returns the last run.
async fn write(front: Front, session: usize, requests: usize, sent: Arc<AtomicUsize>) -> String {
    let mut last = String::new();
    for n in 0..requests {
        let body = json!({ "session": format!("s{session}"), "input": n }).to_string();
        let wait = if n % 10 == 9 { "?wait=60000" } else { "" };
        let make = |http: &reqwest::Client, url: &str| {
            let request = http.post(format!("{url}/flows/draft/actions/write{wait}"));
            request.header("idempotency-key", format!("{session}.{n}")).body(body.clone())
        };
        last = loop {
            let answer = front.ask(make).await;
            let status = answer.status().as_u16();
            // If the server was killed before the end of its answer, the request is sent again.
            let Ok(text) = answer.text().await else { continue };
            let reply: Value = serde_json::from_str(&text).unwrap();
            // After a kill, the request may be repeated while the first attempt is still in
            // progress.
            if reply["error"] == "in_progress" {
                continue;
            }
            assert_eq!(status, if wait.is_empty() { 202 } else { 200 }, "{reply}");
            break reply["requestId"].as_str().unwrap().to_owned();
        };
        sent.fetch_add(1, Ordering::Relaxed);
    }
    last
}

/// spec B44: however often runs replace each other and servers are killed, a session's document is
/// that of one complete run. At the end it is that of the last completed run.
async fn a_document_is_that_of_whole_runs(on: On, requests: usize) {
    let writer = Writer::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(serve).with_state(writer.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let flow = "[[flow]]\nname = 'draft'\nconcurrency = 'restart'\nactions.write = ";
    let config =
        format!("{flow}{{ url = '{url}', retry = {{ maxAttempts = 9, backoffMs = 10 }} }}");
    let Some(mut fleet) = Fleet::start(on, &config, &[]).await else { return };
    writer.front.set(fleet.front.clone()).ok().expect("the client must be set only once");
    let over = Arc::new(AtomicBool::new(false));
    let observer = tokio::spawn(observe(fleet.front.clone(), over.clone()));
    let (sent, mut people) = (Arc::<AtomicUsize>::default(), JoinSet::new());
    for session in 0..SESSIONS {
        let (front, sent) = (fleet.front.clone(), sent.clone());
        people.spawn(async move { (session, write(front, session, requests, sent).await) });
    }
    for kill in 1..=KILLS {
        while sent.load(Ordering::Relaxed) < SESSIONS * requests * kill / (KILLS + 1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fleet.crash_and_restart(kill % fleet.len());
    }
    for (session, last) in people.join_all().await {
        fleet.next().until(&last, "completed").await;
        let (_, document) = fleet.next().get(&format!("/sessions/draft/s{session}")).await;
        assert_eq!(writer_of(&document), Some(last.as_str()));
    }
    over.store(true, Ordering::Relaxed);
    assert!(observer.await.unwrap() > 0, "the observer must have read at least one document");
    judge(&fleet, requests).await;
}

/// Checks that every request was completed or replaced, and that each document has as many versions
/// as completed runs.
async fn judge(fleet: &Fleet, requests: usize) {
    let (mut versions, mut completed, mut known) = (0, 0, 0);
    for session in 0..SESSIONS {
        let (_, document) = fleet.next().get(&format!("/sessions/draft/s{session}")).await;
        versions += document["version"].as_u64().unwrap();
    }
    let mut cursor = String::new();
    loop {
        let (_, answer) = fleet.next().get(&format!("/runs?limit=500{cursor}")).await;
        for run in answer["runs"].as_array().unwrap() {
            known += 1;
            completed += u64::from(run["state"] == "completed");
            let replaced = run["replacedBy"].is_string();
            assert!(run["state"] == "completed" || replaced, "{run}");
        }
        let Some(next) = answer["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(known, SESSIONS * requests, "each request must have one run");
    assert_eq!(versions, completed, "each completed run must write one version");
    assert!(completed > SESSIONS as u64, "not only the last run of each session must complete");
    let (_, answer) = fleet.next().get("/doctor").await;
    assert_eq!(answer["findings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_that_of_whole_runs_on_a_file() {
    a_document_is_that_of_whole_runs(On::File, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_that_of_whole_runs_on_two_servers() {
    a_document_is_that_of_whole_runs(On::Postgres, 30).await;
}
