//! Idempotency: one run per key and period, however often the event comes.
//!
//! The first event of a key takes the claim; later ones are dropped until the period ends, also
//! after the run is over. The event itself is still recorded and still wakes waiters.
//!
//! Acts on arrival. On overflow: drop as deduped. Remembers one claim per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::written;
use crate::{
    definition::{Fields, Reported},
    key::Path,
};

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idempotency {
    /// What is unique; the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// How long a claim lasts.
    pub period_ms: u64,
}

pub(super) const FIELDS: &[&str] = &["key", "periodMs"];

/// A day, as for the event's own `dedupeId`.
const DEFAULT_PERIOD_MS: u64 = 24 * 60 * 60 * 1000;

impl Idempotency {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Idempotency, Reported> {
        let key = fields.path("key");
        let period_ms = fields.optional_duration("periodMs");
        Ok(Idempotency { key: key?, period_ms: period_ms?.unwrap_or(DEFAULT_PERIOD_MS) })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("periodMs", json!(DEFAULT_PERIOD_MS))])
    }
}
