//! Workflows over HTTP: taking one away, and bringing it back.

use reqwest::StatusCode;
use serde_json::json;

use crate::{server::Server, target::Target};

/// SPEC 11: a deleted workflow starts nothing, its runs go on under its limit, and defined again
/// its numbers count on.
#[tokio::test]
async fn a_workflow_is_deleted_and_comes_back() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start("");
    let definition = |limit: u32| json!({ "url": target.url, "concurrency": { "limit": limit } });
    server.put("/workflows/sync", definition(1)).await;
    let first = server.start_run("sync", json!(1)).await;
    let second = server.start_run("sync", json!(2)).await;
    target.called(1).await;
    let (status, told) = server.delete("/workflows/sync").await;
    assert_eq!((status, &told["live"]), (StatusCode::OK, &json!(2)));
    let (status, told) = server.get("/workflows/sync").await;
    assert_eq!((status, &told["error"]), (StatusCode::NOT_FOUND, &json!("no_workflow")));
    assert_eq!(server.get("/workflows").await.1["workflows"], json!([]));
    let (_, told) = server.post("/events", json!({ "name": "sync" })).await;
    assert_eq!(told["events"][0]["runs"], json!([]));
    let (status, _) = server.delete("/workflows/sync").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, why) = server.get(&format!("/runs/{second}/why")).await;
    assert_eq!((&why["state"], &why["gates"][0]["holders"]), (&json!("queued"), &json!([first])));
    target.open(true);
    for run in [&first, &second] {
        server.until(run, "completed").await;
    }
    assert_eq!(server.get("/runs?workflow=sync").await.1["runs"].as_array().unwrap().len(), 2);
    let (_, told) = server.put("/workflows/sync", definition(2)).await;
    assert_eq!(told["version"], 2);
    let run = server.start_run("sync", json!(3)).await;
    assert_eq!(server.until(&run, "completed").await["version"], 2);
    server.delete("/workflows/sync").await;
    server.post("/workflows/sync/release", json!({ "version": 1 })).await;
    assert_eq!(server.get("/workflows/sync").await.1["version"], 1, "a release brings it back too");
}
