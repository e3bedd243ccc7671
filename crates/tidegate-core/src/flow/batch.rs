//! Batch: handle many events in one run.
//!
//! A buffer per key is flushed when it is full, or `timeoutMs` after its first event. Every event
//! is in exactly one run, in order of arrival. Use `debounce` when only the last one matters.
//!
//! Acts on arrival. On overflow: collect. Remembers one open buffer per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::written;
use crate::{
    definition::{Fields, Reported},
    key::Path,
};

/// The most events in one run. A handler gets them all in memory.
pub const MAX_SIZE: u64 = 10_000;

/// The most bytes in one run, for the same reason.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The most events in one run.
    pub max_size: u32,
    /// How long after its first event a buffer is flushed at the latest.
    pub timeout_ms: u64,
    /// What is collected apart; the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// The most bytes of data in one run.
    pub max_bytes: u64,
}

pub(super) const FIELDS: &[&str] = &["maxSize", "timeoutMs", "key", "maxBytes"];

/// As much as one request may hold.
const DEFAULT_BYTES: u64 = 4 * 1024 * 1024;

impl Batch {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Batch, Reported> {
        let max_size = fields.number("maxSize", 1, MAX_SIZE).and_then(|size| {
            size.ok_or_else(|| fields.missing("maxSize", "a whole number of at least 1"))
        });
        let timeout_ms = fields.duration("timeoutMs");
        let key = fields.path("key");
        let max_bytes = fields.number("maxBytes", 1, MAX_BYTES);
        let max_size = u32::try_from(max_size?).expect("the range was checked");
        let max_bytes = max_bytes?.unwrap_or(DEFAULT_BYTES);
        Ok(Batch { max_size, timeout_ms: timeout_ms?, key: key?, max_bytes })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("maxBytes", json!(DEFAULT_BYTES))])
    }
}
