//! Rate limit: shed what comes too often.
//!
//! In any interval of length w at most `burst + ⌊w · limit / perMs⌋` are admitted; with the
//! default burst that is up to `2 · limit − 1` in one period. A lone event is always admitted.
//! Use `throttle` to delay the overflow instead.
//!
//! Acts on arrival. On overflow: drop. Remembers the next free moment per key.

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
pub struct RateLimit {
    /// The admissions in one period.
    pub limit: u32,
    /// The period's length.
    pub per_ms: u64,
    /// What is counted apart; the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// How many are admitted at once after a quiet time; `limit` unless given.
    pub burst: u32,
}

pub(super) const FIELDS: &[&str] = &["limit", "perMs", "key", "burst"];

impl RateLimit {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<RateLimit, Reported> {
        let limit = fields.count("limit");
        let per_ms = fields.duration("perMs");
        let key = fields.path("key");
        let burst = fields.optional_count("burst");
        let (limit, per_ms) = (limit?, per_ms?);
        Ok(RateLimit { limit, per_ms, key: key?, burst: burst?.unwrap_or(limit) })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(self.limit))])
    }
}
impl RateLimit {
    /// The meter's rate.
    pub fn rate(&self) -> Rate {
        Rate { limit: self.limit, per_ms: self.per_ms, burst: self.burst }
    }
}
