//! Sessions over HTTP: changed by clients, and as steps of a run.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{server::Server, target::Target};

const CHAT: &str = "/sessions/chat/s1";

/// spec sessions: operations on a document that has a version. An operation with a wrong
/// `expectedVersion` has no effect.
#[tokio::test]
async fn a_session_is_read_and_changed_from_outside() {
    let server = Server::start("");
    let (_, answer) = server.get(CHAT).await;
    assert_eq!((&answer["version"], &answer["state"]), (&json!(0), &json!(null)));
    let text = r#"{"op": "set", "path": ["a.b", "n"], "value": { "x": 1.10 }}"#;
    server.patch(CHAT, None, serde_json::from_str(text).unwrap()).await;
    for (change, version, value) in [
        (json!({ "op": "append", "path": "log", "value": "hi" }), 2, json!(1)),
        (json!({ "op": "increment", "path": "count", "by": 2 }), 3, json!(2)),
        (json!({ "op": "merge", "value": { "log": null } }), 4, json!(null)),
        (json!({ "op": "get", "path": "count" }), 4, json!(2)),
        (json!({ "op": "set", "path": "x", "value": null, "expectedVersion": 4 }), 5, json!(null)),
    ] {
        let (status, answer) = server.patch(CHAT, None, change.clone()).await;
        assert_eq!((status, &answer["version"]), (StatusCode::OK, &json!(version)), "{answer}");
        assert!(change["op"] == "merge" || answer["value"] == value, "{change}: {answer}");
    }
    let (_, answer) = server.get(CHAT).await;
    assert_eq!(answer["state"], json!({ "a.b": { "n": { "x": 1.1 } }, "count": 2, "x": null }));
    for (change, status, code, said) in [
        (
            json!({ "op": "set", "value": 1, "expectedVersion": 3 }),
            409,
            "session_changed",
            "at version 5",
        ),
        (
            json!({ "op": "append", "path": "count", "value": 1 }),
            422,
            "session_type_mismatch",
            "`count`",
        ),
        (json!({ "op": "drop" }), 422, "bad_body", "got `drop`"),
        (json!({ "op": "set" }), 422, "bad_body", "`set` takes `path` and `value`"),
        (json!({ "op": "get", "path": "a..b" }), 422, "bad_body", "got `a..b`"),
        (json!({ "op": "get", "step": "a" }), 422, "bad_body", "`Tidegate-Run` is missing"),
    ] {
        let (got, answer) = server.patch(CHAT, None, change).await;
        assert_eq!((got.as_u16(), &answer["error"]), (status, &json!(code)), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
    }
    let (_, answer) = server.get(CHAT).await;
    assert_eq!(answer["version"], 5, "refused operations must not change the version");
}

/// spec sessions, replace: a called service changes the session as steps of its run. Each step
/// takes effect once; under `restart` the changes are staged until the run ends, and discarded if
/// the run is replaced.
#[tokio::test]
async fn a_called_service_changes_the_session_as_the_run() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&format!(
        "[[workflow]]\nflow = \"chat\"\nname = \"respond\"\nurl = \"{}\"\nconcurrency = \"restart\"",
        target.url
    ));
    let call = json!({ "input": "hi", "session": "s1" });
    let (_, answer) = server.post("/flows/chat/actions/respond", &call).await;
    let first = answer["requestId"].as_str().unwrap().to_owned();
    target.called(1).await;
    let append = |step: &str, what: &str| json!({ "op": "append", "path": "log", "value": what, "step": step });
    let (status, answer) = server.patch(CHAT, Some(&first), append("a", "old")).await;
    assert_eq!((status, &answer["value"]), (StatusCode::OK, &json!(1)), "{answer}");
    let (_, answer) = server.post("/flows/chat/actions/respond", &call).await;
    let second = answer["requestId"].as_str().unwrap().to_owned();
    target.called(2).await;
    let (status, answer) = server.patch(CHAT, Some(&first), append("b", "torn")).await;
    assert_eq!(status, StatusCode::CONFLICT, "a step of a replaced run must be refused: {answer}");
    for _ in 0..2 {
        let (_, answer) = server.patch(CHAT, Some(&second), append("a", "new")).await;
        assert_eq!(answer["value"], 1, "a repeated step must take effect once: {answer}");
    }
    let get = json!({ "op": "get", "step": "look" });
    let (_, answer) = server.patch(CHAT, Some(&second), get).await;
    assert_eq!(answer["value"], json!({ "log": ["new"] }), "the run must see its staged changes");
    let misfit = json!({ "op": "increment", "path": "log", "by": 1, "step": "c" });
    let (status, answer) = server.patch(CHAT, Some(&second), misfit).await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("session_type_mismatch")));
    let (_, answer) = server.get(CHAT).await;
    assert_eq!(
        (&answer["version"], &answer["state"]),
        (&json!(0), &Value::Null),
        "other clients must not see staged changes"
    );
    target.open(true);
    server.until(&second, "completed").await;
    let (_, answer) = server.get(CHAT).await;
    assert_eq!((&answer["version"], &answer["state"]), (&json!(1), &json!({ "log": ["new"] })));
    let (status, answer) = server.patch(CHAT, Some(&second), append("d", "late")).await;
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("run_ended")));
    let (status, _) = server.patch(CHAT, Some(&second), json!({ "op": "get" })).await;
    assert_eq!(status.as_u16(), 422, "a step without a name must be refused");
}

/// A step with a wrong `expectedVersion` has no effect.
#[tokio::test]
async fn a_step_changes_the_version_that_it_expects() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&format!(
        "[[workflow]]\nflow = \"chat\"\nname = \"respond\"\nurl = \"{}\"\nconcurrency = \"queue\"",
        target.url
    ));
    let (_, answer) = server.post("/flows/chat/actions/respond", json!({ "session": "s1" })).await;
    let run = answer["requestId"].as_str().unwrap().to_owned();
    target.called(1).await;
    server.patch(CHAT, None, json!({ "op": "set", "value": { "by": "another" } })).await;
    let set = |step: &str, version: i64| json!({ "op": "set", "value": { "by": step }, "step": step, "expectedVersion": version });
    let (status, answer) = server.patch(CHAT, Some(&run), set("late", 0)).await;
    assert_eq!((status.as_u16(), &answer["error"]), (409, &json!("session_changed")), "{answer}");
    let (status, answer) = server.patch(CHAT, Some(&run), set("right", 1)).await;
    assert_eq!((status.as_u16(), &answer["version"]), (200, &json!(2)), "{answer}");
    assert_eq!(server.get(CHAT).await.1["state"], json!({ "by": "right" }));
    target.open(true);
}

/// The default app of a request is that of the server's config file, in every operation on flows,
/// sessions and definitions. A step of a run uses the app of the run.
#[tokio::test]
async fn the_app_of_the_file_is_meant_unless_one_is_named() {
    let target = Target::kind().await;
    target.open(false);
    let (url, chat) = (&target.url, "[[flow]]\nname = \"chat\"\n");
    let server = Server::start(&format!(
        "app = \"shop\"\n{chat}actions.respond = {{ url = \"{url}\" }}\n\
         [[flow]]\nname = \"talk\"\napp = \"club\"\nactions.respond = {{ url = \"{url}\" }}\n"
    ));
    let state = async |path: &str| server.get(path).await.1["state"].clone();
    let set = |value: &str| json!({ "op": "set", "value": value });
    server.patch(CHAT, None, set("outside")).await;
    assert_eq!(state("/sessions/chat/s1?app=shop").await, "outside");
    assert_eq!(state("/sessions/chat/s1?app=default").await, json!(null));
    for (n, flow) in ["chat?", "talk?app=club"].into_iter().enumerate() {
        let (flow, query) = flow.split_once('?').unwrap();
        let path = format!("/flows/{flow}/actions/respond?{query}");
        let (status, answer) = server.post(&path, json!({ "session": "s1" })).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        target.called(n + 1).await;
        let path = format!("/sessions/{flow}/s1");
        let step = json!({ "op": "set", "value": "inside", "step": "a" });
        let run = answer["requestId"].as_str().unwrap();
        let (status, answer) = server.patch(&path, Some(run), step).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(state(&format!("{path}?{query}")).await, "inside", "{flow}");
    }
    let definition = json!({ "url": url });
    assert_eq!(server.put("/workflows/w", definition.clone()).await.1["app"], "shop");
    let changed = json!({ "url": url, "timeoutMs": 1000 });
    assert_eq!(server.put("/workflows/w", changed).await.1["version"], 2);
    assert!(server.command(&["release", "w", "1"]).is_ok());
    assert_eq!(server.get("/workflows/w?app=shop").await.1["version"], 1);
    assert!(server.command(&["workflows", "delete", "w"]).is_ok());
    assert_eq!(server.get("/workflows/w").await.0, StatusCode::NOT_FOUND);
}

/// spec sessions: a step is one operation. A request that uses the step's id for another operation,
/// path or session is refused. If only the value differs, the first value counts.
#[tokio::test]
async fn a_step_is_not_used_for_another_operation() {
    let target = Target::kind().await;
    target.open(false);
    for policy in ["queue", "restart"] {
        let server = Server::start(&format!(
            "[[workflow]]\nflow = \"chat\"\nname = \"respond\"\nurl = \"{}\"\nconcurrency = \"{policy}\"",
            target.url
        ));
        let before = target.calls().len();
        let (_, answer) =
            server.post("/flows/chat/actions/respond", json!({ "session": "s1" })).await;
        let run = answer["requestId"].as_str().unwrap().to_owned();
        target.called(before + 1).await;
        let change = |op: &str, path: &str, value: i32| json!({ "op": op, "path": path, "value": value, "step": "a" });
        for value in [1, 2] {
            let (status, answer) =
                server.patch(CHAT, Some(&run), change("append", "log", value)).await;
            assert_eq!(
                (status, &answer["value"]),
                (StatusCode::OK, &json!(1)),
                "{policy}: {answer}"
            );
        }
        for (path, change) in [
            (CHAT, change("set", "log", 1)),
            (CHAT, change("append", "other", 1)),
            ("/sessions/chat/s2", change("append", "log", 1)),
            (CHAT, json!({ "op": "get", "path": "log", "step": "a" })),
        ] {
            let (status, answer) = server.patch(path, Some(&run), change.clone()).await;
            assert_eq!(
                (status.as_u16(), &answer["error"]),
                (409, &json!("step_mismatch")),
                "{answer}"
            );
            let said = "step `session:a` is recorded as append at `log` of session default/chat/s1";
            assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
        }
        let get = json!({ "op": "get", "path": "log", "step": "look" });
        let (_, answer) = server.patch(CHAT, Some(&run), get).await;
        assert_eq!(
            answer["value"],
            json!([1]),
            "{policy}: only the first operation must have an effect"
        );
    }
    target.open(true);
}

/// The maximum lengths of session ids and users apply to every kind of request.
#[tokio::test]
async fn names_have_the_lengths_of_the_description() {
    let target = Target::kind().await;
    let server = Server::start_with(
        &format!(
            "[[flow]]\nname = \"chat\"\nchat = {{ append = \"say\", respond = \"say\" }}\n\
             actions.say = {{ url = \"{}\" }}\n\
             webhooks.hook = {{ action = \"say\", scheme = \"hmac\", secretEnv = \"HOOK\", user = \"user\" }}",
            target.url
        ),
        &[("HOOK", "s")],
    );
    let (longest, long) = ("ü".repeat(256), "x".repeat(257));
    let say = "/flows/chat/actions/say";
    for (path, body, status, said) in [
        (say.to_owned(), json!({ "session": longest, "user": longest }), 202, ""),
        (say.to_owned(), json!({ "session": long }), 422, "session must have 1 to 256"),
        (
            say.to_owned(),
            json!({ "user": long }),
            422,
            "user must have 1 to 256 characters, got 257",
        ),
        (say.to_owned(), json!({ "session": "" }), 422, "session must have 1 to 256"),
        (say.to_owned(), json!({ "user": "a\u{0}" }), 422, "user must not contain NUL"),
        (format!("{say}?dryRun=true"), json!({ "user": long }), 422, "user must have"),
        (format!("/flows/chat/sessions/{long}/messages"), json!({}), 422, "session must have"),
        ("/flows/chat/sessions/%00/messages".to_owned(), json!({}), 422, "must not contain NUL"),
    ] {
        let (got, answer) = server.post(&path, body).await;
        assert_eq!(got.as_u16(), status, "{path}: {answer}");
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(said), "{path}: {answer}");
    }
    let (_, runs) = server.get("/runs").await;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}
