//! Priority: start before others that wait.
//!
//! A run queues as if it had come `shiftMs` earlier. That changes the order, never a limit, and
//! by no more than `shiftMs`, so that nothing waits for ever.
//!
//! Acts when the run is queued. On overflow: re-order. Remembers nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    control::{Control, Field, FieldType, Moment},
    written,
};
use crate::{
    definition::{Definition, Fields, Reported},
    time::Timestamp,
};

/// Its row in the table.
pub(super) const CONTROL: Control = Control {
    name: "priority",
    purpose: "start before others that wait",
    acts: Moment::Creation,
    on_overflow: "re-order",
    fields: &[Field::required("shiftMs", FieldType::Duration)],
    read: |reading, value| {
        reading.definition.priority = reading.object(&CONTROL, value, Priority::read);
    },
    write: |definition| definition.priority.as_ref().map(Priority::to_value),
    ..Control::NONE
};

/// The time that a run counts as queued at.
pub(super) fn shifted(definition: &Definition, queued_at: Timestamp) -> Timestamp {
    match &definition.priority {
        Some(priority) => queued_at.minus_ms(priority.shift_ms),
        None => queued_at,
    }
}

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Priority {
    /// How much earlier the runs count as queued.
    pub shift_ms: u64,
}

impl Priority {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Priority, Reported> {
        Ok(Priority { shift_ms: fields.duration("shiftMs")? })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[])
    }
}
