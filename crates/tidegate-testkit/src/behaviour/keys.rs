//! Keys of controls.

use serde_json::{Value, json};
use tidegate_core::{
    flow::Verdict,
    key::{Key, Scalar},
    request::Request,
    row::Row,
};

use crate::world::{World, event, payload, request};

/// All keyed controls with their JSON. The key's path replaces `KEY`.
const CONTROLS: [(&str, &str); 10] = [
    ("concurrency", r#"{"concurrency": {"limit": 1 KEY}}"#),
    ("concurrency", r#"{"concurrency": {"limit": 1, "span": "run" KEY}}"#),
    ("singleton", r#"{"singleton": {"mode": "skip" KEY}}"#),
    ("singleton", r#"{"singleton": {"mode": "cancel" KEY}}"#),
    ("throttle", r#"{"throttle": {"limit": 1, "perMs": 60000 KEY}}"#),
    ("rateLimit", r#"{"rateLimit": {"limit": 1, "perMs": 60000 KEY}}"#),
    ("idempotency", r#"{"idempotency": {"periodMs": 60000 KEY}}"#),
    ("debounce", r#"{"debounce": {"periodMs": 60000 KEY}}"#),
    ("batch", r#"{"batch": {"maxSize": 9, "timeoutMs": 60000 KEY}}"#),
    ("handoff", r#"{"handoff": {"onNewVersion": "drain", "type": "keyed", "keyField": "k"}}"#),
];

/// Builds a workflow with one of the controls.
fn shaped(name: &str, control: &str, key: Option<&str>) -> Value {
    let key = key.map(|path| format!(r#", "key": "{path}""#)).unwrap_or_default();
    let mut definition: Value = serde_json::from_str(&control.replace("KEY", &key)).unwrap();
    definition["name"] = json!(name);
    definition
}

/// Whether the first event affected the verdict on the second.
fn met(first: &Verdict, second: &Verdict) -> bool {
    match second {
        Verdict::Started { .. } | Verdict::WaitsForWorker { .. } => false,
        Verdict::Coalesced { run, .. } | Verdict::Buffered { run, .. } => first.run() == Some(*run),
        Verdict::Queued { .. }
        | Verdict::Dropped { .. }
        | Verdict::Skipped { .. }
        | Verdict::Deduped { .. }
        | Verdict::Replaced { .. } => true,
        Verdict::Rejected { .. } | Verdict::HeldByAncestor { .. } | _ => {
            panic!("unexpected verdict, it does not depend on another event: {second:?}")
        }
    }
}

/// spec B53, B58, B132: a control counts separately for every value of its key, for every workflow
/// and for every workspace.
pub async fn every_value_workflow_and_workspace_is_counted_apart(world: &World) {
    let elsewhere = world.in_workspace("b");
    for (n, (_, control)) in CONTROLS.iter().enumerate() {
        // Names and keys that would collide if they were only concatenated.
        let (name, other) = (format!("w{n}a"), format!("w{n}aa"));
        world.define(shaped(&name, control, Some("k"))).await;
        world.define(shaped(&other, control, Some("k"))).await;
        elsewhere.define(shaped(&name, control, Some("k"))).await;
        let first = world.send(&name, json!({ "k": "ab" })).await;
        assert!(
            met(&first, &world.send(&name, json!({ "k": "ab" })).await),
            "{control}: the same key must be counted together"
        );
        assert!(
            !met(&first, &world.send(&name, json!({ "k": "b" })).await),
            "{control}: keys are counted together"
        );
        let first = world.send(&other, json!({ "k": "b" })).await;
        assert!(!met(&first, &world.send(&other, json!({ "k": "ab" })).await), "{control}: other");
        let there = elsewhere.send(&name, json!({ "k": "ab" })).await;
        assert!(!met(&first, &there), "{control}: two workspaces are counted together");
        assert!(met(&there, &elsewhere.send(&name, json!({ "k": "ab" })).await), "{control}");
    }
    world.check_holds().await;
}

/// spec B55: a control without a key counts all events of the workflow.
pub async fn without_a_key_the_whole_workflow_is_counted(world: &World) {
    for (n, (control, spelled)) in CONTROLS.iter().enumerate() {
        if *control == "handoff" {
            continue; // Its form without a key is the type `singleton`.
        }
        let name = format!("w{n}");
        world.define(shaped(&name, spelled, None)).await;
        let first = world.send(&name, json!({ "k": 1 })).await;
        assert!(met(&first, &world.send(&name, json!({ "k": 2 })).await), "{spelled}");
        let third = world.send_text(&name, "{}").await;
        assert!(met(&first, &third.verdict), "{spelled}");
        assert!(third.key_missing.is_empty(), "{spelled}: the verdict names a missing key");
    }
}

/// spec keys, B56, B57: events without a usable key share one gate, which no event with a key uses,
/// and the verdict names the missing key.
pub async fn what_lacks_the_key_shares_one_bucket(world: &World) {
    let lacking = ["{}", r#"{"k": null}"#, r#"{"k": {"a": 1}}"#, r#"{"k": [1]}"#, "7"];
    for (n, (control, spelled)) in CONTROLS.iter().enumerate() {
        let name = format!("w{n}");
        world.define(shaped(&name, spelled, Some("k"))).await;
        if *control == "handoff" {
            for data in lacking {
                let verdict = world.send_text(&name, data).await.verdict;
                assert!(
                    matches!(verdict, Verdict::Rejected { .. }),
                    "spec B148: an event without the key was accepted: {verdict:?}"
                );
            }
            continue;
        }
        let keyed = world.send_text(&name, r#"{"k": "(missing)"}"#).await;
        assert!(keyed.key_missing.is_empty(), "{spelled}");
        let mut first: Option<Verdict> = None;
        for data in lacking {
            let outcome = world.send_text(&name, data).await;
            assert_eq!(outcome.key_missing, [*control], "{spelled} with {data}");
            match &first {
                None => {
                    assert!(!met(&keyed.verdict, &outcome.verdict), "{spelled}: {outcome:?}");
                    first = Some(outcome.verdict);
                }
                Some(first) => assert!(met(first, &outcome.verdict), "{spelled} with {data}"),
            }
        }
        let again = world.send_text(&name, r#"{"k": "(missing)"}"#).await.verdict;
        assert!(
            met(&keyed.verdict, &again),
            "{spelled}: the key `(missing)` must not mean a missing key"
        );
    }
    world.check_holds().await;
}

/// spec keys, B52, B54: a key is a plain path: nested, into arrays, or with names that contain
/// dots.
pub async fn a_key_is_a_plain_path(world: &World) {
    let cases = [
        (json!("user.id"), r#"{"user": {"id": 1}}"#, r#"{"user": {"id": 2}, "user.id": 1}"#),
        (json!("items.0.id"), r#"{"items": [{"id": 1}, 5]}"#, r#"{"items": [{"id": 2}, 5]}"#),
        (json!(["a.b", "c"]), r#"{"a.b": {"c": 1}}"#, r#"{"a.b": {"c": 2}, "a": {"b": 1}}"#),
        (json!("a + b"), r#"{"a + b": 1, "a": 1, "b": 1}"#, r#"{"a + b": 2, "a": 1, "b": 1}"#),
        (json!("event == 'x'"), r#"{"event == 'x'": 1}"#, r#"{"event == 'x'": 2}"#),
    ];
    for (n, (path, one, two)) in cases.into_iter().enumerate() {
        let name = format!("w{n}");
        let singleton = json!({ "mode": "skip", "key": path });
        world.define(json!({ "name": name, "singleton": singleton })).await;
        let first = world.send_text(&name, one).await;
        assert!(first.key_missing.is_empty(), "{path} was not found in {one}");
        assert!(met(&first.verdict, &world.send_text(&name, one).await.verdict), "{path}");
        assert!(!met(&first.verdict, &world.send_text(&name, two).await.verdict), "{path}");
    }
}

/// spec keys: values of different types are different keys, and numbers compare by exact decimal
/// value.
pub async fn types_stay_apart_and_numbers_compare_by_value(world: &World) {
    let same = [
        ("1", "1.0"),
        ("1", "1e0"),
        ("100", "1E+2"),
        ("0", "-0.0"),
        ("0.1", "10e-2"),
        (r#""é""#, r#""\u00e9""#),
        ("9007199254740993", "9007199254740993.0"),
    ];
    let apart = [
        ("1", r#""1""#),
        ("true", r#""true""#),
        ("true", "1"),
        ("false", "0"),
        (r#""""#, "null"),
        ("9007199254740992", "9007199254740993"),
        ("0.1", "0.10000000000000001"),
        (r#""a""#, r#""A""#),
    ];
    let pairs = same.map(|pair| (pair, true)).into_iter().chain(apart.map(|pair| (pair, false)));
    for (n, ((one, two), meet)) in pairs.enumerate() {
        let name = format!("w{n}");
        world.define(shaped(&name, CONTROLS[2].1, Some("k"))).await;
        let first = world.send_text(&name, &format!(r#"{{"k": {one}}}"#)).await.verdict;
        let second = world.send_text(&name, &format!(r#"{{"k": {two}}}"#)).await.verdict;
        assert_eq!(met(&first, &second), meet, "{one} and {two}");
    }
}

/// spec keys: payloads are stored byte for byte, whatever their key.
pub async fn payloads_are_kept_byte_for_byte(world: &World) {
    world.define(shaped("sync", CONTROLS[0].1, Some("k"))).await;
    let text = "{ \"k\" : 1.00e0,\n\t\"big\":9007199254740993, \"k2\":\"\\u00e9\" }";
    world.send_text("sync", text).await;
    let kept = world.dump().await.into_iter().find_map(|row| {
        let Row::Event(event) = row else { return None };
        Some(event.data.as_str().to_owned())
    });
    assert_eq!(kept.as_deref(), Some(text));
}

/// spec keys: keys over 1 KiB are compared completely, and shown by their beginning.
pub async fn long_keys_are_told_apart_and_shown_by_their_beginning(world: &World) {
    world.define(shaped("sync", CONTROLS[2].1, Some("k"))).await;
    let long = "x".repeat(5000);
    let first = world.send("sync", json!({ "k": format!("{long}1") })).await;
    assert!(!met(&first, &world.send("sync", json!({ "k": format!("{long}2") })).await));
    let second = world.send("sync", json!({ "k": format!("{long}1") })).await;
    let Verdict::Skipped { by, holder } = second else { panic!("{second:?}") };
    assert_eq!(Some(holder), first.run());
    assert!(by.key.starts_with("xxxx") && by.key.len() < 100, "{}", by.key);
}

/// spec keys, A3: a value that cannot be a key is refused with the reason; the event is still
/// recorded.
pub async fn a_value_that_cannot_be_a_key_is_said_so(world: &World) {
    world.define(shaped("sync", CONTROLS[0].1, Some("k"))).await;
    let rejected = world.send_text("sync", r#"{"k": "\ud800"}"#).await.verdict;
    let Verdict::Rejected { control, reason } = rejected else { panic!("{rejected:?}") };
    assert_eq!(control, "concurrency");
    assert!(reason.contains("`k`"), "{reason}");
    let events = world.dump().await.into_iter().filter(|row| matches!(row, Row::Event(_)));
    assert_eq!(events.count(), 1);
    assert_eq!(world.alive("sync").await, 0);
}

/// Builds a request; `function` is the value that the program's key function returned.
fn call(session: Option<&str>, user: Option<&str>, function: Option<&str>) -> Request {
    let key = function.map_or(Key::Missing, |text| Key::Value(Scalar::text(text.to_owned())));
    Request { function_key: Some(key), ..request("chat", "respond", session, user, &json!({})) }
}

/// spec B22–B30, B32, B33: the policy's key decides which requests are arbitrated together.
pub async fn a_policy_key_says_which_requests_meet(world: &World) {
    let (s, t, u, v) = (Some("s"), Some("t"), Some("u"), Some("v"));
    let function = json!({ "function": "order" });
    let cases = [
        ("spec B22: the session by default", json!(null), call(s, u, None), call(s, v, None), true),
        ("spec B23: two sessions", json!(null), call(s, u, None), call(t, u, None), false),
        ("spec B25, B32: no session", json!(null), call(None, u, None), call(None, u, None), false),
        (
            "spec B26: one user, two sessions",
            json!("user"),
            call(s, u, None),
            call(t, u, None),
            true,
        ),
        ("two users in one session", json!("user"), call(s, u, None), call(s, v, None), false),
        (
            "spec B33: a user without session",
            json!("user"),
            call(None, u, None),
            call(None, u, None),
            true,
        ),
        ("spec B28: none", json!("none"), call(s, u, None), call(s, u, None), false),
        ("spec B29: equal values", function.clone(), call(s, u, s), call(t, v, s), true),
        ("spec B29: other values", function.clone(), call(s, u, s), call(s, u, t), false),
        ("spec B30: no value", function.clone(), call(s, u, None), call(s, u, None), false),
    ];
    for (n, (what, key, one, two, meet)) in cases.into_iter().enumerate() {
        let world = world.in_workspace(&format!("w{n}"));
        let mut policy = json!({ "policy": "reject", "key": key });
        if key.is_null() {
            policy = json!("reject");
        }
        let actions = json!({ "respond": { "concurrency": policy } });
        world.define_flow(json!({ "name": "chat", "actions": actions })).await;
        let elsewhere = world.in_workspace(&format!("other{n}"));
        elsewhere.define_flow(json!({ "name": "chat", "actions": actions })).await;
        let first = world.dispatch(one.clone()).await.verdict;
        assert!(matches!(first, Verdict::Started { .. }), "{what}: {first:?}");
        assert_eq!(met(&first, &world.dispatch(two).await.verdict), meet, "{what}");
        let there = elsewhere.dispatch(one).await.verdict;
        assert!(
            !met(&first, &there),
            "spec B24, B27: {what}: two workspaces are arbitrated together"
        );
    }
}

/// spec B31, keys: the paths of an action start at the request, so that keys can be taken from
/// input and metadata.
pub async fn an_actions_paths_start_at_the_request(world: &World) {
    let actions = json!({
        "hook": { "concurrency": { "policy": "reject", "key": "metadata.webhook.delivery" } },
        "sync": { "concurrency": { "limit": 1, "key": "input.account.id" } },
    });
    world.define_flow(json!({ "name": "shop", "actions": actions })).await;
    let hook = |delivery: &str| Request {
        metadata: payload(&json!({ "webhook": { "delivery": delivery } })),
        ..request("shop", "hook", Some("s"), None, &json!({}))
    };
    let first = world.dispatch(hook("d1")).await.verdict;
    assert!(met(&first, &world.dispatch(hook("d1")).await.verdict));
    assert!(!met(&first, &world.dispatch(hook("d2")).await.verdict));
    let sync = |id: u32| request("shop", "sync", None, None, &json!({ "account": { "id": id } }));
    let first = world.dispatch(sync(1)).await.verdict;
    assert!(met(&first, &world.dispatch(sync(1)).await.verdict));
    assert!(!met(&first, &world.dispatch(sync(2)).await.verdict));
}

/// spec policies: the kinds of policy keys are separate: the session `a` is not the user `a`.
pub async fn the_kinds_of_policy_keys_are_apart(world: &World) {
    let reject = |key: Value| json!({ "concurrency": { "policy": "reject", "key": key } });
    let actions = json!({
        "by-session": reject(json!("session")),
        "by-user": reject(json!("user")),
        "by-function": reject(json!({ "function": "f" })),
        "by-path": reject(json!("input.id")),
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    for action in ["by-session", "by-user", "by-function", "by-path"] {
        let mut call = request("chat", action, Some("a"), Some("a"), &json!({ "id": "a" }));
        call.function_key = Some(Key::Value(Scalar::text("a".to_owned())));
        let verdict = world.dispatch(call).await.verdict;
        assert!(matches!(verdict, Verdict::Started { .. }), "{action}: {verdict:?}");
    }
}

/// spec B49: a workflow without controls runs any number of runs.
pub async fn a_workflow_without_controls_runs_unshaped(world: &World) {
    world.define(json!({ "name": "plain" })).await;
    let events = (0..50).map(|_| event("plain", &json!({ "k": 1 }))).collect();
    for posted in world.post_all(events).await {
        assert!(matches!(posted.runs[0].verdict, Verdict::Started { .. }));
    }
    assert_eq!(world.lease_all().await.len(), 50);
    let gates = world.dump().await.into_iter().filter(|row| matches!(row, Row::Gate(_)));
    assert_eq!(gates.count(), 0, "a workflow without controls has gate rows");
}
