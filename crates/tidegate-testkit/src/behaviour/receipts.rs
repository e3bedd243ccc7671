//! Receipts: every verdict other than a plain start is stored, with the run that took the event's
//! place.

use serde_json::{Value, json};
use tidegate_core::{event::Posted, flow::Verdict, row::Row};

use crate::world::{World, event};

/// Posts an event for one workflow; returns the answer, the verdict, and its receipt, if it has
/// one.
async fn told_and_kept(world: &World, name: &str, data: Value) -> (Posted, Value, Option<Value>) {
    let posted = world.post(name, data).await;
    let mut receipts = world.receipts(posted.id).await;
    assert!(receipts.len() <= 1, "a workflow has more than one receipt for an event: {receipts:?}");
    let answer = posted.runs[0].to_value();
    let kept = receipts.pop().map(|receipt| {
        assert_eq!((receipt.workflow.as_str(), receipt.at), (name, world.now()));
        assert_eq!((&receipt.ws, receipt.event), (&world.ws, posted.id.seq));
        if let Some(key) = answer.get("key") {
            assert_eq!(*key, json!(receipt.key), "the receipt was not found by its key");
        }
        receipt.verdict
    });
    (posted, answer, kept)
}

/// spec receipts: each kind of verdict has a receipt, of which one field names the run that took
/// the event's place.
pub async fn every_verdict_but_a_plain_start_is_kept(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 60_000, "key": "k" });
    let handoff = json!({ "type": "keyed", "keyField": "k", "onNewVersion": "drain" });
    let cases = [
        ("queued", json!({ "concurrency": { "limit": 1, "key": "k" } }), None),
        ("queued", json!({ "throttle": rate }), None),
        ("coalesced", json!({ "debounce": { "periodMs": 1000, "key": "k" } }), Some("runId")),
        (
            "buffered",
            json!({ "batch": { "maxSize": 9, "timeoutMs": 9, "key": "k" } }),
            Some("runId"),
        ),
        ("dropped", json!({ "rateLimit": rate }), None),
        ("skipped", json!({ "singleton": { "mode": "skip", "key": "k" } }), Some("holder")),
        ("replaced", json!({ "singleton": { "mode": "cancel", "key": "k" } }), Some("replaced")),
        ("deduped", json!({ "idempotency": { "key": "k" } }), Some("firstRunId")),
        ("queued", json!({ "handoff": handoff }), None),
    ];
    for (n, (outcome, mut definition, survivor)) in cases.into_iter().enumerate() {
        let name = format!("w{n}");
        definition["name"] = json!(name);
        world.define(definition.clone()).await;
        let (first, answer, kept) = told_and_kept(world, &name, json!({ "k": "a" })).await;
        let plain = answer["outcome"] == json!("started");
        assert_eq!(
            kept.is_none(),
            plain,
            "{definition}: only a plain start has no receipt: {answer}"
        );
        let (_, answer, kept) = told_and_kept(world, &name, json!({ "k": "a" })).await;
        let kept = kept.unwrap_or_else(|| panic!("{definition}: no receipt for {answer}"));
        assert_eq!((&answer["outcome"], &answer["key"]), (&json!(outcome), &json!("a")));
        for (field, value) in kept.as_object().unwrap() {
            assert_eq!(answer.get(field), Some(value), "{definition}: `{field}`");
        }
        if matches!(outcome, "dropped" | "skipped" | "deduped") {
            assert_eq!(answer[outcome], json!(true), "{answer}");
        }
        let run = first.runs[0].verdict.run().unwrap();
        if let Some(field) = survivor {
            assert_eq!(kept[field], json!(run), "{definition}: {kept}");
        }
        let carries = matches!(outcome, "queued" | "coalesced" | "buffered" | "replaced");
        assert_eq!(answer.get("runId").is_some(), carries, "{answer}");
    }
}

/// spec keys, receipts: the receipt of a rejection names the missing key, and so does that of an
/// event that shares the gate for missing keys.
pub async fn a_receipt_says_what_is_missing(world: &World) {
    let handoff = json!({ "type": "keyed", "keyField": "k.id", "onNewVersion": "drain" });
    world.define(json!({ "name": "strict", "handoff": handoff })).await;
    let (_, answer, kept) = told_and_kept(world, "strict", json!({})).await;
    assert_eq!((&answer["outcome"], &answer["control"]), (&json!("rejected"), &json!("handoff")));
    assert!(answer["error"].as_str().unwrap().contains("`k.id`"), "{answer}");
    assert_eq!(kept.unwrap()["error"], answer["error"]);
    let limit = json!({ "limit": 1, "key": "k" });
    world.define(json!({ "name": "shared", "concurrency": limit })).await;
    world.send("shared", json!({})).await;
    let (_, answer, kept) = told_and_kept(world, "shared", json!({})).await;
    assert_eq!(answer["keyMissing"], json!(["concurrency"]));
    assert_eq!(kept.unwrap()["keyMissing"], answer["keyMissing"]);
}

/// spec receipts: an event has one receipt for each workflow whose verdict is not a plain start.
pub async fn each_workflow_writes_its_own_receipt(world: &World) {
    let on = json!([{ "event": "go" }]);
    world.define(json!({ "name": "a", "triggers": on, "singleton": { "mode": "skip" } })).await;
    world.define(json!({ "name": "b", "triggers": on })).await;
    world.define(json!({ "name": "c", "triggers": on, "idempotency": {} })).await;
    world.post("go", json!({})).await;
    let posted = world.post_all(vec![event("go", &json!({})), event("go", &json!({}))]).await;
    for posted in posted {
        let receipts = world.receipts(posted.id).await;
        let kept: Vec<_> = receipts
            .iter()
            .map(|it| (it.workflow.as_str(), it.verdict["outcome"].clone()))
            .collect();
        assert_eq!(kept, [("a", json!("skipped")), ("c", json!("deduped"))]);
    }
}

/// spec A5, receipts: refusals of schedules and calls have receipts, too.
pub async fn refused_schedules_and_calls_are_kept(world: &World) {
    let triggers = json!(["sync", { "cron": "@daily" }]);
    let singleton = json!({ "mode": "skip" });
    world.define(json!({ "name": "sync", "triggers": triggers, "singleton": singleton })).await;
    world.define(json!({ "name": "caller" })).await;
    let first = world.send_for_run("sync", json!({})).await;
    let skipped = world.occur("sync", "@daily").await;
    assert!(matches!(skipped, Verdict::Skipped { holder, .. } if holder == first));
    world.send_for_run("caller", json!({})).await;
    let runs = world.lease_all().await;
    let caller = runs.iter().find(|run| run.workflow == "caller").unwrap();
    world.invoke(caller, "call", "sync", json!({})).await;
    let rows = world.dump().await;
    let kept: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let Row::Receipt(receipt) = row else { return None };
            Some((receipt.verdict["outcome"].clone(), receipt.verdict["holder"].clone()))
        })
        .collect();
    assert_eq!(kept, [(json!("skipped"), json!(first)), (json!("skipped"), json!(first))]);
}
