//! `POST /events` and its verdicts.

use reqwest::StatusCode;
use serde_json::json;

use crate::{server::Server, target::Target};

/// spec events: the answer has all verdicts, by event and by workflow.
#[tokio::test]
async fn every_verdict_is_told() {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let server = Server::start(&format!(
        r#"
        [[workflow]]
        name = "sync"
        triggers = [{{ event = "changed" }}]
        url = "{url}/sync"
        concurrency = {{ limit = 1, key = "account" }}
        [[workflow]]
        name = "audit"
        triggers = [{{ event = "changed" }}]
        url = "{url}/audit"
        rateLimit = {{ limit = 1, perMs = 60000 }}
        [[workflow]]
        name = "index"
        triggers = [{{ event = "changed" }}]
        url = "{url}/index"
        batch = {{ maxSize = 10, timeoutMs = 60000 }}
        "#
    ));
    let event = json!({ "name": "changed", "data": { "account": 7 } });
    let (status, answer) = server.post("/events", json!([event, event])).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let outcomes: Vec<Vec<_>> = answer["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            event["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["outcome"].as_str().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(outcomes, [["started", "buffered", "started"], ["dropped", "buffered", "queued"]]);
    let dropped = &answer["events"][1]["runs"][0];
    assert_eq!((&dropped["dropped"], &dropped["control"]), (&json!(true), &json!("rateLimit")));
    assert!(dropped["retryAt"].as_str().unwrap().ends_with('Z'));
    let (status, answer) = server.post("/events?dryRun=true", event).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["events"][0]["runs"][2]["outcome"], "queued");
    let (_, answer) = server.get("/runs?state=queued").await;
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1, "a dry run must not create a run");
}

/// spec C2: an event with the same `dedupeId` is recorded once.
#[tokio::test]
async fn a_repeated_event_is_taken_once() {
    let target = Target::kind().await;
    let server = Server::start(&format!("[[workflow]]\nname = \"a\"\nurl = \"{}\"", target.url));
    let event = json!({ "name": "a", "data": 1, "dedupeId": "d" });
    let (_, first) = server.post("/events", &event).await;
    let (_, again) = server.post("/events", &event).await;
    assert_eq!(again["events"][0]["deduped"], true);
    assert_eq!(again["events"][0]["id"], first["events"][0]["id"]);
    let (_, answer) = server.get("/runs").await;
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1);
}

/// An invalid request is refused as a whole. The error has a code, the wrong value and the fix.
#[tokio::test]
async fn bad_events_are_refused_with_the_reason() {
    let server = Server::start("");
    let long = "x".repeat(600 * 1024);
    let deep = format!("{{\"name\":\"a\",\"data\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let table = [
        ("{".to_owned(), 400, "bad_json", "EOF"),
        ("{\"nam\": 1}".to_owned(), 422, "bad_body", "unknown field `nam`"),
        ("[]".to_owned(), 422, "too_many_events", "1 to 1000 events, got 0"),
        (
            json!({ "name": "" }).to_string(),
            422,
            "bad_value",
            "event 0: its name must have 1 to 256",
        ),
        (json!({ "name": "a", "ts": "noon" }).to_string(), 422, "bad_time", "got `noon`"),
        (json!({ "name": "a", "data": long }).to_string(), 422, "payload_too_large", "524288"),
        ("[".repeat(5000), 400, "bad_json", "EOF"),
        (deep, 422, "payload_too_deep", "at most 128 deep"),
        ("[[\"a\"]]".to_owned(), 422, "bad_body", "the body must be an object, got `[\"a\"]`"),
        ("7".to_owned(), 422, "bad_body", "the body must be an object"),
    ];
    for (body, status, code, said) in table {
        let start: String = body.chars().take(40).collect();
        let (got, reply) = server.post("/events", body).await;
        assert_eq!(
            (got.as_u16(), reply["error"].as_str()),
            (status, Some(code)),
            "{start}: {reply}"
        );
        assert!(reply["detail"].as_str().unwrap().contains(said), "{start}: {reply}");
    }
    // The server does not read an oversized body to its end, so the sender may not get the answer.
    let huge = server.try_post("/events", "x".repeat(5 * 1024 * 1024)).await;
    assert!(huge.is_none_or(|status| status == StatusCode::PAYLOAD_TOO_LARGE));
    let both = json!([{ "name": "ok" }, { "name": "a", "ts": "noon" }]);
    server.post("/events", both).await;
    let (status, reply) = server.get("/nothing").await;
    assert_eq!((status, &reply["error"]), (StatusCode::NOT_FOUND, &json!("no_route")));
    let (status, _) = server.put("/events", "{}").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
