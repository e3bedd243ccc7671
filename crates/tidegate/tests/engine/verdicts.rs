//! Verdicts as callers get them: a table of all outcomes.

use serde_json::{Value, json};
use tidegate::{Ctx, Workflow, testing::TestHarness};
use tidegate_core::row::Row;

use crate::words::{Journal, recorded, secs, states, work};

#[expect(clippy::too_many_lines, reason = "a table")]
/// Returns rows of: workflow name, controls, verdict of the first event, verdict of the second
/// event.
fn table() -> Vec<(&'static str, Value, Value, Value)> {
    let started = || json!({ "outcome": "started", "runId": "id" });
    let by = |outcome: &str, control: &str, more: Value| {
        let mut answer = json!({ "outcome": outcome, "control": control, "key": "a" });
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        answer
    };
    let waits = json!({ "runId": "id" });
    let turn = json!({ "runId": "id", "startAt": "at" });
    let window = || by("coalesced", "debounce", json!({ "runId": "id", "fireAt": "at" }));
    let buffer = |pending: u32| {
        let more = json!({ "runId": "id", "flushAt": "at", "pending": pending });
        by("buffered", "batch", more)
    };
    let dropped = json!({ "dropped": true, "retryAt": "at" });
    let skipped = json!({ "skipped": true, "holder": "id" });
    let replaced = json!({ "runId": "id", "replaced": "id" });
    let deduped = json!({ "deduped": true, "first": "id", "firstRunId": "id" });
    let reason = "the required key `no` is missing from the data";
    let rejected = || json!({ "outcome": "rejected", "control": "handoff", "error": reason });
    let missing = |answer: Value| {
        let mut answer = answer;
        answer["keyMissing"] = json!(["throttle"]);
        answer
    };
    let rate = || json!({ "limit": 1, "perMs": 60_000, "key": "k" });
    let no_key = json!({ "throttle": { "limit": 1, "perMs": 60_000, "key": "no" } });
    let mut late = by("queued", "throttle", turn.clone());
    late["key"] = json!("(missing)");
    let version = json!({ "type": "keyed", "keyField": "k", "onNewVersion": "drain" });
    let no_version = json!({ "type": "keyed", "keyField": "no", "onNewVersion": "drain" });
    vec![
        ("plain", json!({}), started(), started()),
        (
            "concurrency",
            json!({ "concurrency": { "limit": 1, "key": "k" } }),
            started(),
            by("queued", "concurrency", waits.clone()),
        ),
        ("throttle", json!({ "throttle": rate() }), started(), by("queued", "throttle", turn)),
        ("no key", no_key, missing(started()), missing(late)),
        (
            "rate limit",
            json!({ "rateLimit": rate() }),
            started(),
            by("dropped", "rateLimit", dropped),
        ),
        ("debounce", json!({ "debounce": { "periodMs": 60_000, "key": "k" } }), window(), window()),
        (
            "batch",
            json!({ "batch": { "maxSize": 9, "timeoutMs": 60_000, "key": "k" } }),
            buffer(1),
            buffer(2),
        ),
        (
            "skip",
            json!({ "singleton": { "mode": "skip", "key": "k" } }),
            started(),
            by("skipped", "singleton", skipped),
        ),
        (
            "cancel",
            json!({ "singleton": { "key": "k" } }),
            started(),
            by("replaced", "singleton", replaced),
        ),
        (
            "idempotency",
            json!({ "idempotency": { "key": "k" } }),
            started(),
            by("deduped", "idempotency", deduped),
        ),
        ("handoff", json!({ "handoff": version }), started(), by("queued", "handoff", waits)),
        ("no version", json!({ "handoff": no_version }), rejected(), rejected()),
    ]
}

/// Returns a verdict with its ids and times replaced by fixed words.
fn plain(answer: &Value) -> Value {
    let mut answer = answer.as_object().unwrap().clone();
    answer.remove("workflow");
    for (name, value) in &mut answer {
        match name.as_str() {
            "runId" | "holder" | "replaced" | "first" | "firstRunId" => *value = json!("id"),
            name if name.ends_with("At") => *value = json!("at"),
            _ => {}
        }
    }
    // Every verdict with a run also has the run's version.
    let version = answer.remove("version");
    assert_eq!(version, answer.contains_key("runId").then(|| json!(1)));
    Value::Object(answer)
}

/// spec verdicts, N7, N45: every verdict has its control, its key and its consequence, and nothing
/// else. It names the right run. Every verdict other than a plain start is stored as a receipt.
pub(crate) async fn every_outcome_is_told(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let mut builder = harness.engine();
    for (name, controls, _, _) in table() {
        let mut definition = json!({ "name": name, "version": 1, "triggers": ["order"] });
        definition.as_object_mut().unwrap().extend(controls.as_object().unwrap().clone());
        let journal = journal.clone();
        let handler = move |_: Ctx, _: Value| {
            let journal = journal.clone();
            async move {
                journal.spend(secs(1000)).await;
                Ok(())
            }
        };
        builder = builder.workflow(Workflow::from_definition(definition, handler));
    }
    let engine = builder.start().await.unwrap();
    let first = engine.send("order", json!({ "k": "a" })).await.unwrap().to_value();
    harness.settle().await;
    let second = engine.send("order", json!({ "k": "a" })).await.unwrap().to_value();
    let find = |answer: &Value, name: &str| -> Value {
        let runs = answer["runs"].as_array().unwrap();
        runs.iter().find(|run| run["workflow"] == name).expect("a verdict").clone()
    };
    for (name, _, expected_first, expected_second) in table() {
        let (first, second) = (find(&first, name), find(&second, name));
        assert_eq!(plain(&first), expected_first, "{name}");
        assert_eq!(plain(&second), expected_second, "{name}");
        for named in ["holder", "replaced", "firstRunId"] {
            assert!(second.get(named).is_none_or(|run| *run == first["runId"]), "{second}");
        }
    }
    assert_eq!(find(&second, "idempotency")["first"], first["id"]);
    let rows = harness.store().dump().await.unwrap();
    let receipts = rows.iter().filter(|row| matches!(row, Row::Receipt(_))).count();
    // Receipts of the first event: a window, a buffer and a refusal. Of the second event: all rows
    // of the table except one.
    assert_eq!(receipts, 3 + 11);
}

/// spec N1, N2, N3, N4: an event starts all workflows that it triggers, each once.
pub(crate) async fn an_event_starts_each_workflow_once(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let several = work(&journal, "several", secs(0)).on_event("order.*").on_event("order.paid");
    let named = work(&journal, "order.paid", secs(0));
    let other = work(&journal, "other", secs(0)).on_event("order.paid.twice");
    let engine = harness.engine().workflow(several).workflow(named).workflow(other);
    let engine = engine.start().await.unwrap();
    assert_eq!(engine.send("order.paid", json!({})).await.unwrap().runs.len(), 2);
    assert_eq!(engine.send("order.", json!({})).await.unwrap().runs.len(), 1);
    let nobody = engine.send("order", json!({})).await.unwrap();
    assert_eq!((nobody.runs.len(), nobody.woke, recorded(harness, "order").await), (0, 0, 1));
    harness.settle().await;
    assert_eq!(states(harness, "several").await, ["completed"; 2]);
    assert_eq!(states(harness, "other").await, [""; 0]);
}
