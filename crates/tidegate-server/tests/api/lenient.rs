//! Lenient expressions, and conditions of `cancelOn`.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{server::Server, target::Target};

async fn define(server: &Server, name: &str, fields: Value) {
    let mut definition = json!({ "url": "http://127.0.0.1:9" });
    definition.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let (status, answer) = server.put(&format!("/workflows/{name}"), definition).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

async fn outcome(server: &Server, name: &str, data: Value) -> String {
    let event = json!({ "name": name, "data": data });
    let (_, answer) = server.post("/events", event).await;
    answer["events"][0]["runs"][0]["outcome"].as_str().unwrap_or_default().to_owned()
}

/// spec L15: a lenient key that is `false` switches its control off for the event.
#[tokio::test]
async fn a_key_switches_every_control_off() {
    let server = Server::start("");
    let (status, _) =
        server.put("/pools/p", json!({ "concurrency": { "limit": 1, "span": "run" } })).await;
    assert_eq!(status, StatusCode::OK);
    let key = json!({ "expr": { "lenient": "event.data.on && event.data.id" } });
    for (n, (control, value, second)) in [
        ("singleton", json!({ "mode": "skip", "key": key }), "skipped"),
        ("idempotency", json!({ "key": key }), "deduped"),
        ("rateLimit", json!({ "limit": 1, "perMs": 3_600_000, "key": key }), "dropped"),
        ("throttle", json!({ "limit": 1, "perMs": 3_600_000, "key": key }), "queued"),
        ("concurrency", json!({ "limit": 1, "span": "run", "key": key }), "queued"),
        ("concurrency", json!({ "pool": "p", "key": key }), "queued"),
        ("debounce", json!({ "periodMs": 3_600_000, "key": key }), "coalesced"),
        ("batch", json!({ "maxSize": 9, "timeoutMs": 3_600_000, "key": key }), "buffered"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("w{n}");
        define(&server, &name, json!({ control: value })).await;
        for data in [json!({}), json!({ "on": false, "id": 1 }), json!({ "on": 0 }), json!({})] {
            assert_eq!(outcome(&server, &name, data.clone()).await, "started", "{control} {data}");
        }
        let on = json!({ "on": true, "id": 7 });
        outcome(&server, &name, on.clone()).await;
        assert_eq!(outcome(&server, &name, on).await, second, "{control}");
    }
}

/// spec L29: a condition compares the arriving event with that of the run.
#[tokio::test]
async fn a_condition_says_which_event_cancels() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start("");
    for (n, (entry, data, passes, cancels)) in [
        (
            json!({ "if": "async.data.n > event.data.n" }),
            json!({ "n": 5 }),
            vec![json!({ "n": 5 }), json!({}), json!({ "n": "9" })],
            json!({ "n": 6 }),
        ),
        (
            json!({ "if": "async.data.id == event.data.id && async.data.final" }),
            json!({ "id": "a" }),
            vec![json!({ "id": "b", "final": true }), json!({ "id": "a", "final": false })],
            json!({ "id": "a", "final": true }),
        ),
        (
            json!({ "match": { "id": "id" }, "if": "async.data.n == 1" }),
            json!({ "id": "a" }),
            vec![json!({ "id": "b", "n": 1 }), json!({ "id": "a", "n": 2 }), json!({ "id": "a" })],
            json!({ "id": "a", "n": 1 }),
        ),
        (
            json!({ "if": { "lenient": "async.data.missing == event.data.missing" } }),
            json!({}),
            vec![json!({ "missing": 1 })],
            json!({}),
        ),
        (json!({ "if": { "lenient": "true" } }), json!({}), vec![], json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, gone) = (format!("w{n}"), format!("gone{n}"));
        let mut entry = entry;
        entry["event"] = json!(gone);
        define(&server, &name, json!({ "url": target.url, "cancelOn": [entry] })).await;
        let run = server.start_run(&name, data).await;
        for data in passes {
            outcome(&server, &gone, data.clone()).await;
            let (_, shown) = server.get(&format!("/runs/{run}")).await;
            assert_ne!(shown["state"], "cancelled", "{entry} {data}");
        }
        outcome(&server, &gone, cancels).await;
        server.until(&run, "cancelled").await;
    }
    let condition =
        |text: &str| json!({ "url": "http://h", "cancelOn": { "event": "x", "if": text } });
    for (text, said) in
        [("async.data.(", "cancelOn.if has an error"), ("run.id == 1", "has no variable `run`")]
    {
        let (status, answer) = server.put("/workflows/bad", condition(text)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
    }
}
