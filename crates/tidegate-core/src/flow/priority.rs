//! Priority: start before other waiting runs.
//!
//! A run is queued as if it had arrived `shiftMs` earlier. That changes the order by at most
//! `shiftMs`, and never a limit, so that no run waits for ever.
//!
//! Acts when the run is queued. On overflow: re-order. It has no gate.

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

/// Row in the table of controls.
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

/// Returns the time by which a run is ranked: `shiftMs` before its queue time.
pub(super) fn shifted(definition: &Definition, queued_at: Timestamp) -> Timestamp {
    match &definition.priority {
        Some(priority) => queued_at.minus_ms(priority.shift_ms),
        None => queued_at,
    }
}

/// The `priority` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Priority {
    /// The runs are ranked as if they were queued this much earlier.
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
