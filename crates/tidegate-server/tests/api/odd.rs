//! Unusual payloads on every read path: every reader must be able to read any valid payload.
//!
//! JSON allows values that `serde_json::Value` cannot hold, such as half a surrogate pair and
//! `1e400`. A single such payload must not make a list, a stream or a tool fail for other readers.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tidegate_testkit::sample::PAYLOADS;

use crate::{server::Server, target::Target};

const CONFIG: &str = r#"
    [[workflow]]
    name = "odd"
    url = "URL/echo"
    concurrency = { limit = 5 }
    [[workflow]]
    name = "parked"
    url = "URL/hold"
    debounce = { periodMs = 3600000 }
    [[pool]]
    name = "odd"
    concurrency = { limit = 5 }
    [[flow]]
    name = "chat"
    actions.say = { url = "URL/say" }
    actions.draft = { url = "URL/stream" }
"#;

/// Returns the input of a request from the body of the call to its service.
fn input(body: &str) -> String {
    #[derive(Deserialize)]
    struct Called<'a> {
        #[serde(borrow)]
        input: &'a RawValue,
    }
    serde_json::from_str::<Called<'_>>(body).unwrap().input.get().to_owned()
}

/// Service that answers with its input, as a document or as a stream.
async fn echo() -> Target {
    let (json, events) = ("application/json", "text/event-stream");
    Target::start(move |call, _| match call.path.as_str() {
        "/stream" => {
            let data = input(&call.body).replace(['\n', '\r'], " ");
            let text = format!("data: {data}\n\nevent: output\ndata: {data}\n\n");
            (200, vec![("content-type", events)], text)
        }
        "/say" => (200, vec![("content-type", json)], input(&call.body)),
        _ => (200, vec![("content-type", json)], call.body.clone()),
    })
    .await
}

/// Returns a payload without the surrounding white space, which is not part of the value.
fn value(payload: &str) -> &str {
    payload.trim_matches([' ', '\n', '\r', '\t'])
}

/// Names of everything that contains one payload: an event, a run's input and output, a session, a
/// stream and a signal.
struct Planted {
    event: String,
    run: String,
    payload: &'static str,
}

async fn plant(server: &Server, payload: &'static str, n: usize) -> Planted {
    let event = format!(r#"{{"name": "odd", "data": {payload}}}"#);
    let (status, reply) = server.post("/events", event).await;
    assert_eq!(status.as_u16(), 202, "{payload}: {reply}");
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let (event, run) = (id(&reply["events"][0]["id"]), id(&reply["events"][0]["runs"][0]["runId"]));
    server.post("/events", format!(r#"{{"name": "parked", "data": {payload}}}"#)).await;
    let change = format!(r#"{{"op": "set", "path": "p{n}", "value": {payload}}}"#);
    let answer = server.raw("PATCH", "/sessions/chat/s1", &[], &change).await.unwrap();
    assert_eq!(answer.status, 200, "{payload}: {}", answer.text);
    let commit = format!(r#"{{"events": [{{"name": "Odd", "data": {payload}}}]}}"#);
    let answer = server.raw("POST", "/streams/odd/events", &[], &commit).await.unwrap();
    assert_eq!(answer.status, 201, "{payload}: {}", answer.text);
    Planted { event, run, payload }
}

/// Returns the JSON text of a run once it has ended.
async fn ended(server: &Server, run: &str) -> String {
    loop {
        let text = server.text(&format!("/runs/{run}")).await;
        assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "not JSON: {text}");
        if ["completed", "failed"].iter().any(|it| text.contains(&format!(r#""state":"{it}""#))) {
            return text;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Returns every path of the OpenAPI document that is read as a document, with its parameters
/// filled in. A new operation is tested without a change here, unless its path has new parameters.
fn documents(described: &Value, planted: &Planted) -> Vec<String> {
    let paths = described["paths"].as_object().unwrap();
    let read = paths.iter().filter(|(_, methods)| {
        let kinds = &methods["get"]["responses"]["200"]["content"];
        kinds.get("application/json").is_some()
    });
    // `/ready` is left out: it has no payload, and may fail on a busy machine.
    let read = read.filter(|(path, _)| !path.starts_with("/runs/bulk/") && *path != "/ready");
    let filled = read.map(|(path, _)| {
        let id = if path.starts_with("/events") { &planted.event } else { &planted.run };
        let session = path.starts_with("/sessions");
        let path = if session { path.replace("{id}", "s1") } else { path.replace("{id}", id) };
        let path = path.replace("{flow}", "chat").replace("{stream}", "odd");
        let path = path.replace("{name}", "odd");
        assert!(!path.contains('{'), "{path}: add a value for its path parameter here");
        path
    });
    filled.collect()
}

#[tokio::test]
async fn odd_payloads_are_read_as_they_were_sent_by_every_operation() {
    let target = echo().await;
    let server = Server::start(&CONFIG.replace("URL", &target.url));
    let mut all = Vec::new();
    for (n, payload) in PAYLOADS.iter().enumerate() {
        all.push(plant(&server, payload, n).await);
    }
    let (_, described) = server.get("/openapi.json").await;
    for planted in &all {
        let payload = value(planted.payload);
        let run = ended(&server, &planted.run).await;
        assert!(run.contains(&format!(r#""output":{payload}"#)), "{payload}: {run}");
        assert!(run.contains(&format!(r#""input":{payload}"#)), "{payload}: {run}");
        for path in documents(&described, planted) {
            let answer = server.raw("GET", &path, &[], "").await.unwrap();
            assert_eq!(answer.status, 200, "{path} with {payload}: {}", answer.text);
            let read = serde_json::from_str::<IgnoredAny>(&answer.text);
            assert!(read.is_ok(), "{path} with {payload}: {read:?}: {}", answer.text);
            let carries = ["/events", "/streams/odd/events", "/sessions/chat/s1"];
            if carries.contains(&path.as_str()) || path.starts_with("/events/") {
                assert!(answer.text.contains(payload), "{path}: {payload}: {}", answer.text);
            }
        }
    }
    for command in [
        vec!["events", "list"],
        vec!["events", "list", "--json"],
        vec!["events", "show", &all[2].event],
        vec!["runs", "list"],
        vec!["runs", "show", &all[6].run],
        vec!["streams", "show", "odd"],
    ] {
        let printed = server.command(&command);
        assert!(printed.is_ok(), "command {command:?} failed: {printed:?}");
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Event streams continue after an unusual payload.
#[tokio::test]
async fn odd_payloads_stop_no_stream_of_events() {
    let target = echo().await;
    let server = Server::start(&CONFIG.replace("URL", &target.url));
    let last = r#"{"name": "odd", "data": "the last"}"#;
    for path in ["/events/stream", "/runs/stream"] {
        let text = server.read_along(path, None, "\"the last\"", async || {
            for (n, payload) in PAYLOADS.iter().enumerate() {
                plant(&server, payload, n).await;
            }
            server.post("/events", last).await;
        });
        let text = text.await;
        let data: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .collect::<Vec<_>>()
            .join("\n");
        for payload in PAYLOADS.iter().filter(|it| !it.contains(['\n', '\r'])) {
            assert!(data.contains(value(payload)), "{path}: {payload}: {text}");
        }
    }
    let shown = server.read_along("/live", None, "\"odd\"", async || {}).await;
    assert!(shown.contains("stats"), "{shown}");
    for payload in PAYLOADS {
        let run = plant(&server, payload, 0).await.run;
        let text = server.text(&format!("/runs/{run}/stream")).await;
        assert!(text.contains("event: end"), "{payload}: {text}");
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Unusual values in arguments, results, streamed chunks, request ids and progress tokens of MCP
/// clients.
#[tokio::test]
async fn odd_payloads_stop_no_tool() {
    let target = echo().await;
    let server = Server::start(&CONFIG.replace("URL", &target.url));
    for payload in PAYLOADS {
        for (tool, id, token) in [
            ("chat_say", r#""\ud800""#, None),
            ("chat_say", "1e400", None),
            ("chat_draft", "7", Some(r#""\udc00""#)),
            ("chat_draft", "8", Some("1e400")),
        ] {
            let meta =
                token.map_or(String::new(), |it| format!(r#","_meta":{{"progressToken":{it}}}"#));
            let arguments = format!(r#"{{"odd": {payload}}}"#);
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call",
                    "params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}"#
            );
            let answer = server.open("/mcp", body).await.text().await.unwrap();
            assert!(answer.contains(&format!(r#""id":{id}"#)), "{payload}, {tool}: {answer}");
            assert!(answer.contains(r#""isError":false"#), "{payload}, {tool}: {answer}");
        }
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
