//! Workflows over HTTP: define, delete, release.

use reqwest::StatusCode;
use serde_json::json;

use crate::{server::Server, target::Target};

/// spec retired: events start no run of a deleted workflow, but its runs continue under its limit.
/// When it is defined again, its version numbers continue.
#[tokio::test]
async fn a_workflow_is_deleted_and_comes_back() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start("");
    let definition = |limit: u32| json!({ "url": target.url, "concurrency": { "limit": limit } });
    server.put("/workflows/sync", definition(1)).await;
    let first = server.start_run("sync", json!(1)).await;
    let second = server.start_run("sync", json!(2)).await;
    target.called(1).await;
    let (status, answer) = server.delete("/workflows/sync").await;
    assert_eq!((status, &answer["live"]), (StatusCode::OK, &json!(2)));
    let (status, answer) = server.get("/workflows/sync").await;
    assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("no_workflow")));
    assert_eq!(server.get("/workflows").await.1["workflows"], json!([]));
    let (_, answer) = server.post("/events", json!({ "name": "sync" })).await;
    assert_eq!(answer["events"][0]["runs"], json!([]));
    let (status, _) = server.delete("/workflows/sync").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, why) = server.get(&format!("/runs/{second}/why")).await;
    assert_eq!((&why["state"], &why["gates"][0]["holders"]), (&json!("queued"), &json!([first])));
    target.open(true);
    for run in [&first, &second] {
        server.until(run, "completed").await;
    }
    assert_eq!(server.get("/runs?workflow=sync").await.1["runs"].as_array().unwrap().len(), 2);
    let (_, answer) = server.put("/workflows/sync", definition(2)).await;
    assert_eq!(answer["version"], 2);
    let run = server.start_run("sync", json!(3)).await;
    assert_eq!(server.until(&run, "completed").await["version"], 2);
    server.delete("/workflows/sync").await;
    server.post("/workflows/sync/release", json!({ "version": 1 })).await;
    assert_eq!(
        server.get("/workflows/sync").await.1["version"],
        1,
        "a release must restore a deleted workflow too"
    );
}

/// Names and URLs of a definition are validated in the config file and over HTTP.
#[tokio::test]
async fn what_cannot_be_called_cannot_be_defined() {
    let server = Server::start("");
    for (name, definition, said) in [
        ("a", json!({ "url": "http://h\r\nx: y" }), "url must not contain spaces, control"),
        ("a", json!({ "url": "http://h/\u{7f}" }), "url must not contain spaces, control"),
        ("a", json!({ "url": "http://h:99999" }), "url must have a port from 1 to 65535"),
        ("a", json!({ "url": "http://[::1" }), "url must close the `[` of its host"),
        ("a", json!({ "url": "ftp://h" }), "url must begin with `http://` or `https://`"),
        ("a", json!({ "url": "http://1.2.3.999" }), "url is not a valid URL: invalid IPv4"),
        (
            "a",
            json!({ "url": "http://h", "onFailure": { "url": "http://h:x" } }),
            "onFailure.url must have a port",
        ),
        ("a%0D%0Ab", json!({ "url": "http://h" }), "name must not contain control characters"),
        ("a%7F", json!({ "url": "http://h" }), "name must not contain control characters"),
        ("a", json!({ "url": "http://h", "triggers": ["b\n"] }), "triggers[0].event must not"),
    ] {
        let (status, answer) = server.put(&format!("/workflows/{name}"), &definition).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (422, &json!("bad_definition")),
            "{answer}"
        );
        assert!(answer["detail"].as_str().unwrap().contains(said), "{definition}: {answer}");
        if name == "a" {
            let url = definition["url"].to_string().replace('\u{7f}', "\\u007f");
            let file = format!("[[workflow]]\nname = \"a\"\nurl = {url}\n");
            let failed = Server::refused(&(file + &toml_of(&definition)));
            assert!(failed.contains(said), "{definition}: {failed}");
        }
    }
    let (status, answer) = server.put("/workflows/a", json!({ "url": "HTTP://localhost" })).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

/// Returns further fields of a definition as TOML.
fn toml_of(definition: &serde_json::Value) -> String {
    let on_failure = definition["onFailure"]["url"].as_str();
    let on_failure = on_failure.map(|url| format!("onFailure = {{ url = \"{url}\" }}\n"));
    let triggers = definition.get("triggers").map(|list| format!("triggers = {list}\n"));
    on_failure.into_iter().chain(triggers).collect()
}

/// Passwords in the URLs of a definition are redacted wherever it is shown or logged.
#[tokio::test]
async fn user_info_in_urls_is_hidden_from_readers() {
    let target = Target::kind().await;
    let place = target.url.strip_prefix("http://").unwrap();
    let workflow = |name: &str, path: &str| {
        format!(
            "[[workflow]]\nname = \"{name}\"\nurl = \"http://me:canary@{place}/{path}\"\n\
             onFailure = {{ url = \"http://me:canary@{place}/failed\" }}\n"
        )
    };
    let variables = [("TIDEGATE_LOG", "debug")];
    let server = Server::start_with(&workflow("a", "a"), &variables);
    let run = server.start_run("a", json!(1)).await;
    server.until(&run, "completed").await;
    let [call] = &target.calls()[..] else { panic!("it is called once") };
    assert_eq!(
        call.header("authorization"),
        "Basic bWU6Y2FuYXJ5",
        "the call must have the password"
    );
    server.reload(&workflow("a", "b"));
    server.logged("config file reloaded").await;
    server.reload(&(workflow("a", "c") + &workflow("b", "d e")));
    server.logged("nothing was changed").await;
    let run = server.start_run("a", json!(1)).await;
    let (_, described) = server.get("/openapi.json").await;
    let paths = described["paths"].as_object().unwrap().iter();
    let paths = paths.filter(|(path, methods)| {
        let documents = &methods["get"]["responses"]["200"]["content"]["application/json"];
        !documents.is_null() && !path.contains("{id}/") && *path != "/ready"
    });
    let filled = paths.map(|(path, _)| path.replace("{name}", "a").replace("{id}", &run));
    for path in filled.filter(|path| !path.contains('{')) {
        let text = server.text(&path).await;
        assert!(!text.contains("canary"), "{path}: {text}");
    }
    let (_, reply) = server.get("/workflows/a").await;
    let shown = format!("http://***@{place}/b");
    assert_eq!((&reply["url"], &reply["definition"]["url"]), (&json!(shown), &json!(shown)));
    // A redacted definition is refused when it is written back, so that a password is not lost by
    // mistake.
    let (status, reply) = server.put("/workflows/a", &reply["definition"]).await;
    assert_eq!(status.as_u16(), 422, "{reply}");
    assert!(reply["detail"].as_str().unwrap().contains("user info written out"), "{reply}");
    assert!(!server.log().contains("canary"), "{}", server.log());
}

/// A definition that no engine serves is accepted with a warning.
#[tokio::test]
async fn a_workflow_that_nothing_serves_says_so() {
    let server = Server::start("");
    let (status, answer) = server.put("/workflows/a", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("no engine has code for it, and it has no `url`"), "{answer}");
    let odd = json!({ "url": "http://localhost", "batch": { "maxSize": 1, "timeoutMs": 9 } });
    let (_, answer) = server.put("/workflows/b", odd).await;
    assert_eq!(answer["warnings"], json!(["workflow `b`: batch.maxSize of 1 collects nothing"]));
}

/// spec api: `flowControl` has the control fields as they were defined, including defaults that
/// were written out. Writing out a default creates no new version.
#[tokio::test]
async fn controls_are_shown_as_they_were_defined() {
    let server = Server::start("");
    let controls = json!({
        "throttle": { "limit": 5, "perMs": 1000, "burst": 1 },
        "concurrency": { "limit": 2, "span": "executing" },
        "idempotency": { "key": "id", "periodMs": 86_400_000 },
    });
    let short = json!({
        "throttle": { "limit": 5, "perMs": 1000 },
        "concurrency": { "limit": 2 },
        "idempotency": { "key": "id" },
    });
    for (controls, unchanged) in [(&controls, false), (&short, true), (&controls, true)] {
        let mut definition = controls.clone();
        definition["url"] = json!("http://localhost");
        let (_, answer) = server.put("/workflows/a", &definition).await;
        assert_eq!(
            (&answer["version"], &answer["unchanged"]),
            (&json!(1), &json!(unchanged)),
            "{answer}"
        );
        let (_, answer) = server.get("/workflows/a").await;
        assert_eq!(&answer["flowControl"], controls, "{answer}");
        assert_eq!(answer["definition"]["throttle"], controls["throttle"], "{answer}");
    }
    let action =
        json!({ "flow": "f", "name": "x", "url": "http://localhost", "concurrency": "queue" });
    server.put("/workflows/x", &action).await;
    let (_, all) = server.get("/workflows").await;
    let shown = all["workflows"].as_array().unwrap().iter().find(|it| it["name"] == "f/x");
    assert_eq!(
        shown.map(|it| &it["flowControl"]),
        Some(&json!({ "concurrency": "queue" })),
        "{all}"
    );
}

/// spec release: the answer to a release lists the live runs of older versions that have no key for
/// its handoff.
#[tokio::test]
async fn a_release_lists_the_runs_that_lack_its_key() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start("");
    let url = &target.url;
    server.put("/workflows/a", json!({ "url": url })).await;
    let with = server.start_run("a", json!({ "order": 1 })).await;
    let without = server.start_run("a", json!({})).await;
    target.called(2).await;
    let handoff = json!({ "type": "keyed", "keyField": "order", "onNewVersion": "drain" });
    let (_, answer) = server.put("/workflows/a", json!({ "url": url, "handoff": handoff })).await;
    let released = json!({ "older": 2, "stranded": 0, "lacking": [without] });
    assert_eq!((&answer["version"], &answer["released"]), (&json!(2), &released), "{answer}");
    server.command(&["release", "a", "1"]).unwrap();
    let (_, answer) = server.post("/workflows/a/release", json!({ "version": 2 })).await;
    assert_eq!(answer["lacking"], json!([without]), "{answer}");
    let said = server.command(&["release", "a", "2"]).unwrap();
    assert!(said.ends_with(&format!("{without} has no key for the handoff\n")), "{said}");
    assert!(!said.contains(&with), "{said}");
}

/// The definition of an action from `GET` can be sent with `PUT` unchanged, and has no effect then.
#[tokio::test]
async fn an_action_can_be_put_back() {
    let target = Target::kind().await;
    let url = &target.url;
    let server = Server::start(&format!(
        "[[flow]]\nname = \"f\"\nconcurrency = \"queue\"\n\
         actions.a = {{ url = \"{url}/a\" }}\n\
         actions.b = {{ url = \"{url}/b\", concurrency = {{ limit = 2 }} }}\n\
         [[workflow]]\nname = \"w\"\nurl = \"{url}/w\"\nthrottle = {{ limit = 1, perMs = 5 }}\n"
    ));
    for name in ["f%2Fa", "f%2Fb", "w"] {
        let path = format!("/workflows/{name}");
        let (_, shown) = server.get(&path).await;
        let (status, answer) = server.put(&path, &shown["definition"]).await;
        assert_eq!(status, StatusCode::OK, "{name}: {answer}");
        assert_eq!(
            (&answer["unchanged"], &answer["version"]),
            (&json!(true), &json!(1)),
            "{answer}"
        );
        assert_eq!(server.get(&path).await.1, shown, "{name}");
    }
    let (_, shown) = server.get("/workflows/f%2Fa").await;
    for wrong in ["/workflows/b", "/workflows/g%2Fa", "/workflows/f%2Fb"] {
        let (status, answer) = server.put(wrong, &shown["definition"]).await;
        let said = (status, &answer["error"]);
        assert_eq!(said, (StatusCode::UNPROCESSABLE_ENTITY, &json!("bad_definition")), "{wrong}");
    }
}

/// Each problem of a definition has a code, and problems of schedules have their own.
#[tokio::test]
async fn problems_of_schedules_have_their_codes() {
    let server = Server::start("");
    for (trigger, code) in [
        (json!({ "cron": "* * * *" }), "bad_cron"),
        (json!({ "cron": "61 * * * *" }), "bad_cron"),
        (json!({ "cron": "0 0 31 2 *" }), "cron_never_occurs"),
        (json!({ "cron": "@daily", "timeZone": "Mars/Base" }), "unknown_time_zone"),
        (json!({ "event": "a*b" }), "bad_name"),
    ] {
        let definition = json!({ "url": "http://h", "triggers": [trigger] });
        let (status, answer) = server.put("/workflows/w", &definition).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(answer["problems"][0]["code"], code, "{definition}: {answer}");
    }
}
