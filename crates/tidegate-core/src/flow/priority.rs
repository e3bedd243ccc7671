//! Priority: start before other waiting runs, or after them.
//!
//! A run is queued as if it had arrived `shiftMs` earlier; with a negative shift, later. That
//! changes the order by at most `shiftMs`, and never a limit, so that no run waits for ever. The
//! shift is the same for all runs of a version, or read from the data of each.
//!
//! Acts when the run is queued. On overflow: re-order. It has no gate.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    control::{Control, Field, FieldType, Moment},
    from_data::FromData,
    plan::Candidate,
    verdict::Verdict,
    written,
};
use crate::{
    definition::{Code, Fields, MAX_DURATION_MS, Reported},
    draft::{Decided, Stop},
    time::Timestamp,
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "priority",
    purpose: "start before others that wait, or after them",
    acts: Moment::Creation,
    on_overflow: "re-order",
    fields: &[Field::required("shiftMs", FieldType::Shift)],
    read: |reading, value| {
        reading.definition.priority = reading.object(&CONTROL, value, Priority::read);
    },
    write: |definition| definition.priority.as_ref().map(Priority::to_value),
    // It has no gate. A shift that cannot be read rejects the input when it arrives.
    plan: |candidate, _| shift_ms(candidate).map(drop),
    ..Control::NONE
};

/// Maximum shift in either direction.
const MAX_SHIFT_MS: i64 = MAX_DURATION_MS.cast_signed();

/// Returns the time by which a run is ranked: `shiftMs` before its queue time.
pub(super) fn shifted(
    candidate: &Candidate<'_>,
    queued_at: Timestamp,
) -> Decided<Timestamp, Verdict> {
    let shift = shift_ms(candidate)?;
    Ok(if shift < 0 {
        queued_at.plus_ms(shift.unsigned_abs())
    } else {
        queued_at.minus_ms(shift.unsigned_abs())
    })
}

/// Returns the shift of a run: that of its definition, or the one in its data.
fn shift_ms(candidate: &Candidate<'_>) -> Decided<i64, Verdict> {
    let shift = match &candidate.workflow().priority {
        None => Ok(0),
        Some(Priority { shift_ms: Shift::Ms(ms) }) => Ok(*ms),
        Some(Priority { shift_ms: Shift::From(from) }) => from.of("shiftMs", candidate.event),
    };
    let control = CONTROL.name;
    shift.map_err(|reason| Stop::Refused(Verdict::Rejected { control, reason }))
}

/// The `priority` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Priority {
    /// The runs are ranked as if they were queued this much earlier.
    pub shift_ms: Shift,
}

/// Shift of the rank, in milliseconds; negative for a later rank (spec L14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shift {
    /// The same for every run.
    Ms(i64),
    /// A number in the data of each run.
    From(FromData),
}

impl Priority {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Priority, Reported> {
        const NAME: &str = "shiftMs";
        if FromData::is_in(fields, NAME) {
            let read = FromData::read(fields, NAME, (-MAX_SHIFT_MS, MAX_SHIFT_MS), 0)?;
            return Ok(Priority { shift_ms: Shift::From(read) });
        }
        match fields.integer(NAME, -MAX_SHIFT_MS, MAX_SHIFT_MS)? {
            Some(0) => {
                let message = "must be at least 1, or below 0 for a later rank, got 0";
                Err(fields.error(Code::OutOfRange, NAME, message))
            }
            Some(ms) => Ok(Priority { shift_ms: Shift::Ms(ms) }),
            None => Err(fields.missing(NAME, "a whole number of milliseconds other than 0")),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[])
    }
}
