//! Overrides, pauses and the audit log over HTTP and from the command line.

use serde_json::{Value, json};

use crate::{server::Server, target::Target};

async fn ask(server: &Server, method: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = server.raw(method, path, &[], &body.to_string()).await.unwrap();
    (answer.status, answer.json())
}

fn config(url: &str) -> String {
    format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\n\
         concurrency = {{ limit = 5, key = \"account\" }}\n"
    )
}

/// An override is set, listed, previewed, undone and removed; it survives a restart, and every
/// change is in its history.
#[tokio::test]
async fn an_override_is_set_listed_and_undone() {
    let target = Target::kind().await;
    let mut server = Server::start_on_file(&config(&target.url));
    let of = json!({ "workflow": "sync", "control": "concurrency", "path": "account" });
    let with = |limit: u32| json!({ "target": of, "limit": limit, "reason": "slow" });
    let (status, seen) = ask(&server, "PUT", "/overrides?dryRun=true", with(2)).await;
    assert_eq!((status, &seen["after"]["limit"]), (200, &json!(2)), "{seen}");
    let (_, list) = server.get("/overrides").await;
    assert_eq!(list["overrides"], json!([]), "a dry run changes nothing");
    let mut body = with(2);
    body["ifEpoch"] = seen["epoch"].clone();
    let (status, set) = ask(&server, "PUT", "/overrides", body.clone()).await;
    assert_eq!(status, 200, "{set}");
    let (status, late) = ask(&server, "PUT", "/overrides", body).await;
    assert_eq!((status, &late["error"]), (409, &json!("epoch_changed")), "{late}");
    let (status, _) = ask(&server, "PUT", "/overrides", with(3)).await;
    assert_eq!(status, 200);
    let undone = json!({ "target": of });
    let (status, answer) = ask(&server, "POST", "/overrides/undo", undone.clone()).await;
    assert_eq!((status, &answer["after"]), (200, &set["after"]), "{answer}");
    server.kill();
    server.restart();
    let (_, list) = server.get("/overrides?workflow=sync&limit=1").await;
    assert_eq!((&list["overrides"][0], &list["next"]), (&set["after"], &json!(null)));
    let (status, answer) = ask(&server, "DELETE", "/overrides", undone.clone()).await;
    assert_eq!((status, &answer["before"]), (200, &set["after"]), "{answer}");
    let (status, answer) = ask(&server, "DELETE", "/overrides", undone).await;
    assert_eq!((status, &answer["error"]), (404, &json!("no_override")), "{answer}");
    let (_, history) = server.get("/overrides/history").await;
    let operations = history["changes"].as_array().unwrap().iter();
    let operations: Vec<&Value> = operations.map(|it| &it["operation"]).collect();
    assert_eq!(operations, ["removeOverride", "undoOverride", "setOverride", "setOverride"]);
}

/// Bad overrides are refused with their codes.
#[tokio::test]
async fn a_bad_override_gets_its_code() {
    let target = Target::kind().await;
    let server = Server::start(&config(&target.url));
    for (of, fields, code) in [
        (json!({ "workflow": "sync" }), json!({ "limit": 1 }), "bad_override"),
        (json!({ "workflow": "sync", "control": "throttle" }), json!({ "limit": 1 }), "bad_target"),
        (json!({ "workflow": "no" }), json!({ "paused": true }), "no_workflow"),
        (json!({ "workflow": "sync", "control": "x" }), json!({}), "bad_body"),
        (json!({ "workflow": "sync" }), json!({ "paused": true, "expiresAt": "soon" }), "bad_time"),
    ] {
        let mut body = fields;
        body["target"] = of;
        let (_, answer) = ask(&server, "PUT", "/overrides", body.clone()).await;
        assert_eq!(answer["error"], code, "{body}: {answer}");
    }
    let undo = json!({ "target": { "workflow": "sync" } });
    let (status, answer) = ask(&server, "POST", "/overrides/undo", undo).await;
    assert_eq!((status, &answer["error"]), (409, &json!("nothing_to_undo")));
    let (status, answer) = server.get("/overrides/history?target=sync").await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_query")));
}

/// The commands set, list and undo overrides, and pause and resume first starts.
#[tokio::test]
async fn overrides_are_changed_from_the_command_line() {
    let target = Target::kind().await;
    let server = Server::start(&config(&target.url));
    let run = |arguments: &[&str]| server.command(arguments).unwrap();
    let set = ["limit", "set", "sync", "concurrency", "--path", "account"];
    let said = run(&[&set[..], &["--key", "eu-*", "--limit", "2", "--reason", "slow"]].concat());
    assert_eq!(said, "before: no override\nafter: limit 2, reason slow\n");
    run(&[&set[..], &["--key", "eu-*", "--limit", "3", "--for-seconds", "600"]].concat());
    let said = run(&["limit", "list"]);
    let line = said.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with("sync      concurrency  account  eu-*  limit 3, expires"), "{said}");
    let said = run(&["limit", "undo", "sync", "concurrency", "--path", "account", "--key", "eu-*"]);
    assert!(said.ends_with("after: limit 2, reason slow\n"), "{said}");
    run(&["pause", "sync", "--reason", "provider is down"]);
    let paused = server.start_run("sync", json!({ "account": "a" })).await;
    let why = run(&["why", &paused]);
    assert!(why.contains("paused: provider is down"), "{why}");
    assert_eq!(target.calls().len(), 0, "a paused workflow starts no run");
    run(&["resume", "sync"]);
    server.until(&paused, "completed").await;
}

/// Every operation that changes something is in the audit log, with its author and address; inputs
/// and queries are not.
#[tokio::test]
async fn changes_are_in_the_audit_log() {
    let target = Target::kind().await;
    let server = Server::start(&config(&target.url));
    let run = server.start_run("sync", json!({ "account": "a" })).await;
    server.until(&run, "completed").await;
    server.post(&format!("/runs/{run}/replay"), "{}").await;
    ask(&server, "POST", "/runs/bulk", json!({ "action": "pause", "all": true })).await;
    let made = ask(&server, "POST", "/keys", json!({ "name": "ops" })).await.1;
    let text = made["key"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {text}");
    let headers = [("authorization", bearer.as_str())];
    let pause = json!({ "target": { "workflow": "sync" }, "paused": true }).to_string();
    let answer = server.raw("PUT", "/overrides", &headers, &pause).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    let gone = format!("/keys/{}", made["id"].as_str().unwrap());
    let log = server.raw("GET", "/audit", &headers, "").await.unwrap().json();
    let changes = log["changes"].as_array().unwrap();
    let operations: Vec<&Value> = changes.iter().map(|it| &it["operation"]).collect();
    assert_eq!(operations, ["setOverride", "makeKey", "bulk", "replayRun"], "{log}");
    assert_eq!(changes[0]["author"], "ops");
    assert_eq!(changes[0]["address"], "127.0.0.1");
    assert_eq!(changes[3]["subject"], format!("/runs/{run}/replay"));
    assert_eq!(changes[2]["after"], json!({ "action": "pause", "all": true }));
    assert!(!log.to_string().contains(&text), "the log has the secret of a key");
    let answer = server.raw("DELETE", &gone, &headers, "").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
}

/// A pool is overridden and paused, over HTTP and from the command line; a pause says when it has
/// drained.
#[tokio::test]
async fn a_pool_is_overridden_paused_and_drained() {
    let target = Target::kind().await;
    target.open(false);
    let config = format!(
        "[[pool]]\nname = \"api\"\nconcurrency = {{ limit = 5 }}\n\n\
         [[workflow]]\nname = \"sync\"\nurl = \"{}\"\nconcurrency = {{ pool = \"api\" }}\n",
        target.url
    );
    let server = Server::start(&config);
    let run = |arguments: &[&str]| server.command(arguments).unwrap();
    let inside = server.start_run("sync", json!({})).await;
    target.called(1).await;
    let said = run(&["pause", "--pool", "api", "--reason", "provider is down"]);
    assert_eq!(said, "before: no override\nafter: paused true, reason provider is down\n");
    let (_, list) = server.get("/overrides?pool=api").await;
    assert_eq!(list["overrides"][0]["target"], json!({ "pool": "api" }), "{list}");
    assert_eq!(list["overrides"][0]["drained"], false, "{list}");
    let waiting = server.start_run("sync", json!({})).await;
    let why = run(&["why", &waiting]);
    assert!(why.contains("pool `api`") && why.contains("paused: provider is down"), "{why}");
    target.open(true);
    server.until(&inside, "completed").await;
    let (_, list) = server.get("/overrides?pool=api").await;
    assert_eq!(list["overrides"][0]["drained"], true, "{list}");
    let (_, list) = server.get("/overrides?pool=other").await;
    assert_eq!(list["overrides"], json!([]));
    let resumed = json!({ "target": { "pool": "api" }, "paused": false });
    let (status, seen) = ask(&server, "PUT", "/overrides?dryRun=true", resumed).await;
    assert_eq!((status, &seen["effect"]), (200, &json!({ "enter": 1, "wait": 0 })), "{seen}");
    run(&["resume", "--pool", "api"]);
    server.until(&waiting, "completed").await;
    let said = run(&["limit", "set", "--pool", "api", "concurrency", "--limit", "2"]);
    assert_eq!(said, "before: no override\nafter: limit 2\n");
    let said = run(&["limit", "list", "--pool", "api"]);
    assert!(said.contains("pool api") && said.contains("limit 2"), "{said}");
    let closed = ["limit", "set", "sync", "--pool", "api", "throttle", "--limit", "1"];
    assert!(server.command(&closed).is_err(), "a workflow and a pool are not one target");
    let closing = ["limit", "set", "--pool", "api", "concurrency", "--close-for-seconds", "600"];
    assert!(run(&closing).contains("after: closedUntil 2"));
    assert_eq!(run(&["limit", "undo", "--pool", "api", "concurrency"]).lines().count(), 2);
    let body = json!({ "target": { "pool": "api" }, "closedUntil": "soon" });
    let (_, answer) = ask(&server, "PUT", "/overrides", body).await;
    assert_eq!(answer["error"], "bad_time", "{answer}");
}

/// A queue is purged by its target; the preview has the number of runs that are cancelled.
#[tokio::test]
async fn a_queue_is_purged_with_a_preview() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&config(&target.url));
    let of = json!({
        "workflow": "sync", "control": "concurrency", "path": "account", "key": "a",
    });
    let (status, _) = ask(&server, "PUT", "/overrides", json!({ "target": of, "limit": 1 })).await;
    assert_eq!(status, 200);
    let inside = server.start_run("sync", json!({ "account": "a" })).await;
    target.called(1).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(server.start_run("sync", json!({ "account": "a" })).await);
    }
    let body = json!({ "target": of, "reason": "flood" });
    let (status, seen) = ask(&server, "POST", "/overrides/purge?dryRun=true", body).await;
    assert_eq!((status, &seen["waiting"], &seen["id"]), (202, &json!(3), &Value::Null), "{seen}");
    let body = json!({ "target": of, "reason": "flood", "ifEpoch": seen["epoch"] });
    let (status, purged) = ask(&server, "POST", "/overrides/purge", body).await;
    assert_eq!((status, &purged["waiting"]), (202, &json!(3)), "{purged}");
    for run in &waiting {
        server.until(run, "cancelled").await;
    }
    let purge = ["limit", "purge", "sync", "concurrency", "--path", "account", "--key", "a"];
    let said = server.command(&[&purge[..], &["--dry-run"]].concat()).unwrap();
    assert_eq!(said, "0 runs wait\n");
    assert_eq!(server.command(&purge).unwrap(), "0 runs waited: 0 cancelled\n");
    let (status, answer) =
        ask(&server, "POST", "/overrides/purge", json!({ "target": { "workflow": "no" } })).await;
    assert_eq!((status, &answer["error"]), (404, &json!("no_workflow")), "{answer}");
    target.open(true);
    server.until(&inside, "completed").await;
}
