use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

#[test]
fn what_is_left_out_has_a_default() {
    let parsed = Reaction::parse(&json!({"name": "mail", "source": "orders-*"})).unwrap();
    assert_eq!(parsed, Reaction::new("mail", Source::Family("orders-".to_owned())));
    assert_eq!((parsed.lease_ms, parsed.max_lost_leases, parsed.max_retries), (30_000, 10, 3));
}

#[test]
fn a_definition_is_stored_and_read_back_whole() {
    let value = json!({
        "name": "mail", "source": "*", "maxRetries": 0, "blockOnError": false,
        "backoff": {"type": "linear", "ms": 50, "maxMs": 500, "jitter": false},
        "leaseMs": 1000, "batch": 1, "maxLostLeases": 2,
    });
    let parsed = Reaction::parse(&value).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), value);
    assert_eq!(serde_json::from_value::<Reaction>(value).unwrap(), parsed);
}

#[test]
fn all_problems_are_said_at_once() {
    check(
        json!({
            "name": "", "source": "a*b*", "maxRetries": -1, "blockOnError": "yes", "leaseMs": 0,
            "batch": 1.5, "maxLostLeases": 0, "retries": 3,
            "backoff": {"type": "quick", "ms": 100, "maxMs": 50, "jitter": 1, "base": 2},
        }),
        expect![[r#"
            [unknown_field] reaction ``: retries is not known: use one of name, source, fromHead, maxRetries, blockOnError, backoff, leaseMs, batch, maxLostLeases
            [bad_name] reaction ``: name must have 1 to 256 characters, got 0
            [bad_name] reaction ``: source may have one * at its end, got `a*b*`
            [out_of_range] reaction ``: maxRetries must be at least 0, got -1
            [wrong_type] reaction ``: blockOnError must be true or false, got "yes"
            [out_of_range] reaction ``: leaseMs must be at least 1, got 0
            [wrong_type] reaction ``: batch must be a whole number, got 1.5
            [out_of_range] reaction ``: maxLostLeases must be at least 1, got 0
            [unknown_field] reaction ``: backoff.base is not known: use one of type, ms, maxMs, jitter
            [unknown_value] reaction ``: backoff.type must be `fixed`, `linear` or `exponential`, got "quick"
            [wrong_type] reaction ``: backoff.jitter must be true or false, got 1
            [out_of_range] reaction ``: backoff.maxMs must be at least backoff.ms (100), got 50
        "#]],
    );
}

#[test]
fn required_fields_are_named() {
    check(
        json!({"backoff": {}}),
        expect![[r#"
        [missing_field] reaction ``: name is required: 1 to 256 characters
        [missing_field] reaction ``: source is required: a stream, a family such as `orders-*`, or `*`
        [missing_field] reaction ``: backoff.ms is required: milliseconds, at least 1
    "#]],
    );
    check(
        json!([1]),
        expect![[r#"
            [wrong_type] reaction ``: definition must be an object of name, source, fromHead, maxRetries, blockOnError, backoff, leaseMs, batch, maxLostLeases, got [1]
        "#]],
    );
    let long = json!({"name": 1, "source": null, "leaseMs": 31_536_000_001_u64, "backoff": 5});
    check(
        long,
        expect![[r#"
        [wrong_type] reaction ``: name must be 1 to 256 characters, got 1
        [wrong_type] reaction ``: source must be a stream, a family such as `orders-*`, or `*`, got null
        [out_of_range] reaction ``: leaseMs must be at most 31536000000 (365 days), got 31536000001
        [wrong_type] reaction ``: backoff must be an object of type, ms, maxMs, jitter, got 5
    "#]],
    );
}

#[test]
fn sources_cover_what_they_spell() {
    let cases = [
        ("orders-1", "orders-1", true),
        ("orders-1", "orders-10", false),
        ("orders-*", "orders-", true),
        ("orders-*", "orders-10", true),
        ("orders-*", "Orders-10", false),
        ("*", "anything", true),
    ];
    for (source, stream, covered) in cases {
        let parsed = Source::parse(source).unwrap();
        assert_eq!(parsed.covers(stream), covered, "{source} {stream}");
        assert_eq!(parsed.to_string(), source);
    }
}

#[track_caller]
fn check(value: serde_json::Value, errors: Expect) {
    let found = Reaction::parse(&value).unwrap_err();
    let lines: Vec<_> = found.0.iter().map(|it| format!("[{}] {it}\n", it.code)).collect();
    errors.assert_eq(&lines.concat());
}
