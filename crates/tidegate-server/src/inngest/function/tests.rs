//! The mapping of functions, field by field (INNGEST §7), and each refusal.

use serde_json::{Map, Value, json};
use tidegate_core::definition::Definition;

use super::Function;
use crate::inngest::fields::plain;

/// Returns a function with these fields, as the SDKs for JavaScript and Python send it.
fn with(fields: &Value) -> Value {
    let mut function = json!({
        "id": "shop-pay", "name": "shop-pay", "triggers": [{ "event": "order/paid" }],
        "steps": { "step": {
            "id": "step", "name": "step",
            "runtime": { "type": "http", "url": "http://h:3000/api/inngest?fnId=shop-pay&stepId=step" },
            "retries": { "attempts": 4 },
        } },
    });
    function.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    function
}

fn read(function: &Value) -> Result<Function, String> {
    Function::read(&plain(function.clone()), "shop", "js")
}

/// Returns the fields of the definition that a plain function does not have, and its pools.
fn mapped(fields: &Value) -> Value {
    let function = read(&with(fields)).unwrap_or_else(|error| panic!("{fields}: {error}"));
    let parsed = Definition::parse(&function.definition)
        .unwrap_or_else(|errors| panic!("{fields} became {}: {errors}", function.definition));
    let stored = serde_json::to_value(&parsed.value).unwrap();
    assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), parsed.value);
    let plain = read(&with(&json!({}))).unwrap().definition;
    let mut own: Map<String, Value> = function.definition.as_object().unwrap().clone();
    own.retain(|name, value| plain.get(name) != Some(value));
    if !function.pools.is_empty() {
        own.insert("pools".to_owned(), json!(function.pools));
    }
    Value::Object(own)
}

#[test]
fn a_function_becomes_a_workflow_with_its_own_name() {
    let function = read(&with(&json!({ "name": "Pay an order" }))).unwrap();
    let expected = json!({
        "app": "shop", "name": "pay", "description": "Pay an order", "triggers": ["order/paid"],
        "retry": { "maxAttempts": 5, "backoffMs": 15_000, "factor": 2, "maxBackoffMs": 7_200_000 },
        "endEvents": {
            "completed": ["inngest/function.finished"],
            "failed": ["inngest/function.failed", "inngest/function.finished"],
            "cancelled": ["inngest/function.cancelled"],
            "data": { "function_id": "shop-pay" },
        },
        "remote": {
            "protocol": "inngest",
            "url": "http://h:3000/api/inngest?fnId=shop-pay&stepId=step",
            "settings": { "functionId": "shop-pay", "sdk": "js" },
        },
    });
    assert_eq!(function.definition, expected);
    assert_eq!((function.id.as_str(), function.pools.len()), ("shop-pay", 0));
}

/// Each control of §7. An expression that is a bare path becomes the path.
#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn every_control_is_mapped() {
    let id = json!("id");
    let lenient = |text: &str| json!({ "lenient": text });
    let expr = |text: &str| json!({ "expr": lenient(text) });
    let priority = |text: &str| {
        let from = expr(&format!("({text}) * 1000"));
        json!({ "priority": { "shiftMs": { "from": from, "min": -600_000, "max": 600_000 } } })
    };
    let executing = |limit: Value| json!({ "concurrency": [limit] });
    for (fields, expected) in [
        (json!({ "concurrency": 7 }), executing(json!({ "limit": 7 }))),
        (json!({ "concurrency": { "limit": 7 } }), executing(json!({ "limit": 7 }))),
        (json!({ "concurrency": [] }), json!({})),
        (json!({ "concurrency": null }), json!({})),
        (
            json!({ "concurrency": [{ "limit": 9 }, { "limit": 1, "key": "event.data.id", "scope": "fn" }] }),
            json!({ "concurrency": [{ "limit": 9 }, { "limit": 1, "key": id }] }),
        ),
        (
            json!({ "concurrency": { "limit": 2, "key": "event.data.a + event.data.b" } }),
            executing(json!({ "limit": 2, "key": expr("event.data.a + event.data.b") })),
        ),
        (
            json!({ "concurrency": { "limit": 3, "scope": "env", "key": "\"openai\"" } }),
            json!({
                "concurrency": [{ "pool": "env \"openai\"", "key": expr("\"openai\"") }],
                "pools": [{ "name": "env \"openai\"", "concurrency": { "limit": 3 } }],
            }),
        ),
        (
            json!({ "concurrency": { "limit": 3, "scope": "account", "key": "event.data.id" } }),
            json!({
                "concurrency": [{ "pool": "account event.data.id", "key": id }],
                "pools": [{ "name": "account event.data.id", "concurrency": { "limit": 3 } }],
            }),
        ),
        (
            json!({ "concurrency": { "limit": 3, "scope": "env" } }),
            json!({
                "concurrency": [{ "pool": "env" }],
                "pools": [{ "name": "env", "concurrency": { "limit": 3 } }],
            }),
        ),
        (
            json!({ "concurrency": { "step": [{ "limit": 5, "scope": "Fn", "hash": "" }],
                                     "fn": [{ "limit": 2, "key": "event.data.id", "hash": "" }] } }),
            json!({ "concurrency": [{ "limit": 5 }, { "limit": 2, "key": id, "span": "run" }] }),
        ),
        (
            json!({ "concurrency": { "step": [{ "limit": 3, "key": "event.data.id", "scope": "Env" }] } }),
            json!({
                "concurrency": [{ "pool": "env event.data.id", "key": id }],
                "pools": [{ "name": "env event.data.id", "concurrency": { "limit": 3 } }],
            }),
        ),
        (
            json!({ "throttle": { "limit": 5, "period": "1m", "key": "event.data.id" } }),
            json!({ "throttle": { "limit": 5, "perMs": 60_000, "key": id } }),
        ),
        (
            json!({ "throttle": { "limit": 5, "period": "2s", "burst": 3 } }),
            json!({ "throttle": { "limit": 5, "perMs": 2000, "burst": 4 } }),
        ),
        (
            json!({ "rateLimit": { "limit": 10, "period": "1m" } }),
            json!({ "rateLimit": { "limit": 10, "perMs": 60_000 } }),
        ),
        (
            json!({ "rateLimit": { "limit": 10, "period": "1m" }, "idempotency": "event.data.id" }),
            json!({ "idempotency": { "key": id, "periodMs": 86_400_000 } }),
        ),
        (
            json!({ "debounce": { "period": "5s", "key": "event.data.id", "timeout": "1m" } }),
            json!({ "debounce": { "periodMs": 5000, "key": id, "maxWaitMs": 60_000 } }),
        ),
        (
            json!({ "batchEvents": { "maxSize": 3, "timeout": "5s", "key": "event.data.id",
                                     "if": "event.data.n > 1" } }),
            json!({ "batch": { "maxSize": 3, "timeoutMs": 5000, "key": id,
                               "if": lenient("event.data.n > 1") } }),
        ),
        (json!({ "priority": { "run": "120" } }), priority("120")),
        (
            json!({ "priority": { "run": "event.data.plan == 'pro' ? 120 : 0" } }),
            priority("event.data.plan == 'pro' ? 120 : 0"),
        ),
        (json!({ "Singleton": {} }), json!({ "singleton": { "mode": "skip" } })),
        (
            json!({ "singleton": { "mode": "cancel", "key": "event.data.on && event.data.id" } }),
            json!({ "singleton": { "mode": "cancel",
                                   "key": expr("event.data.on && event.data.id") } }),
        ),
        (
            json!({ "cancel": [{ "event": "order/gone", "timeout": "1h",
                                 "if": "event.data.id == async.data.orderId" }] }),
            json!({ "cancelOn": [{ "event": "order/gone", "withinMs": 3_600_000,
                                   "match": { "orderId": "id" } }] }),
        ),
        (
            json!({ "cancel": [{ "event": "x",
                "if": "async.data.a.b == event.data.c && event.data.d == async.data.d" }] }),
            json!({ "cancelOn": [{ "event": "x", "match": { "a.b": "c", "d": "d" } }] }),
        ),
        (
            json!({ "cancel": [{ "event": "x" },
                               { "event": "y", "if": "async.data.n > event.data.n" }] }),
            json!({ "cancelOn": [
                { "event": "x", "if": lenient("true") },
                { "event": "y", "if": lenient("async.data.n > event.data.n") },
            ] }),
        ),
        (
            json!({ "timeouts": { "start": "10s", "finish": "1h" } }),
            json!({ "startWithinMs": 10_000, "timeoutMs": 3_600_000 }),
        ),
        (json!({ "unknown": { "a": 1 }, "checkpoint": true }), json!({})),
    ] {
        assert_eq!(mapped(&fields), expected, "{fields}");
    }
}

#[test]
fn every_trigger_is_mapped() {
    let hourly = json!({ "cron": "0 * * * *", "onOverlap": "allow" });
    let paris = json!({ "cron": "0 12 * * 1-5", "timeZone": "Europe/Paris", "onOverlap": "allow" });
    for (triggers, expected) in [
        (json!([{ "event": "a/b" }]), json!(["a/b"])),
        (json!([{ "event": "a/*" }, { "event": "b.*" }]), json!(["a/*", "b.*"])),
        (
            json!([{ "event": "a", "expression": "event.data.n == 1" }]),
            json!([{ "event": "a", "if": { "lenient": "event.data.n == 1" } }]),
        ),
        (json!([{ "event": "a", "expression": "" }]), json!(["a"])),
        (json!([{ "cron": "0 * * * *", "jitter": "30s" }]), json!([hourly])),
        (json!([{ "cron": "TZ=Europe/Paris 0 12 * * 1-5" }]), json!([paris])),
        (json!([{ "cron": "CRON_TZ=Europe/Paris 0 12 * * 1-5" }]), json!([paris])),
        (json!([]), json!(["inngest/invoke:shop-pay"])),
    ] {
        let function = read(&with(&json!({ "triggers": triggers }))).unwrap();
        assert_eq!(function.definition["triggers"], expected);
        Definition::parse(&function.definition).unwrap();
    }
    let failure = with(&json!({
        "id": "shop-pay-failure",
        "triggers": [{ "event": "inngest/function.failed",
                       "expression": "event.data.function_id == 'shop-pay'" }],
    }));
    let failure = read(&failure).unwrap();
    assert_eq!(failure.definition["name"], "pay-failure");
    Definition::parse(&failure.definition).unwrap();
}

/// The SDKs spell and place the number of retries differently.
#[test]
fn retries_are_read_in_every_place() {
    let step = |retries: Value| {
        let runtime = json!({ "type": "http", "url": "http://h/x" });
        json!({ "steps": { "step": { "runtime": runtime, "retries": retries } } })
    };
    let mut go = step(json!(null));
    go["retries"] = json!(7);
    for (fields, attempts) in [
        (step(json!({ "attempts": 0 })), 1),
        (step(json!({ "attempts": 20 })), 21),
        (step(json!(3)), 4),
        (step(json!(null)), 5),
        (go, 8),
    ] {
        let function = read(&with(&fields)).unwrap();
        assert_eq!(function.definition["retry"]["maxAttempts"], attempts, "{fields}");
    }
}

/// Each refusal names the function and the field in the SDK's own words.
#[test]
fn what_cannot_be_done_is_refused_with_a_sentence() {
    let cancel = |condition: &str| json!({ "cancel": [{ "event": "x", "if": condition }] });
    let runtime = |kind: &str| json!({ "steps": { "step": { "runtime": { "type": kind, "url": "http://h" } } } });
    for (fields, said) in [
        (json!({ "concurrency": 0 }), "concurrency must be a whole number of at least 1, got 0"),
        (json!({ "concurrency": "x" }), "concurrency must be an object, got \"x\""),
        (json!({ "concurrency": {} }), "concurrency.limit is required"),
        (
            json!({ "concurrency": [{ "limit": 1 }, { "limit": 1.5 }] }),
            "concurrency[1].limit must be a whole number of at least 1, got 1.5",
        ),
        (
            json!({ "concurrency": { "limit": 1, "scope": "team" } }),
            "concurrency.scope must be fn, env or account, got `team`",
        ),
        (
            json!({ "concurrency": { "limit": 1, "key": "event.data.(" } }),
            "concurrency.key has an error in `event.data.(`",
        ),
        (
            json!({ "throttle": { "limit": 1, "key": "user.id", "period": "1s" } }),
            "throttle.key has no variable `user`: it is `event`, got `user.id`",
        ),
        (json!({ "throttle": { "limit": 1 } }), "throttle.period is required"),
        (
            json!({ "rateLimit": { "limit": 1, "period": "soon" } }),
            "rateLimit.period must be a duration such as `10s` or `2h45m`, got `soon`",
        ),
        (json!({ "debounce": {} }), "debounce.period is required"),
        (json!({ "batchEvents": { "timeout": "1s" } }), "batchEvents.maxSize is required"),
        (
            json!({ "batchEvents": { "maxSize": 1, "timeout": "1s", "if": "x" } }),
            "batchEvents.if has no variable `x`",
        ),
        (json!({ "priority": { "run": "1 +" } }), "priority.run has an error in `1 +`"),
        (
            json!({ "singleton": { "mode": "queue" } }),
            "singleton.mode must be skip or cancel, got `queue`",
        ),
        (json!({ "cancel": [{ "if": "true" }] }), "cancel[0].event is required"),
        (cancel("async.data.n >"), "cancel[0].if has an error in `async.data.n >`"),
        (cancel("run.id == 1"), "cancel[0].if has no variable `run`: it is `event` or `async`"),
        (json!({ "timeouts": { "start": "0s" } }), "timeouts.start must be a duration"),
        (
            json!({ "triggers": [{ "event": "a*b" }] }),
            "triggers[0].event may have a star only at its end, got `a*b`",
        ),
        (json!({ "triggers": [{}] }), "triggers[0] must have either `event` or `cron`"),
        (runtime("ws"), "steps.step.runtime.type must be `http`, got `ws`"),
        (json!({ "steps": {} }), "steps.step must be an object"),
    ] {
        let error = read(&with(&fields)).unwrap_err();
        assert!(error.starts_with("function `shop-pay`: "), "{error}");
        assert!(error.contains(said), "{fields}: {error}");
    }
}

/// What the protocol allows, but not together, is refused by the engine when it is registered.
#[test]
fn combinations_that_the_engine_refuses_are_named() {
    let batch = json!({ "maxSize": 2, "timeout": "1s" });
    for (fields, said) in [
        (
            json!({ "batchEvents": batch, "singleton": { "mode": "cancel" } }),
            "would lose the events of a cancelled batch",
        ),
        (
            json!({ "batchEvents": batch, "cancel": [{ "event": "x",
                    "if": "event.data.id == async.data.id" }] }),
            "may differ between the events of one batch",
        ),
        (
            json!({ "batchEvents": batch, "concurrency": { "limit": 1, "key": "event.data.id" } }),
            "may differ between the events of one batch",
        ),
    ] {
        let function = read(&with(&fields)).unwrap();
        let errors = Definition::parse(&function.definition).unwrap_err().to_string();
        assert!(errors.contains(said), "{fields}: {errors}");
    }
}
