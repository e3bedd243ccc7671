//! Flows without code in the engine: each action is a durable call of a URL, arbitrated by its
//! policy.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{server::Server, target::Target};

/// Returns the config of a flow with one action for each policy that the tests need.
fn support(url: &str) -> String {
    format!(
        r#"
        [[flow]]
        name = "support"
        concurrency = "queue"
        actions.respond = {{ url = "{url}/respond" }}
        actions.draft = {{ url = "{url}/draft", concurrency = "restart" }}
        actions.sync = {{ url = "{url}/sync", concurrency = {{ policy = "reject", key = "user" }} }}
        "#
    )
}

/// spec requests: the call has the request and its session, unchanged. The answer to a rejected
/// request names the run that holds the gate, and a client can follow that run to its end.
#[tokio::test]
async fn an_action_is_one_call_under_its_policy() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&support(&target.url));
    let at = |action: &str| format!("/flows/support/actions/{action}");
    let ask = json!({ "input": { "text": "hi" }, "session": "s1", "user": "u" });
    let (status, first) = server.post(&at("sync"), &ask).await;
    assert_eq!((status, first["state"].is_string()), (StatusCode::ACCEPTED, true), "{first}");
    target.called(1).await;
    let body: Value = serde_json::from_str(&target.calls()[0].body).unwrap();
    let session = json!({ "id": "s1", "version": 0, "state": null });
    let expected = json!({
        "input": { "text": "hi" }, "session": session, "user": "u", "metadata": null,
    });
    assert_eq!((target.calls()[0].path.as_str(), body), ("/sync", expected));
    let (status, answer) = server.post(&at("sync"), &ask).await;
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("busy")), "{answer}");
    assert_eq!(answer["requestId"], first["requestId"]);
    let (status, answer) = server.post(&format!("{}?dryRun=true", at("sync")), &ask).await;
    assert_eq!((status, &answer["outcome"]), (StatusCode::OK, &json!("skipped")), "{answer}");
    assert_eq!(answer["holder"], first["requestId"]);
    let (_, answer) = server.post(&format!("{}?dryRun=true", at("respond")), &ask).await;
    assert_eq!(answer["outcome"], "started");
    let (status, answer) = server.post(&at("respond"), &ask).await;
    assert_eq!(
        status,
        StatusCode::ACCEPTED,
        "a request with another key must be admitted: {answer}"
    );
    target.called(2).await;
    let path = format!("/runs/{}/stream", first["requestId"].as_str().unwrap());
    let text = server.follow(&path, "event: state", || target.open(true)).await;
    assert!(text.contains(r#""output":{"ok": true}"#), "{text}");
    let (status, answer) = server.post(&format!("{}?wait=60000", at("respond")), &ask).await;
    assert_eq!((status, &answer["output"]["ok"]), (StatusCode::OK, &json!(true)), "{answer}");
}

/// Chunks that a service streams reach the readers of the run's stream in order and before its end.
/// The event named `output` becomes the run's output.
#[tokio::test]
async fn a_stream_of_events_is_passed_on() {
    let said = "data: one\n\ndata: {\"n\": 2}\n\nevent: output\ndata: {\"whole\": true}\n\n";
    let kind = ("content-type", "text/event-stream");
    let target = Target::start(move |_, _| (200, vec![kind], said.to_owned())).await;
    let server = Server::start(&support(&target.url));
    let (_, answer) = server.post("/flows/support/actions/draft", "").await;
    let run = answer["requestId"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let text = server.text(&format!("/runs/{run}/stream")).await;
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let chunks: Vec<_> = data.iter().filter(|it| !it.contains("\"state\"")).collect();
    assert_eq!(chunks, [&"\"one\"", &"{\"n\": 2}"], "{text}");
    assert_eq!(server.until(run, "completed").await["output"], json!({ "whole": true }));
}

/// spec A4: all problems of a flow are reported at once, and the server does not start.
#[tokio::test]
async fn a_flow_that_cannot_be_used_is_refused_at_the_start() {
    let said = Server::refused("[[flow]]\nname = \"a/b\"\nactions.x = { url = \"ftp://h\" }");
    for part in ["must not contain a slash, got `a/b`", "must begin with `http://`"] {
        assert!(said.contains(part), "{said}");
    }
}
