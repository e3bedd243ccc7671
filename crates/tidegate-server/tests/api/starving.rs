//! Starvation: a service that never answers must not block calls to other services.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, On},
    server::Server,
    target::Target,
};

/// spec L1, L2, L3: more runs hang than there are workers. A run of another workflow is still
/// called, and `why` of a waiting run names the workflow that keeps the workers busy. Tested with
/// the default settings, and with fewer workers on two servers.
async fn others_are_called(on: On) {
    let target = Target::kind().await;
    target.shut("/stuck", true);
    let (workers, workers_line) = match on {
        On::File => (1000, ""),
        On::Postgres => (100, "workers = 100\n"),
    };
    let url = &target.url;
    let workflow =
        |name: &str| format!("[[workflow]]\nname = \"{name}\"\nurl = \"{url}/{name}\"\n");
    let config = format!("{workers_line}{}{}", workflow("stuck"), workflow("quick"));
    let Some(fleet) = Fleet::start(on, &config, &[]).await else { return };
    let held = fleet.len() * workers * 9 / 10;
    let mut last = String::new();
    for n in 0..(held + workers).div_ceil(100) {
        let many: Vec<Value> =
            (0..100).map(|_| json!({ "name": "stuck", "data": { "n": n } })).collect();
        let (status, answer) = fleet.next().post("/events", json!(many)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        let id = answer["events"][99]["runs"][0]["runId"].as_str().unwrap();
        id.clone_into(&mut last);
    }
    target.called(held).await;
    for _ in 0..10 {
        let server = fleet.next();
        let quick = server.start_run("quick", json!({})).await;
        server.until(&quick, "completed").await;
    }
    let (_, why) = fleet.next().get(&format!("/runs/{last}/why")).await;
    let said = why["sentence"].as_str().unwrap();
    let busy =
        format!("{} of {workers} are busy ({} with `stuck`)", workers * 9 / 10, workers * 9 / 10);
    assert!(said.contains(&busy), "{said}");
    assert_eq!(why["workers"]["of"], json!(workers), "{why}");
    let kept = format!("{} are reserved for workflows with few runs", workers / 10);
    let advice = "if runs of `stuck` do not end, cancel them and give it a `concurrency` limit";
    let sentence = why["sentence"].as_str().unwrap();
    assert!(sentence.contains(&kept) && sentence.contains(advice), "{why}");
    waiting_is_shown(fleet.next(), held, &last).await;
    let stuck = target.calls().iter().filter(|call| call.path == "/stuck").count();
    assert_eq!(stuck, held, "a tenth of the workers must be reserved for other workflows");
}

/// spec L1: the verdict, the list, the statistics and the metrics show runs that wait for workers.
async fn waiting_is_shown(server: &Server, held: usize, waits: &str) {
    let event = json!({ "name": "stuck", "data": {} });
    let (_, answer) = server.post("/events", event).await;
    let answer = &answer["events"][0]["runs"][0];
    assert_eq!((&answer["outcome"], &answer["control"]), (&json!("queued"), &json!("workers")));
    let (_, run) = server.get(&format!("/runs/{waits}")).await;
    assert_eq!(run["waitsFor"], json!({ "control": "workers" }), "{run}");
    let (_, stats) = server.get("/runs/stats").await;
    assert_eq!(stats["inFlight"], json!(held), "{stats}");
    assert_eq!(stats["ready"], stats["queued"], "{stats}");
    let text = server.text("/metrics").await;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    let ready = "tidegate_ready_runs{workspace=\"default\",app=\"default\",workflow=\"stuck\"";
    assert_eq!(value(ready), stats["ready"].as_u64(), "{text}");
    let waits = "tidegate_waits_total{workflow=\"stuck\",control=\"workers\"}";
    assert!(value(waits).is_some_and(|waits| waits > 0), "{text}");
    let all = value("tidegate_workers{kind=\"calls\"}");
    let busy = value("tidegate_busy_workers{kind=\"calls\"}");
    assert_eq!(busy.map(|busy| busy * 10), all.map(|all| all * 9), "{text}");
}

#[tokio::test]
async fn a_service_that_hangs_starves_nobody_on_a_file() {
    others_are_called(On::File).await;
}

#[tokio::test]
async fn a_service_that_hangs_starves_nobody_on_two_servers() {
    others_are_called(On::Postgres).await;
}
