//! FIFO order of a session's queue: requests start in order and one at a time. The next one starts
//! whether the current one completes, fails, is cancelled or is killed.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::fleet::{Fleet, On};

/// Number of queued requests.
const LINE: u64 = 200;

/// Service that records the start and end of calls.
#[derive(Clone)]
struct Desk {
    journal: Arc<Mutex<Journal>>,
    /// Calls with a number below this are answered; calls with other numbers wait.
    served: watch::Sender<u64>,
}

#[derive(Default)]
struct Journal {
    /// Number and run of each call, in the order of arrival.
    came: Vec<(u64, String)>,
    inside: usize,
    /// Maximum number of concurrent calls.
    most: usize,
}

/// A call in progress. It ends when it is answered or its caller disconnects.
struct Call(Desk);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.journal.lock().unwrap().inside -= 1;
    }
}

impl Desk {
    async fn start() -> (Self, String) {
        let desk = Self { journal: Arc::default(), served: watch::Sender::new(0) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (desk, url)
    }

    fn came(&self) -> Vec<u64> {
        self.journal.lock().unwrap().came.iter().map(|it| it.0).collect()
    }

    /// Waits until this number of calls has arrived.
    async fn called(&self, times: u64) {
        while (self.came().len() as u64) < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn serve(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let run = headers["tidegate-run"].to_str().unwrap().to_owned();
    let n = body["input"]["n"].as_u64().unwrap();
    let _call = {
        let mut journal = desk.journal.lock().unwrap();
        journal.came.push((n, run));
        journal.inside += 1;
        journal.most = journal.most.max(journal.inside);
        Call(desk.clone())
    };
    let _ = desk.served.subscribe().wait_for(|served| n < *served).await;
    let bad = body["input"]["bad"] == true;
    if bad { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}

/// Sends a request to the queue of the session.
async fn stand(fleet: &Fleet, input: Value) -> String {
    let body = json!({ "session": "s", "input": input });
    let (status, answer) = fleet.next().post("/flows/line/actions/act", body).await;
    assert_eq!(status, 202, "{answer}");
    answer["requestId"].as_str().unwrap().to_owned()
}

/// spec B10, B11, B12, B13: many requests, sent one after another through all servers, start in
/// that order, one at a time and each once. The next one also starts after a request that fails,
/// one that is cancelled and one whose server is killed.
async fn a_line_is_served_in_order(on: On) {
    let (desk, url) = Desk::start().await;
    let flow = "[[flow]]\nname = 'line'\nconcurrency = 'queue'\nactions.act = ";
    let config = format!("{flow}{{ url = '{url}' }}");
    let Some(mut fleet) = Fleet::start(on, &config, &[]).await else { return };
    let mut runs = Vec::new();
    for n in 0..LINE {
        runs.push(stand(&fleet, json!({ "n": n })).await);
    }
    desk.called(1).await;
    let (_, answer) = fleet.next().get(&format!("/runs/{}", runs[1])).await;
    assert_eq!(answer["state"], "queued");
    desk.served.send_replace(LINE);
    fleet.next().until(runs.last().unwrap(), "completed").await;
    {
        let journal = desk.journal.lock().unwrap();
        let expected: Vec<_> = (0..LINE).zip(runs).collect();
        assert_eq!(
            (&journal.came, journal.most),
            (&expected, 1),
            "calls must be made in order, each once, one at a time"
        );
    }

    let failing = stand(&fleet, json!({ "n": LINE, "bad": true })).await;
    let cancelled = stand(&fleet, json!({ "n": LINE + 1 })).await;
    let killed = stand(&fleet, json!({ "n": LINE + 2 })).await;
    let last = stand(&fleet, json!({ "n": LINE + 3 })).await;
    desk.served.send_replace(LINE + 1);
    fleet.next().until(&failing, "failed").await;
    desk.called(LINE + 2).await;
    fleet.next().post(&format!("/runs/{cancelled}/cancel"), json!({})).await;
    desk.called(LINE + 3).await;
    // One of the servers executes the run. The API does not say which one, so each is killed.
    for victim in 0..fleet.len() {
        fleet.crash_and_restart(victim);
    }
    desk.served.send_replace(LINE + 4);
    fleet.next().until(&last, "completed").await;
    let mut again = desk.came().split_off(usize::try_from(LINE).unwrap());
    assert!(again.len() > 4, "the call of the killed server must be repeated: {again:?}");
    again.dedup();
    assert_eq!(again, [0, 1, 2, 3].map(|n| LINE + n));
    for (run, state) in [(&cancelled, "cancelled"), (&killed, "completed")] {
        fleet.next().until(run, state).await;
    }
    let (_, answer) = fleet.next().get("/doctor").await;
    assert_eq!(answer["findings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_served_in_order_on_a_file() {
    a_line_is_served_in_order(On::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_served_in_order_on_two_servers() {
    a_line_is_served_in_order(On::Postgres).await;
}
