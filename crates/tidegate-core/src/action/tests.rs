use expect_test::{Expect, expect};

use super::*;
use crate::flow::policy::{PolicyKey, PolicyKind};

/// Returns the flow `f` with one action `a`, which has the given `concurrency`.
fn flow(concurrency: &Value) -> Value {
    json!({"name": "f", "actions": [{"name": "a", "concurrency": concurrency}]})
}

#[track_caller]
fn parse(value: &Value) -> Flow {
    let parsed = Flow::parse(value).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parsed.warnings, []);
    assert_eq!(Flow::parse(&parsed.value.to_value()).unwrap().value, parsed.value);
    parsed.value
}

/// Compares the results of parsing the flows with the expected text.
#[track_caller]
fn check<const N: usize>(flows: [Value; N], table: Expect) {
    let mut lines = String::new();
    for value in flows {
        let said = match Flow::parse(&value) {
            Ok(parsed) if parsed.warnings.is_empty() => "ok".to_owned(),
            Ok(parsed) => format!("warning: {}", DefinitionErrors(parsed.warnings)),
            Err(errors) => errors.to_string(),
        };
        lines += &(said + "\n");
    }
    table.assert_eq(&lines);
}

// spec B5, B6, B7
#[test]
fn an_action_follows_its_own_policy_else_the_flows_else_none() {
    let value = json!({
        "name": "support",
        "concurrency": {"policy": "queue", "key": "user", "maxWaitMs": 5},
        "actions": {
            "append": {"concurrency": "allow"},
            "respond": {},
            "stop": {"concurrency": {"policy": "reject"}},
            "count": {"concurrency": {"limit": 2}},
        },
    });
    let flow = parse(&value);
    let policies: Vec<_> = flow.actions.iter().map(|it| (it.name.as_str(), &it.policy)).collect();
    let kind = PolicyKind::Queue { max_wait_ms: Some(5), queue: None };
    let queue = Policy { kind, key: PolicyKey::User };
    let reject = Policy { kind: PolicyKind::Reject, key: PolicyKey::Session };
    let allow = Policy { kind: PolicyKind::Allow, key: PolicyKey::Session };
    let expected = [
        ("support/append", &Some(allow)),
        ("support/count", &Some(queue.clone())),
        ("support/respond", &Some(queue)),
        ("support/stop", &Some(reject)),
    ];
    assert_eq!(policies, expected);
    let bare = parse(&json!({"name": "f", "actions": [{"name": "a"}]}));
    assert_eq!(bare.actions[0].policy, None);
    assert_eq!(bare.actions[0].flow_control(), None);
    assert!(!bare.actions[0].is_triggered_by("f/a"));
}

// spec B8, B22, B26, B28, B29
#[test]
fn a_policy_is_a_name_or_an_object_with_its_key() {
    let read = |concurrency: &Value| parse(&flow(concurrency)).actions[0].policy.clone().unwrap();
    assert_eq!(read(&json!("queue")), read(&json!({"policy": "queue"})));
    assert_eq!(read(&json!("queue")), read(&json!({"policy": "queue", "key": "session"})));
    assert_eq!(read(&json!({"policy": "reject", "key": "user"})).key, PolicyKey::User);
    let function = read(&json!({"policy": "reject", "key": {"function": "k"}})).key;
    assert_eq!(function, PolicyKey::Function("k".to_owned()));
    for path in [json!("input.id"), json!(["metadata", "x.y"]), json!("input")] {
        let policy = read(&json!({"policy": "restart", "key": path}));
        assert!(matches!(policy.key, PolicyKey::Path(_)), "{path}");
    }
    let debounce = read(&json!({"policy": "debounce", "periodMs": 5, "maxWaitMs": 9}));
    assert_eq!(debounce.kind, PolicyKind::Debounce { period_ms: 5, max_wait_ms: Some(9) });
}

// spec B133
#[test]
fn an_action_shows_its_policy_and_limits_as_they_were_defined() {
    let mixed = json!([{"policy": "queue", "key": "user"}, {"limit": 2, "key": "input.id"}]);
    for concurrency in [json!("queue"), mixed, json!({"limit": 3})] {
        let action = &parse(&flow(&concurrency)).actions[0];
        assert_eq!(action.flow_control(), Some(json!({"concurrency": concurrency})));
    }
    assert_eq!(parse(&flow(&json!("allow"))).actions[0].flow_control(), None);
}

// spec B20, B21, A4
#[test]
fn unknown_policies_and_keys_are_refused_when_they_are_defined() {
    check(
        [
            flow(&json!("serialize")),
            flow(&json!("que")),
            flow(&json!({"policy": "rejct", "periodMs": 1})),
            flow(&json!({"policy": 7})),
            flow(&json!("debounce")),
            flow(&json!({"policy": "debounce", "periodMs": 5, "maxWaitMs": 4})),
            flow(&json!({"policy": "reject", "maxWaitMs": 4})),
            flow(&json!({"policy": "queue", "key": "sesion"})),
            flow(&json!({"policy": "queue", "key": "tenant"})),
            flow(&json!({"policy": "queue", "key": "session.id"})),
            flow(&json!({"policy": "queue", "key": "data.id"})),
            flow(&json!({"policy": "queue", "key": "metadata"})),
            flow(&json!({"policy": "queue", "key": ""})),
            flow(&json!({"policy": "queue", "key": {"fn": "x"}})),
            flow(&json!(["queue", "reject"])),
            flow(&json!({"limit": 1, "key": "accountId"})),
            flow(&json!({"limit": 1, "key": "none"})),
        ],
        expect![[r#"
            action `f/a`: concurrency.policy has no value `serialize`: known are `allow`, `queue`, `reject`, `restart`, `debounce`, `latest`
            action `f/a`: concurrency.policy has no value `que`: did you mean `queue`?
            action `f/a`: concurrency.policy has no value `rejct`: did you mean `reject`?
            action `f/a`: concurrency.policy must be a text, got 7
            action `f/a`: concurrency.periodMs is required: a whole number of milliseconds, at least 1
            action `f/a`: concurrency.maxWaitMs must be at least periodMs (5), got 4
            action `f/a`: concurrency.maxWaitMs is not known: known are `policy`, `key`
            action `f/a`: concurrency.key has no value `sesion`: did you mean `session`?
            action `f/a`: concurrency.key has no value `tenant`: known are `session`, `user`, `none`, `input.…`, `metadata.…`
            action `f/a`: concurrency.key must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `session.id`
            action `f/a`: concurrency.key must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `data.id`
            action `f/a`: concurrency.key has no value `metadata`: did you mean `metadata.…`?
            action `f/a`: concurrency.key must name a field such as `user.id`, got an empty path
            action `f/a`: concurrency.key.fn is not known: known are `paths`, `expr`
            action `f/a`: concurrency.key.paths is required: an array of paths, or `expr`, an expression
            action `f/a`: concurrency[1] is a second policy: keep one of them
            action `f/a`: concurrency.key must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `accountId`
            action `f/a`: concurrency.key must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `none`
        "#]],
    );
}

// spec B28, A4, N25
#[test]
fn what_an_action_cannot_have_is_refused_and_what_does_nothing_warns() {
    let action = |fields: Value| {
        let mut action = json!({"name": "a"});
        action.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"name": "f", "actions": [action]})
    };
    check(
        [
            action(json!({"batch": {"maxSize": 2, "timeoutMs": 1}})),
            action(json!({"debounce": {"periodMs": 1},
                          "concurrency": {"policy": "debounce", "periodMs": 1}})),
            action(json!({"triggers": ["x", {"cron": "@daily"}]})),
            action(json!({"throttle": {"limit": 1, "perMs": 1, "key": "id"}})),
            action(json!({"throttle": {"limit": 1, "perMs": 1, "key": "session"},
                          "singleton": {"key": "input.id"}, "priority": {"shiftMs": 1},
                          "rateLimit": {"limit": 1, "perMs": 1, "key": "user"},
                          "idempotency": {"key": "metadata.webhook.id"},
                          "debounce": {"periodMs": 1}})),
            action(
                json!({"handoff": {"type": "keyed", "keyField": "id", "onNewVersion": "drain"}}),
            ),
            action(json!({"concurrency": {"policy": "queue", "key": "none"}})),
            action(json!({"concurrency": {"policy": "allow", "key": "user"}})),
            action(json!({"name": "a/b"})),
            action(json!({"flow": "other"})),
            action(json!({"app": "other"})),
            action(json!({"app": "default"})),
        ],
        expect![[r#"
            action `f/a`: batch is not allowed on an action: make it a workflow that the action sends events to
            action `f/a`: debounce is not allowed with the policy `debounce`: keep one of the two
            action `f/a`: triggers[0] is not allowed on an action, which only requests and `cron` start: make it a workflow, or remove this trigger
            action `f/a`: throttle.key must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `id`
            ok
            action `f/a`: handoff.keyField must begin at the request: `session`, `user`, `input.…` or `metadata.…`, got `id`
            warning: action `f/a`: concurrency has a policy, which has no effect with key `none`
            warning: action `f/a`: concurrency has a key, which has no effect under `allow`
            action `f/a/b`: name must not contain a slash in a flow, got `a/b`
            action `f/a`: flow must be `f`, or be left out
            action `f/a`: app must be `default`, the app of its flow, or be left out, got `other`
            ok
        "#]],
    );
}

// spec A4
#[test]
fn a_flow_is_checked_as_a_whole() {
    check(
        [
            json!(5),
            json!({}),
            json!({"name": "f", "actions": []}),
            json!({"name": "f", "actions": "a"}),
            json!({"name": "f", "actions": ["a"]}),
            json!({"name": "f/g", "action": [], "actions": [{"name": "a"}, {"name": "a"}]}),
            json!({"name": "f", "concurrency": {"limit": 1}, "actions": [{"name": "a"}]}),
            json!({"name": "f", "concurrency": "later", "actions": [{}, {"name": "b", "x": 1}]}),
            json!({"name": "f", "concurrency": {"policy": "queue", "key": "id"},
                   "actions": {"a": {"name": "b"}}}),
            json!({"name": "f", "concurrency": {"policy": "debounce", "periodMs": 1},
                   "actions": {"a": {"debounce": {"periodMs": 1}}}}),
        ],
        expect![[r#"
            flow ``: definition must be an object of `app`, `name`, `concurrency`, `actions`, got 5
            flow ``: name is required: 1 to 256 characters
            flow ``: actions is required: a list of actions, or an object with an action for each name
            flow `f`: actions must have 1 to 1000 elements, got 0
            flow `f`: actions must be a list of actions, or an object with an action for each name
            flow `f`: actions[0] must be an object with a name, got "a"
            flow `f/g`: action is not known: did you mean `actions`?
            flow `f/g`: name must not contain a slash, got `f/g`
            flow `f/g`: actions contain `a` twice: names must be unique
            flow `f`: concurrency of a flow is a policy: give limits and handoff to its actions
            flow `f`: concurrency.policy has no value `later`: did you mean `latest`?
            action `f/actions[0]`: name is required: 1 to 256 characters
            action `f/b`: x is not known: known are `app`, `name`, `version`, `triggers`, `waitsFor`, `retry`, `timeoutMs`, `url`, `remote`, `endEvents`, `callTimeoutMs`, `onTooMany`, `onFailure`, `compensateTimeoutMs`, `description`, `schema`, `flow`, `idempotency`, `rateLimit`, `debounce`, `batch`, `handoff`, `singleton`, `priority`, `throttle`, `concurrency`, `startWithinMs`, `cancelOn`
            flow `f`: concurrency.key has no value `id`: known are `session`, `user`, `none`, `input.…`, `metadata.…`
            action `f/b`: name differs from its key in `actions.a`
            action `f/a`: debounce is not allowed with the policy `debounce`: keep one of the two
        "#]],
    );
}

// spec L22
#[test]
fn a_window_of_all_requests_is_refused_beside_policies_that_cancel() {
    let with = |policy: Value, key: &str| {
        let debounce = json!({"periodMs": 1, "keep": "all", "key": key});
        json!({"name": "f", "concurrency": policy, "actions": {"a": {"debounce": debounce}}})
    };
    check(
        [
            with(json!("queue"), "session"),
            with(json!("reject"), "session"),
            with(json!("restart"), "session"),
            with(json!("latest"), "session"),
            with(json!("queue"), "user"),
            with(json!({"policy": "queue", "key": "input.to"}), "input.to"),
            with(json!("allow"), "user"),
        ],
        expect![[r#"
            ok
            ok
            action `f/a`: concurrency `restart` would lose the events of a cancelled window: use `queue`
            action `f/a`: concurrency `latest` would lose the events of a cancelled window: use `queue`
            action `f/a`: concurrency `session` may differ between the events of one window: use `user`, the window's key, or none
            ok
            ok
        "#]],
    );
}
