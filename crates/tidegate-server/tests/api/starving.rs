//! A service that never answers keeps nobody else from being called.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, On},
    target::Target,
};

/// L1, L2, L3: more runs hang than there are workers; another workflow's run is called all the
/// same, and `why` of a run that waits says what the workers are busy with. With the default
/// settings, or with fewer workers where there are two servers.
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
        let (status, told) = fleet.next().post("/events", json!(many)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{told}");
        let id = told["events"][99]["runs"][0]["runId"].as_str().unwrap();
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
    let stuck = target.calls().iter().filter(|call| call.path == "/stuck").count();
    assert_eq!(stuck, held, "a tenth is kept for others");
}

#[tokio::test]
async fn a_service_that_hangs_starves_nobody_on_a_file() {
    others_are_called(On::File).await;
}

#[tokio::test]
async fn a_service_that_hangs_starves_nobody_on_two_servers() {
    others_are_called(On::Postgres).await;
}
