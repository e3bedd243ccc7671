//! Fair: who is served next at a limit that several tenants share.
//!
//! Without it a queue is served by rank, so that a tenant with many runs delays all others. With
//! `fair` the values of one key take turns by weight. The order of turns is in `flow/share.rs`.
//!
//! `fair` is a field of `concurrency`, `throttle` and pools. On overflow: wait in the queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    concurrency,
    control::{Control, Moment, Reading},
    key_source::KeySource,
    throttle,
};
use crate::{
    definition::{Code, Fields, Problems, Reported, shorten},
    key::Key,
    row::Class,
};

/// Row in the table of controls, for the shares. The setting is a field of other controls.
pub(super) const CONTROL: Control = Control {
    name: "fair",
    acts: Moment::Start,
    on_overflow: "wait in the queue",
    classes: &[Class::Share],
    ..Control::NONE
};

/// Upper bound of a weight. With it, tags of 10⁻⁹ are exact enough for the bound of spec L17.
pub const MAX_WEIGHT: u32 = 1000;

/// Maximum number of weights of one limit. All processes have them in memory.
pub const MAX_WEIGHTS: usize = 1000;

/// The `fair` settings of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fair {
    /// The source of the values that take turns. Runs without it are one value together.
    pub by: KeySource,
    /// The weights of single values, as they are shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// The weight of all other values.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub default_weight: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

impl Fair {
    /// Reads the field `fair` of a limit.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Option<Fair>, Reported> {
        let Some(value) = fields.get("fair") else { return Ok(None) };
        let at = fields.field("fair");
        let known = ["by", "weights", "defaultWeight"];
        let mut inner = Fields::open(value, &at, &known, fields.problems())?;
        let by = inner.key("by").and_then(|by| {
            by.ok_or_else(|| inner.missing("by", "the path of the value whose runs share a turn"))
        });
        let weight = inner.number("defaultWeight", 1, u64::from(MAX_WEIGHT));
        let weights = match inner.get("weights") {
            None => Ok(BTreeMap::new()),
            Some(value) => read_weights(value, &mut inner),
        };
        let default_weight = weight?.map_or(1, narrow);
        Ok(Some(Fair { by: by?, weights: weights?, default_weight }))
    }

    /// Returns the weight of a value.
    pub fn weight(&self, value: &Key) -> u32 {
        self.weights.get(&value.to_string()).copied().unwrap_or(self.default_weight)
    }

    /// Reports a queue that makes room by cancelling a waiting run: a flood of one value would
    /// cancel the runs of others.
    pub(crate) fn check(at: &str, problems: &mut Problems) {
        let message = "would let the runs of one value cancel those of others, which `fair` \
                       prevents: write onOverflow `reject`, or remove `fair`";
        problems.error(Code::Conflict, &format!("{at}.queue.onOverflow"), message);
    }
}

/// Returns the sources of the values of a definition's own limits, each with the path of its field.
pub(super) fn sources(reading: &Reading<'_>) -> Vec<(String, KeySource)> {
    let definition = &reading.definition;
    let limits = definition.concurrency.iter().map(|it| it.fair.as_ref()).enumerate();
    let rates = definition.throttle.iter().map(|it| it.fair.as_ref()).enumerate();
    let limits = limits.map(|(n, fair)| (&concurrency::CONTROL, n, fair));
    let rates = rates.map(|(n, fair)| (&throttle::CONTROL, n, fair));
    let field = |(control, n, fair): (&Control, usize, Option<&Fair>)| {
        let place = Reading::place(&reading.places, control, n);
        Some((format!("{place}.fair.by"), fair?.by.clone()))
    };
    limits.chain(rates).filter_map(field).collect()
}

fn narrow(weight: u64) -> u32 {
    u32::try_from(weight).unwrap_or(MAX_WEIGHT)
}

fn read_weights(value: &Value, inner: &mut Fields<'_>) -> Result<BTreeMap<String, u32>, Reported> {
    let Some(map) = value.as_object() else {
        let rule = "must be an object of values and their weights";
        return Err(inner.error(
            Code::WrongType,
            "weights",
            format!("{rule}, got {}", shorten(value)),
        ));
    };
    if map.len() > MAX_WEIGHTS {
        let rule = format!("must have at most {MAX_WEIGHTS} values, got {}", map.len());
        return Err(inner.error(Code::OutOfRange, "weights", rule));
    }
    let at = inner.field("weights");
    let known: Vec<&str> = map.keys().map(String::as_str).collect();
    let mut of_values = Fields::open(value, &at, &known, inner.problems())?;
    let mut read = |name: &str| {
        let weight = of_values.number(name, 1, u64::from(MAX_WEIGHT))?;
        Ok((name.to_owned(), weight.map_or(1, narrow)))
    };
    // Every weight is read before the first error is returned.
    let all: Vec<Result<_, Reported>> = known.iter().map(|name| read(name)).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{definition::testing::reread, pool::Pool};

    // spec L16
    #[test]
    fn settings_that_cannot_be_fair_are_refused_with_the_value_and_the_rule() {
        let on = |fair: Value| json!({ "concurrency": { "limit": 2, "fair": fair } });
        let many: serde_json::Map<_, _> = (0..1001).map(|n| (n.to_string(), json!(1))).collect();
        for (controls, expected) in [
            (on(json!({ "by": "account" })), vec!["ok"]),
            (
                on(json!({ "by": { "paths": ["a", "b"] }, "weights": { "acme": 1000, "b": 1 },
                    "defaultWeight": 2 })),
                vec!["ok"],
            ),
            (
                json!({ "throttle": { "limit": 1, "perMs": 5, "fair": { "by": "account" } } }),
                vec!["ok"],
            ),
            (
                on(json!({ "weights": { "a": 0, "b": 1001, "c": "2", "d": 1.5 },
                    "defaultWeight": 0, "weigth": 1 })),
                vec![
                    "concurrency.fair.by is required",
                    "concurrency.fair.weights.a must be at least 1, got 0",
                    "concurrency.fair.weights.b must be at most 1000, got 1001",
                    "concurrency.fair.weights.c must be a whole number, got \"2\"",
                    "concurrency.fair.weights.d must be a whole number, got 1.5",
                    "concurrency.fair.defaultWeight must be at least 1, got 0",
                    "concurrency.fair.weigth is not known",
                ],
            ),
            (
                on(json!({ "by": "a", "weights": many })),
                vec!["concurrency.fair.weights must have at most 1000 values, got 1001"],
            ),
            (
                on(json!({ "by": "a", "weights": 3 })),
                vec!["concurrency.fair.weights must be an object of values and their weights"],
            ),
            (on(json!("account")), vec!["concurrency.fair must be an object of"]),
            (
                json!({ "rateLimit": { "limit": 1, "perMs": 5, "fair": { "by": "a" } } }),
                vec!["rateLimit.fair is not known"],
            ),
            (
                json!({ "concurrency": { "limit": 1, "span": "run", "fair": { "by": "a" },
                    "queue": { "maxWaiting": 1, "onOverflow": "dropOldest" } } }),
                vec!["concurrency.queue.onOverflow would let the runs of one value cancel"],
            ),
            (
                json!({ "throttle": [
                    { "limit": 1, "perMs": 5, "fair": { "by": "a" } },
                    { "limit": 9, "perMs": 50, "fair": { "by": "b" } },
                ] }),
                vec!["throttle[1].fair is a second one for the queue of throttle[0]"],
            ),
            (
                json!({ "batch": { "maxSize": 2, "timeoutMs": 5, "key": "a" },
                    "concurrency": { "limit": 1, "fair": { "by": "b" } } }),
                vec!["concurrency.fair.by `b` may differ between the events of one batch"],
            ),
            (
                json!({ "batch": { "maxSize": 2, "timeoutMs": 5, "key": "a" },
                    "concurrency": { "limit": 1, "fair": { "by": "a" } } }),
                vec!["ok"],
            ),
        ] {
            let errors = reread(&controls);
            for expected in expected {
                assert!(errors.contains(expected), "{controls}: {errors}");
            }
        }
    }

    // spec L16
    #[test]
    fn pools_have_fair_on_concurrency_and_throttle() {
        let fair = json!({ "by": "account", "weights": { "acme": 3 } });
        let pool = json!({ "name": "p", "concurrency": { "limit": 2, "fair": fair },
            "throttle": { "limit": 2, "perMs": 10, "fair": fair } });
        let parsed = Pool::parse(&pool).unwrap().value;
        assert_eq!(parsed.to_value(), pool);
        let stored = serde_json::to_value(&parsed).unwrap();
        assert_eq!(serde_json::from_value::<Pool>(stored).unwrap(), parsed);
        for (part, expected) in [
            (
                json!({ "rateLimit": { "limit": 2, "perMs": 10, "fair": fair } }),
                "rateLimit.fair is not known",
            ),
            (
                json!({ "concurrency": { "limit": 2, "fair": { "by": "a", "weights": { "b": 0 } } } }),
                "concurrency.fair.weights.b must be at least 1, got 0",
            ),
        ] {
            let mut pool = json!({ "name": "p" });
            pool.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            let errors = Pool::parse(&pool).unwrap_err().to_string();
            assert!(errors.contains(expected), "{errors}");
        }
    }
}
