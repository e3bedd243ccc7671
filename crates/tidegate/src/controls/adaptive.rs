//! Builder of adaptive limits.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::{Map, Value, json};

use super::{Concurrency, millis};

control!(
    /// Range in which a limit follows what the called service can take: it falls to half when the
    /// service has too many calls, and grows by one after as many successful calls as the limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::prelude::*;
    ///
    /// // Starts with twenty at once. A range alone has a cooldown of one second.
    /// let openai = Pool::new("openai").concurrency(Concurrency::limit(20).adaptive(2..=50));
    /// let range = Adaptive::between(1, 8).cooldown(Duration::from_secs(10));
    /// let search = Pool::new("search").concurrency(Concurrency::limit(4).adaptive(range));
    /// # let _ = (openai, search);
    /// ```
    Adaptive
);

impl Adaptive {
    /// Keeps the limit between two numbers.
    pub fn between(min: u32, max: u32) -> Self {
        Self(Map::new()).with("min", json!(min)).with("max", json!(max))
    }

    /// Sets the shortest time between two halvings. Defaults to one second.
    pub fn cooldown(self, time: Duration) -> Self {
        self.with("cooldownMs", millis(time))
    }
}

impl From<RangeInclusive<u32>> for Adaptive {
    fn from(range: RangeInclusive<u32>) -> Self {
        Self::between(*range.start(), *range.end())
    }
}

impl Concurrency {
    /// Lets the limit follow the outcomes of calls. It starts at [`Concurrency::limit`].
    pub fn adaptive(self, range: impl Into<Adaptive>) -> Self {
        self.with("adaptive", range.into().into_value())
    }
}
