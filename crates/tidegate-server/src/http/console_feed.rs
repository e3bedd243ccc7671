//! `GET /live`: the numbers of the console as server-sent events.
//!
//! One poll of the store serves all subscribers of a workspace, and without subscribers the store
//! is not polled. A subscriber first gets a snapshot of all numbers, and then only changes.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use axum::{
    Extension,
    http::StatusCode,
    response::sse::{Event, KeepAlive, Sse},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate::{Engine, Error, StreamQuery};
use tidegate_core::{list::RunFilter, reaction::Filter, row::GateKey, time::Timestamp};
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::Instant,
};

use super::{Caller, operation::Operation, problem::Problem, run_stream::Receiver};
use crate::{
    listen,
    metrics::{self, Done},
};

/// Poll interval of the store, for all subscribers of one workspace. After a slow poll the pause is
/// `PAUSES` times as long as the poll.
const LOOK: Duration = Duration::from_millis(500);
const PAUSES: u32 = 10;

/// Interval of the points of the charts, and the number of points that are stored: ten minutes.
const POINT: Duration = Duration::from_secs(2);
const POINTS: usize = 300;

/// `GATES`: number of busiest gates that are sent. `BLOCKED`: maximum number of blocked streams
/// that are counted.
const GATES: usize = 8;
const BLOCKED: usize = 1000;

/// Maximum number of subscribers of one server: each is a connection and a queue.
const WATCHERS: usize = 1000;

/// Lifetime of an endless stream. After it the client must reconnect, and its access is checked
/// again.
pub(super) const LIFE: Duration = Duration::from_secs(300);

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/live", "live", live)
            .says("Stream run counts, the busiest gates and throughput: everything, then changes.")
            .answers_text(200, "Server-sent events.", "text/event-stream"),
    ]
}

/// One point of the charts: counts of one interval.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    at: String,
    /// Started runs per second.
    started: f64,
    ended: f64,
    /// Median waiting time of the started runs; `None` if no run has started.
    #[serde(rename = "waitP50Ms")]
    wait_p50_ms: Option<f64>,
    #[serde(rename = "waitP95Ms")]
    wait_p95_ms: Option<f64>,
}

impl Point {
    fn of(done: &Done, now: Timestamp) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a float holds the number of runs of two seconds"
        )]
        let a_second = |n: u64| n as f64 / POINT.as_secs_f64();
        // Rounded down, so that no percentile is above the longest waiting time.
        let ms = |per_mille| {
            done.waits.percentile(per_mille).map(|seconds| (seconds * 1e4).floor() / 10.0)
        };
        Self {
            at: now.rfc3339(),
            started: a_second(done.started),
            ended: a_second(done.ended),
            wait_p50_ms: ms(500),
            wait_p95_ms: ms(950),
        }
    }
}

/// Latest points of each workspace, with the number of points dropped before them.
#[derive(Debug, Default)]
struct Points(std::sync::Mutex<BTreeMap<String, (usize, VecDeque<Point>)>>);

impl Points {
    /// Adds a point per workspace in each interval, until `points` is dropped.
    async fn keep(points: Weak<Self>, engine: Engine, workspaces: Vec<String>) {
        let mut last: BTreeMap<_, _> =
            workspaces.iter().map(|ws| (ws.clone(), metrics::done(ws))).collect();
        loop {
            tokio::time::sleep(POINT).await;
            let Some(points) = points.upgrade() else { return };
            let now = engine.now();
            let mut all = points.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (ws, before) in &mut last {
                let done = metrics::done(ws);
                let (gone, points) = all.entry(ws.clone()).or_default();
                points.push_back(Point::of(&done.since(before), now));
                if points.len() > POINTS {
                    points.pop_front();
                    *gone += 1;
                }
                *before = done;
            }
        }
    }

    /// Returns the points from an index on, and the index of the next point.
    fn from(&self, ws: &str, from: usize) -> (Vec<Point>, usize) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((gone, points)) = all.get(ws) else { return (Vec::new(), from) };
        let new = points.iter().skip(from.saturating_sub(*gone)).cloned().collect();
        (new, gone + points.len())
    }
}

/// Result of one poll of the store.
#[derive(Debug, Default)]
struct Seen {
    /// Members of the message, by name. A member that equals the last one sent is not sent again.
    members: Map<String, Value>,
    /// Numbers of runs, by app, workflow and version.
    workflows: BTreeMap<String, Value>,
    at: Timestamp,
    /// Changes whenever a row may have changed, even if all numbers are the same.
    pulse: (u64, u64),
}

/// All active feeds of this server, and the points of the charts.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    points: Arc<Points>,
    watched: Arc<Mutex<Watched>>,
}

/// Feed of each workspace.
type Watched = BTreeMap<String, watch::Sender<Arc<Seen>>>;

/// Subscription to a feed.
type Watching = watch::Receiver<Arc<Seen>>;

impl Live {
    /// Starts to collect the points of the charts.
    pub(super) fn begin(engine: &Engine, workspaces: Vec<String>) -> Self {
        let live = Self::default();
        let points = Points::keep(Arc::downgrade(&live.points), engine.clone(), workspaces);
        // Without a runtime there are no requests, so no points are needed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(points);
        }
        live
    }

    /// Subscribes to the feed of a workspace, and starts it if there is none.
    async fn join(&self, engine: &Engine) -> Result<Watching, Problem> {
        if let Some(receiver) = Self::joined(&*self.watched.lock().await, engine)? {
            return Ok(receiver);
        }
        // The first poll happens without the lock: otherwise subscribers of other workspaces would
        // wait for it too.
        let mut looker = Looker { engine: engine.clone(), busy: Vec::new() };
        let seen = Arc::new(looker.look().await?);
        let mut watched = self.watched.lock().await;
        if let Some(receiver) = Self::joined(&watched, engine)? {
            return Ok(receiver);
        }
        let (sender, receiver) = watch::channel(seen);
        watched.insert(engine.workspace().to_owned(), sender.clone());
        tokio::spawn(looker.run(self.clone(), sender));
        Ok(receiver)
    }

    /// Subscribes to the feed of a workspace if it is active.
    fn joined(watched: &Watched, engine: &Engine) -> Result<Option<Watching>, Problem> {
        if watched.values().map(watch::Sender::receiver_count).sum::<usize>() >= WATCHERS {
            let detail = format!(
                "the server has {WATCHERS} subscribers already; query the figures or retry later"
            );
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", detail);
            return Err(problem.retry_after(10));
        }
        Ok(watched.get(engine.workspace()).map(watch::Sender::subscribe))
    }
}

/// Poller of one feed.
struct Looker {
    engine: Engine,
    /// Gates that were busy in the last poll.
    busy: Vec<GateKey>,
}

impl Looker {
    /// Polls until there are no subscribers.
    async fn run(mut self, live: Live, sender: watch::Sender<Arc<Seen>>) {
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            if sender.receiver_count() == 0 {
                // No client can subscribe while this lock is held.
                let mut watched = live.watched.lock().await;
                if sender.receiver_count() == 0 {
                    watched.remove(self.engine.workspace());
                    return;
                }
            }
            let began = Instant::now();
            match self.look().await {
                Ok(seen) => drop(sender.send_replace(Arc::new(seen))),
                Err(error) => tracing::warn!(%error, "polling the store for the console failed"),
            }
            pause = LOOK.max(began.elapsed() * PAUSES);
        }
    }

    async fn look(&mut self) -> Result<Seen, Error> {
        let engine = &self.engine;
        let done = metrics::done(engine.workspace());
        let newest = engine.runs(&RunFilter::default(), None, 1).await?;
        let newest = newest
            .runs
            .first()
            .map_or(0, |row| super::event_stream::number(row).map_or(0, |seq| seq.0));
        let stats = engine.stats().await?;
        let folds = engine.flow_state(None, None).await?.workflows;
        let busy = engine.busiest_gates(&self.busy, GATES).await?;
        self.busy = busy.iter().map(|(key, _)| key.clone()).collect();
        let filter = Filter { blocked: Some(true), ..Filter::default() };
        let blocked = StreamQuery { filter, limit: BLOCKED, ..StreamQuery::default() };
        let blocked = engine.query_streams(&blocked).await?.streams.len();
        let members = [
            ("stats", json!(stats.all)),
            (
                "folds",
                json!({
                    "debounce": folds.iter().map(|it| it.debounce.pending).sum::<u64>(),
                    "batch": folds.iter().map(|it| it.batch.pending).sum::<u64>(),
                }),
            ),
            ("blocked", json!(blocked)),
            ("workers", json!(engine.workers())),
            ("gates", busy.iter().map(|(_, shown)| json!(shown)).collect()),
        ];
        let name = |of: &tidegate_core::observe::stats::VersionCounts| {
            json!([of.app, of.workflow, of.version]).to_string()
        };
        Ok(Seen {
            at: engine.now(),
            members: members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
            workflows: stats.by_workflow.iter().map(|of| (name(of), json!(of))).collect(),
            pulse: (done.started + done.ended, newest.unsigned_abs()),
        })
    }
}

/// State of one subscriber: the last result that was sent to it.
struct Watcher {
    engine: Engine,
    points: Arc<Points>,
    sent: Option<Arc<Seen>>,
    next: usize,
}

impl Watcher {
    /// Returns the changes since the last message (at first, everything), or `None` if nothing has
    /// changed.
    fn news(&mut self, seen: &Arc<Seen>) -> Option<Value> {
        let (points, next) = self.points.from(self.engine.workspace(), self.next);
        self.next = next;
        let sent = self.sent.replace(seen.clone());
        let mut news = Map::from_iter([("at".to_owned(), Value::from(seen.at.rfc3339()))]);
        for (name, value) in &seen.members {
            if sent.as_ref().and_then(|sent| sent.members.get(name)) != Some(value) {
                news.insert(name.clone(), value.clone());
            }
        }
        let last = |name: &String| sent.as_ref().and_then(|sent| sent.workflows.get(name));
        let changed = seen.workflows.iter().filter(|(name, of)| last(name) != Some(of));
        let changed: Vec<_> = changed.map(|(_, of)| of.clone()).collect();
        let gone = sent.iter().flat_map(|sent| &sent.workflows);
        let gone = gone.filter(|(name, _)| !seen.workflows.contains_key(*name));
        let gone: Vec<_> = gone.map(|(_, of)| of.clone()).collect();
        for (name, list) in [("workflows", changed), ("gone", gone)] {
            if !list.is_empty() {
                news.insert(name.to_owned(), list.into());
            }
        }
        if !points.is_empty() {
            news.insert("points".to_owned(), json!(points));
        }
        let Some(sent) = sent else {
            news.insert("whole".to_owned(), true.into());
            return Some(news.into());
        };
        (news.len() > 1 || sent.pulse != seen.pulse).then_some(news.into())
    }
}

async fn live(
    caller: Caller,
    Extension(live): Extension<Live>,
) -> Result<Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>>, Problem> {
    let mut seen = live.join(&caller.engine).await?;
    let mut watcher = Watcher { engine: caller.engine, points: live.points, sent: None, next: 0 };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut closing = std::pin::pin!(tokio::time::sleep(LIFE));
        loop {
            let now = seen.borrow_and_update().clone();
            if let Some(news) = watcher.news(&now) {
                let event = Event::default().event("live").data(news.to_string());
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = listen::stopping() => return,
                () = &mut closing => return,
                changed = seen.changed() => if changed.is_err() { return },
            }
        }
    });
    Ok(Sse::new(Receiver(receiver)).keep_alive(KeepAlive::default()))
}
