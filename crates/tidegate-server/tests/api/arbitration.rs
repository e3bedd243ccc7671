//! spec transports: the answer of each ingress (HTTP, chat, webhook) for each outcome of a request.
//! Each combination is a cell of a table.

use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, On},
    server::Server,
    target::Target,
    ways::{SECRETS, Way, events, flow},
};

/// Row of the table: the definition, whether another request is sent first, the answer of each
/// ingress, and the state of the request that the answer names.
struct Line {
    name: &'static str,
    policy: &'static str,
    controls: &'static str,
    first: bool,
    http: (u16, Value),
    chat: (u16, Value),
    webhook: (u16, Value),
    then: &'static str,
}

/// Returns the table of expected answers. `*` matches any value, `FIRST` the id of the first
/// request.
#[rustfmt::skip]
fn table() -> [Line; 9] {
    let line = |name, policy, controls, first, http, chat, webhook, then|
        Line { name, policy, controls, first, http, chat, webhook, then };
    [
        line("started", "concurrency = 'queue'", "", false,
            (202, json!({ "requestId": "*", "state": "*" })),
            (200, json!({ "requestId": "*", "appended": true, "appendRequestId": "*" })),
            (202, json!({ "requestId": "*" })), "running"),
        line("queued", "concurrency = 'queue'", "", true,
            (202, json!({ "requestId": "*", "state": "queued" })),
            (200, json!({ "requestId": "*", "appended": true, "appendRequestId": "*" })),
            (202, json!({ "requestId": "*" })), "queued"),
        line("refused", "concurrency = 'reject'", "", true,
            (409, json!({ "error": "busy", "requestId": "FIRST" })),
            (409, json!({ "error": "busy", "requestId": "FIRST", "appended": true })),
            (200, json!({ "status": "skipped", "requestId": "FIRST" })), "running"),
        line("coalesced", "concurrency = { policy = 'debounce', periodMs = 3600000 }", "", true,
            (202, json!({ "coalesced": true, "requestId": "FIRST" })),
            (200, json!({ "requestId": "FIRST", "appended": true, "appendRequestId": "*" })),
            (200, json!({ "status": "coalesced", "requestId": "FIRST" })), "queued"),
        line("replaced", "concurrency = 'restart'", "", true,
            (202, json!({ "requestId": "*", "state": "*" })),
            (200, json!({ "requestId": "*", "appended": true, "appendRequestId": "*" })),
            (202, json!({ "requestId": "*" })), "running"),
        line("limited", "", ", rateLimit = { limit = 1, perMs = 3600000, key = 'session' }", true,
            (429, json!({ "error": "rate_limited", "retryAt": "*" })),
            (429, json!({ "error": "rate_limited", "retryAt": "*", "appended": true })),
            (429, json!({ "error": "rate_limited", "retryAt": "*" })), ""),
        line("full", "concurrency = { policy = 'queue', queue = { maxWaiting = 0 } }", "", true,
            (429, json!({ "error": "queue_full", "detail": "*" })),
            (429, json!({ "error": "queue_full", "appended": true })),
            (429, json!({ "error": "queue_full", "detail": "*" })), ""),
        line("deduped", "", ", idempotency = { key = 'session' }", true,
            (200, json!({ "deduped": true, "requestId": "FIRST" })),
            (200, json!({ "requestId": "FIRST", "appended": true, "appendRequestId": "*" })),
            (200, json!({ "status": "deduped", "requestId": "FIRST" })), "running"),
        line("keyless", "",
            ", handoff = { type = 'keyed', keyField = 'input.order', onNewVersion = 'drain' }", false,
            (422, json!({ "error": "rejected", "detail": "*" })),
            (422, json!({ "error": "rejected", "detail": "*", "appended": true })),
            (200, json!({ "status": "rejected" })), ""),
    ]
}

/// Checks every cell with its own session: the flow's policy applies to every ingress (spec B9),
/// and an answer that names another request names the right one.
async fn each_way_is_told_what_became_of_it(on: On) {
    let target = Target::kind().await;
    target.shut("/act", true);
    let flows = table().map(|line| flow(line.name, line.policy, line.controls, &target.url));
    let Some(fleet) = Fleet::start(on, &flows.concat(), &SECRETS).await else { return };
    for line in table() {
        for way in Way::ALL {
            let (cell, session) = (format!("{} by {way:?}", line.name), format!("{way:?}"));
            let mut first = Value::Null;
            if line.first {
                let (status, answer) = Way::Http.ask(fleet.next(), line.name, &session).await;
                assert_eq!(status, 202, "{cell}: {answer}");
                first = answer["requestId"].clone();
                if line.name != "coalesced" {
                    fleet.next().until(first.as_str().unwrap(), "running").await;
                }
            }
            let (status, expected) = match way {
                Way::Http => &line.http,
                Way::Chat => &line.chat,
                Way::Webhook => &line.webhook,
            };
            let (got, answer) = way.ask(fleet.next(), line.name, &session).await;
            assert_eq!(got, *status, "{cell}: {answer}");
            for (member, value) in expected.as_object().unwrap() {
                let value = if value == "FIRST" { &first } else { value };
                let fits =
                    if value == "*" { !answer[member].is_null() } else { answer[member] == *value };
                assert!(fits, "{cell}: `{member}` must be {value}: {answer}");
            }
            if !line.then.is_empty() {
                fleet.next().until(answer["requestId"].as_str().unwrap(), line.then).await;
            }
            if line.name == "replaced" {
                let path = format!("/runs/{}/stream", first.as_str().unwrap());
                let last = events(&fleet.next().text(&path).await).pop();
                let by = json!({ "by": answer["requestId"] });
                assert_eq!(
                    last,
                    Some(("replaced".to_owned(), by)),
                    "last event of the replaced run's stream, {cell}"
                );
            }
        }
    }
    let (path, again) = ("/flows/limited/actions/act", json!({ "session": "Http" }).to_string());
    let (status, says_when, _) = fleet.next().try_ask(path, Some(again)).await.unwrap();
    assert_eq!(
        (status.as_u16(), says_when),
        (429, true),
        "the answer must have status 429 and `Retry-After`"
    );
}

#[tokio::test]
async fn each_way_is_told_what_became_of_it_on_a_file() {
    each_way_is_told_what_became_of_it(On::File).await;
}

#[tokio::test]
async fn each_way_is_told_what_became_of_it_on_two_servers() {
    each_way_is_told_what_became_of_it(On::Postgres).await;
}

/// Outcomes that a request gets after its admission, as a waiting caller and a reader of the stream
/// get them.
async fn whoever_waits_is_told_the_end(on: On) {
    let json = ("content-type", "application/json");
    let target = Target::start(move |call, _| {
        let status = if call.body.contains("bad") { 400 } else { 200 };
        (status, vec![json], r#"{"ok": true}"#.to_owned())
    });
    let target = target.await;
    let url = &target.url;
    let config = [
        flow("plain", "", "", url),
        flow("short", "concurrency = { policy = 'queue', maxWaitMs = 100 }", "", url),
        flow("restart", "concurrency = 'restart'", "", url),
        flow("late", "concurrency = { policy = 'debounce', periodMs = 3000 }", "", url),
        flow("newest", "concurrency = 'latest'", "", url),
        flow("soon", "concurrency = 'queue'", ", startWithinMs = 2000", url),
        flow("flooded", &flooded(), "", url),
    ];
    let Some(fleet) = Fleet::start(on, &config.concat(), &SECRETS).await else { return };
    it_ends(&fleet).await;
    it_goes_on_or_gives_up(&fleet, &target).await;
    it_follows_the_newest_or_expires(&fleet, &target).await;
    it_hears_that_it_was_displaced(&fleet, &target).await;
    let (_, answer) = fleet.next().get("/doctor").await;
    assert_eq!(answer["findings"], json!([]));
}

/// Returns the path of the action with a `wait` in milliseconds.
fn act(flow: &str, wait: u32) -> String {
    format!("/flows/{flow}/actions/act?wait={wait}")
}

fn on(session: &str) -> Value {
    json!({ "session": session })
}

/// Returns the last event of the streamed answer to a message.
async fn last_of(server: &Server, path: &str) -> (String, Value) {
    events(&server.open(path, String::new()).await.text().await.unwrap()).pop().unwrap()
}

async fn it_ends(fleet: &Fleet) {
    let (status, answer) = fleet.next().post(&act("plain", 60_000), on("s")).await;
    assert_eq!((status.as_u16(), &answer["state"]), (200, &json!("completed")), "{answer}");
    assert_eq!(answer["output"], json!({ "ok": true }));
    let bad = json!({ "session": "s", "input": "bad" });
    let (status, answer) = fleet.next().post(&act("plain", 60_000), bad).await;
    assert_eq!((status.as_u16(), &answer["state"]), (200, &json!("failed")), "{answer}");
    assert_eq!(answer["error"]["code"], "CallRefused");
    let path = "/flows/plain/sessions/s/messages";
    let (kind, answer) = last_of(fleet.next(), path).await;
    assert_eq!((kind.as_str(), &answer["state"]), ("end", &json!("completed")), "{answer}");

    // A request that joins an open window waits for the run of that window.
    let (first, second) = (fleet.next(), fleet.next());
    let path = act("late", 60_000);
    let both = tokio::join!(first.post(&path, on("s")), second.post(&path, on("s")));
    assert_eq!((both.0.0.as_u16(), both.1.0.as_u16()), (200, 200), "{both:?}");
    assert_eq!(both.0.1["requestId"], both.1.1["requestId"]);
    assert_eq!(both.0.1["output"], json!({ "ok": true }));
}

async fn it_goes_on_or_gives_up(fleet: &Fleet, target: &Target) {
    // Neither the end of `wait` nor a disconnect of the caller stops the run.
    target.shut("/act", true);
    let (status, answer) = fleet.next().post(&act("plain", 1), on("s")).await;
    assert_eq!((status.as_u16(), answer["state"].is_string()), (202, true), "{answer}");
    let kept = answer["requestId"].as_str().unwrap().to_owned();
    let calls = target.calls().len();
    let (path, gone) = (act("plain", 60_000), on("gone"));
    tokio::select! {
        (_, answer) = fleet.next().post(&path, gone) => panic!("{answer}"),
        () = target.called(calls + 1) => {}
    }
    let abandoned = target.calls().pop().unwrap().header("tidegate-run").to_owned();

    // A queued request is cancelled after `maxWaitMs`. Checked for each ingress.
    let (_, answer) = fleet.next().post("/flows/short/actions/act", on("s")).await;
    let holder = answer["requestId"].as_str().unwrap().to_owned();
    fleet.next().until(&holder, "running").await;
    let path = act("short", 60_000);
    let waiting = fleet.next().try_ask(&path, Some(on("s").to_string()));
    let (status, says_when, answer) = waiting.await.unwrap();
    assert_eq!((status.as_u16(), says_when), (503, true), "{answer}");
    assert_eq!(answer["error"], "waited_too_long");
    let given_up = fleet.next().until(answer["requestId"].as_str().unwrap(), "cancelled").await;
    assert_eq!(given_up["reason"], "it waited longer than maxWaitMs");
    let path = "/flows/short/sessions/s/messages";
    let (kind, answer) = last_of(fleet.next(), path).await;
    assert_eq!((kind.as_str(), &answer["reason"]), ("end", &given_up["reason"]), "{answer}");

    // A waiting request that is replaced gets the id of the request that replaced it.
    let (first, second) = (fleet.next(), fleet.next());
    let path = act("restart", 60_000);
    let calls = target.calls().len();
    let replacing = async {
        target.called(calls + 1).await;
        let (_, answer) = second.post("/flows/restart/actions/act", on("s")).await;
        answer
    };
    let ((status, answer), by) = tokio::join!(first.post(&path, on("s")), replacing);
    assert_eq!((status.as_u16(), &answer["error"]), (409, &json!("replaced")), "{answer}");
    assert_eq!(answer["requestId"], by["requestId"]);

    target.open(true);
    for run in [&kept, &abandoned, &holder] {
        fleet.next().until(run, "completed").await;
    }
}

fn flooded() -> String {
    let queue = "{ maxWaiting = 1, onOverflow = 'dropOldest' }";
    format!("concurrency = {{ policy = 'queue', queue = {queue} }}")
}

/// spec L19: the caller of a request that a full queue displaces is told, and when to try again.
async fn it_hears_that_it_was_displaced(fleet: &Fleet, target: &Target) {
    target.shut("/act", true);
    let (_, answer) = fleet.next().post("/flows/flooded/actions/act", on("s")).await;
    fleet.next().until(answer["requestId"].as_str().unwrap(), "running").await;
    let (first, second) = (fleet.next(), fleet.next());
    let (path, body) = (act("flooded", 60_000), on("s").to_string());
    let newer = async {
        loop {
            let (_, page) = second.get("/runs?state=queued&workflow=flooded%2Fact").await;
            if !page["runs"].as_array().unwrap().is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        second.post("/flows/flooded/actions/act", on("s")).await
    };
    let (waiting, (status, newer)) = tokio::join!(first.try_ask(&path, Some(body)), newer);
    let (displaced, says_when, answer) = waiting.unwrap();
    assert_eq!((displaced.as_u16(), says_when), (503, true), "{answer}");
    assert_eq!(answer["error"], "displaced");
    assert_eq!((status.as_u16(), &newer["state"]), (202, &json!("queued")), "{newer}");
    target.open(true);
    fleet.next().until(newer["requestId"].as_str().unwrap(), "completed").await;
}

/// spec L20, L21: if a newer request replaces a queued one, the caller gets the result of the newer
/// one. If a request does not start in time, its caller gets an error.
async fn it_follows_the_newest_or_expires(fleet: &Fleet, target: &Target) {
    target.shut("/act", true);
    let mut ids = Vec::new();
    for state in ["running", "queued"] {
        let (_, answer) = fleet.next().post("/flows/newest/actions/act", on("s")).await;
        ids.push(answer["requestId"].as_str().unwrap().to_owned());
        fleet.next().until(&ids[ids.len() - 1], state).await;
    }
    let (_, answer) = fleet.next().post("/flows/soon/actions/act", on("s")).await;
    fleet.next().until(answer["requestId"].as_str().unwrap(), "running").await;
    let waiting = fleet.next().try_ask(&act("soon", 60_000), Some(on("s").to_string())).await;
    let (status, says_when, answer) = waiting.unwrap();
    assert_eq!((status.as_u16(), says_when), (503, true), "{answer}");
    assert_eq!(answer["error"], "expired");

    let (first, second) = (fleet.next(), fleet.next());
    let path = act("newest", 60_000);
    let newer = async {
        second.until(&ids[1], "cancelled").await;
        let (_, answer) = second.post("/flows/newest/actions/act", on("s")).await;
        target.open(true);
        answer
    };
    let ((status, answer), newer) = tokio::join!(first.post(&path, on("s")), newer);
    assert_eq!((status.as_u16(), &answer["displaced"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["requestId"], newer["requestId"]);
    assert_eq!(
        (&answer["state"], &answer["output"]),
        (&json!("completed"), &json!({ "ok": true }))
    );
    let stream = events(&fleet.next().text(&format!("/runs/{}/stream", ids[1])).await);
    let kinds: Vec<&str> = stream.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["displaced", "displaced", "end"], "{stream:?}");
    assert_eq!(stream[2].1["id"], newer["requestId"]);
}

#[tokio::test]
async fn whoever_waits_is_told_the_end_on_a_file() {
    whoever_waits_is_told_the_end(On::File).await;
}

#[tokio::test]
async fn whoever_waits_is_told_the_end_on_two_servers() {
    whoever_waits_is_told_the_end(On::Postgres).await;
}
