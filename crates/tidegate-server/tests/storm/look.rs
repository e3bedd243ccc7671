//! Reads the final state from the API, after all load and faults have ended.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_core::time::Timestamp;
use tokio::task::JoinSet;

use crate::{
    journal::{Log, Run, Shared, World},
    lanes::{self, LANES, Way},
    load::Front,
};

/// Time without progress after which live runs count as stuck. It is long enough for a busy
/// machine.
const STUCK: Duration = Duration::from_secs(45);

/// Poll interval until all runs have ended.
const LOOK: Duration = Duration::from_millis(150);

/// Number of concurrent reads.
const AT_ONCE: usize = 16;

/// Pauses the schedules, waits until the state does not change any more, and reads the final state.
pub(crate) async fn settle(front: &Front, journal: &Shared) -> World {
    for schedule in list(front, "/schedules", "schedules").await {
        let path = format!("/schedules/{}/pause", text(&schedule["id"]));
        front.ask(|http, url| http.post(format!("{url}{path}"))).await;
    }
    let (mut last, mut since) = (String::new(), Instant::now());
    let mut quiet = false;
    while !quiet && since.elapsed() < STUCK {
        let (_, stats) = front.get("/runs/stats").await;
        let (_, folds) = front.get("/flow-state").await;
        let live = ["inFlight", "queued", "waiting", "paused"].map(|it| stats[it].as_u64());
        quiet = live == [Some(0); 4] && pending(&folds).is_empty();
        let calls = journal.lock().unwrap().calls.len();
        let seen = format!("{stats} {folds} {calls}");
        if seen != last {
            (last, since) = (seen, Instant::now());
        }
        if !quiet {
            tokio::time::sleep(LOOK).await;
        }
    }
    read(front, journal).await
}

async fn read(front: &Front, journal: &Shared) -> World {
    let mut world = World::default();
    for run in list(front, "/runs", "runs").await {
        let run = view(&run);
        if !["completed", "failed", "cancelled"].contains(&run.state.as_str()) {
            world.live.push(format!("{} of {} is {}", run.id, run.lane, run.state));
        }
        world.runs.push(run);
    }
    let throttled = |run: &&mut Run| lanes::find(&run.lane).is_some_and(|lane| lane.gap > 0);
    for run in world.runs.iter_mut().filter(throttled) {
        let (_, timeline) = front.get(&format!("/runs/{}/timeline", run.id)).await;
        run.started = moment(&timeline["startedAt"]);
    }
    let events = list(front, "/events", "events").await;
    world.events = events.iter().map(|event| text(&event["id"])).collect();
    world.logs = logs(front).await;
    world.leaks = leaks(front).await;
    world.unresolved = unresolved(front, journal).await;
    world
}

/// Returns the workflows that have events in windows or buffers.
fn pending(folds: &Value) -> Vec<String> {
    let all = folds["workflows"].as_array().into_iter().flatten();
    let held = |it: &&Value| it["debounce"]["pending"] != 0 || it["batch"]["pending"] != 0;
    all.filter(held).map(|it| format!("a window or buffer is not empty: {it}")).collect()
}

/// Returns the items of all pages of a list.
async fn list(front: &Front, path: &str, name: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, mut page) = front.get(&format!("{path}?limit=500{cursor}")).await;
        assert_eq!(status, 200, "GET {path}: {page}");
        all.extend(page[name].as_array_mut().map(std::mem::take).unwrap_or_default());
        let Some(next) = page["next"].as_str() else { return all };
        let escaped = next.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"));
        cursor = format!("&cursor={escaped}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn moment(value: &Value) -> Option<i64> {
    Some(Timestamp::parse_rfc3339(value.as_str()?)?.micros())
}

fn view(run: &Value) -> Run {
    let error = format!("{} {}", text(&run["error"]["code"]), text(&run["error"]["message"]));
    Run {
        id: text(&run["id"]),
        // The workflow of an action is named `flow/action`.
        lane: text(&run["workflow"]).split('/').next().unwrap_or_default().to_owned(),
        version: run["version"].as_u64().unwrap_or_default(),
        state: text(&run["state"]),
        queued: moment(&run["queuedAt"]).unwrap_or_default(),
        started: None,
        reason: run["reason"].as_str().map_or(error, str::to_owned),
        replaced_by: run["replacedBy"].as_str().map(str::to_owned),
        output: run["output"]["call"].as_u64(),
    }
}

/// Returns the contents of all streams, and of the lists in sessions.
async fn logs(front: &Front) -> Vec<Log> {
    let mut logs = Vec::new();
    for lane in LANES.iter().filter(|lane| matches!(lane.way, Way::Stream | Way::Session)) {
        for key in (0..lane.keys).map(|key| format!("k{key}")) {
            let mut entries = Vec::new();
            if lane.way == Way::Session {
                let (_, session) = front.get(&format!("/sessions/{}/{key}", lane.name)).await;
                let list = session["state"]["log"].as_array().cloned().unwrap_or_default();
                entries.extend((0..).zip(list.iter().filter_map(Value::as_u64)));
            } else {
                let mut from = Some(0);
                while let Some(at) = from {
                    let path = format!("/streams/{key}/events?limit=500&from={at}");
                    let (_, page) = front.get(&path).await;
                    for event in page["events"].as_array().into_iter().flatten() {
                        let version = event["version"].as_i64().unwrap_or_default();
                        entries.push((version, event["data"]["n"].as_u64().unwrap_or_default()));
                    }
                    from = page["next"].as_i64();
                }
            }
            logs.push(Log { lane: lane.name.to_owned(), key, entries });
        }
    }
    logs
}

/// Returns gates, windows and buffers that are not empty although all runs have ended, and findings
/// of the doctor.
async fn leaks(front: &Front) -> Vec<String> {
    let mut leaks = Vec::new();
    for gate in list(front, "/gates", "gates").await {
        let holders = gate["holders"].as_array().is_some_and(|it| !it.is_empty());
        let inside = gate["inside"].as_u64().unwrap_or_default();
        let queued = gate["line"]["count"].as_u64().unwrap_or_default();
        if holders || inside + queued > 0 {
            leaks.push(format!("a gate is not empty: {gate}"));
        }
    }
    leaks.extend(pending(&front.get("/flow-state").await.1));
    let (_, doctor) = front.get("/doctor").await;
    if doctor["healthy"] != true {
        leaks.push(format!("the doctor found violations: {}", doctor["findings"]));
    }
    leaks
}

/// Returns the ids from answers that the API does not find.
async fn unresolved(front: &Front, journal: &Shared) -> Vec<String> {
    let mut paths = BTreeSet::new();
    for request in &journal.lock().unwrap().requests {
        for answer in request.answer.iter().chain(&request.again) {
            paths.extend(answer.appended.iter().map(|id| format!("/runs/{id}")));
            paths.extend(answer.run.iter().map(|id| format!("/runs/{id}")));
            paths.extend(answer.event.iter().map(|id| format!("/events/{id}")));
        }
    }
    let (mut reads, mut wrong) = (JoinSet::new(), Vec::new());
    let mut paths = paths.into_iter();
    loop {
        while reads.len() < AT_ONCE
            && let Some(path) = paths.next()
        {
            let front = front.clone();
            reads.spawn(async move { (front.get(&path).await.0, path) });
        }
        let Some(read) = reads.join_next().await else { return wrong };
        let (status, path) = read.unwrap();
        if status != 200 {
            wrong.push(format!("GET {path}: {status}"));
        }
    }
}
