//! Callers that disconnect: a request takes effect completely or not at all, whenever its
//! connection is closed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    fleet::{Fleet, On},
    server::Server,
    target::Target,
};

/// Number of requests per operation and kind of disconnect.
const TIMES: u64 = 6;

/// Test timeout. It is reached only if an expected event never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Secret with which the webhook deliveries are signed.
const SECRET: &str = "left";

/// An operation that admits runs or commits events.
struct Case {
    /// Operation id in the OpenAPI document.
    operation: &'static str,
    path: &'static str,
    body: fn(u64) -> Value,
    /// Effects of one request, each expected once: paths that its runs call, or for a commit the
    /// names of its events.
    parts: &'static [&'static str],
}

#[rustfmt::skip]
const CASES: [Case; 7] = [
    Case {
        operation: "postEvents",
        path: "/events",
        body: |n| json!([{ "name": "left", "data": { "n": n } },
            { "name": "right", "data": { "n": n } }]),
        parts: &["/left", "/right"],
    },
    Case {
        operation: "callAction",
        path: "/flows/f/actions/act",
        body: |n| json!({ "input": { "n": n } }),
        parts: &["/act"],
    },
    Case {
        operation: "callAction",
        path: "/flows/f/actions/act?wait=60000",
        body: |n| json!({ "input": { "n": n } }),
        parts: &["/act"],
    },
    Case {
        operation: "sendMessage",
        path: "/flows/chat/sessions/s/messages",
        body: |n| json!({ "input": { "n": n } }),
        parts: &["/append", "/respond"],
    },
    Case {
        operation: "takeDelivery",
        path: "/webhooks/f/hook",
        body: |n| json!({ "n": n }),
        parts: &["/hooked"],
    },
    Case {
        operation: "mcp",
        path: "/mcp",
        body: |n| json!({
            "jsonrpc": "2.0", "id": n, "method": "tools/call",
            "params": { "name": "f_tool", "arguments": { "n": n } },
        }),
        parts: &["/tool"],
    },
    Case {
        operation: "commit",
        path: "/streams/s/events",
        body: |n| json!({ "events": [{ "name": "one", "data": { "n": n } },
            { "name": "two", "data": { "n": n } }] }),
        parts: &["one", "two"],
    },
];

/// Operations that are exempt: they have one effect by one command, or admit no run.
const OTHERS: [&str; 17] = [
    "bulk",
    "cancelDeferred",
    "cancelRun",
    "makeKey",
    "pauseRun",
    "pauseSchedule",
    "purge",
    "release",
    "replayRun",
    "reset",
    "resumeRun",
    "resumeSchedule",
    "retryRun",
    "signalRun",
    "undoOverride",
    "unblock",
    "changeSession",
];

/// When and how the caller disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// After half of the body.
    MidBody,
    /// Right after the last byte, with FIN.
    AfterSending,
    /// Right after the last byte, with RST.
    Resetting,
    /// A few milliseconds after the last byte, with RST.
    Soon,
    /// When the first byte of the answer arrives.
    AtTheAnswer,
}

const WAYS: [Leaves; 5] =
    [Leaves::MidBody, Leaves::AfterSending, Leaves::Resetting, Leaves::Soon, Leaves::AtTheAnswer];

fn config(url: &str) -> String {
    format!(
        r#"
        [[workflow]]
        name = "left"
        triggers = ["left"]
        url = "{url}/left"
        [[workflow]]
        name = "right"
        triggers = ["right"]
        url = "{url}/right"
        [[flow]]
        name = "f"
        actions.act = {{ url = "{url}/act" }}
        actions.tool = {{ url = "{url}/tool" }}
        actions.hooked = {{ url = "{url}/hooked" }}
        webhooks.hook = {{ action = "hooked", scheme = "hmac", secretEnv = "HOOK_SECRET" }}
        [[flow]]
        name = "chat"
        concurrency = "queue"
        chat = {{ append = "append", respond = "respond" }}
        actions.append = {{ url = "{url}/append", concurrency = "allow" }}
        actions.respond = {{ url = "{url}/respond" }}
        "#
    )
}

/// Sends a request and disconnects in the given way.
async fn send_and_leave(url: &str, case: &Case, n: u64, leaves: Leaves) {
    let body = (case.body)(n).to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let mac = mac.finalize().into_bytes();
    let signature = mac.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let address = url.strip_prefix("http://").unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nx-signature: {signature}\r\n\
         content-length: {}\r\n\r\n",
        case.path,
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    let sent = if leaves == Leaves::MidBody { &body[..body.len() / 2] } else { &body };
    stream.write_all(format!("{head}{sent}").as_bytes()).await.unwrap();
    match leaves {
        Leaves::MidBody | Leaves::AfterSending => return,
        Leaves::Resetting => {}
        Leaves::Soon => tokio::time::sleep(Duration::from_micros(n * 300 % 3000)).await,
        Leaves::AtTheAnswer => {
            let _ = stream.read_u8().await;
        }
    }
    stream.set_zero_linger().unwrap();
}

/// Returns how often each effect of each request was seen, in the calls of the service or in the
/// stream.
async fn seen(fleet: &Fleet, target: &Target) -> BTreeMap<(String, u64), usize> {
    let mut seen = BTreeMap::new();
    for call in target.calls() {
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let data = body.get("input").unwrap_or(&body);
        *seen.entry((call.path, data["n"].as_u64().unwrap())).or_default() += 1;
    }
    let (_, page) = fleet.next().get("/streams/s/events?limit=500").await;
    for event in page["events"].as_array().into_iter().flatten() {
        let name = event["name"].as_str().unwrap().to_owned();
        *seen.entry((name, event["data"]["n"].as_u64().unwrap())).or_default() += 1;
    }
    seen
}

/// Returns the requests of which only some effects were seen.
fn halves(seen: &BTreeMap<(String, u64), usize>, sent: &[(&Case, u64, Leaves)]) -> Vec<String> {
    let count = |part: &str, n: u64| seen.get(&(part.to_owned(), n)).copied().unwrap_or_default();
    let mut halves = Vec::new();
    for (case, n, leaves) in sent {
        let counts: Vec<usize> = case.parts.iter().map(|part| count(part, *n)).collect();
        let answered = *leaves == Leaves::AtTheAnswer;
        let whole = counts.iter().all(|count| *count == 1);
        if !whole && (answered || counts.iter().any(|count| *count > 0)) {
            halves.push(format!("{} {n} ({leaves:?}): {:?} {counts:?}", case.path, case.parts));
        }
    }
    halves
}

async fn what_a_caller_who_leaves_has_sent_is_whole_or_nothing(on: On) {
    let target = Target::start(|_, _| (200, vec![], String::new())).await;
    let variables = [("HOOK_SECRET", SECRET)];
    let Some(fleet) = Fleet::start(on, &config(&target.url), &variables).await else { return };
    let (mut n, mut sent) = (0, Vec::new());
    for _ in 0..TIMES {
        for case in &CASES {
            for leaves in WAYS {
                n += 1;
                send_and_leave(fleet.next().url(), case, n, leaves).await;
                sent.push((case, n, leaves));
            }
        }
    }
    // The server admits some requests: waits until all their effects are seen.
    let began = Instant::now();
    let seen = loop {
        let seen = seen(&fleet, &target).await;
        let halves = halves(&seen, &sent);
        if halves.is_empty() {
            break seen;
        }
        assert!(began.elapsed() < PATIENCE, "requests took effect only partly: {halves:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for (case, n, leaves) in &sent {
        let taken = seen.contains_key(&(case.parts[0].to_owned(), *n));
        assert!(
            !(taken && *leaves == Leaves::MidBody),
            "{}: a request with half a body took effect",
            case.path
        );
    }
    let (_, report) = fleet.next().get("/doctor").await;
    assert_eq!(report["healthy"], true, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_who_leaves_has_sent_is_whole_or_nothing_on_a_file() {
    what_a_caller_who_leaves_has_sent_is_whole_or_nothing(On::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_who_leaves_has_sent_is_whole_or_nothing_on_two_servers() {
    what_a_caller_who_leaves_has_sent_is_whole_or_nothing(On::Postgres).await;
}

/// A new operation must be in the table above, or on the list of exempt operations.
#[tokio::test]
async fn every_operation_that_changes_something_is_here() {
    let server = Server::start("");
    let (_, description) = server.get("/openapi.json").await;
    let mut missing = BTreeSet::new();
    for methods in description["paths"].as_object().unwrap().values() {
        for method in ["post", "patch"] {
            let Some(operation) = methods[method]["operationId"].as_str() else { continue };
            let known = CASES.iter().map(|case| case.operation).chain(OTHERS);
            if !known.into_iter().any(|it| it == operation) {
                missing.insert(operation.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "operations without a test of disconnecting callers: {missing:?}");
}
