use std::fmt::Write;

use expect_test::{Expect, expect};
use serde_json::json;

use super::{testing::define, *};
use crate::{
    flow::{
        concurrency::Span,
        from_data::Amount,
        handoff::{HandoffScope, OnNewVersion},
        key_source::KeySource,
        policy::PolicyKey,
        priority::Shift,
        singleton::Mode,
    },
    key::Path,
};

#[track_caller]
fn parse(fields: &Value) -> Definition {
    let parsed = Definition::parse(&define(fields)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parsed.warnings, []);
    parsed.value
}

/// Compares the results of parsing the definitions with a table: for each its errors, its
/// warnings, or `ok`.
#[track_caller]
fn check<const N: usize>(definitions: [Value; N], table: Expect) {
    let mut lines = String::new();
    for fields in definitions {
        let problems = match Definition::parse(&define(&fields)) {
            Ok(parsed) if parsed.warnings.is_empty() => {
                lines.push_str("ok\n");
                continue;
            }
            Ok(parsed) => parsed.warnings,
            Err(DefinitionErrors(errors)) => errors,
        };
        for problem in problems {
            let word = if matches!(problem.code.as_str(), "never_binds" | "no_effect") {
                "warning"
            } else {
                "error"
            };
            writeln!(lines, "{word} {}: {problem}", problem.code.as_str()).unwrap();
        }
    }
    table.assert_eq(&lines);
}

// spec B49
#[test]
fn a_workflow_without_controls_is_unshaped() {
    let workflow = parse(&json!({}));
    assert_eq!(workflow, Definition::new("default", "w"));
    assert_eq!(workflow.flow_control(), None);
    assert!(workflow.is_triggered_by("w"));
    assert!(!workflow.is_triggered_by("w2"));
}

/// Returns every control in its shortest form, as the book writes it.
fn every_control() -> [Value; 9] {
    [
        json!({"concurrency": {"limit": 2}}),
        json!({"singleton": {"key": "id", "mode": "skip"}}),
        json!({"throttle": {"limit": 10, "perMs": 1000, "key": "user.id", "burst": 3}}),
        json!({"rateLimit": {"limit": 10, "perMs": 60_000, "key": ["a.b", "c"]}}),
        json!({"debounce": {"periodMs": 500, "maxWaitMs": 500}}),
        json!({"batch": {"maxSize": 100, "timeoutMs": 5000}}),
        json!({"priority": {"shiftMs": 60_000}}),
        json!({"idempotency": {"key": "orderId"}}),
        json!({"handoff": {"type": "keyed", "keyField": "id", "onNewVersion": "drain"}}),
    ]
}

// spec B50, B133
#[test]
fn each_control_alone_is_accepted_and_shown_as_it_was_defined() {
    for fields in every_control() {
        let workflow = parse(&fields);
        assert_eq!(workflow.flow_control(), Some(fields.clone()));
        assert_eq!(parse(&workflow.to_value()), workflow);
    }
}

// spec B50
#[test]
fn any_subset_of_controls_is_accepted_and_survives_both_forms() {
    let controls = every_control();
    for subset in 0..1_u32 << controls.len() {
        let mut fields = json!({});
        let chosen = controls.iter().enumerate().filter(|(n, _)| subset & (1 << n) != 0);
        for (_, control) in chosen {
            fields.as_object_mut().unwrap().extend(control.as_object().unwrap().clone());
        }
        // With `batch`, gates and throttle use the key of the batch and must not have a key of
        // their own (spec N26).
        if fields.get("batch").is_some() {
            for (control, key) in [("singleton", "key"), ("throttle", "key")] {
                if let Some(control) = fields.get_mut(control) {
                    control.as_object_mut().unwrap().remove(key);
                }
            }
            fields.as_object_mut().unwrap().remove("handoff");
        }
        let parsed =
            Definition::parse(&define(&fields)).unwrap_or_else(|errors| panic!("{errors}"));
        let workflow = parsed.value;
        assert_eq!(Definition::parse(&workflow.to_value()).unwrap().value, workflow);
        let stored = serde_json::to_string(&workflow).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), workflow);
    }
}

#[test]
fn defaults_are_those_of_the_book() {
    let workflow = parse(&json!({
        "concurrency": {"limit": 2},
        "throttle": {"limit": 3, "perMs": 1000},
        "rateLimit": {"limit": 3, "perMs": 1000},
        "idempotency": {},
        "batch": {"maxSize": 2, "timeoutMs": 1},
    }));
    assert_eq!(workflow.concurrency[0].span, Span::Executing);
    assert_eq!(workflow.throttle[0].burst, Amount::Fixed(1));
    assert_eq!(workflow.rate_limit[0].burst, Amount::Fixed(3));
    assert_eq!(workflow.idempotency.unwrap().period_ms, 86_400_000);
    assert_eq!(workflow.batch.unwrap().max_bytes, 4_194_304);
    assert_eq!(workflow.retry.max_attempts, 4);
    assert_eq!(workflow.retry.backoff_ms, 1000);
    assert_eq!(parse(&json!({"singleton": {}})).singleton.unwrap().mode, Mode::Cancel);
}

#[test]
fn everything_else_survives_the_way_through_json() {
    let workflow = parse(&json!({
        "app": "shop",
        "version": 3,
        "triggers": [
            "order.*",
            {"event": "cart/paid"},
            {"stream": "orders"},
            {"cron": "*/5 * * * *", "timeZone": "Europe/Berlin", "onOverlap": "allow"},
            {"cron": "@daily"},
            {"cron": "@hourly", "onOverlap": "restart", "catchUpMs": 10_000, "name": "mine"},
            {"cron": "@weekly", "onOverlap": {"policy": "queue", "maxWaitMs": 5}},
            {"cron": "@monthly", "onOverlap": {"policy": "queue"}},
            {"cron": "@yearly", "onOverlap": "reject"},
        ],
        "retry": {"maxAttempts": 1, "backoffMs": 0, "factor": 1, "maxBackoffMs": 9, "jitter": false},
        "timeoutMs": 60_000.0,
        "url": "https://example.com/w",
        "description": "takes orders",
        "schema": {"type": "object", "properties": {"id": {"type": "string"}}},
        "concurrency": [{"limit": 9}, {"limit": 1, "key": "a", "span": "run"}],
    }));
    assert_eq!(parse(&workflow.to_value()), workflow);
    assert_eq!(workflow.timeout_ms, Some(60_000));
    let stored = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), workflow);
    assert_eq!(workflow.overlap("@weekly"), Some(Overlap::Queue { max_wait_ms: Some(5) }));
    assert_eq!(workflow.overlap("@yearly"), Some(Overlap::Skip), "`reject` is not read as `skip`");
    assert_eq!(workflow.overlap("@never"), None);
    assert!(workflow.is_triggered_by("order."));
    assert!(workflow.is_triggered_by("cart/paid"));
    assert!(!workflow.is_triggered_by("orders"));
    assert!(!workflow.is_triggered_by("w"));
    assert!(parse(&json!({"triggers": ["*"]})).is_triggered_by("anything"));
}

// spec B59, A4
#[test]
fn numbers_must_be_there_whole_positive_and_in_bounds() {
    check(
        [
            json!({"concurrency": {}}),
            json!({"concurrency": {"limit": 0}}),
            json!({"concurrency": [{"limit": 1}, {"limit": -3, "key": "a"}]}),
            json!({"throttle": {}}),
            json!({"throttle": {"limit": 1.5, "perMs": f64::INFINITY, "burst": 0}}),
            json!({"rateLimit": {"limit": 5_000_000_000_u64, "perMs": 31_536_000_001_u64}}),
            json!({"rateLimit": {"limit": "5", "perMs": 1e300, "burst": null}}),
            json!({"debounce": {"periodMs": -1, "maxWaitMs": -0.5}}),
            json!({"debounce": {"periodMs": 500, "maxWaitMs": 499}}),
            json!({"batch": {"maxSize": 10_001, "maxBytes": 0}}),
            json!({"priority": {"shiftMs": 0}}),
            json!({"priority": {}}),
            json!({"idempotency": {"periodMs": true}}),
            json!({"version": 0, "timeoutMs": 0}),
            json!({"retry": {"maxAttempts": 0, "factor": 0, "jitter": 1}}),
            json!({"retry": {"backoffMs": 10, "maxBackoffMs": 9}}),
            json!({"throttle": {"limit": 1, "perMs": 31_536_000_000_u64}}),
        ],
        expect![[r#"
            error missing_field: workflow `w`: concurrency.limit is required: a whole number of at least 1
            error out_of_range: workflow `w`: concurrency.limit must be at least 1, got 0
            error out_of_range: workflow `w`: concurrency[1].limit must be at least 1, got -3
            error missing_field: workflow `w`: throttle.limit is required: a whole number of at least 1
            error missing_field: workflow `w`: throttle.perMs is required: a whole number of milliseconds, at least 1
            error wrong_type: workflow `w`: throttle.limit must be a whole number, got 1.5
            error wrong_type: workflow `w`: throttle.perMs must be a whole number, got null
            error out_of_range: workflow `w`: throttle.burst must be at least 1, got 0
            error out_of_range: workflow `w`: rateLimit.limit must be at most 4294967295, got 5000000000
            error out_of_range: workflow `w`: rateLimit.perMs must be at most 31536000000 (365 days), got 31536000001
            error wrong_type: workflow `w`: rateLimit.limit must be a whole number, got "5"
            error out_of_range: workflow `w`: rateLimit.perMs must be at most 31536000000 (365 days), got 1e+300
            error wrong_type: workflow `w`: rateLimit.burst must be a whole number, got null
            error out_of_range: workflow `w`: debounce.periodMs must be at least 1, got -1
            error out_of_range: workflow `w`: debounce.maxWaitMs must be at least 1, got -0.5
            error out_of_range: workflow `w`: debounce.maxWaitMs must be at least periodMs (500), got 499
            error out_of_range: workflow `w`: batch.maxSize must be at most 10000, got 10001
            error missing_field: workflow `w`: batch.timeoutMs is required: a whole number of milliseconds, at least 1
            error out_of_range: workflow `w`: batch.maxBytes must be at least 1, got 0
            error out_of_range: workflow `w`: priority.shiftMs must be at least 1, or below 0 for a later rank, got 0
            error missing_field: workflow `w`: priority.shiftMs is required: a whole number of milliseconds other than 0
            error wrong_type: workflow `w`: idempotency.periodMs must be a whole number, got true
            error out_of_range: workflow `w`: version must be at least 1, got 0
            error out_of_range: workflow `w`: timeoutMs must be at least 1, got 0
            error out_of_range: workflow `w`: retry.maxAttempts must be at least 1, got 0
            error out_of_range: workflow `w`: retry.factor must be at least 1, got 0
            error wrong_type: workflow `w`: retry.jitter must be true or false, got 1
            error out_of_range: workflow `w`: retry.maxBackoffMs must be at least backoffMs (10), got 9
            ok
        "#]],
    );
}

// spec A4, B143
#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    check(
        [
            json!({"rate_limit": {"limit": 1, "perMs": 1}, "concurency": {}, "color": "red"}),
            json!({"throttle": {"limt": 1, "per_ms": 5, "perMs": 1, "limit": 1}}),
            json!({"singleton": {"mode": "skp"}}),
            json!({"singleton": {"mode": "wait"}}),
            json!({"concurrency": {"limit": 1, "span": "Run"}}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": "que"}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": "later"}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": "debounce"}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": {"policy": "debounce", "periodMs": 5}}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": {"policy": "queue", "key": "a", "maxWaitMs": 0}}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": {"policy": "skip", "maxWaitMs": 5}}]}),
            json!({"triggers": [{"cron": "* * * * *", "onOverlap": {}, "catchUpMs": 9_999, "zone": "UTC"}]}),
            json!({"throttle": 5, "singleton": "skip", "priority": [1]}),
        ],
        expect![[r#"
            error unknown_field: workflow `w`: color is not known: known are `app`, `name`, `version`, `triggers`, `waitsFor`, `retry`, `timeoutMs`, `url`, `remote`, `endEvents`, `callTimeoutMs`, `onTooMany`, `onFailure`, `compensateTimeoutMs`, `description`, `schema`, `idempotency`, `rateLimit`, `debounce`, `batch`, `handoff`, `singleton`, `priority`, `throttle`, `concurrency`, `startWithinMs`, `cancelOn`
            error unknown_field: workflow `w`: concurency is not known: did you mean `concurrency`?
            error unknown_field: workflow `w`: rate_limit is not known: did you mean `rateLimit`?
            error unknown_field: workflow `w`: throttle.limt is not known: did you mean `limit`?
            error unknown_field: workflow `w`: throttle.per_ms is not known: did you mean `perMs`?
            error unknown_value: workflow `w`: singleton.mode has no value `skp`: did you mean `skip`?
            error unknown_value: workflow `w`: singleton.mode has no value `wait`: known are `skip`, `cancel`, `latest`
            error unknown_value: workflow `w`: concurrency.span has no value `Run`: did you mean `run`?
            error unknown_value: workflow `w`: triggers[0].onOverlap.policy has no value `que`: did you mean `queue`?
            error unknown_value: workflow `w`: triggers[0].onOverlap.policy has no value `later`: known are `skip`, `allow`, `queue`, `restart`, `reject`
            error misplaced: workflow `w`: triggers[0].onOverlap cannot be `debounce`, as planned occurrences are never folded: write `queue` to run each in turn, `restart` to run the latest, `skip` to leave out those that come too early, or `allow`
            error misplaced: workflow `w`: triggers[0].onOverlap cannot be `debounce`, as planned occurrences are never folded: write `queue` to run each in turn, `restart` to run the latest, `skip` to leave out those that come too early, or `allow`
            error unknown_field: workflow `w`: triggers[0].onOverlap.key is not known: known are `policy`, `maxWaitMs`
            error out_of_range: workflow `w`: triggers[0].onOverlap.maxWaitMs must be at least 1, got 0
            error unknown_field: workflow `w`: triggers[0].onOverlap.maxWaitMs is not known: known are `policy`
            error unknown_field: workflow `w`: triggers[0].zone is not known: known are `cron`, `timeZone`, `onOverlap`, `catchUpMs`, `name`
            error out_of_range: workflow `w`: triggers[0].catchUpMs must be at least 10000, got 9999
            error missing_field: workflow `w`: triggers[0].onOverlap.policy is required: one of `skip`, `allow`, `queue`, `restart`, `reject`
            error wrong_type: workflow `w`: singleton must be an object of `key`, `mode`, got "skip"
            error wrong_type: workflow `w`: priority must be an object of `shiftMs`, got [1]
            error wrong_type: workflow `w`: throttle must be an object of `limit`, `perMs`, `key`, `burst`, `cost`, `pool`, `fair`, got 5
        "#]],
    );
}

// spec A4
#[test]
fn keys_are_paths() {
    check(
        [
            json!({"concurrency": {"limit": 1, "key": ""}}),
            json!({"throttle": {"limit": 1, "perMs": 1, "key": "a..b"}}),
            json!({"rateLimit": {"limit": 1, "perMs": 1, "key": 7}}),
            json!({"idempotency": {"key": ["a", ""]}}),
            json!({"idempotency": {"key": "event.data.id == 1"}}),
            json!({"idempotency": {"key": null}}),
        ],
        expect![[r#"
            error bad_path: workflow `w`: concurrency.key must name a field such as `user.id`, got an empty path
            error bad_path: workflow `w`: throttle.key must have a name between its dots, got `a..b`
            error bad_path: workflow `w`: rateLimit.key must be a text or an array of names, got `7`
            error bad_path: workflow `w`: idempotency.key must have a name between its dots, got `a.`
            ok
            ok
        "#]],
    );
}

#[test]
fn names_and_addresses_are_bounded() {
    check(
        [
            json!({"name": ""}),
            json!({"name": "é".repeat(256)}),
            json!({"name": "é".repeat(257)}),
            json!({"name": 7}),
            json!({"name": null}),
            json!({"name": "a*"}),
            json!({"app": ""}),
            json!({"url": "ftp://example.com"}),
            json!({"url": "http://"}),
        ],
        expect![[r#"
            error bad_name: workflow ``: name must have 1 to 256 characters, got 0
            ok
            error bad_name: workflow `éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé`: name must have 1 to 256 characters, got 257
            error wrong_type: workflow ``: name must be a text, got 7
            error missing_field: workflow ``: name is required: 1 to 256 characters
            error bad_name: workflow `a*`: name must not contain a star, got `a*`: only triggers have stars
            error bad_name: workflow `w`: app must have 1 to 256 characters, got 0
            error bad_name: workflow `w`: url must begin with `http://` or `https://` and a host, got `ftp://example.com`
            error bad_name: workflow `w`: url must begin with `http://` or `https://` and a host, got `http://`
        "#]],
    );
}

// spec N4, A4, N41
#[test]
fn a_star_stands_at_the_end_of_a_trigger_or_nowhere() {
    check(
        [
            json!({"triggers": ["a.*"]}),
            json!({"triggers": "*"}),
            json!({"triggers": ["*.a", "a*b", "a**"]}),
            json!({"triggers": [{"event": "x", "cron": "* * * * *"}, {}, 7, {"evnt": "x"}]}),
            json!({"triggers": [{"cron": "* * * *"}, {"stream": ""}]}),
            json!({"triggers": ["a", "a", "a.b", "a.*", "a.b.*"]}),
        ],
        expect![[r#"
            ok
            ok
            error bad_name: workflow `w`: triggers[0].event may have one star, at its end, got `*.a`: write one trigger for each beginning
            error bad_name: workflow `w`: triggers[1].event may have one star, at its end, got `a*b`: write one trigger for each beginning
            error bad_name: workflow `w`: triggers[2].event may have one star, at its end, got `a**`: write one trigger for each beginning
            error conflict: workflow `w`: triggers[0].event cannot share a trigger: write one trigger for each
            error missing_field: workflow `w`: triggers[1].event is required: an event's name, or `cron`, or `stream`
            error wrong_type: workflow `w`: triggers[2] must be an object of `event`, `cron`, `stream`, `if`, got 7
            error unknown_field: workflow `w`: triggers[3].evnt is not known: did you mean `event`?
            error missing_field: workflow `w`: triggers[3].event is required: an event's name, or `cron`, or `stream`
            error bad_cron: workflow `w`: triggers[0].cron must have five fields, or six with seconds, got 4 in `* * * *`
            error bad_name: workflow `w`: triggers[1].stream must have 1 to 256 characters, got 0
            warning no_effect: workflow `w`: triggers[1] has no effect: triggers[0] already matches all of its events
            warning no_effect: workflow `w`: triggers[2] has no effect: triggers[3] already matches all of its events
            warning no_effect: workflow `w`: triggers[4] has no effect: triggers[3] already matches all of its events
        "#]],
    );
}

// spec B141, B142, B143, A4
#[test]
fn a_handoff_says_its_type_its_key_and_what_becomes_of_older_runs() {
    check(
        [
            json!({"handoff": {}}),
            json!({"handoff": {"type": "singleton"}}),
            json!({"handoff": {"onNewVersion": "drain"}}),
            json!({"handoff": {"type": "keyed", "onNewVersion": "drain"}}),
            json!({"handoff": {"type": "single", "onNewVersion": "superseed"}}),
            json!({"handoff": {"type": "singleton", "keyField": "a", "onNewVersion": "drain"}}),
            json!({"handoff": {"type": "singleton", "on-new-version": "drain"}}),
            json!({"handoff": {"type": "keyed", "keyField": "a", "onNewVersion": "drain"},
                   "triggers": ["x", {"cron": "0 0 * * *"}]}),
            json!({"concurrency": {"type": "keyed", "onNewVersion": "drain"}}),
            json!({"concurrency": {"type": "singleton", "onNewVersion": "drain"},
                   "handoff": {"type": "singleton", "onNewVersion": "drain"}}),
        ],
        expect![[r#"
            error missing_field: workflow `w`: handoff.type is required: `singleton` or `keyed`
            error missing_field: workflow `w`: handoff.onNewVersion is required: `supersede`, `drain` or `coexist`
            error missing_field: workflow `w`: handoff.onNewVersion is required: `supersede`, `drain` or `coexist`
            error missing_field: workflow `w`: handoff.type is required: `singleton` or `keyed`
            error missing_field: workflow `w`: handoff.keyField is required: type `keyed` needs the path of its key
            error unknown_value: workflow `w`: handoff.type has no value `single`: did you mean `singleton`?
            error unknown_value: workflow `w`: handoff.onNewVersion has no value `superseed`: did you mean `supersede`?
            error conflict: workflow `w`: handoff.keyField is not allowed with type `singleton`, got `a`: drop it or write type `keyed`
            error unknown_field: workflow `w`: handoff.on-new-version is not known: did you mean `onNewVersion`?
            error missing_field: workflow `w`: handoff.onNewVersion is required: `supersede`, `drain` or `coexist`
            error conflict: workflow `w`: handoff.keyField `a` is never in the data of a cron trigger: use type `singleton`, or drop the cron trigger
            error missing_field: workflow `w`: concurrency.keyField is required: type `keyed` needs the path of its key
            error conflict: workflow `w`: handoff is also given as concurrency: keep one of the two
        "#]],
    );
}

// spec B144, and handoff as an entry of `concurrency`.
#[test]
fn a_handoff_can_be_spelled_as_concurrency() {
    let fields = json!({"concurrency": [
        {"type": "keyed", "keyField": "user.id", "onNewVersion": "coexist"}, {"limit": 3}]});
    let workflow = parse(&fields);
    let scope = HandoffScope::Keyed(KeySource::Path(Path::parse("user.id").unwrap()));
    let handoff = Handoff { scope, on_new_version: OnNewVersion::Coexist, queue: None };
    assert_eq!(workflow.handoff, Some(handoff));
    assert_eq!(workflow.concurrency.len(), 1);
    assert_eq!(parse(&workflow.to_value()), workflow);
}

// spec L22
#[test]
fn a_window_that_keeps_all_events_is_refused_beside_what_would_lose_them() {
    let all = json!({"periodMs": 1, "key": "a", "keep": "all"});
    let with = |name: &str, value: Value| {
        let mut debounce = json!({"periodMs": 1});
        debounce[name] = value;
        json!({"debounce": debounce})
    };
    check(
        [
            json!({"debounce": all, "batch": {"maxSize": 2, "timeoutMs": 1, "key": "a"}}),
            json!({"debounce": all, "singleton": {"key": "a", "mode": "latest"}}),
            json!({"debounce": all, "singleton": {"key": "a"}}),
            json!({"debounce": all, "singleton": {"key": "a", "mode": "skip"}}),
            json!({"debounce": all, "throttle": {"limit": 1, "perMs": 1, "key": "b"}}),
            json!({"debounce": {"periodMs": 1, "keep": "all", "edge": "leading"}}),
            json!({"debounce": {"periodMs": 1, "keep": "all", "edge": "both", "maxSize": 5}}),
            json!({"debounce": {"periodMs": 1, "keep": "first", "edge": "leading"}}),
            with("maxSize", json!(5)),
            with("maxSize", json!(0)),
            with("keep", json!("newest")),
            with("edge", json!("front")),
        ],
        expect![[r#"
            error conflict: workflow `w`: debounce.keep `all` is not allowed beside `batch`, which collects the events that the window fires: use `last` or `first`, or drop `batch`
            error conflict: workflow `w`: singleton.mode `latest` would lose the events of a cancelled window: use `skip`
            error conflict: workflow `w`: singleton.mode `cancel` would lose the events of a cancelled window: use `skip`
            ok
            error conflict: workflow `w`: throttle.key `b` may differ between the events of one window: use `a`, the window's key, or none
            error conflict: workflow `w`: debounce.edge `leading` starts no run with the other events of the window, which `keep: all` promises: use `both` or `trailing`
            ok
            warning no_effect: workflow `w`: debounce.keep has no effect with `edge: leading`: the run has the event that opened the window
            error misplaced: workflow `w`: debounce.maxSize (5) is only allowed with `keep: all`: add it, or drop this
            error out_of_range: workflow `w`: debounce.maxSize must be at least 1, got 0
            error unknown_value: workflow `w`: debounce.keep has no value `newest`: known are `last`, `first`, `all`
            error unknown_value: workflow `w`: debounce.edge has no value `front`: known are `trailing`, `leading`, `both`
        "#]],
    );
}

// spec N25, N26, A4
#[test]
fn combinations_that_would_lose_events_are_refused_with_the_fix() {
    let batch = json!({"maxSize": 2, "timeoutMs": 1, "key": "a"});
    let whole = json!({"maxSize": 2, "timeoutMs": 1});
    check(
        [
            json!({"batch": batch, "singleton": {"key": "a"}}),
            json!({"batch": batch, "singleton": {"key": "a", "mode": "skip"}}),
            json!({"batch": batch, "concurrency": [{"limit": 2}, {"limit": 1, "key": "b"}]}),
            json!({"batch": batch, "throttle": {"limit": 1, "perMs": 1, "key": "b"}}),
            json!({"batch": whole, "throttle": {"limit": 1, "perMs": 1, "key": "b"}}),
            json!({"batch": whole, "singleton": {"key": "b", "mode": "skip"},
                   "handoff": {"type": "keyed", "keyField": "b", "onNewVersion": "drain"}}),
            json!({"batch": batch, "rateLimit": {"limit": 1, "perMs": 1, "key": "b"},
                   "idempotency": {"key": "c"}, "debounce": {"periodMs": 1, "key": "d"},
                   "throttle": {"limit": 1, "perMs": 1}, "concurrency": {"limit": 1, "key": "a"}}),
            json!({"concurrency": [{"limit": 1, "key": "a"}, {"limit": 2, "key": ["a"]}]}),
            json!({"concurrency": [{"limit": 1}, {"limit": 1, "span": "run"}, {"limit": 2}]}),
            json!({"concurrency": []}),
            json!({"concurrency": "queue"}),
            json!({"concurrency": {"policy": "reject"}}),
            json!({"concurrency": 5}),
        ],
        expect![[r#"
            error conflict: workflow `w`: singleton.mode `cancel` would lose the events of a cancelled batch: use `skip`
            ok
            error conflict: workflow `w`: concurrency[1].key `b` may differ between the events of one batch: use `a`, the batch's key, or none
            error conflict: workflow `w`: throttle.key `b` may differ between the events of one batch: use `a`, the batch's key, or none
            error conflict: workflow `w`: throttle.key `b` may differ between the events of one batch: give the batch the same key, or drop this one
            error conflict: workflow `w`: handoff.keyField `b` may differ between the events of one batch: give the batch the same key, or drop this one
            error conflict: workflow `w`: singleton.key `b` may differ between the events of one batch: give the batch the same key, or drop this one
            ok
            error conflict: workflow `w`: concurrency[1] counts the same runs as concurrency[0]: keep one of them
            error conflict: workflow `w`: concurrency[2] counts the same runs as concurrency[0]: keep one of them
            error out_of_range: workflow `w`: concurrency must have 1 to 16 limits, got 0
            error misplaced: workflow `w`: concurrency cannot be a policy, because only actions have policies: write `{"limit": …}`, or use singleton
            error misplaced: workflow `w`: concurrency cannot be a policy, because only actions have policies: write `{"limit": …}`, or use singleton
            error wrong_type: workflow `w`: concurrency must be an object of `limit`, `key`, `span`, `cost`, `pool`, `queue`, `fair`, `adaptive`, got 5
        "#]],
    );
}

// spec A4: limits that can never bind only warn.
#[test]
fn a_limit_that_is_never_reached_only_warns() {
    check(
        [
            json!({"concurrency": [{"limit": 5}, {"limit": 5, "key": "a"}]}),
            json!({"concurrency": [{"limit": 5}, {"limit": 4, "key": "a"}]}),
            json!({"concurrency": [{"limit": 2, "span": "run"}, {"limit": 2}]}),
            json!({"concurrency": [{"limit": 3, "span": "run"}, {"limit": 2}]}),
            json!({"concurrency": [{"limit": 1, "key": "a"}, {"limit": 2, "key": "b"}]}),
            json!({"singleton": {}, "concurrency": {"limit": 1, "key": "a"}}),
            json!({"singleton": {"key": "a"}, "concurrency": [{"limit": 1}]}),
            json!({"handoff": {"type": "singleton", "onNewVersion": "drain"},
                   "concurrency": {"limit": 2}}),
            json!({"handoff": {"type": "singleton", "onNewVersion": "coexist"},
                   "concurrency": {"limit": 2}}),
            json!({"batch": {"maxSize": 1, "timeoutMs": 1}}),
        ],
        expect![[r#"
            warning never_binds: workflow `w`: concurrency[1].limit of 5 is never reached: concurrency[0] admits only 5
            ok
            warning never_binds: workflow `w`: concurrency[1].limit of 2 is never reached: concurrency[0] admits only 2
            ok
            ok
            warning never_binds: workflow `w`: concurrency.limit of 1 is never reached: singleton admits only 1
            ok
            warning never_binds: workflow `w`: concurrency.limit of 2 is never reached: handoff admits only 1
            ok
            warning no_effect: workflow `w`: batch.maxSize of 1 collects nothing
        "#]],
    );
}

// spec A4: all problems at once.
#[test]
fn every_problem_is_said_at_once_and_only_once() {
    check(
        [json!({
            "name": "sync.account",
            "throttle": {"limit": 0, "key": "a."},
            "rateLimit": {"limit": 1},
            "batch": {"maxSize": 0, "timeoutMs": 1, "key": "x"},
            "singleton": {"mode": "cancel", "key": "y"},
            "debounc": {},
            "triggers": ["a*b"],
        })],
        expect![[r#"
            error unknown_field: workflow `sync.account`: debounc is not known: did you mean `debounce`?
            error bad_name: workflow `sync.account`: triggers[0].event may have one star, at its end, got `a*b`: write one trigger for each beginning
            error missing_field: workflow `sync.account`: rateLimit.perMs is required: a whole number of milliseconds, at least 1
            error out_of_range: workflow `sync.account`: batch.maxSize must be at least 1, got 0
            error out_of_range: workflow `sync.account`: throttle.limit must be at least 1, got 0
            error missing_field: workflow `sync.account`: throttle.perMs is required: a whole number of milliseconds, at least 1
            error bad_path: workflow `sync.account`: throttle.key must have a name between its dots, got `a.`
        "#]],
    );
    let error = Definition::parse(&json!("w")).unwrap_err();
    expect![[r#"workflow ``: definition must be an object of `app`, `name`, `version`, `triggers`, `waitsFor`, `retry`, `timeoutMs`, `url`, `remote`, `endEvents`, `callTimeoutMs`, `onTooMany`, `onFailure`, `compensateTimeoutMs`, `description`, `schema`, `idempotency`, `rateLimit`, `debounce`, `batch`, `handoff`, `singleton`, `priority`, `throttle`, `concurrency`, `startWithinMs`, `cancelOn`, got "w""#]].assert_eq(&error.to_string());
}

#[test]
fn the_answer_to_a_huge_definition_is_bounded() {
    let many = (0..1000).map(|n| (format!("field{n}"), json!(1)));
    let value = Value::Object(many.chain([("name".to_owned(), json!("n".repeat(9999)))]).collect());
    let DefinitionErrors(errors) = Definition::parse(&value).unwrap_err();
    assert_eq!(errors.len(), MAX_PROBLEMS);
    assert!(errors[0].to_string().len() < 500);
}

#[test]
fn a_definition_built_in_rust_is_held_to_the_same_rules() {
    let mut workflow = Definition::new("default", "w");
    workflow.priority = Some(Priority { shift_ms: Shift::Ms(0) });
    workflow.singleton = Some(Singleton { key: None, mode: Mode::Cancel });
    let error = workflow.check().unwrap_err();
    expect![
        "workflow `w`: priority.shiftMs must be at least 1, or below 0 for a later rank, got 0"
    ]
    .assert_eq(&error.to_string());
    workflow.priority = None;
    workflow.batch =
        Some(Batch { max_size: 1, timeout_ms: 5, key: None, max_bytes: 100, condition: None });
    expect!["workflow `w`: singleton.mode `cancel` would lose the events of a cancelled batch: use `skip`"].assert_eq(&workflow.check().unwrap_err().to_string());
    workflow.singleton = None;
    assert_eq!(workflow.check().unwrap().len(), 1);
    let mut action = Definition::new("default", "f/a");
    action.flow = Some("f".to_owned());
    let key = PolicyKey::Function("by_delivery".to_owned());
    action.policy = Some(Policy { kind: PolicyKind::Reject, key });
    assert_eq!(action.check(), Ok(vec![]));
    assert_eq!(Definition::parse(&action.to_value()).unwrap().value, action);
}

#[test]
fn a_failure_is_handled_by_code_or_by_a_url_of_its_own() {
    let handler = json!({"url": "https://b/failed"});
    check(
        [
            json!({"onFailure": true}),
            json!({"onFailure": false, "url": "https://a"}),
            json!({"onFailure": handler, "url": "https://a"}),
            json!({"onFailure": true, "url": "https://a"}),
            json!({"onFailure": true, "url": "https://a", "flow": "f"}),
            json!({"onFailure": handler}),
            json!({"onFailure": {}, "url": "https://a"}),
            json!({"onFailure": {"url": "ftp://b", "uri": 1}, "url": "https://a"}),
            json!({"onFailure": "https://b", "url": "https://a"}),
        ],
        expect![[r#"
            ok
            ok
            ok
            error conflict: workflow `w`: onFailure cannot be true beside `url`, which would be called again with the work that has failed: name the service that handles failures, `{"url": "https://…"}`
            error conflict: action `f/w`: onFailure cannot be true beside `url`, which would be called again with the work that has failed: name the service that handles failures, `{"url": "https://…"}`
            error conflict: workflow `w`: onFailure cannot be called for a workflow without `url`: give the program that serves it a handler, `on_failure(…)`
            error missing_field: workflow `w`: onFailure.url is required: where the failure handler is called
            error unknown_field: workflow `w`: onFailure.uri is not known: did you mean `url`?
            error bad_name: workflow `w`: onFailure.url must begin with `http://` or `https://` and a host, got `ftp://b`
            error wrong_type: workflow `w`: onFailure must be `{"url": "https://…"}` beside `url`, or else true or false, got "https://b"
        "#]],
    );
    let workflow = parse(&json!({"onFailure": handler, "url": "https://a"}));
    assert!(workflow.handles_failure());
    assert_eq!(Definition::parse(&workflow.to_value()).unwrap().value, workflow);
    let stored = serde_json::to_value(&workflow).unwrap();
    assert_eq!(stored["onFailure"], handler);
    assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), workflow);
}

#[test]
fn the_silence_of_a_service_is_bounded() {
    let url = "https://a";
    check(
        [
            json!({"url": url, "callTimeoutMs": 1}),
            json!({"url": url, "callTimeoutMs": MAX_CALL_TIMEOUT_MS}),
            json!({"url": url, "callTimeoutMs": MAX_CALL_TIMEOUT_MS + 1}),
            json!({"url": url, "callTimeoutMs": 0}),
            json!({"callTimeoutMs": 1}),
        ],
        expect![[r#"
            ok
            ok
            error out_of_range: workflow `w`: callTimeoutMs must be at most 7200000, got 7200001
            error out_of_range: workflow `w`: callTimeoutMs must be at least 1, got 0
            warning no_effect: workflow `w`: callTimeoutMs has no effect without `url`, whose calls it limits
        "#]],
    );
    let bounded = parse(&json!({"url": url, "callTimeoutMs": 7}));
    assert_eq!(parse(&bounded.to_value()), bounded);
    let plain = Definition { call_timeout_ms: None, ..bounded.clone() };
    assert!(!plain.works_like(&bounded), "a changed time-out does not count as a change");
}

/// Stored definitions whose `onFailure` is a flag are read, and written unchanged.
#[test]
fn a_stored_flag_for_a_failure_handler_is_read() {
    let url = Some("http://a");
    let flags = [(false, None, false), (true, None, true), (false, url, false), (true, url, false)];
    for (flag, url, handled) in flags {
        let mut stored = serde_json::to_value(Definition::new("default", "w")).unwrap();
        stored["onFailure"] = json!(flag);
        if let Some(url) = url {
            stored["url"] = json!(url);
        }
        let workflow: Definition = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(workflow.handles_failure(), handled, "{stored}");
        assert_eq!(serde_json::to_value(workflow).unwrap(), stored);
    }
}

// spec A4
#[test]
fn a_burst_must_come_back_in_a_lifetime() {
    let year = 31_536_000_000_u64;
    check(
        [
            json!({"throttle": {"limit": 1, "perMs": year, "burst": 100}}),
            json!({"throttle": {"limit": 1, "perMs": year, "burst": 101}}),
            json!({"rateLimit": {"limit": 1_000_000, "perMs": year}}),
        ],
        expect![[r#"
            ok
            error out_of_range: workflow `w`: throttle.burst of 101 takes more than 100 years to come back at 1 in 31536000000 ms: make it smaller
            ok
        "#]],
    );
}

/// Schedules that an older build stored are read and written unchanged: otherwise their
/// definitions would look changed.
#[test]
fn a_schedule_that_was_stored_before_stays_what_it_is() {
    for (word, overlap) in [("skip", Overlap::Skip), ("allow", Overlap::Allow)] {
        let stored =
            format!(r#"{{"cron":{{"cron":"@daily","timeZone":"UTC","onOverlap":"{word}"}}}}"#);
        let read: Trigger = serde_json::from_str(&stored).unwrap();
        assert!(matches!(&read, Trigger::Cron { on_overlap, .. } if *on_overlap == overlap));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }
}

// spec L13, L15: every control with a key reads every form of it, and writes it as the author did.
#[test]
fn a_key_is_a_path_several_paths_or_an_expression() {
    for key in [json!("a"), json!({"paths": ["a", ["b.c", "d"]]}), json!({"expr": "event.name"})] {
        let value = define(&json!({
            "app": "default",
            "concurrency": {"limit": 2, "key": key},
            "throttle": {"limit": 2, "perMs": 5, "key": key},
            "rateLimit": {"limit": 2, "perMs": 5, "key": key},
            "debounce": {"periodMs": 5, "key": key},
            "batch": {"maxSize": 5, "timeoutMs": 5, "key": key, "if": "event.data.a == 1"},
            "idempotency": {"key": key},
            "singleton": {"key": key, "mode": "skip"},
            "handoff": {"type": "keyed", "keyField": key, "onNewVersion": "drain"},
            "triggers": [{"event": "a*", "if": "event.data.a == 1"}, {"stream": "b", "if": "true"}],
        }));
        let workflow = Definition::parse(&value).unwrap().value;
        assert_eq!(workflow.to_value(), value);
        let stored = serde_json::to_value(&workflow).unwrap();
        assert_eq!(stored["concurrency"][0]["key"], key, "the stored form is the author's");
        assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), workflow);
    }
    let value = json!({
        "app": "default", "flow": "f", "name": "a",
        "concurrency": {"policy": "queue", "key": {"paths": ["session", "input.doc"]}},
    });
    let action = Definition::parse(&value).unwrap().value;
    assert_eq!(action.to_value(), value);
}

// spec L13, L15: the problem names the field, the rule and the fix.
#[test]
fn a_wrong_source_of_a_key_is_a_problem_of_its_field() {
    let keys = [
        json!({"paths": ["a"]}),
        json!({"paths": "a"}),
        json!({"paths": ["a", "a"]}),
        json!({"paths": ["a", "b."]}),
        json!({"paths": ["a".repeat(200), "b".repeat(57)]}),
        json!({"paths": ["a", "b"], "expr": "1"}),
        json!({}),
        json!({"path": ["a", "b"]}),
        json!({"expr": 1}),
        json!({"expr": "event.data.a +"}),
        json!({"expr": "lower(event.data.a)"}),
        json!({"expr": "data.a"}),
        json!({"expr": "request.input.a"}),
        json!({"expr": "1".repeat(1001)}),
        json!({"expr": "(".repeat(65)}),
        json!({"expr": "event.name.matches('(')"}),
    ];
    let mut errors = String::new();
    for key in keys {
        let value = define(&json!({"singleton": {"key": key}}));
        for problem in Definition::parse(&value).unwrap_err().0 {
            writeln!(errors, "{}: {} {}", problem.code.as_str(), problem.field, problem.message)
                .unwrap();
        }
    }
    let action = json!({"flow": "f", "name": "a", "singleton": {"key": {"expr": "event.name"}}});
    writeln!(errors, "{}", Definition::parse(&action).unwrap_err()).unwrap();
    expect![[r#"
        bad_path: singleton.key.paths must be an array of 2 to 8 paths: write a key with one path as a text
        bad_path: singleton.key.paths must be an array of 2 to 8 paths: write a key with one path as a text
        conflict: singleton.key.paths[1] repeats `a`: remove it
        bad_path: singleton.key.paths[1] must have a name between its dots, got `b.`
        bad_path: singleton.key.paths must have at most 256 characters together, got 257
        conflict: singleton.key.expr cannot be beside `paths`: keep one
        missing_field: singleton.key.paths is required: an array of paths, or `expr`, an expression
        unknown_field: singleton.key.path is not known: did you mean `paths`?
        missing_field: singleton.key.paths is required: an array of paths, or `expr`, an expression
        wrong_type: singleton.key.expr must be a text, got 1
        expression_syntax: singleton.key.expr has an error in `event.data.a +`: expression at offset 14: expected a value, got the end: write a path, a literal or `(`
        expression_unknown_function: singleton.key.expr has an error in `lower(event.data.a)`: expression at offset 0: there is no function `lower`: did you mean `lowercase`?
        expression_unknown_variable: singleton.key.expr has no variable `data`: known are `event`
        expression_unknown_variable: singleton.key.expr has no variable `request`: known are `event`
        expression_too_long: singleton.key.expr has an error in `111111111111111111111111111111111111111111111111111111111111…`: expression at offset 0: an expression must have at most 1000 characters, got 1001
        expression_too_complex: singleton.key.expr has an error in `((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((…`: expression at offset 64: an expression must nest at most 64 deep
        expression_bad_pattern: singleton.key.expr has an error in `event.name.matches('(')`: expression at offset 10: the pattern `(` cannot be used: found open group without closing ')'
        action `f/a`: singleton.key.expr has no variable `event`: known are `request`
    "#]].assert_eq(&errors);
}

// spec L15: an error of an expression has the same code in a definition and in an evaluation.
#[test]
fn the_codes_of_expressions_are_codes_of_definitions() {
    for text in ["1 +", "f(1)", &"1".repeat(1001), &"(".repeat(65), "event.name.matches('(')"] {
        let error = crate::expr::Expr::parse(text).unwrap_err();
        assert_eq!(Code::from(error.kind).as_str(), error.code());
    }
}
