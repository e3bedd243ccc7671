//! Bad input to flow control, over HTTP and in the config file: each answer has a code, and names
//! the field, the value and the rule or the fix.

use serde_json::{Value, json};

use super::server::Server;

/// Server with a pool, and a workflow that overrides can name.
const CONFIG: &str = r#"
[[pool]]
name = "gpu"
concurrency = { limit = 5 }
throttle = { limit = 10, perMs = 1000 }

[[pool]]
name = "keyed"
concurrency = { limit = 5, key = "t" }

[[workflow]]
name = "sync"
url = "http://127.0.0.1:9/"
concurrency = { limit = 2, key = "account" }
"#;

/// Definitions: the fields, the code and the field of the problem, and the end of its message.
const DEFINITIONS: [(&str, &str, &str, &str); 44] = [
    (
        r#"{"concurrency": {"limit": 5, "cost": 0}}"#,
        "out_of_range",
        "concurrency.cost",
        "must be at least 1, got 0",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": -1}}"#,
        "out_of_range",
        "concurrency.cost",
        "must be at least 1, got -1",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": 1.5}}"#,
        "wrong_type",
        "concurrency.cost",
        "must be a whole number, got 1.5",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": 1000001}}"#,
        "out_of_range",
        "concurrency.cost",
        "must be at most 1000000, got 1000001",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": 6}}"#,
        "out_of_range",
        "concurrency.cost",
        "must be at most the limit (5), got 6",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": true}}"#,
        "wrong_type",
        "concurrency.cost",
        "must be a whole number, or the path of one in the data, got true",
    ),
    (
        r#"{"concurrency": {"limit": 5, "cost": "a..b"}}"#,
        "bad_path",
        "concurrency.cost",
        "must have a name between its dots, got `a..b`",
    ),
    (
        r#"{"rateLimit": {"limit": 5, "perMs": 1000, "cost": 6}}"#,
        "out_of_range",
        "rateLimit.cost",
        "must be at most the burst (5), got 6",
    ),
    (
        r#"{"concurrency": {"pool": "gpu", "cost": 6}}"#,
        "out_of_range",
        "concurrency.cost",
        "must be at most the limit of pool `gpu` (5), got 6",
    ),
    (
        r#"{"concurrency": {"pool": "gpu", "limit": 3}}"#,
        "unknown_field",
        "concurrency.limit",
        "is not known: known are `pool`, `key`, `cost`",
    ),
    (
        r#"{"concurrency": {"pool": "gpx"}}"#,
        "unknown_value",
        "concurrency.pool",
        "names pool `gpx`, which does not exist: did you mean `gpu`?",
    ),
    (
        r#"{"rateLimit": {"pool": "gpu"}}"#,
        "unknown_value",
        "rateLimit.pool",
        "names pool `gpu`, which has no rateLimit: declare it on the pool",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "a", "weights": {"acme": 0}}}}"#,
        "out_of_range",
        "concurrency.fair.weights.acme",
        "must be at least 1, got 0",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "a", "weights": {"acme": "x"}}}}"#,
        "wrong_type",
        "concurrency.fair.weights.acme",
        "must be a whole number, got \"x\"",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "a", "defaultWeight": 1001}}}"#,
        "out_of_range",
        "concurrency.fair.defaultWeight",
        "must be at most 1000, got 1001",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {}}}"#,
        "missing_field",
        "concurrency.fair.by",
        "is required: the path of the value whose runs share a turn",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "a"}, "queue": {"maxWaiting": 3, "onOverflow": "dropOldest"}, "span": "run"}}"#,
        "conflict",
        "concurrency.queue.onOverflow",
        "write onOverflow `reject`, or remove `fair`",
    ),
    (
        r#"{"concurrency": {"limit": 5, "queue": {"maxWaiting": -1}}}"#,
        "out_of_range",
        "concurrency.queue.maxWaiting",
        "must be at least 0, got -1",
    ),
    (
        r#"{"concurrency": {"limit": 5, "queue": {"maxWaiting": "x"}}}"#,
        "wrong_type",
        "concurrency.queue.maxWaiting",
        "must be a whole number, got \"x\"",
    ),
    (
        r#"{"concurrency": {"limit": 5, "queue": {}}}"#,
        "missing_field",
        "concurrency.queue.maxWaiting",
        "is required: a whole number, 0 for no queue",
    ),
    (
        r#"{"concurrency": {"limit": 5, "span": "run", "queue": {"maxWaiting": 0, "onOverflow": "dropOldest"}}}"#,
        "out_of_range",
        "concurrency.queue.maxWaiting",
        "must be at least 1 to drop waiting runs, got 0: write 1 or more, or onOverflow `reject`",
    ),
    (
        r#"{"concurrency": {"limit": {"from": "a", "min": 5, "max": 1}}}"#,
        "out_of_range",
        "concurrency.limit.max",
        "must be at least min (5), got 1",
    ),
    (
        r#"{"concurrency": {"limit": {"from": "a", "min": 1, "max": 3, "default": 9}}}"#,
        "out_of_range",
        "concurrency.limit.default",
        "must be from min (1) to max (3), got 9",
    ),
    (r#"{"startWithinMs": 0}"#, "out_of_range", "startWithinMs", "must be at least 1, got 0"),
    (
        r#"{"cancelOn": {"event": "a", "match": {}}}"#,
        "out_of_range",
        "cancelOn.match",
        "must have 1 to 4 paths, got 0",
    ),
    (
        r#"{"cancelOn": {"event": "a*", "match": {"a": "a"}}}"#,
        "bad_name",
        "cancelOn.event",
        "must be the name of one event, without a star, got `a*`",
    ),
    (
        r#"{"onTooMany": {"close": "throttle"}}"#,
        "conflict",
        "onTooMany.close",
        "names the throttle, but there is none: add `throttle`, or close `concurrency`",
    ),
    (
        r#"{"onTooMany": {"close": "x"}}"#,
        "unknown_value",
        "onTooMany.close",
        "must be `throttle`, `concurrency` or `pool:` and the name of a pool, got `x`",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": 5}}}"#,
        "wrong_type",
        "concurrency.key.expr",
        "must be a text, got 5",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "evnt.data.a"}}}"#,
        "expression_unknown_variable",
        "concurrency.key.expr",
        "has no variable `evnt`: did you mean `event`?",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "size("}}}"#,
        "expression_syntax",
        "concurrency.key.expr",
        "expected a value, got the end: write a path, a literal or `(`",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "$LONG"}}}"#,
        "expression_too_long",
        "concurrency.key.expr",
        "must have at most 1000 characters, got 1500",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "$DEEP"}}}"#,
        "expression_too_complex",
        "concurrency.key.expr",
        "must nest at most 64 deep",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "1/0"}}}"#,
        "expression_division_by_zero",
        "concurrency.key.expr",
        "`1 / 0` divides by zero: test the divisor first",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "event.data.n % (2 - 2)"}}}"#,
        "expression_division_by_zero",
        "concurrency.key.expr",
        "`event.data.n % (2 - 2)` divides by zero: write another divisor",
    ),
    (
        r#"{"triggers": [{"event": "e", "if": "event.data.n > 1 || 1 < \"x\""}]}"#,
        "expression_wrong_type",
        "triggers[0].if",
        "`<` does not take a number `1` and a text `\"x\"`: convert one of them",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "int(\"x\")"}}}"#,
        "expression_bad_value",
        "concurrency.key.expr",
        "",
    ),
    (
        r#"{"concurrency": {"limit": 1, "key": {"expr": "size($LOOPS)"}}}"#,
        "expression_too_many_steps",
        "concurrency.key.expr",
        "",
    ),
    (
        r#"{"waitsFor": {"event": "paid", "match": {"id": "order"}}, "batch": {"maxSize": 5, "timeoutMs": 5, "key": "k"}}"#,
        "conflict",
        "waitsFor[0].match",
        "`order` may differ between the events of one batch: use `k`, the batch's key",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "a", "weights": {"acme": -1}}}}"#,
        "out_of_range",
        "concurrency.fair.weights.acme",
        "must be at least 1, got -1",
    ),
    (
        r#"{"concurrency": {"pool": "gpu", "queue": {"maxWaiting": 3}}}"#,
        "unknown_field",
        "concurrency.queue",
        "is not known: known are `pool`, `key`, `cost`",
    ),
    (
        r#"{"concurrency": {"pool": "keyed"}, "debounce": {"periodMs": 5, "keep": "all", "key": "k"}}"#,
        "unknown_value",
        "concurrency.pool",
        "uses the key `t` of pool `keyed`, but a window has only its own key",
    ),
    (
        r#"{"concurrency": {"pool": "keyed"}, "batch": {"maxSize": 5, "timeoutMs": 5, "key": "k"}}"#,
        "unknown_value",
        "concurrency.pool",
        "uses the key `t` of pool `keyed`, but a batch has only its own key",
    ),
    (
        r#"{"concurrency": {"limit": 5, "fair": {"by": "z"}}, "batch": {"maxSize": 5, "timeoutMs": 5, "key": "k"}}"#,
        "conflict",
        "concurrency.fair.by",
        "`z` may differ between the events of one batch: use `k`, the batch's key, or none",
    ),
];

fn definition(text: &str) -> Value {
    let text = text.replace("$LONG", &"x".repeat(1500));
    let list = format!("[{}]", vec!["1"; 20].join(","));
    let loops = format!("{list}.map(a, {list}.map(b, {list}.map(c, {list}.map(d, 1))))");
    let text = text.replace("$LOOPS", &loops);
    let text = text.replace("$DEEP", &format!("{}1{}", "(".repeat(100), ")".repeat(100)));
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_bad_definition_names_the_field_the_value_and_the_rule() {
    let server = Server::start(CONFIG);
    for (fields, code, field, message) in DEFINITIONS {
        let mut body = definition(fields);
        body["url"] = json!("http://127.0.0.1:9/");
        let (status, answer) = server.put("/workflows/w", body).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (422, &json!("bad_definition")),
            "{fields}"
        );
        let problem = &answer["problems"][0];
        assert_eq!([&problem["code"], &problem["field"]], [code, field], "{fields}: {problem}");
        let said = problem["message"].as_str().unwrap();
        assert!(said.ends_with(message), "{fields}: {said}");
    }
}

/// The config file is read by the same parser, and the server ends with the same message.
#[test]
fn a_bad_config_file_names_the_field_the_value_and_the_rule() {
    for (lines, said) in [
        (
            "concurrency = { limit = 5, cost = 0 }",
            "workflow `w`: concurrency.cost must be at least 1, got 0",
        ),
        (
            "concurrency = { limit = 5, fair = { by = \"a\", weights = { acme = 0 } } }",
            "workflow `w`: concurrency.fair.weights.acme must be at least 1, got 0",
        ),
        (
            "concurrency = { pool = \"gpx\" }",
            "workflow `w`: concurrency.pool names pool `gpx`, which does not exist: did you mean `gpu`?",
        ),
        (
            "concurrency = { limit = 5, queue = { maxWaiting = -1 } }",
            "workflow `w`: concurrency.queue.maxWaiting must be at least 0, got -1",
        ),
        (
            "concurrency = { limit = 5, key = { expr = \"1 +\" } }",
            "workflow `w`: concurrency.key.expr has an error in `1 +`",
        ),
    ] {
        let config = format!(
            "{CONFIG}\n[[workflow]]\nname = \"w\"\nurl = \"http://127.0.0.1:9/\"\n{lines}\n"
        );
        let log = Server::refused(&config);
        assert!(log.contains(said), "{lines}: {log}");
    }
}

#[tokio::test]
async fn a_bad_pool_names_the_field_the_value_and_the_rule() {
    let server = Server::start(CONFIG);
    for (fields, field, message) in [
        (
            r#"{"concurrency": {"pool": "p"}}"#,
            "concurrency.pool",
            "is not known: known are `limit`, `key`, `span`, `fair`, `adaptive`",
        ),
        (r#"{"concurrency": {"limit": 0}}"#, "concurrency.limit", "must be at least 1, got 0"),
        (
            r#"{"concurrency": {"limit": 5, "cost": 2}}"#,
            "concurrency.cost",
            "is not known: known are `limit`, `key`, `span`, `fair`, `adaptive`",
        ),
        (
            r#"{"concurrency": {"limit": {"from": "a", "min": 1, "max": 2}}}"#,
            "concurrency.limit",
            "write a number, or change it by an override",
        ),
        (
            r#"{"concurrency": {"limit": 5, "key": {"expr": "event.data.x"}}}"#,
            "concurrency.key.expr",
            "write a path, or give a use a `key` of its own",
        ),
        (
            r#"{"throttle": {"limit": 5, "perMs": 1, "fair": {"by": {"expr": "event.data.x"}}}}"#,
            "throttle.fair.by.expr",
            "write a path, or give a use a `key` of its own",
        ),
        (
            r#"{}"#,
            "concurrency",
            "is required: a pool has at least one of `concurrency`, `throttle` and `rateLimit`",
        ),
    ] {
        let (status, answer) = server.put("/pools/p", definition(fields)).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (422, &json!("bad_definition")),
            "{fields}"
        );
        let problem = &answer["problems"][0];
        assert_eq!(problem["field"], field, "{fields}: {problem}");
        assert!(problem["message"].as_str().unwrap().ends_with(message), "{fields}: {problem}");
    }
}

/// A restart registers the same definition again: a pool whose limit is lower by then is no reason
/// to refuse it.
#[tokio::test]
async fn a_lower_limit_of_a_pool_does_not_refuse_a_known_definition() {
    let server = Server::start(CONFIG);
    let body = json!({ "url": "http://127.0.0.1:9/", "concurrency": { "pool": "gpu", "cost": 4 } });
    assert_eq!(server.put("/workflows/w", &body).await.0, 200);
    let pool = json!({ "concurrency": { "limit": 3 }, "throttle": { "limit": 1, "perMs": 1000 } });
    assert_eq!(server.put("/pools/gpu", pool).await.0, 200);
    assert_eq!(server.put("/workflows/w", &body).await.0, 200);
    assert_eq!(server.put("/workflows/other", &body).await.0, 422);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn a_bad_override_names_the_field_the_value_and_the_rule() {
    let server = Server::start(CONFIG);
    let own = json!({ "workflow": "sync", "control": "concurrency", "path": "account" });
    let with = |name: &str, value: Value| {
        let mut target = own.clone();
        target[name] = value;
        target
    };
    let starts = json!({ "workflow": "sync" });
    let limit = |value: Value| json!({ "limit": value });
    let past = "2020-01-01T00:00:00Z";
    let rows = [
        (
            own.clone(),
            limit(json!(0)),
            "bad_override",
            "limit must be at least 1, got 0; use `paused` to start no runs",
        ),
        (
            own.clone(),
            limit(json!(-1)),
            "bad_override",
            "limit must be a whole number from 1 to 4294967295, got -1",
        ),
        (
            own.clone(),
            limit(json!("3")),
            "bad_override",
            "limit must be a whole number from 1 to 4294967295, got \"3\"",
        ),
        (
            own.clone(),
            limit(json!(1.5)),
            "bad_override",
            "limit must be a whole number from 1 to 4294967295, got 1.5",
        ),
        (
            own.clone(),
            limit(json!(1_u64 << 32)),
            "bad_override",
            "limit must be a whole number from 1 to 4294967295, got 4294967296",
        ),
        (
            own.clone(),
            json!({ "burst": 1 }),
            "bad_override",
            "`burst` does not belong to `concurrency`",
        ),
        (own.clone(), json!({}), "bad_override", "give at least one of limit, closedUntil"),
        (
            own.clone(),
            json!({ "weight": "3" }),
            "bad_override",
            "weight must be a whole number from 1 to 1000, got \"3\"",
        ),
        (with("value", json!("acme")), json!({ "weight": 3 }), "bad_target", "has no `fair`"),
        (
            starts.clone(),
            json!({ "paused": "yes" }),
            "bad_override",
            "paused must be true or false, got \"yes\"",
        ),
        (
            own.clone(),
            json!({ "limit": 1, "expiresAt": past }),
            "bad_override",
            "expiresAt must be in the future, got 2020-01-01T00:00:00Z",
        ),
        (
            own.clone(),
            json!({ "closedUntil": past }),
            "bad_override",
            "closedUntil must be in the future, got 2020-01-01T00:00:00Z",
        ),
        (
            own.clone(),
            json!({ "limit": 1, "expiresAt": "soon" }),
            "bad_time",
            "`expiresAt` must be a time like 2026-11-16T12:00:00Z, got `soon`",
        ),
        (
            with("workflow", json!("sink")),
            limit(json!(1)),
            "no_workflow",
            "no version of `sink` is released",
        ),
        (
            json!({ "pool": "gpo" }),
            json!({ "paused": true }),
            "no_pool",
            "there is no pool `gpo`: did you mean `gpu`?",
        ),
        (
            with("path", json!("user")),
            limit(json!(1)),
            "bad_target",
            "`sync` has no concurrency with path `user`; its paths: `account`",
        ),
        (
            with("control", json!("rateLimit")),
            limit(json!(1)),
            "bad_target",
            "`sync` has no rateLimit",
        ),
        (
            with("keyPrefix", json!("")),
            limit(json!(1)),
            "bad_target",
            "`keyPrefix` is empty: leave it out for all keys",
        ),
        (
            with("key", json!([1])),
            limit(json!(1)),
            "bad_body",
            "a key is a string, a number or a boolean of at most 1,024 bytes",
        ),
        (
            with("key", json!("x".repeat(2000))),
            limit(json!(1)),
            "bad_body",
            "a key is a string, a number or a boolean of at most 1,024 bytes",
        ),
    ];
    for (target, mut body, code, said) in rows {
        body["target"] = target;
        let (status, answer) = server.put("/overrides", &body).await;
        assert!(status.is_client_error(), "{body}: {answer}");
        assert_eq!(answer["error"], code, "{body}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(said), "{body}: {answer}");
    }
}

/// Values of events are checked at arrival: the event is `rejected`, and the answer names the value.
#[tokio::test]
async fn a_bad_value_in_an_event_is_named_by_its_verdict() {
    let server = Server::start(CONFIG);
    let key = |expr: &str| json!({ "limit": 5, "key": { "expr": expr } });
    let nested = "string(event.data.a.exists(x, event.data.a.exists(y, x == y + 1000)))";
    let cost = json!({ "limit": 5, "cost": "c" });
    let not_a_cost = "cost `c` must be a whole number from 1 to 1000000, got";
    let many: Vec<u32> = (0..200).collect();
    for (concurrency, data, said) in [
        (cost.clone(), json!({ "c": 0 }), format!("{not_a_cost} 0")),
        (cost.clone(), json!({ "c": -1 }), format!("{not_a_cost} -1")),
        (cost.clone(), json!({ "c": "5" }), format!("{not_a_cost} \"5\"")),
        (cost, json!({ "c": 6 }), "cost 6 exceeds limit 5 of concurrency".to_owned()),
        (json!({ "pool": "gpu", "cost": "c" }), json!({ "c": 6 }), "cost 6 exceeds limit 5 of pool `gpu`".to_owned()),
        (key("event.data.a / event.data.b"), json!({ "a": 1, "b": 0 }), "`1 / 0` divides by zero: test the divisor first (expression_division_by_zero)".to_owned()),
        (key("event.data.a < event.data.b"), json!({ "a": 1, "b": "x" }), "`<` does not take a number `1` and a text `\"x\"`: convert one of them (expression_wrong_type)".to_owned()),
        (key(nested), json!({ "a": many }), "an evaluation must take at most 100000 steps: simplify it (expression_too_many_steps)".to_owned()),
        (key("event.data.a"), json!({ "a": [1] }), "a key must be a text, a number or a boolean, got a list `[1]` (expression_wrong_type)".to_owned()),
    ] {
        let body = json!({ "url": "http://127.0.0.1:9/", "concurrency": concurrency });
        assert_eq!(server.put("/workflows/w", &body).await.0, 200, "{body}");
        let (_, answer) = server.post("/events", json!({ "name": "w", "data": data })).await;
        let verdict = &answer["events"][0]["runs"][0];
        assert_eq!(verdict["outcome"], "rejected", "{body}: {answer}");
        assert!(verdict["error"].as_str().unwrap().ends_with(&said), "{body}: {verdict}");
    }
}
