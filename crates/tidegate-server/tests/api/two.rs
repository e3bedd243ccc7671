//! Two servers on one PostgreSQL are killed at random times. Results are compared with the journal
//! of the called service.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap};
use reqwest::Client;
use serde_json::{Value, json};

use crate::{postgres::database, server::Server};

const CLIENTS: u64 = 3;
const KEYS: u64 = 3;
const LIMIT: usize = 2;
/// Duration of one call.
const CALL: Duration = Duration::from_millis(15);

/// Journal of the service.
#[derive(Default)]
struct Log {
    /// Calls in progress, by workflow and key.
    inside: BTreeMap<(String, u64), BTreeSet<String>>,
    /// Maximum number of concurrent calls, by workflow and key.
    most: BTreeMap<(String, u64), usize>,
    /// Runs whose calls completed, by workflow.
    served: BTreeMap<String, BTreeSet<String>>,
}

type Shared = Arc<Mutex<Log>>;

/// A call in progress. It ends when it is answered or its caller disconnects.
struct Call {
    log: Shared,
    place: (String, u64),
    run: String,
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut log = self.log.lock().unwrap();
        if let Some(inside) = log.inside.get_mut(&self.place) {
            inside.remove(&self.run);
        }
    }
}

async fn serve(State(log): State<Shared>, headers: HeaderMap, body: Bytes) -> &'static str {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (workflow, run) = (header("tidegate-workflow"), header("tidegate-run"));
    assert_eq!(header("idempotency-key"), format!("{run}:call"));
    let data: Value = serde_json::from_slice(&body).unwrap();
    let place = (workflow.clone(), data["k"].as_u64().unwrap());
    let call = Call { log: log.clone(), place: place.clone(), run: run.clone() };
    {
        let mut log = log.lock().unwrap();
        let inside = log.inside.entry(place.clone()).or_default();
        inside.insert(run.clone());
        let now = inside.len();
        let most = log.most.entry(place).or_default();
        *most = now.max(*most);
    }
    tokio::time::sleep(CALL).await;
    log.lock().unwrap().served.entry(workflow).or_default().insert(run);
    drop(call);
    "done"
}

/// Pseudo-random number generator with a seed, so that the test can be repeated.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Sends one event until a server has accepted it. Each attempt goes to a random server.
async fn send(http: &Client, urls: &RwLock<[String; 2]>, chance: &mut Chance, event: &str) {
    loop {
        let url = urls.read().unwrap()[usize::try_from(chance.below(2)).unwrap()].clone();
        let request = http.post(format!("{url}/events")).body(event.to_owned());
        match request.send().await {
            Ok(answer) if answer.status() == 202 => return,
            Ok(answer) => assert!(answer.status().is_server_error(), "{}", answer.status()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Returns the runs of a workflow from the API. All of them must be completed.
async fn known(server: &Server, workflow: &str) -> BTreeSet<String> {
    let (mut runs, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/runs?workflow={workflow}&limit=100{cursor}");
        let (_, answer) = server.get(&path).await;
        for run in answer["runs"].as_array().unwrap() {
            runs.insert(run["id"].as_str().unwrap().to_owned());
        }
        match answer["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    for run in &runs {
        server.until(run, "completed").await;
    }
    runs
}

/// Limits, windows, singletons, idempotency keys and events hold over both servers, also when one
/// is killed: every verdict takes effect once, and no key exceeds its limit.
///
/// The connections of a killed server are closed at once, long before its leases expire. So the
/// calls of its runs end first, and the service never sees more concurrent calls than the limit.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_are_one() {
    let Some(database) = database().await else { return };
    let drawn = RandomState::new().hash_one(0);
    let seed = std::env::var("TIDEGATE_SEED").map_or(drawn, |seed| seed.parse().unwrap());
    let full = std::env::var_os("TIDEGATE_TEST_FULL").is_some();
    let (events, kills) = if full { (1200, 8) } else { (80, 2) };
    let repeat =
        format!("TIDEGATE_SEED={seed} cargo test -p tidegate-server --test api two_servers");

    let log = Shared::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(serve).with_state(log.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let workflow = |name: &str, control: &str| {
        format!(
            "[[workflow]]\nname = \"{name}\"\nurl = \"{url}\"\n{control}\n\
             retry = {{ maxAttempts = 20, backoffMs = 20 }}\n"
        )
    };
    let config = [
        format!("store = \"{database}\"\n"),
        workflow("work", &format!("concurrency = {{ limit = {LIMIT}, key = \"k\" }}")),
        workflow("alone", "singleton = { mode = \"skip\", key = \"k\" }"),
        workflow("once", "idempotency = { key = \"id\", periodMs = 600000 }"),
        workflow("last", "debounce = { periodMs = 50, key = \"k\" }"),
    ]
    .concat();
    let start = || Server::start(&config);
    let mut servers = [start(), start()];
    let urls = Arc::new(RwLock::new([0, 1].map(|n: usize| servers[n].url().to_owned())));
    let sent = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (urls, sent) = (urls.clone(), sent.clone());
            tokio::spawn(async move {
                let http = Client::builder().no_proxy().build().unwrap();
                let mut chance = Chance(seed ^ (client + 1));
                for n in 0..events {
                    let workflow = ["work", "alone", "once", "last"][n % 4];
                    // All clients send events with the same ids, so idempotency must merge them.
                    let data = json!({ "k": chance.below(KEYS), "id": n, "n": n });
                    let id = format!("{client}.{n}");
                    let event = json!({ "name": workflow, "data": data, "dedupeId": id });
                    send(&http, &urls, &mut chance, &event.to_string()).await;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut chance = Chance(seed);
    let all = usize::try_from(CLIENTS).unwrap() * events;
    let mut moments: Vec<u64> = (0..kills).map(|_| chance.below(all as u64)).collect();
    moments.sort_unstable();
    for moment in moments {
        while (sent.load(Ordering::Relaxed) as u64) < moment {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let victim = usize::try_from(chance.below(2)).unwrap();
        servers[victim].crash_and_restart();
        urls.write().unwrap()[victim] = servers[victim].url().to_owned();
    }
    for client in clients {
        client.await.unwrap();
    }

    judge(&servers, &log, all, events, &repeat).await;
}

/// Checks that all acknowledged work was done once and within the limits.
async fn judge(servers: &[Server; 2], log: &Shared, all: usize, events: usize, repeat: &str) {
    let mut counts = BTreeMap::new();
    for workflow in ["work", "alone", "once", "last"] {
        let runs = known(&servers[0], workflow).await;
        let served = log.lock().unwrap().served.get(workflow).cloned().unwrap_or_default();
        assert_eq!(
            runs, served,
            "{workflow}: the runs of the API differ from the calls of the service; {repeat}"
        );
        counts.insert(workflow, runs.len());
    }
    assert_eq!(counts["work"], all / 4, "each event must start one run; {repeat}");
    assert_eq!(counts["once"], events / 4, "each id must start one run; {repeat}");
    for ((workflow, key), most) in &log.lock().unwrap().most {
        let limit = match workflow.as_str() {
            "work" => LIMIT,
            "alone" => 1,
            _ => continue,
        };
        assert!(
            *most <= limit,
            "{workflow}, key {key}: {most} concurrent calls exceed the limit; {repeat}"
        );
    }
    let (_, answer) = servers[1].get("/doctor").await;
    assert_eq!(answer["findings"], json!([]), "{repeat}");
}
