//! Retry: the number of attempts of a failing step, and the backoff between them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::definition::{Code, Fields, MAX_DURATION_MS, Reported};

/// The `retry` settings of a definition; every field has a default.
///
/// The wait between attempts n and n + 1 is `backoffMs · factor^(n − 1)`, at most `maxBackoffMs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Total number of attempts; 1 means no retry.
    pub max_attempts: u32,
    /// The wait before the second attempt.
    pub backoff_ms: u64,
    /// The factor between one wait and the next; with 1 all waits are equal.
    pub factor: u32,
    /// The maximum wait between two attempts.
    pub max_backoff_ms: u64,
    /// Whether waits are randomized, so that steps that failed together are not retried together.
    pub jitter: bool,
}

impl Default for Retry {
    fn default() -> Retry {
        let hour_ms = 60 * 60 * 1000;
        Retry {
            max_attempts: 4,
            backoff_ms: 1000,
            factor: 2,
            max_backoff_ms: hour_ms,
            jitter: true,
        }
    }
}

/// Constructors for definitions written in Rust.
impl Retry {
    /// Creates settings with a maximum number of attempts, including the first.
    pub fn attempts(max_attempts: u32) -> Retry {
        Retry { max_attempts, ..Retry::default() }
    }

    /// Waits the same time between any two attempts.
    #[must_use]
    pub fn fixed(self, delay: Duration) -> Retry {
        let backoff_ms = millis(delay);
        Retry { backoff_ms, factor: 1, max_backoff_ms: backoff_ms.max(1), ..self }
    }

    /// Doubles the wait after each attempt, up to a maximum.
    #[must_use]
    pub fn exponential(self, first: Duration, at_most: Duration) -> Retry {
        Retry { backoff_ms: millis(first), factor: 2, max_backoff_ms: millis(at_most), ..self }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Retry {
    pub(super) const FIELDS: &[&str] =
        &["maxAttempts", "backoffMs", "factor", "maxBackoffMs", "jitter"];

    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Retry, Reported> {
        let default = Retry::default();
        let max_attempts = fields.optional_count("maxAttempts");
        // Zero is allowed: some steps can be retried at once.
        let backoff_ms = fields.number("backoffMs", 0, MAX_DURATION_MS);
        let factor = fields.number("factor", 1, 100);
        let max_backoff_ms = fields.optional_duration("maxBackoffMs");
        let jitter = fields.flag("jitter");
        let (backoff_ms, given) = (backoff_ms?.unwrap_or(default.backoff_ms), max_backoff_ms?);
        if let Some(most) = given.filter(|most| *most < backoff_ms) {
            let rule = format!("must be at least backoffMs ({backoff_ms}), got {most}");
            fields.error(Code::OutOfRange, "maxBackoffMs", rule);
        }
        let factor = factor?.map(|it| u32::try_from(it).expect("number() checked the range"));
        Ok(Retry {
            max_attempts: max_attempts?.unwrap_or(default.max_attempts),
            backoff_ms,
            factor: factor.unwrap_or(default.factor),
            max_backoff_ms: given.unwrap_or(default.max_backoff_ms.max(backoff_ms)),
            jitter: jitter?.unwrap_or(default.jitter),
        })
    }

    /// Returns the fields that differ from the default; none if all are equal to it.
    pub(super) fn to_value(&self) -> Option<Value> {
        let default = Retry::default();
        let max_backoff_ms = default.max_backoff_ms.max(self.backoff_ms);
        let fields = [
            ("maxAttempts", json!(self.max_attempts), json!(default.max_attempts)),
            ("backoffMs", json!(self.backoff_ms), json!(default.backoff_ms)),
            ("factor", json!(self.factor), json!(default.factor)),
            ("maxBackoffMs", json!(self.max_backoff_ms), json!(max_backoff_ms)),
            ("jitter", json!(self.jitter), json!(default.jitter)),
        ];
        let given = fields.into_iter().filter(|(_, value, default)| value != default);
        let map: Map<_, _> = given.map(|(name, value, _)| (name.to_owned(), value)).collect();
        (!map.is_empty()).then_some(Value::Object(map))
    }
}
