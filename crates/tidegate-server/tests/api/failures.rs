//! Failure handlers of workflows with a URL: they call another service than the failed one.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tidegate_store::rusqlite::Connection;

use crate::{
    server::Server,
    target::{Call, Target},
};

/// Service that refuses work permanently, and also fails the first call of the failure handler.
async fn target() -> Target {
    Target::start(|call, before| match (call.path.as_str(), before) {
        ("/work", _) => (404, vec![], "unknown account".to_owned()),
        (_, 1) => (503, vec![], "later".to_owned()),
        _ => (200, vec![], "noted".to_owned()),
    })
    .await
}

/// Returns the calls of a path.
fn calls_at(target: &Target, path: &str) -> Vec<Call> {
    target.calls().into_iter().filter(|call| call.path == path).collect()
}

/// Returns the run that handles the failure of another run, once it has ended.
async fn handler_of(server: &Server, failed: &str) -> Value {
    loop {
        let (_, page) = server.get("/runs").await;
        let runs = page["runs"].as_array().unwrap().clone();
        let mut handlers = runs.into_iter().filter(|run| run["failureOf"] == failed);
        if let Some(run) = handlers.next().filter(|run| !run["endedAt"].is_null()) {
            assert_eq!(handlers.next(), None, "a failure must have only one handler");
            return run;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The failure handler gets the error, the input and the id of the failed run, in a signed call
/// with a header for failure handlers. Its call is retried like any step; the failed work is not
/// retried.
#[tokio::test]
async fn a_failure_is_posted_to_a_service_of_its_own() {
    let target = target().await;
    let url = &target.url;
    let config = format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}/work\"\n\
         onFailure = {{ url = \"{url}/failed\" }}\n\
         retry = {{ maxAttempts = 3, backoffMs = 1 }}"
    );
    let server = Server::start_with(&config, &[("TIDEGATE_SIGNING_SECRET", "secret")]);
    let failed = server.start_run("sync", json!({ "account": 7 })).await;
    server.until(&failed, "failed").await;
    let handler = handler_of(&server, &failed).await;
    assert_eq!(handler["state"], "completed", "{handler}");
    assert_eq!(calls_at(&target, "/work").len(), 1, "the failed work must not be repeated");
    let calls = calls_at(&target, "/failed");
    assert_eq!(calls.len(), 2, "the failed call of the handler must be retried");
    let message = "the service responded with 404 Not Found: unknown account";
    let error = format!(r#"{{"code":"CallRefused","message":"{message}"}}"#);
    let body = format!(r#"{{"error":{error},"input":{{"account":7}},"run":"{failed}"}}"#);
    let id = handler["id"].as_str().unwrap();
    for (call, attempt) in calls.iter().zip(["1", "2"]) {
        assert_eq!((call.body.as_str(), call.header("tidegate-attempt")), (&*body, attempt));
        assert_eq!(call.header("tidegate-failure-of"), failed);
        assert_eq!(call.header("tidegate-run"), id);
        assert_eq!(call.header("idempotency-key"), format!("{id}:call"));
        assert_eq!(call.header("webhook-id"), format!("{id}:call"));
        assert!(call.header("webhook-signature").starts_with("v1,"));
    }
    assert_eq!(calls_at(&target, "/work")[0].header("tidegate-failure-of"), "");
}

/// Failure handlers of actions get the input of the request, and those of batches get all events.
#[tokio::test]
async fn a_failure_carries_the_whole_input() {
    let target = target().await;
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"many\"\nurl = \"{url}/work\"\n\
         onFailure = {{ url = \"{url}/failed\" }}\n\
         retry = {{ backoffMs = 1 }}\nbatch = {{ maxSize = 2, timeoutMs = 60000 }}\n\
         [[flow]]\nname = \"chat\"\n\
         [flow.actions.say]\nurl = \"{url}/work\"\nretry = {{ backoffMs = 1 }}\n\
         onFailure = {{ url = \"{url}/said\" }}"
    ));
    let events = json!([{ "name": "many", "data": 1 }, { "name": "many", "data": [2] }]);
    let (status, _) = server.post("/events", events).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let request = json!({ "input": { "text": "hi" }, "session": "s", "user": "u" });
    let (_, answer) = server.post("/flows/chat/actions/say", request).await;
    let said = answer["requestId"].as_str().expect("a run").to_owned();
    handler_of(&server, &said).await;
    let body: Value = serde_json::from_str(&calls_at(&target, "/said")[0].body).unwrap();
    assert_eq!((&body["input"], &body["run"]), (&json!({ "text": "hi" }), &json!(said)));
    let many = calls_at(&target, "/work").into_iter().find(|call| call.body.starts_with('['));
    let many = many.expect("the batch").header("tidegate-run").to_owned();
    handler_of(&server, &many).await;
    let body: Value = serde_json::from_str(&calls_at(&target, "/failed")[0].body).unwrap();
    assert_eq!((&body["input"], &body["run"]), (&json!([1, [2]]), &json!(many)));
}

/// A boolean `onFailure` beside a URL would repeat the failed work, so it is refused in every kind
/// of definition.
#[tokio::test]
async fn a_flag_is_refused_beside_a_url() {
    let fix = r#"name the service that handles failures, `{"url": "https://…"}`"#;
    let server = Server::start("");
    let flagged = json!({ "url": "http://127.0.0.1:1/", "onFailure": true });
    let (status, answer) = server.put("/workflows/sync", flagged).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert!(answer["problems"][0]["message"].as_str().unwrap().contains(fix), "{answer}");
    let fields = "url = \"http://127.0.0.1:1/\", onFailure = true";
    for (config, subject) in [
        (format!("workflow = [{{ name = \"sync\", {fields} }}]"), "workflow `sync`"),
        (format!("[[flow]]\nname = \"f\"\nactions.a = {{ {fields} }}"), "action `f/a`"),
    ] {
        let said = Server::refused(&config);
        assert!(said.contains(subject) && said.contains(fix), "{said}");
    }
}

/// Stored definitions with a boolean `onFailure` can still be loaded. A failure of their runs
/// starts no handler, and a handler run that was created before the upgrade ends without a call.
#[tokio::test]
async fn a_stored_flag_calls_nobody() {
    let target = target().await;
    let url = &target.url;
    let mut server = Server::start_on_file("");
    let handler = format!("{url}/failed");
    let definition = json!({ "url": format!("{url}/work"), "onFailure": { "url": handler } });
    server.put("/workflows/sync", definition).await;
    target.shut("/failed", true);
    let failed = server.start_run("sync", json!(1)).await;
    target.called(2).await;
    server.kill();
    let database = Connection::open(server.file("tidegate.db")).unwrap();
    let stored = json!({ "url": handler }).to_string();
    let change = "update def set body = replace(body, ?1, 'true') where instr(body, ?1) > 0";
    assert_eq!(database.execute(change, [&stored]).unwrap(), 1, "the definition");
    drop(database);
    server.restart();
    let handler = handler_of(&server, &failed).await;
    assert_eq!(
        (&handler["state"], &handler["error"]["code"]),
        (&json!("failed"), &json!("NoFailureHandler"),)
    );
    let again = server.start_run("sync", json!(2)).await;
    server.until(&again, "failed").await;
    let (_, page) = server.get("/runs").await;
    assert_eq!(page["runs"].as_array().unwrap().len(), 3, "a handler was started: {page}");
    let paths: Vec<_> = target.calls().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/work", "/failed", "/work"]);
    let (_, answer) = server.get("/workflows/sync").await;
    assert_eq!(answer["definition"]["onFailure"], true);
}
