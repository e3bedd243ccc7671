//! Streams over HTTP: commit, read, list.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::Server;

fn named(reply: &Value, list: &str, member: &str) -> Vec<Value> {
    reply[list].as_array().unwrap().iter().map(|item| item[member].clone()).collect()
}

/// spec streams: versions have no gap. A commit with a wrong `expectedVersion` writes nothing, and
/// its answer has the current version. A name with a slash is one path segment.
#[tokio::test]
async fn what_is_committed_is_read() {
    let server = Server::start("");
    let path = "/streams/order%2F7%20%C3%A4/events";
    let (status, answer) = server.get(path).await;
    assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("no_stream")));
    let text = r#"{"events": [{"name": "Opened", "data": { "n": 1.10 }}, {"name": "Paid"}],
        "expectedVersion": -1, "correlationId": "c-1", "causationId": "mail"}"#;
    let (status, answer) = server.post(path, text).await;
    assert_eq!((status, &answer["stream"]), (StatusCode::CREATED, &json!("order/7 ä")), "{answer}");
    assert_eq!(
        (named(&answer, "events", "version"), &answer["version"]),
        (vec![json!(0), json!(1)], &json!(1))
    );
    assert_eq!(named(&answer, "events", "position"), [1, 2]);
    let one = |expected: i64| json!({ "events": [{ "name": "Sent", "data": null }], "expectedVersion": expected });
    let (status, answer) = server.post(path, one(0)).await;
    let conflict = json!({ "stream": "order/7 ä", "expected": 0, "actual": 1 });
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("conflict")));
    for member in ["stream", "expected", "actual"] {
        assert_eq!(answer[member], conflict[member], "{answer}");
    }
    let (status, answer) = server.post(path, one(1)).await;
    assert_eq!((status, &answer["version"]), (StatusCode::CREATED, &json!(2)));
    let (_, answer) = server.get(&format!("{path}?limit=2")).await;
    assert_eq!(
        (named(&answer, "events", "name"), &answer["next"]),
        (vec![json!("Opened"), json!("Paid")], &json!(2))
    );
    assert_eq!((&answer["version"], &answer["closed"]), (&json!(2), &json!(false)));
    let first = &answer["events"][0];
    assert_eq!((&first["correlationId"], &first["causationId"]), (&json!("c-1"), &json!("mail")));
    let text = server.text(&format!("{path}?limit=1")).await;
    assert!(
        text.contains(r#""data":{ "n": 1.10 }"#),
        "the data must be stored byte for byte: {text}"
    );
    let (_, answer) = server.get(&format!("{path}?from=2")).await;
    assert_eq!(
        (named(&answer, "events", "version"), &answer["next"]),
        (vec![json!(2)], &json!(null))
    );
    let (_, answer) = server.get(&format!("{path}?from=1&backwards=true&limit=1")).await;
    assert_eq!((named(&answer, "events", "version"), &answer["next"]), (vec![json!(1)], &json!(0)));
}

/// The list of streams is ordered by name and has pages. Each stream has its last version.
#[tokio::test]
async fn streams_are_listed_by_name() {
    let server = Server::start("");
    for name in ["c", "a", "b", "a"] {
        let commit = json!({ "events": [{ "name": "Happened" }] });
        let (status, _) = server.post(&format!("/streams/{name}/events"), commit).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let (_, answer) = server.get("/streams?limit=2").await;
    assert_eq!(named(&answer, "streams", "name"), ["a", "b"]);
    assert_eq!(named(&answer, "streams", "version"), [1, 0]);
    assert_eq!(
        (named(&answer, "streams", "position"), &answer["next"]),
        (vec![json!(4), json!(3)], &json!("b"))
    );
    let (_, answer) = server.get("/streams?limit=2&cursor=b").await;
    assert_eq!(
        (named(&answer, "streams", "name"), &answer["next"]),
        (vec![json!("c")], &json!(null))
    );
    let event = json!({ "name": "A" });
    for (body, code, said) in [
        (json!({ "events": [] }), "commit_count", "1 to 1000 events, got 0"),
        (json!({ "events": [{ "name": "$own" }] }), "bad_name", "`$own`"),
        (json!({ "events": [{ "name": "A", "at": 1 }] }), "bad_body", "unknown field `at`"),
        (json!({ "events": [event], "expectedVersion": -2 }), "bad_body", "got -2"),
        (json!({ "events": [event], "correlationId": "" }), "bad_body", "got 0"),
    ] {
        let (status, answer) = server.post("/streams/a/events", body).await;
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!(code)), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
    }
}
