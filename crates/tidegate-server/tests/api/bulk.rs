//! Bulk actions on runs.

use serde_json::{Value, json};

use crate::{server::Server, target::Target};

/// spec bulk: runs can be cancelled, paused and resumed by a filter. An action on all runs must be
/// requested explicitly.
#[tokio::test]
async fn many_runs_are_cancelled_paused_and_resumed_by_filter() {
    let target = Target::kind().await;
    target.open(false);
    let workflow = |name: &str| {
        let url = &target.url;
        format!("[[workflow]]\nname = \"{name}\"\nurl = \"{url}\"\nconcurrency = {{ limit = 1 }}\n")
    };
    let server = Server::start(&["a", "b"].map(workflow).concat());
    let mut runs = Vec::new();
    for name in ["a", "a", "a", "b", "b"] {
        runs.push(server.start_run(name, json!(1)).await);
    }
    target.called(2).await;
    let bulk = async |body: Value| {
        let (status, answer) = server.post("/runs/bulk", body).await;
        assert_eq!(status.as_u16(), 202, "{answer}");
        let path = format!("/runs/bulk/{}", answer["id"].as_str().unwrap());
        loop {
            let (_, answer) = server.get(&path).await;
            if answer["finished"] == true {
                return (answer["done"].clone(), answer["refused"].clone());
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let seen = async || {
        let mut states = Vec::new();
        for run in &runs {
            states.push(server.get(&format!("/runs/{run}")).await.1["state"].clone());
        }
        json!(states)
    };
    let queued = json!({ "workflow": "a", "state": "queued" });
    let paused = bulk(json!({ "action": "pause", "filter": queued })).await;
    assert_eq!(paused, (json!(2), json!(0)));
    assert_eq!(seen().await, json!(["running", "paused", "paused", "running", "queued"]));
    bulk(json!({ "action": "resume", "all": true })).await;
    assert_eq!(seen().await, json!(["running", "queued", "queued", "running", "queued"]));
    let asked = json!({ "action": "cancel", "filter": { "workflow": "a" }, "reason": "enough" });
    assert_eq!(bulk(asked).await, (json!(3), json!(0)));
    let cancelled = json!(["cancelled", "cancelled", "cancelled", "running", "queued"]);
    assert_eq!(seen().await, cancelled);
    assert_eq!(server.get(&format!("/runs/{}", runs[1])).await.1["reason"], "enough");
    let (_, last) = server.get(&format!("/runs/{}", runs[4])).await;
    let before = json!({ "workflow": "b", "queuedBefore": last["queuedAt"] });
    let asked = json!({ "action": "cancel", "filter": before });
    assert_eq!(bulk(asked).await, (json!(1), json!(0)));
    target.called(3).await;
    let cancelled = json!(["cancelled", "cancelled", "cancelled", "cancelled", "running"]);
    assert_eq!(
        seen().await,
        cancelled,
        "wrong states: `queuedBefore` must not match a run queued at exactly that time"
    );
    for (body, code) in [
        (json!({ "action": "cancel" }), "bulk_needs_filter"),
        (json!({ "action": "cancel", "filter": {} }), "bulk_needs_filter"),
        (json!({ "action": "cancel", "filter": queued, "all": true }), "bulk_needs_filter"),
        (json!({ "action": "cancel", "filter": { "state": "failed" } }), "bad_body"),
        (json!({ "action": "drop", "all": true }), "bad_body"),
        (json!({ "action": "pause", "all": true, "reason": "x" }), "bad_body"),
    ] {
        let (status, answer) = server.post("/runs/bulk", body).await;
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!(code)), "{answer}");
    }
    assert_eq!(server.get("/runs/bulk/chore_x").await.1["error"], "no_bulk");
    assert_eq!(seen().await, cancelled, "a refused action must have no effect");
}
