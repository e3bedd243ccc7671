//! Operations that read: lists, statistics, event streams, and whether they agree.

use expect_test::expect;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tidegate_core::flow::{CONTROLS, gate_owners};

use crate::{server::Server, target::Target};

/// Starts a server with workflows that have controls, and one without.
async fn busy() -> (Target, Server) {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\n\
         concurrency = {{ limit = 2, key = \"k\" }}\n\
         [[workflow]]\nname = \"index\"\nurl = \"{url}\"\n\
         batch = {{ maxSize = 3, timeoutMs = 3600000 }}\n\
         [[workflow]]\nname = \"save\"\nurl = \"{url}\"\n\
         debounce = {{ periodMs = 3600000, key = \"doc\" }}\n\
         [[workflow]]\nname = \"plain\"\nurl = \"{url}\"\n"
    ));
    (target, server)
}

/// Returns the items of all pages of a list. `then` is called after each page.
async fn pages(server: &Server, path: &str, list: &str, then: impl AsyncFn()) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.get(&format!("{path}&limit=2{cursor}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        all.extend(page[list].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { return all };
        cursor = format!("&cursor={next}");
        then().await;
    }
}

/// spec B133, B134, B135, B136, B139, B140: statistics need no configuration and agree with the
/// lists.
#[tokio::test]
async fn what_is_seen_agrees_with_what_runs() {
    let (target, server) = busy().await;
    let (_, answer) = server.get("/workflows").await;
    let shaped = |name: &str| {
        let all = answer["workflows"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap().get("flowControl").is_some()
    };
    assert!(shaped("sync") && shaped("index") && shaped("save") && !shaped("plain"), "{answer}");
    for n in 0..5 {
        server.start_run("sync", json!({ "k": "a", "n": n })).await;
    }
    for doc in ["x", "x", "y"] {
        server.start_run("save", json!({ "doc": doc })).await;
    }
    for n in 0..2 {
        server.start_run("index", json!(n)).await;
    }
    target.called(2).await;
    let (_, stats) = server.get("/runs/stats").await;
    assert_eq!((&stats["inFlight"], &stats["queued"]), (&json!(2), &json!(3)), "{stats}");
    let queued = pages(&server, "/runs?state=queued", "runs", async || {}).await;
    let (_, answer) = server.get("/gates?control=concurrency&workflow=sync").await;
    let gate = &answer["gates"][0];
    assert_eq!((&gate["inside"], &gate["limit"]), (&json!(2), &json!(2)));
    assert_eq!((&gate["line"]["count"], queued.len()), (&json!(3), 3));
    let mut first: Vec<_> = queued.iter().map(|run| run["id"].clone()).collect();
    first.reverse();
    assert_eq!(gate["line"]["first"], json!(first));
    let (_, flow) = server.get("/flow-state").await;
    let names: Vec<_> =
        flow["workflows"].as_array().unwrap().iter().map(|it| &it["workflow"]).collect();
    assert_eq!(names, ["index", "save"]);
    assert_eq!(flow["workflows"][0]["batch"]["pending"], 2);
    assert_eq!(flow["workflows"][0]["batch"]["keys"][0]["maxSize"], 3);
    assert_eq!(flow["workflows"][1]["debounce"]["pending"], 3);
    assert_eq!(flow["workflows"][1]["debounce"]["keys"][0]["pending"], 2);
    let (_, narrowed) = server.get("/flow-state?app=default&workflow=index").await;
    assert_eq!(narrowed["workflows"], json!([flow["workflows"][0]]));
    let (_, none) = server.get("/flow-state?app=other").await;
    assert_eq!(none["workflows"], json!([]));
    // The third event fills the buffer: the buffered events become a run at once.
    let run = server.start_run("index", json!(2)).await;
    let (_, flow) = server.get("/flow-state?workflow=index").await;
    assert_eq!(flow["workflows"][0]["batch"], json!({ "pending": 0, "keys": [] }));
    target.called(3).await;
    let (_, stats) = server.get("/runs/stats").await;
    assert_eq!((&stats["inFlight"], &stats["queued"]), (&json!(3), &json!(3)), "{stats}");
    let said = server.command(&["stats"]).unwrap();
    assert!(
        said.contains("save      1        0        0      0       0        0       3"),
        "{said}"
    );
    let said = server.command(&["gates", "--control", "concurrency"]).unwrap();
    assert!(said.contains("concurrency  sync      a    2 at once  2        3"), "{said}");
    target.open(true);
    server.until(&run, "completed").await;
    for queued in &first {
        server.until(queued.as_str().unwrap(), "completed").await;
    }
    let (_, stats) = server.get("/runs/stats").await;
    assert_eq!((&stats["inFlight"], &stats["queued"]), (&json!(0), &json!(0)), "{stats}");
}

/// spec events, stats: events and receipts are listed newest first. Pages stay consistent while
/// more events arrive. An event shows its verdicts.
#[tokio::test]
async fn events_and_receipts_are_listed_while_more_arrive() {
    let (_target, server) = busy().await;
    let mut posted = Vec::new();
    for n in 0..5 {
        let (_, answer) =
            server.post("/events", json!({ "name": "sync", "data": { "k": "a", "n": n } })).await;
        posted.insert(0, answer["events"][0]["id"].clone());
    }
    let late = async || drop(server.post("/events", json!({ "name": "sync.late" })).await);
    let listed = pages(&server, "/events?name=sync*", "events", late).await;
    let ids: Vec<_> = listed.iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids, posted, "events posted after the first page must not be listed");
    assert_eq!(listed[0]["data"], json!({ "k": "a", "n": 4 }));
    assert_eq!(pages(&server, "/events?name=none", "events", late).await, Vec::<Value>::new());
    let receipts = pages(&server, "/receipts?workflow=sync", "receipts", async || {}).await;
    let of: Vec<_> = receipts.iter().map(|receipt| receipt["eventId"].clone()).collect();
    assert_eq!(of, posted[..3], "the two events that started at once must have no receipt");
    assert_eq!((&receipts[0]["outcome"], &receipts[0]["key"]), (&json!("queued"), &json!("a")));
    for (query, count) in [("control=concurrency&key=a", 3), ("outcome=dropped", 0), ("key=b", 0)] {
        let found = pages(&server, &format!("/receipts?{query}"), "receipts", async || {}).await;
        assert_eq!(found.len(), count, "{query}");
    }
    let newest = posted[0].as_str().unwrap();
    let (_, answer) = server.get(&format!("/events/{newest}")).await;
    assert_eq!(answer["receipts"][0]["runId"], answer["runs"][0]["id"]);
    assert_eq!(answer["runs"][0]["state"], "queued");
    let (_, found) = server.get(&format!("/runs?event={newest}")).await;
    assert_eq!(found["runs"], answer["runs"]);
    let shown = server.command(&["events", "show", newest]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["name"], "sync");
    let shown = server.command(&["receipts", "--event", newest]).unwrap();
    assert!(shown.contains("sync      queued   concurrency  a    run_"), "{shown}");
    let shown = server.command(&["events", "list", "--name", "sync", "--json"]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["events"].as_array().unwrap().len(), 5);
}

/// `GET /controls` returns core's table of controls, in every workspace.
#[tokio::test]
async fn the_controls_are_those_of_the_table() {
    let server = Server::start("");
    let (status, answer) = server.get("/controls").await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer, json!({ "controls": CONTROLS, "gates": gate_owners() }));
    expect![[r#"
        {
          "acts": "creation",
          "fields": [
            {
              "default": "the whole workflow",
              "name": "key",
              "type": "key"
            },
            {
              "default": "cancel",
              "name": "mode",
              "type": [
                "skip",
                "cancel",
                "latest"
              ]
            }
          ],
          "name": "singleton",
          "onActions": true,
          "onOverflow": "skip the new run, cancel the old one, or keep the newest waiting",
          "purpose": "at most one run per key"
        }"#]]
    .assert_eq(&format!("{:#}", answer["controls"][5]));
    for name in answer["gates"].as_array().unwrap() {
        let path = format!("/gates?control={}", name.as_str().unwrap());
        let (status, gates) = server.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {gates}");
    }
    for control in ["priority", "catchup"] {
        let (status, problem) = server.get(&format!("/gates?control={control}")).await;
        assert_eq!((status.as_u16(), &problem["error"]), (422, &json!("bad_query")), "{control}");
    }
    let (status, receipts) = server.get("/receipts?control=catchUp").await;
    assert_eq!(status, StatusCode::OK, "{receipts}");
}

/// Invalid query parameters are refused, and the error lists the valid values.
#[tokio::test]
async fn bad_questions_get_clear_answers() {
    let server = Server::start("");
    for (path, said) in [
        ("/gates?control=x", "`control` must be one of idempotency"),
        ("/gates?cursor=xyz", "got `xyz`"),
        ("/events?cursor=x", "got `x`"),
        ("/events?limit=501", "1 to 500, got 501"),
        ("/receipts?event=run_x", "like evt_"),
        ("/receipts?outcome=lost", "`outcome` must be one of started"),
        ("/runs?from=yesterday", "got `yesterday`"),
        ("/runs?event=x", "like evt_"),
        ("/flow-state?nome=x", "nome"),
        ("/controls?app=x", "app"),
        ("/runs/stats?app=x", "app"),
    ] {
        let (status, answer) = server.get(path).await;
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_query")), "{path}");
        assert!(answer["detail"].as_str().unwrap().contains(said), "{path}: {answer}");
    }
    for path in ["/events/evt_x", "/events/evt_00000000000000000000000000"] {
        let (status, answer) = server.get(path).await;
        assert_eq!((status.as_u16(), &answer["error"]), (404, &json!("no_event")), "{path}");
    }
}

/// spec N24: readers of event streams get new events and changed runs. After a reconnect they
/// continue where they were.
#[tokio::test]
async fn events_and_runs_can_be_read_along() {
    let (target, server) = busy().await;
    let event = |n: i32| json!({ "name": "plain", "data": n });
    let post = async |n| drop(server.post("/events", event(n)).await);
    let (mark, mut text) = (r#""data":2"#, String::new());
    let other = server.read_along("/events/stream", None, mark, async || {
        let mine = server.read_along("/events/stream", None, mark, async || {
            post(1).await;
            post(2).await;
        });
        text = mine.await;
    });
    let other = other.await;
    for text in [&text, &other] {
        assert!(text.contains("event: events") && !text.contains("gap"), "{text}");
    }
    let last = text.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    post(3).await;
    let text = server.read_along("/events/stream", Some(last), r#""data":3"#, async || {}).await;
    assert!(
        !text.contains(r#""data":2"#),
        "only events after `Last-Event-ID` must be sent: {text}"
    );
    let text = server.read_along("/runs/stream", None, r#""state":"completed""#, async || {
        target.open(true);
        post(4).await;
    });
    assert!(text.await.contains("event: runs"));
}

/// spec N24: a reader gets each event once, even if it reconnects while more events arrive.
#[tokio::test]
async fn a_live_tail_repeats_nothing() {
    let (target, server) = busy().await;
    target.open(true);
    let post = async |n: i32| {
        drop(server.post("/events", json!({ "name": "plain", "data": n })).await);
    };
    let times = |text: &str, n: i32| text.matches(&format!("\"data\":{n}}}")).count();
    post(1).await;
    let mut last = String::new();
    let text = server.read_along("/events/stream", None, r#""data":4"#, async || {
        for n in 2..4 {
            post(n).await;
            // Waits until the next poll of the store, so that the poller does not read both events
            // together.
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        }
        post(4).await;
    });
    let text = text.await;
    for (n, count) in [(1, 0), (2, 1), (3, 1), (4, 1)] {
        assert_eq!(times(&text, n), count, "event {n} must be sent {count} times: {text}");
    }
    last += text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let text = server.read_along("/events/stream", Some(&last), r#""data":5"#, async || {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        post(5).await;
    });
    let text = text.await;
    for (n, count) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)] {
        assert_eq!(
            times(&text, n),
            count,
            "after id {last}, event {n} must be sent {count} times: {text}"
        );
    }
}

/// A reader that connects after all others have disconnected gets changes like the first reader.
#[tokio::test]
async fn a_watcher_who_comes_back_is_told_of_changes() {
    let (target, server) = busy().await;
    for n in 1..3 {
        let mark = format!("\"inFlight\":{n}");
        server
            .read_along("/live", None, &mark, async || {
                server.start_run("plain", json!(n)).await;
            })
            .await;
        // Long enough for the poller to stop, since it has no reader.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    }
    target.open(true);
}

/// A reader gets only events of its own workspace, whichever workspace's reader connected first.
#[tokio::test]
async fn a_live_tail_is_of_one_workspace() {
    let server = Server::start("workspaces = [\"other\"]");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let other = ("tidegate-workspace", "other");
    let request = client.get(format!("{}/events/stream", server.url()));
    let mut theirs = request.header(other.0, other.1).send().await.unwrap();
    let secret = r#"{"name":"secret"}"#.to_owned();
    let ours = server.read_along("/events/stream", None, "plain", async || {
        server.post_with("/events", &[other], secret).await;
        while !String::from_utf8_lossy(&theirs.chunk().await.unwrap().unwrap()).contains("secret") {
        }
        server.post("/events", json!({ "name": "plain" })).await;
    });
    let ours = ours.await;
    assert!(!ours.contains("secret"), "{ours}");
}

/// All operations refuse unknown query parameters, because a misspelled filter would match
/// everything. Webhooks are exempt: their senders add their own parameters.
#[tokio::test]
async fn unknown_parameters_are_refused_everywhere() {
    let server = Server::start("");
    let (_, described) = server.get("/openapi.json").await;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let at = path.replace(['{', '}'], "");
            let at = format!("{at}?surely_unknown=1");
            let answer = server.raw(&method.to_uppercase(), &at, &[], "{}").await.unwrap();
            let reply = format!("{method} {at}: {} {}", answer.status, answer.text);
            if operation["operationId"] == "takeDelivery" {
                assert_eq!(answer.status, 404, "{reply}");
                continue;
            }
            assert_eq!(answer.status, 422, "{reply}");
            let problem = answer.json();
            assert_eq!(problem["error"], "bad_query", "{reply}");
            assert!(problem["detail"].as_str().unwrap().contains("`surely_unknown`"), "{reply}");
        }
    }
}

/// A NUL character in a name or a parameter is refused as an invalid name, and does not cause a
/// store error.
async fn a_nul_is_no_name(server: &Server) {
    let (_, described) = server.get("/openapi.json").await;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap();
            for parameter in parameters {
                let name = parameter["name"].as_str().unwrap();
                let nul = path.replace(&format!("{{{name}}}"), "%00").replace(['{', '}'], "");
                let at = match parameter["in"].as_str().unwrap() {
                    "path" => nul,
                    _ => format!("{nul}?{name}=%00"),
                };
                let body = match operation["operationId"].as_str().unwrap() {
                    "commit" => r#"{"events":[{"name":"a"}]}"#,
                    "changeSession" => r#"{"op":"get"}"#,
                    "retryRun" => r#"{"from":"a"}"#,
                    "release" => r#"{"version":1}"#,
                    "defineWorkflow" => r#"{"url":"http://localhost"}"#,
                    _ => "{}",
                };
                let answer = server.raw(&method.to_uppercase(), &at, &[], body).await.unwrap();
                let reply = format!("{method} {at}: {} {}", answer.status, answer.text);
                assert!([200, 404, 422].contains(&answer.status), "{reply}");
                for code in ["too_much_at_once", "store_error", "bad_body", "bad_json"] {
                    assert!(!answer.text.contains(code), "{reply}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_nul_is_no_name_on_a_file() {
    a_nul_is_no_name(&Server::start_on_file("")).await;
}

#[tokio::test]
async fn a_nul_is_no_name_on_postgres() {
    let Some(store) = crate::postgres::database_now() else { return };
    let log = tempfile::tempdir().unwrap();
    a_nul_is_no_name(&Server::start_on(&store, "", &log.path().join("log"))).await;
}

/// A time filter finds old runs on the first page, however many newer runs there are.
#[tokio::test]
async fn a_list_by_time_has_no_empty_page() {
    let (_target, server) = busy().await;
    server.start_run("save", json!({ "doc": "x" })).await;
    let old = server.start_run("sync", json!({ "k": "old" })).await;
    let (_, answer) = server.get(&format!("/runs/{old}")).await;
    let queued = answer["queuedAt"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        let event = json!({ "name": "sync", "data": { "k": "new" } });
        server.post("/events", json!(vec![event; 1000])).await;
    }
    let next = tidegate_core::time::Timestamp::parse_rfc3339(&queued).unwrap();
    let next = tidegate_core::time::Timestamp::from_micros(next.micros() + 1).rfc3339();
    let (_, page) = server.get(&format!("/runs?from={queued}&to={next}&limit=10")).await;
    assert_eq!(
        page["runs"][0]["id"],
        old.as_str(),
        "the old run must be on the first page: {page}"
    );
    let (_, none) = server.get("/runs?to=2020-01-01T00:00:00Z").await;
    assert_eq!((&none["runs"], &none["next"]), (&json!([]), &json!(null)));
}
