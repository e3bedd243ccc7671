//! Runs over HTTP: lists, `why`, actions.

use reqwest::StatusCode;
use serde_json::json;

use crate::{server::Server, target::Target};

/// spec N15, why: `why` explains a waiting run. A run can be paused, resumed, cancelled and
/// replayed.
#[tokio::test]
async fn a_run_can_be_asked_and_told() {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\nconcurrency = {{ limit = 1 }}"
    ));
    let first = server.start_run("sync", json!(1)).await;
    let second = server.start_run("sync", json!(2)).await;
    target.called(1).await;
    let (_, why) = server.get(&format!("/runs/{second}/why")).await;
    assert_eq!((&why["state"], &why["gates"][0]["holders"]), (&json!("queued"), &json!([first])));
    assert!(why["sentence"].as_str().unwrap().contains("position 1 in the queue"), "{why}");
    let act = |what: &'static str| {
        let (server, path) = (&server, format!("/runs/{second}/{what}"));
        async move { server.post(&path, "").await }
    };
    assert_eq!(act("pause").await.1["state"], "paused");
    assert_eq!(act("resume").await.1["state"], "queued");
    let (status, answer) = server.post(&format!("/runs/{second}/replay"), "").await;
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("run_not_ended")));
    assert_eq!(act("cancel").await.1["state"], "cancelled");
    let (status, answer) = act("cancel").await;
    assert_eq!((status, &answer["error"]), (StatusCode::CONFLICT, &json!("run_ended")));
    target.open(true);
    server.until(&first, "completed").await;
    let (_, answer) = server.post(&format!("/runs/{first}/replay"), json!({ "input": 3 })).await;
    let again = answer["runId"].as_str().unwrap().to_owned();
    assert_eq!(server.until(&again, "completed").await["replayOf"], first.as_str());
    assert_eq!(target.calls().last().unwrap().body, "3");
    let (_, answer) = server.get(&format!("/runs/{again}/steps")).await;
    assert_eq!(
        (&answer["steps"][0]["id"], &answer["steps"][0]["output"]["ok"]),
        (&json!("call"), &json!(true))
    );
}

/// Histories of runs are exported in pages, and by the command line. They can be filtered, and have
/// their payloads byte for byte. The engine's replay check can read them.
#[tokio::test]
async fn histories_are_exported() {
    let target = Target::kind().await;
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"a\"\nurl = \"{url}\"\n[[workflow]]\nname = \"b\"\nurl = \"{url}\""
    ));
    let odd = r#"{ "n": 1.0, "n": 2 }"#;
    let mut runs = Vec::new();
    for (name, data) in [("b", "1"), ("a", "2"), ("a", odd), ("a", "3")] {
        let body = format!(r#"{{"name":"{name}","data":{data}}}"#);
        let (_, sent) = server.post("/events", body).await;
        let run = sent["events"][0]["runs"][0]["runId"].as_str().unwrap().to_owned();
        server.until(&run, "completed").await;
        runs.insert(0, run);
    }
    let filter = "workflow=a&state=completed";
    let (_, first) = server.get(&format!("/runs/export?limit=2&{filter}")).await;
    let next = first["next"].as_str().unwrap();
    let (_, rest) = server.get(&format!("/runs/export?limit=2&{filter}&cursor={next}")).await;
    let pages = [&first, &rest].map(|page| page["histories"].as_array().unwrap().clone());
    let histories = pages.concat();
    let exported: Vec<_> = histories.iter().map(|history| history["run"].clone()).collect();
    assert_eq!(exported, runs[..3]);
    assert_eq!(histories[1]["events"][0]["data"], odd);
    let step = &histories[1]["steps"][0];
    assert_eq!((&step["id"], &step["kind"]), (&json!("call"), &json!("run")));
    let lines = server.command(&["runs", "export", "--workflow", "a"]).unwrap();
    let lines: Vec<tidegate::History> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(serde_json::to_value(&lines[1]).unwrap(), histories[1]);
    server.put("/workflows/a", json!({ "url": url, "timeoutMs": 60_000 })).await;
    let newer = server.start_run("a", json!(4)).await;
    server.until(&newer, "completed").await;
    for (version, expected) in [(1, &runs[..3]), (2, &[newer][..])] {
        let (_, page) = server.get(&format!("/runs/export?workflow=a&version={version}")).await;
        let exported = page["histories"].as_array().unwrap().iter().map(|it| it["run"].clone());
        assert_eq!(exported.collect::<Vec<_>>(), expected, "version {version}");
    }
    let one = server.command(&["runs", "export", "--limit", "1"]).unwrap();
    assert_eq!(one.lines().count(), 1);
    let (status, answer) = server.get("/runs/export?state=lost").await;
    assert_eq!((status, &answer["error"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("bad_query")));
}

/// spec N15: lists have pages, newest run first.
#[tokio::test]
async fn lists_come_in_pages() {
    let target = Target::kind().await;
    let server = Server::start(&format!("[[workflow]]\nname = \"a\"\nurl = \"{}\"", target.url));
    let mut runs = Vec::new();
    for n in 0..5 {
        runs.insert(0, server.start_run("a", json!(n)).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for _ in 0..9 {
        let (_, page) = server.get(&format!("/runs?limit=2{cursor}")).await;
        let ids = page["runs"].as_array().unwrap().iter().map(|run| run["id"].clone());
        seen.extend(ids);
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(seen), json!(runs));
    for (query, said) in [
        ("state=don", "completed"),
        ("cursor=x", "got `x`"),
        ("stat=1", "stat"),
        ("limit=501", "1 to 500, got 501"),
        ("workflow=", "`workflow` is empty"),
    ] {
        let (status, answer) = server.get(&format!("/runs?{query}")).await;
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_query")));
        assert!(answer["detail"].as_str().unwrap().contains(said), "{answer}");
    }
    for path in ["/events/%FF", "/workflows/%FF", "/runs/%FF"] {
        let (status, answer) = server.get(path).await;
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_path_part")), "{path}");
    }
    let (status, answer) = server.get("/runs/run_nonsense").await;
    assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("no_run")));
}

/// spec transports: a client can follow a run to its end.
#[tokio::test]
async fn a_run_can_be_followed() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&format!("[[workflow]]\nname = \"a\"\nurl = \"{}\"", target.url));
    let run = server.start_run("a", json!(1)).await;
    target.called(1).await;
    let path = format!("/runs/{run}/stream");
    let text = server.follow(&path, "event: state", || target.open(true)).await;
    let first = text.lines().next().unwrap();
    assert_eq!(first, "event: state");
    assert!(text.contains(r#""state":"completed""#) && text.contains("event: end"), "{text}");
}

/// An open window or buffer can be cancelled, paused and resumed by the run id in the answer to the
/// sender, like any other run.
#[tokio::test]
async fn a_run_that_still_collects_is_acted_on_like_any_other() {
    let target = Target::kind().await;
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"save\"\nurl = \"{url}\"\ndebounce = {{ periodMs = 5000 }}\n\
         [[workflow]]\nname = \"index\"\nurl = \"{url}\"\n\
         batch = {{ maxSize = 100, timeoutMs = 5000 }}\n"
    ));
    for name in ["save", "index"] {
        let act = async |run: &str, what: &str| {
            let (status, answer) = server.post(&format!("/runs/{run}/{what}"), "").await;
            assert_eq!(
                (status.as_u16(), &answer["id"]),
                (200, &json!(run)),
                "{name} {what}: {answer}"
            );
            answer["state"].as_str().unwrap().to_owned()
        };
        let run = server.start_run(name, json!(1)).await;
        assert_eq!(act(&run, "pause").await, "paused");
        let (_, why) = server.get(&format!("/runs/{run}/why")).await;
        assert!(why["sentence"].as_str().unwrap().ends_with("it waits for being resumed"), "{why}");
        let (_, flow) = server.get(&format!("/flow-state?workflow={name}")).await;
        let kind = if name == "save" { "debounce" } else { "batch" };
        let open = &flow["workflows"][0][kind]["keys"][0];
        assert_eq!((&open["paused"], &open["pending"]), (&json!(true), &json!(1)), "{flow}");
        assert_eq!(act(&run, "resume").await, "queued");
        server.until(&run, "completed").await;
        let run = server.start_run(name, json!(2)).await;
        assert_eq!(act(&run, "cancel").await, "cancelled");
        let (status, answer) = server.post(&format!("/runs/{run}/cancel"), "").await;
        assert_eq!((status.as_u16(), &answer["error"]), (409, &json!("run_ended")), "{answer}");
    }
    let (_, report) = server.get("/doctor").await;
    assert_eq!(report["healthy"], true, "{report}");
}
