//! Throttle: bound how often runs start, and lose none of them.
//!
//! A burst is spread out, one start every `perMs / limit`; what does not fit now starts later.
//! Use `rate_limit` to shed the overflow instead.
//!
//! Acts towards the start. On overflow: delay. Remembers the next free moment per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{meter::Rate, written};
use crate::{
    definition::{Fields, Reported},
    key::Path,
};

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throttle {
    /// The starts in one period.
    pub limit: u32,
    /// The period's length.
    pub per_ms: u64,
    /// What is counted apart; the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// How many may start at once after a quiet time.
    pub burst: u32,
}

pub(super) const FIELDS: &[&str] = &["limit", "perMs", "key", "burst"];

/// Evenly spaced starts, unless the author asks for more.
const DEFAULT_BURST: u32 = 1;

impl Throttle {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Throttle, Reported> {
        let limit = fields.count("limit");
        let per_ms = fields.duration("perMs");
        let key = fields.path("key");
        let burst = fields.optional_count("burst");
        let burst = burst?.unwrap_or(DEFAULT_BURST);
        Ok(Throttle { limit: limit?, per_ms: per_ms?, key: key?, burst })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(DEFAULT_BURST))])
    }
}
impl Throttle {
    /// The meter's rate.
    pub fn rate(&self) -> Rate {
        Rate { limit: self.limit, per_ms: self.per_ms, burst: self.burst }
    }
}
