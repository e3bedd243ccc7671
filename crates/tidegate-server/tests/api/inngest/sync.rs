//! Registration and sync.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{app, definition, function, message, register, runs, send};
use crate::{server::Server, target::Target};

/// S1, S2: a registration defines workflows; the same one again changes nothing.
#[tokio::test]
async fn an_app_is_registered_once() {
    let server = Server::start("");
    let body = app(&[function("pay", json!({ "concurrency": 2 })), function("ship", json!({}))]);
    assert_eq!(
        register(&server, &body).await,
        (StatusCode::OK, json!({ "ok": true, "modified": true }))
    );
    let (_, list) = server.get("/workflows").await;
    let names: Vec<_> =
        list["workflows"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["pay", "ship"]);
    let url = "http://127.0.0.1:9/api/inngest?fnId=shop-pay&stepId=step";
    assert_eq!(
        (&list["workflows"][0]["app"], &list["workflows"][0]["url"]),
        (&json!("shop"), &json!(url))
    );
    let again = register(&server, &body).await;
    assert_eq!(again, (StatusCode::OK, json!({ "ok": true, "modified": false })));
    let versions = server.get("/workflows/pay?app=shop").await.1["versions"].clone();
    assert_eq!(versions, json!([1]));
}

/// S3, S4: SDKs spell and nest the same function differently.
#[tokio::test]
async fn the_sdks_give_the_same_definition() {
    let server = Server::start("");
    let js = function(
        "pay",
        json!({
            "concurrency": [{ "limit": 2, "key": "event.data.id" }], "batchEvents": null,
            "singleton": { "mode": "skip" }, "throttle": { "limit": 3, "period": "1h" },
        }),
    );
    assert_eq!(register(&server, &app(std::slice::from_ref(&js))).await.0, StatusCode::OK);
    let python = function(
        "pay",
        json!({
            "concurrency": [{ "limit": 2, "key": "event.data.id", "scope": null }], "batch_events": null,
            "Singleton": { "mode": "skip", "key": null }, "cancel": [], "debounce": null,
            "throttle": { "limit": 3, "period": "1h0m0s", "burst": null },
        }),
    );
    let mut go = python.clone();
    go["steps"]["step"].as_object_mut().unwrap().remove("retries");
    (go["retries"], go["idempotency"]) = (json!(4), json!(""));
    for function in [python, go] {
        let body = json!({
            "url": "http://h", "appname": "shop", "deploy_type": "ping", "sdk": "js:v4.24.0",
            "functions": [function],
        });
        let answer = register(&server, &body).await;
        assert_eq!(answer, (StatusCode::OK, json!({ "ok": true, "modified": false })));
    }
}

/// S5: a function that is gone is retired, and its runs go on; it can come back.
#[tokio::test]
async fn a_function_that_is_gone_starts_nothing_more() {
    let server = Server::start("");
    let (pay, ship) = (function("pay", json!({})), function("ship", json!({})));
    register(&server, &app(&[pay.clone(), ship.clone()])).await;
    send(&server, &[], &json!({ "name": "shop/ship" })).await;
    assert_eq!(runs(&server, "ship").await, 1);
    let less = register(&server, &app(std::slice::from_ref(&pay))).await;
    assert_eq!(less.1["modified"], true);
    assert_eq!(definition(&server, "ship").await, Value::Null);
    send(&server, &[], &json!({ "name": "shop/ship" })).await;
    assert_eq!(runs(&server, "ship").await, 1);
    let again = register(&server, &app(std::slice::from_ref(&pay))).await;
    assert_eq!(again.1["modified"], false);
    let back = register(&server, &app(&[pay, ship])).await;
    assert_eq!(back.1["modified"], true);
    send(&server, &[], &json!({ "name": "shop/ship" })).await;
    assert_eq!(runs(&server, "ship").await, 2);
}

/// S6: a refused control is told with status 400 and a sentence, and nothing is registered.
#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let server =
        Server::start("[[workflow]]\napp = \"shop\"\nname = \"own\"\nurl = \"http://h\"\n");
    let good = function("pay", json!({}));
    for (bad, said) in [
        (json!({ "throttle": { "limit": 0, "period": "1s" } }), "throttle.limit must be"),
        (json!({ "triggers": [{ "cron": "61 * * * *" }] }), "61"),
        (json!({ "triggers": [{ "cron": "TZ=Mars/Base 0 * * * *" }] }), "Mars/Base"),
        (
            json!({ "debounce": { "period": "1s", "key": "event.data.(" } }),
            "debounce.key has an error",
        ),
    ] {
        let body = app(&[good.clone(), function("bad", bad)]);
        let said_by_server = message(register(&server, &body).await, StatusCode::BAD_REQUEST);
        assert!(said_by_server.contains(said), "{said_by_server}");
    }
    let taken = app(&[function("own", json!({}))]);
    let error = message(register(&server, &taken).await, StatusCode::BAD_REQUEST);
    assert!(error.contains("has a workflow `own` that no SDK has registered"), "{error}");
    assert_eq!(definition(&server, "pay").await, Value::Null);
    let garbage = message(register(&server, &json!("x")).await, StatusCode::BAD_REQUEST);
    assert_eq!(garbage, "the configuration must be an object, got \"x\"");
}

/// Functions of all apps that name the same key share one limit.
#[tokio::test]
async fn functions_share_a_limit_by_their_key() {
    let server = Server::start("");
    let limit = json!({ "concurrency": { "limit": 1, "scope": "env", "key": "'openai'" } });
    let both = app(&[function("pay", limit.clone()), function("ship", limit)]);
    assert_eq!(register(&server, &both).await.0, StatusCode::OK);
    let (_, pool) = server.get("/pools/env%20'openai'").await;
    assert_eq!(pool["concurrency"]["limit"], 1, "{pool}");
}

const SDK: (&str, &str) = ("x-inngest-sdk", "js:v4.24.0");

fn settings(target: &Target, path: &str) -> String {
    format!("[inngest]\napps = [\"{}{path}\"]\n", target.url)
}

/// S7: an SDK that registers in band answers with its functions.
#[tokio::test]
async fn an_app_is_synced_in_band() {
    let mut body = app(&[function("pay", json!({}))]);
    let members = body.as_object_mut().unwrap();
    let name = members.remove("appName").unwrap();
    members.insert("app_id".to_owned(), name);
    let text = body.to_string();
    let target = Target::start(move |_, _| {
        (200, vec![SDK, ("x-inngest-sync-kind", "in_band")], text.clone())
    });
    let target = target.await;
    let server = Server::start(&settings(&target, "/api/inngest"));
    while definition(&server, "pay").await.is_null() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let call = &target.calls()[0];
    assert_eq!(call.path, "/api/inngest");
    assert_eq!(call.body, json!({ "url": format!("{}/api/inngest", target.url) }).to_string());
    let sent = ["x-inngest-sync-kind", "x-inngest-server-kind", "x-inngest-signature"];
    assert_eq!(sent.map(|name| call.header(name)), ["in_band", "dev", ""]);
}

/// An app may name its environment, which is a workspace of the server.
#[tokio::test]
async fn an_app_is_synced_into_its_environment() {
    let text = app(&[function("pay", json!({}))]).to_string();
    let target = Target::start(move |_, _| {
        (200, vec![SDK, ("x-inngest-sync-kind", "in_band")], text.clone())
    });
    let target = target.await;
    let config = |name: &str| {
        let apps = format!("[inngest]\napps = [\"{name}={}/api/inngest\"]\n", target.url);
        format!("workspaces = [\"staging\"]\nlog = \"info\"\n{apps}")
    };
    let server = Server::start_with(&config("staging"), &[("TIDEGATE_LOG", "info")]);
    server.logged("app `shop` in `staging`: 1 function: pay").await;
    let there = server.raw("GET", "/workflows", &[("tidegate-workspace", "staging")], "").await;
    assert_eq!(there.unwrap().json()["workflows"][0]["name"], "pay");
    assert_eq!(server.get("/workflows").await.1["workflows"], json!([]));
    let said = Server::refused(&config("other"));
    assert!(said.contains("no environment `other`: add it to `workspaces`"), "{said}");
}

/// A URL without a path is that of a framework, which serves the SDK at a known path.
#[tokio::test]
async fn the_path_of_an_app_is_found() {
    let text = app(&[function("pay", json!({}))]).to_string();
    let target = Target::start(move |call, _| match call.path.as_str() {
        "/x/inngest" => (200, vec![SDK, ("x-inngest-sync-kind", "in_band")], text.clone()),
        _ => (404, vec![], "no such page".to_owned()),
    });
    let target = target.await;
    let server = Server::start(&settings(&target, ""));
    while definition(&server, "pay").await.is_null() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// An app that cannot be synced is named in the log with the reason, once.
#[tokio::test]
async fn a_failed_sync_is_explained() {
    for (status, headers, body, said) in [
        (
            500,
            vec![SDK],
            r#"{"message":"Signature verification failed"}"#,
            "500 Internal Server Error: Signature verification failed",
        ),
        (404, vec![], "nothing", "404 Not Found, and not from an Inngest SDK"),
        (200, vec![], "<html>", "200 OK, but not from an Inngest SDK"),
        (200, vec![SDK, ("x-inngest-sync-kind", "in_band")], "{", "the registration is not JSON"),
        (302, vec![("location", "http://127.0.0.1:1/")], "", "302 Found, and not from"),
    ] {
        let target = Target::start(move |_, _| (status, headers.clone(), body.to_owned())).await;
        let config = format!("log = \"info\"\n{}", settings(&target, "/api/inngest"));
        let server = Server::start_with(&config, &[("TIDEGATE_LOG", "info")]);
        server.logged(said).await;
    }
    let config = "[inngest]\napps = \"http://127.0.0.1:9/api/inngest\"\n";
    let server = Server::start_with(config, &[("TIDEGATE_LOG", "info")]);
    server.logged("no answer (Connection refused (os error 111)): is the app running?").await;
    let said = Server::refused("[inngest]\napps = \"localhost\"\n");
    assert!(
        said.contains("`inngest.apps` must be URLs or ENVIRONMENT=URL, got `localhost`"),
        "{said}"
    );
}

/// S8: registrations are durable.
#[tokio::test]
async fn a_registration_survives_a_crash() {
    let mut server = Server::start("");
    register(&server, &app(&[function("pay", json!({}))])).await;
    server.crash_and_restart();
    assert_eq!(definition(&server, "pay").await["triggers"], json!(["shop/pay"]));
    send(&server, &[], &json!({ "name": "shop/pay" })).await;
    assert_eq!(runs(&server, "pay").await, 1);
}

/// S15: wildcards and expressions select events; one run for a function and an event.
#[tokio::test]
async fn triggers_select_events() {
    let server = Server::start("");
    let triggers = json!({ "triggers": [
        { "event": "a/*" }, { "event": "a/b" }, { "event": "c", "expression": "event.data.n > 1" },
        { "event": "d", "expression": "event.data.plan != 'free' && event.user.admin" },
    ] });
    assert_eq!(register(&server, &app(&[function("pay", triggers)])).await.0, StatusCode::OK);
    let mut started = 0;
    for (event, starts) in [
        (json!({ "name": "a/b" }), 1),
        (json!({ "name": "a" }), 0),
        (json!({ "name": "c", "data": { "n": 2 } }), 1),
        (json!({ "name": "c", "data": { "n": 1 } }), 0),
        // A missing path is null, and never an error.
        (json!({ "name": "c" }), 0),
        (json!({ "name": "c", "data": { "n": "text" } }), 0),
        (json!({ "name": "d", "user": { "admin": true } }), 1),
        (json!({ "name": "d", "user": { "admin": true }, "data": { "plan": "free" } }), 0),
        (json!({ "name": "d", "data": { "plan": "pro" } }), 0),
    ] {
        assert_eq!(send(&server, &[], &event).await.0, StatusCode::OK);
        started += starts;
        assert_eq!(runs(&server, "pay").await, started, "{event}");
    }
}
