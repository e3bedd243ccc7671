//! Chat under load: two users send messages faster than they are answered, and a server is killed
//! meanwhile.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{Arc, Mutex},
    task,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use crate::fleet::{Fleet, Front, On};

/// Number of messages per user.
const MESSAGES: u64 = 25;
/// Number of replies after which the test kills a server.
const KILLED_AFTER: usize = 10;
/// Maximum length of a reply, in chunks.
const LONGEST: u64 = 8;

/// Entry in the service's journal.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    /// A message was appended.
    Appended(u64),
    /// A reply starts, with the messages in its input.
    Begins(u64, Vec<u64>),
    /// A reply was sent completely.
    Ends(u64),
}

/// Chat service: appends messages to the session, and replies.
#[derive(Clone, Default)]
struct Service {
    seed: u64,
    /// Client of the servers; set once they are started.
    front: Arc<std::sync::OnceLock<Front>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Number of error answers that the service got from the servers, by code.
    refused: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Service {
    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }

    fn replies(&self) -> usize {
        self.seen.lock().unwrap().iter().filter(|it| matches!(it, Seen::Ends(_))).count()
    }

    /// Returns a pseudo-random number that depends on the seed and `n`.
    fn draw(&self, n: u64) -> u64 {
        (self.seed ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }

    /// Returns the chunks of the reply to a message, the same for every attempt.
    fn reply(&self, n: u64) -> Vec<String> {
        (0..=self.draw(n) % LONGEST).map(|part| format!("re {n}.{part}")).collect()
    }

    /// Appends to a list of the session, as a step of the run that called the service. Returns
    /// whether it succeeded.
    async fn append(&self, run: &str, list: &str, n: u64) -> bool {
        let change = json!({ "op": "append", "path": list, "value": n, "step": list }).to_string();
        let make = |http: &reqwest::Client, url: &str| {
            let request = http.patch(format!("{url}/sessions/chat/s"));
            request.header("tidegate-run", run).body(change.clone())
        };
        let answer = self.front.get().expect("the servers must be started").ask(make).await;
        if answer.status().is_success() {
            return true;
        }
        let reply: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let code = reply["error"].as_str().unwrap().to_owned();
        *self.refused.lock().unwrap().entry(code).or_default() += 1;
        false
    }
}

async fn serve(
    State(service): State<Service>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let run = headers["tidegate-run"].to_str().unwrap().to_owned();
    let n = body["input"].as_u64().unwrap();
    let unavailable = axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
    if uri.path() == "/append" {
        // Random delays make appends end in another order than they start.
        tokio::time::sleep(Duration::from_millis(service.draw(n) % LONGEST * 10)).await;
        if !service.append(&run, "messages", n).await {
            return unavailable;
        }
        service.note(Seen::Appended(n));
        return ().into_response();
    }
    let given = body["session"]["state"]["messages"].as_array().cloned().unwrap_or_default();
    service.note(Seen::Begins(n, given.iter().filter_map(Value::as_u64).collect()));
    if !service.append(&run, "replies", n).await {
        return unavailable;
    }
    let (sender, chunks) = mpsc::channel(1);
    tokio::spawn(async move {
        for chunk in service.reply(n) {
            tokio::time::sleep(Duration::from_millis(3)).await;
            if sender.send(format!("data: {chunk}\n\n")).await.is_err() {
                return;
            }
        }
        service.note(Seen::Ends(n));
    });
    let kind = [("content-type", "text/event-stream")];
    (kind, Body::from_stream(Chunks(chunks))).into_response()
}

/// Response body that is streamed in chunks.
struct Chunks(mpsc::Receiver<String>);

impl futures_core::Stream for Chunks {
    type Item = Result<String, std::convert::Infallible>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}

/// Events of a reply that its reader has received so far.
#[derive(Debug, Default)]
struct Reply {
    run: Option<String>,
    last: u32,
    chunks: Vec<String>,
    end: Option<Value>,
}

impl Reply {
    /// Removes the complete events from a text and records them.
    fn read(&mut self, text: &mut String) {
        while let Some((event, rest)) = text.split_once("\n\n") {
            let part = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let data = || serde_json::from_str::<Value>(part("data: ").unwrap()).unwrap();
            match part("event: ") {
                Some("accepted") => {
                    self.run = Some(data()["requestId"].as_str().unwrap().to_owned());
                }
                Some("chunk") => {
                    self.last = part("id: ").unwrap().parse().unwrap();
                    self.chunks.push(data().as_str().unwrap().to_owned());
                }
                Some("end" | "replaced") => self.end = Some(data()),
                _ => {}
            }
            *text = rest.to_owned();
        }
    }

    /// Reads an answer until a condition holds or the connection is closed.
    async fn read_until(
        &mut self,
        answer: &mut reqwest::Response,
        text: &mut String,
        there: impl Fn(&Self) -> bool,
    ) {
        while !there(self) {
            let Ok(Some(bytes)) = answer.chunk().await else { return };
            *text += std::str::from_utf8(&bytes).unwrap();
            self.read(text);
        }
    }
}

/// Sends a message again until it is accepted, and reads the reply to its end in the background.
async fn write(front: &Front, n: u64, replies: &mut JoinSet<(u64, Reply)>) {
    let (mut reply, body, key) = (Reply::default(), json!({ "input": n }), n.to_string());
    loop {
        let make = |http: &reqwest::Client, url: &str| {
            let request = http.post(format!("{url}/flows/chat/sessions/s/messages"));
            request.header("idempotency-key", &key).body(body.to_string())
        };
        let mut answer = front.ask(make).await;
        let status = answer.status();
        assert_eq!(status, 200, "message {n} must be accepted");
        let mut text = String::new();
        reply.read_until(&mut answer, &mut text, |it| it.run.is_some()).await;
        let Some(run) = reply.run.clone() else { continue };
        let front = front.clone();
        replies.spawn(async move {
            reply.read_until(&mut answer, &mut text, |it| it.end.is_some()).await;
            while reply.end.is_none() {
                let last = reply.last;
                let make = |http: &reqwest::Client, url: &str| {
                    let request = http.get(format!("{url}/runs/{run}/stream"));
                    request.header("last-event-id", last)
                };
                let mut answer = front.ask(make).await;
                assert_eq!(answer.status(), 200);
                text.clear();
                reply.read_until(&mut answer, &mut text, |it| it.end.is_some()).await;
            }
            (n, reply)
        });
        return;
    }
}

/// spec B34, B35, B36: every message is appended at once. Replies run one at a time, in the order
/// in which the messages were accepted, and each sees all messages that were appended before it
/// started. Every client gets complete replies, and no client gets a conflict.
async fn a_burst_of_messages_stays_in_order(on: On) {
    let Some((mut fleet, service, repeat)) = start(on).await else { return };
    let mut people = JoinSet::new();
    for person in 0..2 {
        let front = fleet.front.at(person);
        people.spawn(async move {
            let mut replies = JoinSet::new();
            for n in 0..MESSAGES {
                write(&front, 2 * n + person as u64, &mut replies).await;
            }
            replies.join_all().await
        });
    }
    while service.replies() < KILLED_AFTER {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fleet.crash_and_restart(0);
    let replies: Vec<(u64, Reply)> = people.join_all().await.into_iter().flatten().collect();
    let messages = judge(&fleet, &service, replies, &repeat).await;
    for person in 0..2 {
        let own: Vec<_> = messages.iter().copied().filter(|n| n % 2 == person).collect();
        assert!(own.is_sorted(), "the messages of one user are out of order: {own:?}; {repeat}");
    }
}

/// Like [`a_burst_of_messages_stays_in_order`], but the clients do not wait until a message is
/// appended: each sends one every 30 ms.
async fn impatient_people_are_answered_in_order(on: On) {
    let Some((fleet, service, repeat)) = start(on).await else { return };
    let mut people = JoinSet::new();
    for n in 0..2 * MESSAGES {
        let front = fleet.front.at(usize::try_from(n % 5).unwrap());
        people.spawn(async move {
            tokio::time::sleep(Duration::from_millis(30 * n)).await;
            let mut replies = JoinSet::new();
            write(&front, n, &mut replies).await;
            replies.join_all().await
        });
    }
    let replies: Vec<(u64, Reply)> = people.join_all().await.into_iter().flatten().collect();
    judge(&fleet, &service, replies, &repeat).await;
}

/// Starts servers with a chat flow and its service. Also returns the command that repeats the test.
async fn start(on: On) -> Option<(Fleet, Service, String)> {
    let drawn = RandomState::new().hash_one(0) >> 1;
    let seed = std::env::var("TIDEGATE_SEED").map_or(drawn, |seed| seed.parse().unwrap());
    let repeat = format!("TIDEGATE_SEED={seed} cargo test -p tidegate-server --test api burst");
    let service = Service { seed, ..Service::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(serve).with_state(service.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = format!(
        r#"
        [[flow]]
        name = "chat"
        concurrency = "queue"
        chat = {{ append = "append", respond = "respond" }}
        actions.append = {{ url = "{url}/append", concurrency = "allow" }}
        actions.respond = {{ url = "{url}/respond" }}
        "#
    );
    let fleet = Fleet::start(on, &config, &[]).await?;
    service.front.set(fleet.front.clone()).ok().expect("the client must be set only once");
    Some((fleet, service, repeat))
}

/// Checks the journal of the service. Returns the messages in the order in which the session has
/// them.
async fn judge(
    fleet: &Fleet,
    service: &Service,
    replies: Vec<(u64, Reply)>,
    repeat: &str,
) -> Vec<u64> {
    assert_eq!(replies.len() as u64, 2 * MESSAGES, "{repeat}");
    let mut runs = BTreeMap::new();
    for (n, reply) in replies {
        assert_eq!(
            reply.end.as_ref().unwrap()["state"],
            "completed",
            "reply to message {n} has not completed: {reply:?}; {repeat}"
        );
        assert_eq!(
            reply.chunks,
            service.reply(n),
            "wrong chunks in the reply to message {n}; {repeat}"
        );
        runs.insert(reply.run.unwrap(), n);
    }
    // Oldest run first: replies must start in the order of the runs that append their messages.
    let (_, answer) = fleet.next().get("/runs?workflow=chat%2Fappend&limit=500").await;
    let mut taken: Vec<u64> = Vec::new();
    for run in answer["runs"].as_array().unwrap().iter().rev() {
        let (_, run) = fleet.next().get(&format!("/runs/{}", run["id"].as_str().unwrap())).await;
        taken.push(run["input"]["input"].as_u64().unwrap());
    }
    assert_eq!(taken.len(), runs.len(), "{repeat}");
    let seen = service.seen.lock().unwrap().clone();
    let mut begun: Vec<u64> = Vec::new();
    let (mut in_before, mut appended) = (Vec::new(), Vec::new());
    for one in &seen {
        match one {
            Seen::Appended(n) => appended.push(*n),
            Seen::Ends(_) => in_before.clone_from(&appended),
            Seen::Begins(n, given) => {
                let missing: Vec<_> = in_before.iter().filter(|it| !given.contains(it)).collect();
                assert!(
                    missing.is_empty(),
                    "the input of the reply to {n} lacks messages {missing:?}; {repeat}"
                );
                assert!(
                    given.contains(n),
                    "the input of the reply to {n} lacks message {n}; {repeat}"
                );
                // A reply whose server was killed starts again: it is counted once.
                if begun.last() != Some(n) {
                    begun.push(*n);
                }
            }
        }
    }
    assert_eq!(
        begun, taken,
        "replies must start one at a time, in the order in which messages were accepted; {repeat}"
    );
    let (_, answer) = fleet.next().get("/sessions/chat/s").await;
    assert_eq!(answer["state"]["replies"], json!(taken), "{repeat}");
    let messages: Vec<u64> = serde_json::from_value(answer["state"]["messages"].clone()).unwrap();
    let mut sorted = messages.clone();
    sorted.sort_unstable();
    assert!(
        sorted.into_iter().eq(0..2 * MESSAGES),
        "the session must have every message once; {repeat}"
    );
    let refused = service.refused.lock().unwrap();
    let collided = refused.keys().any(|code| code.starts_with("session"));
    assert!(!collided, "the service got a session conflict: {refused:?}; {repeat}");
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_messages_stays_in_order_on_a_file() {
    a_burst_of_messages_stays_in_order(On::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_messages_stays_in_order_on_two_servers() {
    a_burst_of_messages_stays_in_order(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impatient_people_are_answered_in_order_on_a_file() {
    impatient_people_are_answered_in_order(On::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impatient_people_are_answered_in_order_on_two_servers() {
    impatient_people_are_answered_in_order(On::Postgres).await;
}
