//! Priority: start before others that wait.
//!
//! A run queues as if it had come `shiftMs` earlier. That changes the order, never a limit, and
//! by no more than `shiftMs`, so that nothing waits for ever.
//!
//! Acts when the run is queued. On overflow: re-order. Remembers nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::written;
use crate::definition::{Fields, Reported};

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Priority {
    /// How much earlier the runs count as queued.
    pub shift_ms: u64,
}

pub(super) const FIELDS: &[&str] = &["shiftMs"];

impl Priority {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Priority, Reported> {
        Ok(Priority { shift_ms: fields.duration("shiftMs")? })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[])
    }
}
