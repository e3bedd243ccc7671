//! Start within: cancel a run that has not started in time.
//!
//! A run that no worker has leased `startWithinMs` after it was queued ends as cancelled, reason
//! `expired`, wherever it waits: in a queue, for its throttle turn, for a worker, paused, or for
//! the end of another run (spec L20). It releases its slots, its position and its idempotency
//! claims. A run that was leased once never expires.
//!
//! Acts from the creation of the run to its first lease. On overflow: cancel. The run's row has the
//! time.

use serde_json::Value;

use super::{
    control::{Control, Field, FieldType, Moment, Reading},
    policy::PolicyKind,
};
use crate::definition::Code;

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "startWithinMs",
    purpose: "cancel runs that would start too late",
    acts: Moment::Start,
    on_overflow: "cancel as expired",
    fields: &[Field::required("startWithinMs", FieldType::Duration)],
    read: |reading, value| {
        reading.definition.start_within_ms = reading.duration(&CONTROL, value);
    },
    write: |definition| definition.start_within_ms.map(Value::from),
    check,
    expiry_ms: |definition| definition.start_within_ms,
    ..Control::NONE
};

/// Warns of a `maxWaitMs` that has no effect, because `startWithinMs` always ends the wait first.
fn check(reading: &mut Reading<'_>) {
    let Reading { definition, problems, .. } = reading;
    let (Some(ms), Some(policy)) = (definition.start_within_ms, &definition.policy) else { return };
    if let PolicyKind::Queue { max_wait_ms: Some(wait), .. } = policy.kind
        && wait >= ms
    {
        let message =
            format!("has a maxWaitMs of {wait}, which has no effect: startWithinMs is {ms}");
        problems.warn(Code::NoEffect, "concurrency", message);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::definition::{Definition, testing::problems};

    #[test]
    fn a_value_out_of_range_is_refused_with_the_value() {
        let year = 365 * 24 * 60 * 60 * 1000_u64;
        let values =
            [json!(0), json!(-5), json!(1.5), json!("1"), json!({}), json!(year + 1), json!(year)];
        let all = values.map(|value| problems(&json!({ "startWithinMs": value })));
        expect![[r#"
            workflow `w`: startWithinMs must be at least 1, got 0
            workflow `w`: startWithinMs must be at least 1, got -5
            workflow `w`: startWithinMs must be a whole number, got 1.5
            workflow `w`: startWithinMs must be a whole number, got "1"
            workflow `w`: startWithinMs must be a whole number, got {}
            workflow `w`: startWithinMs must be at most 31536000000 (365 days), got 31536000001
        "#]]
        .assert_eq(&all.concat());
    }

    #[test]
    fn the_authors_form_is_a_number() {
        let value = json!({ "app": "default", "name": "w", "startWithinMs": 30_000 });
        let definition = Definition::parse(&value).unwrap().value;
        assert_eq!((definition.start_within_ms, definition.to_value()), (Some(30_000), value));
    }

    #[test]
    fn a_wait_in_the_queue_that_never_ends_by_itself_is_warned_of() {
        let with = |wait: u64| {
            let policy = json!({ "policy": "queue", "maxWaitMs": wait });
            problems(&json!({ "flow": "f", "startWithinMs": 100, "concurrency": policy }))
        };
        expect![[r#"
            action `f/w`: concurrency has a maxWaitMs of 100, which has no effect: startWithinMs is 100
        "#]].assert_eq(&[with(99), with(100)].concat());
    }
}
