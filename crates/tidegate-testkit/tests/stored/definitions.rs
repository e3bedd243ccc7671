//! Tests that the stored form of definitions has not changed.

use std::sync::Arc;

use expect_test::expect_file;
use serde_json::{Value, json};
use tidegate_core::{
    action::Flow,
    command::{Command, StreamCommand},
    definition::Definition,
    reaction::Reaction,
    row::Row,
};
use tidegate_store::{ManualClock, MemoryStore, Store, commit};

use crate::assert_same;

/// Returns workflows that together have every field, each in all its forms.
fn workflows() -> Vec<Value> {
    let url = "http://127.0.0.1:9/a";
    vec![
        json!({ "name": "plain" }),
        json!({
            "app": "shop", "name": "limits", "version": 7, "url": url, "callTimeoutMs": 1000,
            "triggers": ["order/*", { "event": "paid" }, { "stream": "Opened" }],
            "concurrency": [{ "limit": 2, "key": "a.b" }, { "limit": 9, "span": "run" }],
            "throttle": { "limit": 3, "perMs": 1000, "burst": 2, "key": ["a.b", "c"] },
            "rateLimit": { "limit": 3, "perMs": 1000, "burst": 2, "key": "a" },
            "priority": { "shiftMs": 5 }, "idempotency": { "periodMs": 6, "key": "id" },
            "retry": { "maxAttempts": 2, "backoffMs": 3, "factor": 4, "maxBackoffMs": 5,
                       "jitter": false },
            "timeoutMs": 8, "onFailure": { "url": url }, "compensateTimeoutMs": 9,
            "description": "what it does", "schema": { "type": "object" },
        }),
        json!({ "name": "remote", "remote": { "protocol": "p", "url": url, "settings": { "a": 1 } },
                "triggers": { "event": "a", "if": { "lenient": "event.data.x" } },
                "singleton": { "key": { "expr": { "lenient": "event.data.y" } } },
                "priority": { "shiftMs": { "from": { "expr": "event.data.z" }, "min": 0, "max": 9 } },
                "cancelOn": [{ "event": "b", "match": { "a": "b" } },
                             { "event": "c", "if": "async.data.n > event.data.n" }] }),
        json!({ "name": "debounce",
                "debounce": { "periodMs": 1, "maxWaitMs": 2, "key": "a" }, "onFailure": true }),
        json!({ "name": "batch",
                "batch": { "maxSize": 2, "timeoutMs": 3, "maxBytes": 4000, "key": "a" } }),
        json!({ "name": "skip", "singleton": { "mode": "skip", "key": "a" } }),
        json!({ "name": "cancel", "singleton": { "mode": "cancel" } }),
        json!({ "name": "supersede",
                "handoff": { "type": "singleton", "onNewVersion": "supersede" } }),
        json!({ "name": "drain",
                "handoff": { "type": "keyed", "keyField": "a", "onNewVersion": "drain" } }),
        json!({ "name": "coexist",
                "handoff": { "type": "singleton", "onNewVersion": "coexist" } }),
        json!({ "name": "schedules", "triggers": [
            { "cron": "@daily" },
            { "cron": "1 * * * *", "timeZone": "Europe/Berlin", "name": "n", "catchUpMs": 10_000 },
            { "cron": "2 * * * *", "onOverlap": "allow" },
            { "cron": "3 * * * *", "onOverlap": { "policy": "queue", "maxWaitMs": 4 } },
            { "cron": "5 * * * *", "onOverlap": "restart" },
        ] }),
    ]
}

/// Returns a flow whose actions have every policy and every kind of key.
fn flow() -> Value {
    json!({ "name": "chat", "concurrency": { "policy": "queue", "maxWaitMs": 1, "key": "user" },
            "actions": [
        { "name": "default" },
        { "name": "allow", "concurrency": "allow" },
        { "name": "reject", "concurrency": { "policy": "reject", "key": "none" } },
        { "name": "restart", "concurrency": { "policy": "restart", "key": "input.a" } },
        { "name": "debounce",
          "concurrency": { "policy": "debounce", "periodMs": 1, "maxWaitMs": 2 } },
        { "name": "function",
          "concurrency": { "policy": "queue", "key": { "function": "tenant" } } },
    ] })
}

fn reactions() -> [Value; 4] {
    let backoff = json!({ "type": "exponential", "ms": 1, "maxMs": 2, "jitter": true });
    [
        json!({ "name": "fixed", "source": "a", "backoff": { "type": "fixed", "ms": 1 } }),
        json!({ "name": "linear", "source": "a", "backoff": { "type": "linear", "ms": 1 } }),
        json!({ "name": "plain", "source": "*" }),
        json!({ "name": "full", "source": "order-*", "fromHead": true, "maxRetries": 1,
                "blockOnError": false, "backoff": backoff, "leaseMs": 2000, "batch": 3,
                "maxLostLeases": 4 }),
    ]
}

/// Registers all definitions, and compares the rows of the table `def` with a file.
#[tokio::test]
async fn the_definitions_are_written_as_agreed() {
    let store = MemoryStore::new(Arc::new(ManualClock::default()));
    let ws = || "main".into();
    let flow = Flow::parse(&flow()).expect("the flow is valid").value;
    let parse = |it: &Value| match Definition::parse(it) {
        Ok(parsed) => parsed.value,
        Err(errors) => panic!("{it}: {errors}"),
    };
    let workflows = workflows().iter().map(parse).chain(flow.actions).collect::<Vec<_>>();
    let workflows = workflows.into_iter().map(|workflow| Command::Register {
        ws: ws(),
        workflow: Box::new(workflow),
        dev: false,
    });
    let reactions = reactions().map(|it| Command::Stream {
        ws: ws(),
        command: StreamCommand::Define(Reaction::parse(&it).expect("the reaction is valid")),
    });
    for (salt, command) in (1..).zip(workflows.chain(reactions)) {
        for answer in commit(&store, vec![(command, salt)]).await.expect("memory works") {
            answer.expect("the definition is registered");
        }
    }
    let rows = store.dump().await.expect("memory works");
    let definitions = rows.iter().filter_map(|row| {
        let Row::Def(def) = row else { return None };
        let body: Value = serde_json::from_str(def.body.as_str()).expect("a body is JSON");
        Some((format!("{} {}", def.app, def.name), body))
    });
    let definitions = definitions.collect::<serde_json::Map<_, Value>>();
    assert_same(expect_file!["definitions.json"], &definitions.into());
}
