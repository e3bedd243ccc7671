//! Builder of the control `priority`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{FromData, millis};

control!(
    /// Priority: gives runs an earlier position in the queue, or a later one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    /// use tidegate::FromData;
    ///
    /// let urgent = Workflow::new("urgent", async |_: Ctx, _: Value| Ok(()))
    ///     .concurrency(Concurrency::limit(5))
    ///     .priority(Priority::shift(Duration::from_secs(600)));
    /// // Each event says how urgent it is, from a minute later to ten minutes earlier.
    /// let report = Workflow::new("report", async |_: Ctx, _: Value| Ok(()))
    ///     .concurrency(Concurrency::limit(5))
    ///     .priority(Priority::from_data(FromData::at("headStartMs").between(-60_000, 600_000)));
    /// ```
    Priority
);

impl Priority {
    /// Ranks a run as if it had arrived earlier by this time.
    pub fn shift(shift: Duration) -> Self {
        Self(Map::new()).with("shiftMs", millis(shift))
    }

    /// Ranks a run as if it had arrived later by this time.
    pub fn delay(shift: Duration) -> Self {
        let ms = i64::try_from(shift.as_millis()).unwrap_or(i64::MAX);
        Self(Map::new()).with("shiftMs", json!(-ms))
    }

    /// Reads the shift in milliseconds from the data of each run; negative for a later rank, and 0
    /// for a run without it.
    pub fn from_data(shift_ms: FromData) -> Self {
        Self(Map::new()).with("shiftMs", shift_ms.into_value())
    }
}
