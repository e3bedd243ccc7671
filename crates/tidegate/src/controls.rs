//! The controls as a program writes them.
//!
//! Each is the field of the same name in a definition written as data, so both are checked by the
//! same rules when the engine is built.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// A duration as definitions write it.
pub(crate) fn millis(duration: Duration) -> Value {
    json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

macro_rules! control {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $name(Map<String, Value>);

        impl $name {
            fn with(mut self, field: &str, value: Value) -> Self {
                self.0.insert(field.to_owned(), value);
                self
            }

            pub(crate) fn into_value(self) -> Value {
                Value::Object(self.0)
            }
        }
    };
}

/// What stands on workflows and actions alike.
macro_rules! on_both {
    () => {
        /// Starts are spread out; none is lost.
        pub fn throttle(self, rate: $crate::Rate) -> Self {
            self.with("throttle", rate.into_value())
        }

        /// What is beyond the rate is dropped.
        pub fn rate_limit(self, rate: $crate::Rate) -> Self {
            self.with("rateLimit", rate.into_value())
        }

        /// One run when a burst is over.
        pub fn debounce(self, debounce: $crate::Debounce) -> Self {
            self.with("debounce", debounce.into_value())
        }

        /// An earlier place in line.
        pub fn priority(self, priority: $crate::Priority) -> Self {
            self.with("priority", priority.into_value())
        }

        /// At most one run that is not over.
        pub fn singleton(self, singleton: $crate::Singleton) -> Self {
            self.with("singleton", singleton.into_value())
        }

        /// One run for the same key in a period.
        pub fn idempotency(self, idempotency: $crate::Idempotency) -> Self {
            self.with("idempotency", idempotency.into_value())
        }

        /// The passage from version to version.
        pub fn handoff(self, handoff: $crate::Handoff) -> Self {
            self.with("handoff", handoff.into_value())
        }

        /// How failing steps are tried again.
        pub fn retry(self, retry: $crate::Retry) -> Self {
            self.with("retry", serde_json::to_value(retry).unwrap_or_default())
        }

        /// How long a run may take in all, from its first start.
        pub fn timeout(self, timeout: std::time::Duration) -> Self {
            self.with("timeoutMs", $crate::controls::millis(timeout))
        }

        /// What it does, for people and for models that choose among tools.
        pub fn description(self, text: &str) -> Self {
            self.with("description", serde_json::json!(text))
        }

        /// What its input is: a part of JSON Schema. Requests that do not fit are refused.
        pub fn schema(self, schema: serde_json::Value) -> Self {
            self.with("schema", schema)
        }

        /// Its version. The highest number that was ever registered is released by itself.
        pub fn version(self, version: u32) -> Self {
            self.with("version", serde_json::json!(version))
        }
    };
}
pub(crate) use on_both;

macro_rules! keyed {
    ($name:ident) => {
        impl $name {
            /// What is counted apart: a dotted path into the event's data.
            pub fn key(self, path: &str) -> Self {
                self.with("key", json!(path))
            }
        }
    };
}

control!(
    /// How many runs are inside at once; the others wait in line.
    Concurrency
);
keyed!(Concurrency);

impl Concurrency {
    /// At most so many runs at once, over all engines.
    pub fn limit(limit: u32) -> Self {
        Self(Map::new()).with("limit", json!(limit))
    }

    /// A run counts until it is over, not only while a worker drives it.
    pub fn for_the_whole_run(self) -> Self {
        self.with("span", json!("run"))
    }
}

control!(
    /// So many in a time: starts spread out by a throttle, events shed by a rate limit.
    Rate
);
keyed!(Rate);

impl Rate {
    /// So many in this time.
    pub fn of(limit: u32, per: Duration) -> Self {
        Self(Map::new()).with("limit", json!(limit)).with("perMs", millis(per))
    }

    /// So many a second.
    pub fn per_second(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(1))
    }

    /// So many a minute.
    pub fn per_minute(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(60))
    }

    /// So many an hour.
    pub fn per_hour(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(60 * 60))
    }

    /// How many may come at once after a quiet time.
    pub fn burst(self, burst: u32) -> Self {
        self.with("burst", json!(burst))
    }
}

control!(
    /// One run when a burst of events is over, with the last one's data.
    Debounce
);
keyed!(Debounce);

impl Debounce {
    /// Runs when it has been quiet for so long.
    pub fn quiet(period: Duration) -> Self {
        Self(Map::new()).with("periodMs", millis(period))
    }

    /// Runs after this time at the latest, however busy it is.
    pub fn at_most(self, max_wait: Duration) -> Self {
        self.with("maxWaitMs", millis(max_wait))
    }
}

control!(
    /// Many events in one run.
    Batch
);
keyed!(Batch);

impl Batch {
    /// At most so many events in one run.
    pub fn of(max_size: u32) -> Self {
        Self(Map::new()).with("maxSize", json!(max_size))
    }

    /// Runs this long after the first event at the latest.
    pub fn within(self, timeout: Duration) -> Self {
        self.with("timeoutMs", millis(timeout))
    }

    /// At most so many bytes of data in one run.
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.with("maxBytes", json!(bytes))
    }
}

control!(
    /// An earlier place in line.
    Priority
);

impl Priority {
    /// As if it had come so much earlier.
    pub fn shift(shift: Duration) -> Self {
        Self(Map::new()).with("shiftMs", millis(shift))
    }
}

control!(
    /// At most one run that is not over.
    Singleton
);
keyed!(Singleton);

impl Singleton {
    /// A new one is dropped while there is one.
    pub fn skip() -> Self {
        Self(Map::new()).with("mode", json!("skip"))
    }

    /// A new one takes the place of the one there is.
    pub fn cancel() -> Self {
        Self(Map::new()).with("mode", json!("cancel"))
    }
}

control!(
    /// One run for the same key in a period.
    Idempotency
);
keyed!(Idempotency);

impl Idempotency {
    /// Repeats within this time make no run.
    pub fn within(period: Duration) -> Self {
        Self(Map::new()).with("periodMs", millis(period))
    }
}

control!(
    /// The passage from version to version.
    Handoff
);

impl Handoff {
    /// One run at a time for the whole workflow.
    pub fn singleton(on_new_version: OnNewVersion) -> Self {
        let handoff = Self(Map::new()).with("type", json!("singleton"));
        handoff.with("onNewVersion", json!(on_new_version.word()))
    }

    /// One run at a time for each value of a field.
    pub fn keyed(key_field: &str, on_new_version: OnNewVersion) -> Self {
        let handoff =
            Self(Map::new()).with("type", json!("keyed")).with("keyField", json!(key_field));
        handoff.with("onNewVersion", json!(on_new_version.word()))
    }
}

/// What becomes of older runs when a newer version gets its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNewVersion {
    /// They are cancelled.
    Supersede,
    /// They finish first.
    Drain,
    /// They go on beside it.
    Coexist,
}

impl OnNewVersion {
    fn word(self) -> &'static str {
        match self {
            Self::Supersede => "supersede",
            Self::Drain => "drain",
            Self::Coexist => "coexist",
        }
    }
}

control!(
    /// What a request does when its session is busy.
    Policy
);

impl Policy {
    fn named(name: &str) -> Self {
        Self(Map::new()).with("policy", json!(name))
    }

    /// It runs beside the other.
    pub fn allow() -> Self {
        Self::named("allow")
    }

    /// It waits for its turn.
    pub fn queue() -> Self {
        Self::named("queue")
    }

    /// It is refused, and told by whom.
    pub fn reject() -> Self {
        Self::named("reject")
    }

    /// It takes the place of the other.
    pub fn restart() -> Self {
        Self::named("restart")
    }

    /// It joins an open window, which starts when it has been quiet for so long.
    pub fn debounce(period: Duration) -> Self {
        Self::named("debounce").with("periodMs", millis(period))
    }

    /// How long a queued request waits, or a window stays open, at the most.
    pub fn at_most(self, max_wait: Duration) -> Self {
        self.with("maxWaitMs", millis(max_wait))
    }

    /// Requests meet by what a function of the program says.
    pub(crate) fn by_function(self, name: &str) -> Self {
        self.with("key", json!({ "function": name }))
    }

    /// What requests must have in common to meet: `session`, `user`, `none`, or a path such as
    /// `input.account`.
    pub fn key(self, path: &str) -> Self {
        self.with("key", json!(path))
    }
}
