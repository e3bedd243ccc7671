//! Reactions over HTTP: positions, unblock and reset.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::{Engine, Reaction, ReactionCtx, StepError, StreamEvent, StreamQuery};
use tidegate_core::{json::Payload, stream::NewLogged};
use tidegate_store::{SqliteStore, SystemClock};

use crate::server::Server;

/// Creates the state that a program with reactions leaves: `mail` is blocked in `order-a` and
/// `order-b` and has finished `order-c`; `audit` has handled nothing.
async fn left_behind(path: &Path) {
    let store = SqliteStore::open(path, Arc::new(SystemClock)).await.unwrap();
    let mail = Reaction::new("mail").source("order-*").on_any(
        async |_: ReactionCtx, event: StreamEvent| match event.stream.as_str() {
            "order-c" => Ok(()),
            _ => Err(StepError::new("no such address").fatal()),
        },
    );
    let audit = Reaction::new("audit").source("audit-*").on_any(async |_: ReactionCtx, _| Ok(()));
    let engine = Engine::builder(Arc::new(store)).reaction(mail).reaction(audit).start().await;
    let engine = engine.unwrap();
    for stream in ["order-a", "order-b", "order-c"] {
        let event = |name: &str| {
            let (name, data, meta) = (name.to_owned(), Payload::null(), Payload::null());
            NewLogged { name, data, meta }
        };
        let events = vec![event("Opened"), event("Paid")];
        engine.streams().commit(stream, events, None).await.unwrap();
    }
    let settled = |page: &tidegate::StreamPage| {
        let done = |at: &tidegate::StreamView| at.blocked.is_some() || at.position == at.want;
        page.streams.iter().filter(|at| done(at)).count() == 3
    };
    while !settled(&engine.query_streams(&StreamQuery::default()).await.unwrap()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.shutdown().await;
}

async fn server() -> Server {
    let folder: TempDir = tempfile::tempdir().unwrap();
    left_behind(&folder.path().join("tidegate.db")).await;
    Server::start_in(folder, "")
}

/// Returns the names of the streams in an answer, which lists strings or objects.
fn streams(answer: &Value) -> Vec<&str> {
    let all = answer["streams"].as_array().unwrap_or_else(|| panic!("{answer}"));
    all.iter().map(|at| at.get("stream").unwrap_or(at).as_str().unwrap()).collect()
}

/// spec reactions: each position shows its progress and the error that blocks it. Blocked positions
/// are found by a filter and continue after `unblock`. A reset of all streams must be explicit.
#[tokio::test]
async fn what_is_stuck_is_found_and_mended() {
    let server = server().await;
    let (_, answer) = server.get("/reactions").await;
    let names: Vec<_> =
        answer["reactions"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(json!(names), json!(["audit", "mail"]));
    assert_eq!(answer["reactions"][1]["source"], "order-*");
    assert_eq!(streams(&answer), ["order-a", "order-b", "order-c"]);
    let stuck = &answer["streams"][0];
    assert_eq!(
        (&stuck["version"], &stuck["lag"], &stuck["failures"]),
        (&json!(-1), &json!(2), &json!(1))
    );
    assert!(stuck["blocked"].as_str().unwrap().contains("no such address"), "{stuck}");
    assert_eq!(
        (&answer["streams"][2]["lag"], &answer["streams"][2]["blocked"]),
        (&json!(0), &json!(null))
    );
    for (query, expected) in [
        ("blocked=true", vec!["order-a", "order-b"]),
        ("stream=-b$&source=order-*", vec!["order-b"]),
        ("source=other", vec![]),
        ("reaction=audit", vec![]),
    ] {
        let (_, answer) = server.get(&format!("/reactions?{query}")).await;
        assert_eq!(streams(&answer), expected, "{query}");
    }
    let (_, first) = server.get("/reactions?limit=2").await;
    let cursor = first["next"].as_str().unwrap().replace('"', "%22");
    let (_, second) = server.get(&format!("/reactions?limit=2&cursor={cursor}")).await;
    assert_eq!((streams(&second), &second["next"]), (vec!["order-c"], &json!(null)));

    let mend = |what: &'static str, body: Value| {
        let server = &server;
        async move { server.post(&format!("/reactions/mail/{what}"), body).await.1 }
    };
    let answer =
        mend("unblock?dryRun=true", json!({ "streams": ["order-b", "order-c", "none"] })).await;
    assert_eq!((streams(&answer), &answer["dryRun"]), (vec!["order-b"], &json!(true)));
    assert_eq!(streams(&mend("unblock", json!({ "stream": "^order-a" })).await), ["order-a"]);
    assert_eq!(
        streams(&mend("unblock", json!({})).await),
        ["order-b"],
        "without a selection all blocked streams must be unblocked"
    );
    assert_eq!(mend("reset", json!({})).await["error"], "reset_needs_all");
    assert_eq!(streams(&mend("reset", json!({ "streams": ["order-c"] })).await), ["order-c"]);
    let (_, answer) = server.get("/reactions?stream=order-c").await;
    assert_eq!(
        (&answer["streams"][0]["version"], &answer["streams"][0]["lag"]),
        (&json!(-1), &json!(2))
    );
    let answer = mend("reset", json!({ "all": true })).await;
    assert_eq!(streams(&answer), ["order-a", "order-b", "order-c"]);
}

/// A request that selects streams in two ways is refused.
#[tokio::test]
async fn what_is_not_clear_is_refused() {
    let server = server().await;
    for (path, body, status, code) in [
        ("mail/reset", json!({ "all": true, "stream": "a" }), 422, "bad_body"),
        ("mail/reset", json!({ "al": true }), 422, "bad_body"),
        ("mail/unblock", json!({ "stream": "order-*" }), 422, "bad_stream_filter"),
        ("post/unblock", json!({}), 404, "no_reaction"),
    ] {
        let (got, answer) = server.post(&format!("/reactions/{path}"), body).await;
        assert_eq!((got.as_u16(), &answer["error"]), (status, &json!(code)), "{answer}");
    }
    let (status, answer) = server.get("/reactions?cursor=x").await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_query")));
}
