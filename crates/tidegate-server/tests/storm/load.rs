//! Load: clients that send requests through all servers and retry until they get an answer, and an
//! operator who cancels, pauses and resumes runs.

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use sha2::Sha256;
use tidegate_testkit::torture::Dice;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    journal::{Act, Answer, Request, Shared, now},
    lanes::{CLOCK, HOOK_SECRET, LANES, Lane, Way},
};

/// Timeout of one attempt. A frozen server does not answer within it.
const TRY: Duration = Duration::from_secs(3);

/// Timeout of a read of a whole list, at a time when no server is frozen.
const LOOK: Duration = Duration::from_secs(30);

/// Time for which a caller retries. Every fault is shorter.
const PATIENCE: Duration = Duration::from_secs(90);

/// Delay between attempts.
const AGAIN: Duration = Duration::from_millis(40);

/// Lanes whose runs the operator cancels, pauses and resumes.
const OPERATED: [&str; 4] = ["sync", "line", "mail", "queue"];

/// Client that uses all servers round robin.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) http: Client,
    pub(crate) urls: Arc<RwLock<Vec<String>>>,
    turn: Arc<AtomicUsize>,
}

impl Front {
    pub(crate) fn new() -> Self {
        let http = Client::builder().no_proxy().build().unwrap();
        Self { http, urls: Arc::default(), turn: Arc::default() }
    }

    fn url(&self) -> String {
        let urls = self.urls.read().unwrap();
        urls[self.turn.fetch_add(1, Ordering::Relaxed) % urls.len()].clone()
    }

    /// Makes one attempt. Returns the status and body of the answer, if it comes in time.
    pub(crate) async fn once(
        &self,
        make: &impl Fn(&Client, &str) -> RequestBuilder,
        within: Duration,
    ) -> Option<(u16, Value)> {
        let request = make(&self.http, &self.url()).timeout(within);
        let mut answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let kind = answer.headers().get("content-type").map_or(&[][..], |kind| kind.as_bytes());
        if kind.starts_with(b"text/event-stream") {
            // Only the first event of a stream is read.
            let mut text = String::new();
            while !text.contains("\n\n") {
                text.push_str(&String::from_utf8_lossy(&answer.chunk().await.ok()??));
            }
            let data = text.lines().find_map(|line| line.strip_prefix("data:"));
            return Some((status, serde_json::from_str(data.unwrap_or_default().trim()).ok()?));
        }
        Some((status, serde_json::from_str(&answer.text().await.ok()?).unwrap_or_default()))
    }

    /// Retries until the answer is not a temporary error. Returns the number of attempts and the
    /// answer.
    pub(crate) async fn ask(
        &self,
        make: impl Fn(&Client, &str) -> RequestBuilder,
    ) -> (u32, Option<(u16, Value)>) {
        self.ask_within(make, TRY).await
    }

    async fn ask_within(
        &self,
        make: impl Fn(&Client, &str) -> RequestBuilder,
        within: Duration,
    ) -> (u32, Option<(u16, Value)>) {
        let (began, mut tries) = (tokio::time::Instant::now(), 0);
        while began.elapsed() < PATIENCE {
            tries += 1;
            match self.once(&make, within).await {
                Some((status, body)) if !is_temporary(status, &body) => {
                    return (tries, Some((status, body)));
                }
                _ => tokio::time::sleep(AGAIN).await,
            }
        }
        (tries, None)
    }

    /// Retries a read until a server answers.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let (_, answer) = self.ask_within(|http, url| http.get(format!("{url}{path}")), LOOK).await;
        answer.unwrap_or((0, Value::Null))
    }
}

fn is_temporary(status: u16, body: &Value) -> bool {
    let code = body["error"].as_str().unwrap_or_default();
    (status >= 500 && code != "not_appended")
        || ["in_progress", "too_many_requests"].contains(&code)
}

/// The load of a round.
pub(crate) struct Load {
    pub(crate) front: Front,
    journal: Arc<Shared>,
    next: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// A client that sends requests of one key of one lane.
struct Sender {
    lane: &'static Lane,
    key: String,
    dice: Dice,
    front: Front,
    journal: Arc<Shared>,
    next: Arc<AtomicU64>,
    /// Last known version of the sender's stream.
    version: i64,
}

impl Load {
    pub(crate) fn start(front: Front, journal: Arc<Shared>, dice: &mut Dice) -> Self {
        let (stop, next) = (watch::Sender::new(false), Arc::new(AtomicU64::new(1)));
        let mut load = Self { front, journal, next, stop, tasks: JoinSet::new() };
        for lane in &LANES {
            for (key, client) in (0..lane.keys).flat_map(|k| (0..lane.clients).map(move |c| (k, c)))
            {
                let sender = Sender {
                    lane,
                    key: format!("k{key}"),
                    dice: Dice::new(dice.roll() ^ client),
                    front: load.front.clone(),
                    journal: load.journal.clone(),
                    next: load.next.clone(),
                    version: -1,
                };
                load.tasks.spawn(sender.run(load.stop.subscribe()));
            }
        }
        let (front, journal) = (load.front.clone(), load.journal.clone());
        load.tasks.spawn(operate(front, journal, Dice::new(dice.roll()), load.stop.subscribe()));
        load
    }

    /// Stops sending, and waits until every request in progress is answered or abandoned.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Waits for a pause. Returns true if the load must stop.
async fn stopped(stop: &mut watch::Receiver<bool>, pause: Duration) -> bool {
    tokio::time::timeout(pause, stop.wait_for(|stop| *stop)).await.is_ok()
}

impl Sender {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            // The pause is mostly near the mean, and sometimes almost zero, which makes a burst.
            let pace = if self.dice.one_in(6) { 1 } else { self.dice.below(2 * self.lane.pace) };
            if stopped(&mut stop, Duration::from_millis(pace)).await {
                return;
            }
            self.send().await;
        }
    }

    async fn send(&mut self) {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let key = match self.lane.name {
            // A hundred successive request numbers of all lanes share a payment id. So each payment
            // is reported by several events, some at the same time and some later.
            "pay" => format!("p{}", n / 100),
            "hook" => format!("d{n}"),
            _ => self.key.clone(),
        };
        let lane = self.lane.name.to_owned();
        let mut request = Request { n, lane, key, sent: now(), ..Request::default() };
        let (way, version) = (self.lane.way, self.version);
        let (of, body) = (request.clone(), body(self.lane, &request, version));
        let make = move |http: &Client, url: &str| prepare(way, http, url, &of, &body);
        // These clients do not disconnect: for windows the judge must know the last request, and
        // for streams the next version.
        let stays = matches!(self.lane.fold, crate::lanes::Fold::Last) || way == Way::Stream;
        let answer = if !stays && self.dice.one_in(15) {
            request.tries = 1;
            self.front.once(&make, self.dice.up_to_ms(120)).await.filter(|it| it.0 < 500)
        } else {
            let (tries, answer) = self.front.ask(&make).await;
            request.tries = tries;
            answer
        };
        request.done = now();
        request.answer = answer.map(|(status, body)| self.read(&request, status, &body));
        if request.answer.is_some() && way != Way::Stream && self.dice.one_in(10) {
            let again = self.front.ask(&make).await.1;
            request.again = again.map(|(status, body)| self.read(&request, status, &body));
        }
        self.journal.lock().unwrap().requests.push(request);
    }

    /// Parses an answer. An unexpected answer is recorded in the journal.
    fn read(&mut self, request: &Request, status: u16, body: &Value) -> Answer {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let code = text(&body["error"]).unwrap_or_default();
        let mut answer = Answer { status, outcome: code.clone(), ..Answer::default() };
        match (self.lane.way, status) {
            (Way::Event, 202) => {
                let event = &body["events"][0];
                answer.event = text(&event["id"]);
                answer.outcome = text(&event["runs"][0]["outcome"]).unwrap_or_default();
                answer.run = text(&event["runs"][0]["runId"]);
            }
            (Way::Action | Way::Webhook, 200 | 202) => {
                let coalesced = body["coalesced"] == true || body["status"] == "coalesced";
                let deduped = body["deduped"] == true || body["status"] == "deduped";
                let word = if coalesced { "coalesced" } else { "taken" };
                (if deduped { "deduped" } else { word }).clone_into(&mut answer.outcome);
                answer.run = text(&body["requestId"]);
            }
            (Way::Chat, 200) => {
                "taken".clone_into(&mut answer.outcome);
                answer.run = text(&body["requestId"]);
                answer.appended = text(&body["appendRequestId"]);
            }
            (Way::Chat, 502) if code == "not_appended" => {
                answer.appended = text(&body["requestId"]);
            }
            (Way::Action, 409) if code == "busy" => answer.run = text(&body["requestId"]),
            (Way::Stream, 201) => {
                "committed".clone_into(&mut answer.outcome);
                answer.version = body["version"].as_i64();
                self.version = answer.version.unwrap_or(self.version);
            }
            (Way::Stream, 409) if code == "conflict" => {
                answer.version = body["actual"].as_i64();
                self.version = answer.version.unwrap_or(self.version);
            }
            (Way::Session, 200) => "committed".clone_into(&mut answer.outcome),
            _ => {
                let line = format!("{} {}: {status} {body}", request.lane, request.n);
                self.journal.lock().unwrap().unexpected.push(line);
            }
        }
        answer
    }
}

/// Returns the payload of a request.
fn body(lane: &Lane, request: &Request, version: i64) -> Value {
    let Request { n, key, .. } = request;
    match lane.way {
        Way::Event => {
            let data = json!({ "n": n, "key": key, "payment": key });
            let data = if lane.name == "pay" { data } else { json!({ "n": n, "key": key }) };
            json!({ "name": lane.name, "data": data, "dedupeId": format!("storm-{n}") })
        }
        Way::Action => json!({ "input": { "n": n, "key": key }, "session": key }),
        Way::Chat => json!({ "input": { "n": n, "key": key } }),
        Way::Webhook => json!({ "id": key, "n": n }),
        Way::Stream => {
            json!({ "events": [{ "name": "e", "data": { "n": n } }], "expectedVersion": version })
        }
        Way::Session => json!({ "op": "append", "path": "log", "value": n }),
        Way::Schedule => Value::Null,
    }
}

/// Builds a request. It is the same for each attempt.
fn prepare(way: Way, http: &Client, url: &str, of: &Request, body: &Value) -> RequestBuilder {
    let Request { n, lane, key, .. } = of;
    let body = body.to_string();
    let request = match way {
        Way::Event => http.post(format!("{url}/events")),
        Way::Action => http.post(format!("{url}/flows/{lane}/actions/act")),
        Way::Webhook => {
            let mut mac = Hmac::<Sha256>::new_from_slice(HOOK_SECRET.as_bytes()).unwrap();
            mac.update(body.as_bytes());
            let mac = mac.finalize().into_bytes();
            let hex = mac.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            http.post(format!("{url}/webhooks/{lane}/hook")).header("x-signature", hex)
        }
        Way::Chat => http.post(format!("{url}/flows/{lane}/sessions/{key}/messages")),
        Way::Stream => http.post(format!("{url}/streams/{key}/events")),
        Way::Session => http.patch(format!("{url}/sessions/{lane}/{key}")),
        Way::Schedule => unreachable!("lane `{}` has no clients", CLOCK.name),
    };
    let keyed = matches!(way, Way::Action | Way::Chat | Way::Stream | Way::Session);
    let request = request.header("content-type", "application/json").body(body);
    if keyed { request.header("idempotency-key", format!("storm-{n}")) } else { request }
}

/// The operator: cancels, pauses and resumes runs of the load.
async fn operate(
    front: Front,
    journal: Arc<Shared>,
    mut dice: Dice,
    mut stop: watch::Receiver<bool>,
) {
    while !stopped(&mut stop, dice.up_to_ms(400)).await {
        let recent: Vec<String> = {
            let journal = journal.lock().unwrap();
            let recent = journal.requests.iter().rev().take(40);
            let recent = recent.filter(|it| OPERATED.contains(&it.lane.as_str()));
            let answers = recent.filter_map(|it| it.answer.as_ref());
            let waiting = answers.filter(|it| ["queued", "taken"].contains(&it.outcome.as_str()));
            waiting.filter_map(|it| it.run.clone()).collect()
        };
        if recent.is_empty() {
            continue;
        }
        let at = dice.below(u64::try_from(recent.len()).unwrap().min(4));
        let run = &recent[usize::try_from(at).unwrap()];
        if dice.one_in(3) {
            act(&front, &journal, run, "cancel").await;
            continue;
        }
        act(&front, &journal, run, "pause").await;
        stopped(&mut stop, dice.up_to_ms(1200)).await;
        act(&front, &journal, run, "resume").await;
    }
}

async fn act(front: &Front, journal: &Shared, run: &str, what: &str) {
    let sent = now();
    let key = format!("storm-{run}-{what}-{sent}");
    let make = |http: &Client, url: &str| {
        http.post(format!("{url}/runs/{run}/{what}")).header("idempotency-key", &key)
    };
    let (_, answer) = front.ask(make).await;
    let state = answer.filter(|it| it.0 == 200).and_then(|it| Some(it.1["state"].as_str()?.into()));
    let (run, what) = (run.to_owned(), what.to_owned());
    journal.lock().unwrap().acts.push(Act { run, what, sent, done: now(), state });
}
