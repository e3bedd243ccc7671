//! Builders of the queue of a limit: its bound, and turns in it.

use serde_json::{Map, Value, json};

use super::{Concurrency, Handoff, KeySource, Rate};

macro_rules! queueing {
    ($name:ident) => {
        impl $name {
            /// Bounds the queue of each key.
            pub fn queue(self, queue: Queue) -> Self {
                self.with("queue", queue.into_value())
            }
        }
    };
}
queueing!(Concurrency);
queueing!(Handoff);

macro_rules! taking_turns {
    ($name:ident) => {
        impl $name {
            /// Lets the values of a key take turns in the queue, so that one with many runs delays
            /// no other. Not on a rate limit, which has no queue.
            pub fn fair(self, fair: Fair) -> Self {
                self.with("fair", fair.into_value())
            }
        }
    };
}
taking_turns!(Concurrency);
taking_turns!(Rate);

control!(
    /// Turns in the queue of a limit: each value of a key is served by its weight.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let render = Workflow::new("render", async |_: Ctx, _: Value| Ok(()))
    ///     // Ten at once. Every account has its turn, acme three for each one of the others.
    ///     .concurrency(Concurrency::limit(10).fair(Fair::by("accountId").weight("acme", 3)));
    /// ```
    Fair
);

impl Fair {
    /// Lets the values of a key take turns. Runs without the value are one value together.
    pub fn by(key: impl Into<KeySource>) -> Self {
        let KeySource(key) = key.into();
        Self(Map::new()).with("by", key)
    }

    /// Sets the weight of one value, from 1 to 1,000.
    pub fn weight(mut self, value: &str, weight: u32) -> Self {
        let weights = self.0.entry("weights").or_insert_with(|| json!({}));
        weights[value] = json!(weight);
        self
    }

    /// Sets the weight of all other values, from 1 to 1,000.
    pub fn default_weight(self, weight: u32) -> Self {
        self.with("defaultWeight", json!(weight))
    }
}

control!(
    /// Bound of the queue of a limit.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let render = Workflow::new("render", async |_: Ctx, _: Value| Ok(()))
    ///     // Five at once; a hundred may wait, and further events are refused.
    ///     .concurrency(Concurrency::limit(5).queue(Queue::of(100)));
    /// let preview = Workflow::new("preview", async |_: Ctx, _: Value| Ok(()))
    ///     // The newest ten of a document may wait.
    ///     .concurrency(
    ///         Concurrency::limit(1)
    ///             .key("document")
    ///             .for_the_whole_run()
    ///             .queue(Queue::of(10).drop_oldest()),
    ///     );
    /// ```
    Queue
);

impl Queue {
    /// Lets at most this number of runs wait, and refuses further ones.
    pub fn of(max_waiting: u32) -> Self {
        Self(Map::new()).with("maxWaiting", json!(max_waiting))
    }

    /// Cancels the first run of a full queue instead of refusing the new one.
    pub fn drop_oldest(self) -> Self {
        self.with("onOverflow", json!("dropOldest"))
    }

    /// Cancels the last run of a full queue instead of refusing the new one.
    pub fn drop_newest(self) -> Self {
        self.with("onOverflow", json!("dropNewest"))
    }
}
