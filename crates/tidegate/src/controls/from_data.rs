//! Numbers of controls that are read from the data of each run.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Concurrency, Rate, millis};

control!(
    /// Number of a control that is read from the data of each run.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    /// use tidegate::FromData;
    ///
    /// // Each customer has as many runs at once as the plan in the newest event says, at most 100.
    /// let seats = FromData::at("plan.seats").between(1, 100).or(2);
    /// let sync = Workflow::new("sync", async |_: Ctx, _: Value| Ok(()))
    ///     .concurrency(Concurrency::limit_from(seats).key("customer"));
    /// ```
    FromData
);

impl FromData {
    /// Reads the number at a dotted path. [`FromData::between`] is required beside it.
    pub fn at(path: &str) -> Self {
        Self(Map::new()).with("from", json!(path))
    }

    /// Brings the number into this range.
    pub fn between(self, min: i64, max: i64) -> Self {
        self.with("min", json!(min)).with("max", json!(max))
    }

    /// Sets the number of a run without one in its data: for limits the lowest number unless set.
    pub fn or(self, default: i64) -> Self {
        self.with("default", json!(default))
    }
}

impl Concurrency {
    /// Allows as many concurrent runs as the data of the newest run of the key says.
    pub fn limit_from(limit: FromData) -> Self {
        Self(Map::new()).with("limit", limit.into_value())
    }
}

impl Rate {
    /// Allows as many starts per period as the data of the newest run of the key says.
    pub fn limit_from(limit: FromData, per: Duration) -> Self {
        Self(Map::new()).with("limit", limit.into_value()).with("perMs", millis(per))
    }

    /// Allows as many starts at once as the data of the newest run of the key says.
    pub fn burst_from(self, burst: FromData) -> Self {
        self.with("burst", burst.into_value())
    }
}
