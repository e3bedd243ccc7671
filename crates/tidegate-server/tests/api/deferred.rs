//! Deferred events and requests over HTTP and from the command line.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{server::Server, target::Target};

const HOUR_MS: u64 = 3_600_000;

/// spec L23: a deferred event is shown, listed, delivered and audited.
#[tokio::test]
async fn events_are_deferred_listed_and_cancelled() {
    let target = Target::kind().await;
    let mut server = Server::start_on_file(&format!(
        "[[workflow]]\nname = \"mail\"\nurl = \"{}\"\n",
        target.url
    ));
    let event = json!({ "name": "mail", "data": 1, "dedupeId": "a", "delayMs": HOUR_MS });
    let (status, answer) = server.post("/events", &event).await;
    let posted = &answer["events"][0];
    assert_eq!((status, &posted["runs"]), (StatusCode::ACCEPTED, &json!([])));
    let (id, at) = (posted["id"].as_str().unwrap(), &posted["deliverAt"]);
    assert!(at.is_string(), "{answer}");
    let (_, repeat) = server.post("/events", &event).await;
    let repeat = &repeat["events"][0];
    assert_eq!((&repeat["deduped"], &repeat["deliverAt"]), (&json!(true), at));
    server.kill();
    server.restart();
    let (_, shown) = server.get(&format!("/events/{id}")).await;
    assert_eq!((&shown["deliverAt"], &shown["deliveredAt"]), (at, &Value::Null));
    let (_, page) = server.get("/deferred?limit=1").await;
    let listed = &page["deferred"][0];
    assert_eq!(
        [&listed["id"], &listed["kind"], &listed["deliverAt"], &listed["dedupeId"]],
        [&json!(id), &json!("event"), at, &json!("a")]
    );
    let (status, cancelled) = server.post(&format!("/deferred/{id}/cancel"), "").await;
    assert_eq!((status, &cancelled["dedupeId"]), (StatusCode::OK, &json!("a")), "{cancelled}");
    let (status, again) = server.post(&format!("/deferred/{id}/cancel"), "").await;
    assert_eq!((status, &again["error"]), (StatusCode::CONFLICT, &json!("delivery_ended")));
    let (_, shown) = server.get(&format!("/events/{id}")).await;
    assert!(shown["cancelledAt"].is_string(), "{shown}");
    let (_, audit) = server.get("/audit").await;
    let entry = &audit["changes"][0];
    assert_eq!(entry["operation"], "cancelDeferred", "{audit}");
    // The `dedupeId` is free, and a short delay is delivered.
    let soon = json!({ "name": "mail", "data": 2, "dedupeId": "a", "delayMs": 300 });
    let (_, answer) = server.post("/events", &soon).await;
    let id = answer["events"][0]["id"].as_str().unwrap();
    target.called(1).await;
    let (_, shown) = server.get(&format!("/events/{id}")).await;
    assert!(shown["deliveredAt"].as_str() >= shown["deliverAt"].as_str(), "{shown}");
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(1));
}

/// spec L23: the id of a deferred request is fixed; callers wait for it, and `why` says when it is
/// delivered.
#[tokio::test]
async fn requests_are_deferred() {
    let target = Target::kind().await;
    let server = Server::start(&format!(
        "[[flow]]\nname = \"chat\"\nactions.say = {{ url = \"{}\", concurrency = \"queue\" }}\n",
        target.url
    ));
    let path = "/flows/chat/actions/say";
    let (status, far) = server.post(path, json!({ "delayMs": HOUR_MS })).await;
    assert_eq!(
        (status, &far["outcome"], &far["state"]),
        (StatusCode::ACCEPTED, &json!("deferred"), &json!("queued")),
        "{far}"
    );
    let run = far["requestId"].as_str().unwrap();
    let (_, why) = server.get(&format!("/runs/{run}/why")).await;
    assert_eq!(why["deliverAt"], far["deliverAt"], "{why}");
    let (status, held) = server.post(&format!("/runs/{run}/pause"), "").await;
    assert_eq!((status, &held["error"]), (StatusCode::CONFLICT, &json!("deferred")));
    let (status, dry) = server.post(&format!("{path}?dryRun=true"), json!({ "delayMs": 1 })).await;
    assert_eq!((status, &dry["outcome"]), (StatusCode::OK, &json!("deferred")), "{dry}");
    let (_, page) = server.get("/deferred").await;
    assert_eq!(page["deferred"].as_array().map(Vec::len), Some(1), "{page}");
    assert_eq!(page["deferred"][0]["requestId"], run);
    let waits = format!("{path}?wait=30000");
    let waiting = server.post(&waits, json!({ "delayMs": 200 }));
    let (status, ended) = tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
    assert_eq!((status, &ended["state"]), (StatusCode::OK, &json!("completed")), "{ended}");
    let (status, cancelled) = server.post(&format!("/deferred/{run}/cancel"), "").await;
    assert_eq!((status, &cancelled["requestId"]), (StatusCode::OK, &json!(run)), "{cancelled}");
    let (_, shown) = server.get(&format!("/runs/{run}")).await;
    assert_eq!(shown["state"], "cancelled", "{shown}");
}

/// A bad time is refused with the value and the fix, and nothing is recorded.
#[tokio::test]
async fn bad_times_are_refused_with_the_fix() {
    let server = Server::start("");
    let year = 365 * 24 * HOUR_MS;
    for (when, code, said) in [
        (json!({ "delayMs": -1 }), "bad_time", "from 0 to 31536000000 (365 days), got -1"),
        (json!({ "delayMs": 1.5 }), "bad_time", "a whole number of milliseconds"),
        (json!({ "delayMs": "5m" }), "bad_time", "got \"5m\""),
        (json!({ "delayMs": year + 1 }), "bad_time", "got 31536000001"),
        (
            json!({ "deliverAt": "noon" }),
            "bad_time",
            "a time like 2026-11-16T12:00:00Z, got \"noon\"",
        ),
        (json!({ "deliverAt": 7 }), "bad_time", "got 7"),
        (json!({ "deliverAt": "9999-01-01T00:00:00Z" }), "too_far_ahead", "at most 365 days"),
        (
            json!({ "deliverAt": "2026-11-16T12:00:00Z", "delayMs": 1 }),
            "bad_time",
            "exclude each other; leave one out",
        ),
    ] {
        let mut event = when.clone();
        event["name"] = "a".into();
        let (status, answer) = server.post("/events", json!([{ "name": "ok" }, event])).await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert_eq!((status.as_u16(), &answer["error"]), (422, &json!(code)), "{when}: {answer}");
        assert!(detail.contains(said), "{when}: {detail}");
        assert!(code != "bad_time" || detail.starts_with("event 1: "), "{when}: {detail}");
    }
    let (_, events) = server.get("/events").await;
    assert_eq!(events["events"], json!([]));
    let (status, answer) = server.post("/flows/f/actions/a", json!({ "delayMs": -1 })).await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_time")));
}

/// The commands `send --delay`, `send --at`, `deferred list` and `deferred cancel`.
#[tokio::test]
async fn the_command_line_defers_lists_and_cancels() {
    let server = Server::start("");
    let said = server.command(&["send", "mail", "1", "--delay", "3d"]).unwrap();
    assert_eq!(said, "1 deferred: delivered later\n");
    let at = "2026-01-01T00:00:00Z";
    let said = server.command(&["send", "mail", "1", "--at", at]).unwrap();
    assert_eq!(said, "1 recorded: triggers no workflow\n", "that time has passed");
    let list = server.command(&["deferred"]).unwrap();
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].contains("DELIVER AT"), "{list}");
    assert!(lines.len() == 2 && lines[1].contains("mail"), "{list}");
    let id = lines[1].split_whitespace().next().unwrap();
    let said = server.command(&["deferred", "cancel", id]).unwrap();
    assert!(said.starts_with(&format!("{id} (mail) cancelled; ")), "{said}");
    assert!(server.command(&["deferred", "cancel", id]).is_err());
    assert!(server.command(&["send", "mail", "1", "--delay", "soon"]).is_err());
}
