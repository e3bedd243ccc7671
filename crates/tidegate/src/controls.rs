//! Builders of flow controls, for definitions written in Rust.
//!
//! Each builder writes the field of the same name of a definition in JSON. Both forms are checked
//! by the same rules when the engine is built.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Converts a duration to milliseconds, the unit of definitions.
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

/// Setters shared by workflows and actions.
macro_rules! on_both {
    () => {
        /// Spreads starts over time: runs beyond the rate wait.
        ///
        /// Several rates can be combined, for example 10 a second and 1,000 a day.
        pub fn throttle(self, rate: $crate::Rate) -> Self {
            self.and("throttle", rate.into_value())
        }

        /// Drops events and requests beyond the rate. Several rates can be combined.
        pub fn rate_limit(self, rate: $crate::Rate) -> Self {
            self.and("rateLimit", rate.into_value())
        }

        /// Starts one run for a burst of events, when the burst is over.
        pub fn debounce(self, debounce: $crate::Debounce) -> Self {
            self.with("debounce", debounce.into_value())
        }

        /// Moves runs to an earlier position in the queue.
        pub fn priority(self, priority: $crate::Priority) -> Self {
            self.with("priority", priority.into_value())
        }

        /// Allows at most one run that has not ended.
        pub fn singleton(self, singleton: $crate::Singleton) -> Self {
            self.with("singleton", singleton.into_value())
        }

        /// Starts one run per key within a period.
        pub fn idempotency(self, idempotency: $crate::Idempotency) -> Self {
            self.with("idempotency", idempotency.into_value())
        }

        /// Sets what happens to the runs of older versions when a new version starts.
        pub fn handoff(self, handoff: $crate::Handoff) -> Self {
            self.with("handoff", handoff.into_value())
        }

        /// Cancels a run that has not started within this time after it was queued.
        pub fn start_within(self, time: std::time::Duration) -> Self {
            self.with("startWithinMs", $crate::controls::millis(time))
        }

        /// Cancels runs when an event arrives that has the same values as their data. Several
        /// events can be combined.
        pub fn cancel_on(self, event: $crate::CancelOn) -> Self {
            self.and("cancelOn", event.into_value())
        }

        /// Keeps events that arrive before the run waits for them, for a later
        /// [`Ctx::wait_for_event`]($crate::Ctx::wait_for_event). Each is consumed once.
        pub fn waits_for(self, event: $crate::WaitsFor) -> Self {
            self.and("waitsFor", event.into_value())
        }

        /// Sets the retry policy for steps that fail.
        pub fn retry(self, retry: $crate::Retry) -> Self {
            self.with("retry", serde_json::to_value(retry).unwrap_or_default())
        }

        /// Sets the timeout of a run, from its first start to its end.
        pub fn timeout(self, timeout: std::time::Duration) -> Self {
            self.with("timeoutMs", $crate::controls::millis(timeout))
        }

        /// Sets the description, which people read, and models that choose among tools.
        pub fn description(self, text: &str) -> Self {
            self.with("description", serde_json::json!(text))
        }

        /// Sets the schema of the input, in a subset of JSON Schema.
        ///
        /// Inputs that do not match the schema are refused.
        pub fn schema(self, schema: serde_json::Value) -> Self {
            self.with("schema", schema)
        }

        /// Sets the version number.
        ///
        /// A version whose number is higher than all registered ones is released automatically.
        pub fn version(self, version: u32) -> Self {
            self.with("version", serde_json::json!(version))
        }
    };
}
pub(crate) use on_both;

/// Adds an entry to a field that is one entry or a list of them.
pub(crate) fn append(field: &mut Value, entry: Value) {
    match field {
        Value::Array(entries) => entries.push(entry),
        Value::Null => *field = entry,
        first => *first = json!([first.take(), entry]),
    }
}

/// Units of a limit that a run takes: a number, or the path of a number in the data.
#[derive(Clone, Debug)]
pub struct Cost(Value);

impl From<u32> for Cost {
    fn from(units: u32) -> Self {
        Self(json!(units))
    }
}

impl From<&str> for Cost {
    fn from(path: &str) -> Self {
        Self(json!(path))
    }
}

macro_rules! costing {
    ($name:ident) => {
        impl $name {
            /// Sets how many units of the limit a run takes: a number, or the path of a number in
            /// the data, which is 1 where it is missing.
            pub fn cost(self, cost: impl Into<Cost>) -> Self {
                let Cost(cost) = cost.into();
                self.with("cost", cost)
            }
        }
    };
}

/// Source of a control's key: a dotted path into the event's data, several paths, or an expression.
///
/// ```
/// use serde_json::Value;
/// use tidegate::prelude::*;
/// use tidegate::KeySource;
///
/// let sync = Workflow::new("sync", async |_: Ctx, _: Value| Ok(()))
///     // Five runs of an account at once, and one in each of its regions.
///     .concurrency(Concurrency::limit(5).key("account"))
///     .concurrency(Concurrency::limit(1).key(["account", "region"]))
///     // One run per address, however it is written.
///     .idempotency(
///         Idempotency::within(std::time::Duration::from_secs(60))
///             .key(KeySource::expr("lowercase(event.data.email)")),
///     );
/// ```
#[derive(Clone, Debug)]
pub struct KeySource(Value);

impl KeySource {
    /// Computes the key by an expression of the event: `lowercase(event.data.email)`.
    ///
    /// In an action, the variable is `request` instead of `event`.
    pub fn expr(text: &str) -> Self {
        Self(json!({ "expr": text }))
    }
}

impl From<&str> for KeySource {
    fn from(path: &str) -> Self {
        Self(json!(path))
    }
}

impl From<&String> for KeySource {
    fn from(path: &String) -> Self {
        Self(json!(path))
    }
}

impl From<String> for KeySource {
    fn from(path: String) -> Self {
        Self(json!(path))
    }
}

impl<const N: usize> From<[&str; N]> for KeySource {
    fn from(paths: [&str; N]) -> Self {
        Self(json!({ "paths": &paths[..] }))
    }
}

macro_rules! keyed {
    ($name:ident) => {
        impl $name {
            /// Applies the control to each value of a key separately. The key is a dotted path into
            /// the event's data, a list of paths, or an [expression](KeySource::expr).
            pub fn key(self, key: impl Into<KeySource>) -> Self {
                let KeySource(key) = key.into();
                self.with("key", key)
            }
        }
    };
}

control!(
    /// Limit of concurrent runs; further runs are queued at the gate.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let sync = Workflow::new("sync", async |_: Ctx, _: Value| Ok(()))
    ///     // Five runs of an account at once, over all processes, and fifty in all.
    ///     .concurrency(Concurrency::limit(5).key("account"))
    ///     .concurrency(Concurrency::limit(50));
    /// ```
    Concurrency
);
keyed!(Concurrency);
costing!(Concurrency);

impl Concurrency {
    /// Allows at most this number of concurrent runs, over all engines.
    pub fn limit(limit: u32) -> Self {
        Self(Map::new()).with("limit", json!(limit))
    }

    /// Uses the limit of a [`Pool`], which other workflows share. A key replaces the pool's own.
    pub fn pool(name: &str) -> Self {
        Self(Map::new()).with("pool", json!(name))
    }

    /// Counts a run from its start to its end, also while it waits without a worker.
    pub fn for_the_whole_run(self) -> Self {
        self.with("span", json!("run"))
    }
}

impl From<u32> for Concurrency {
    fn from(limit: u32) -> Self {
        Self::limit(limit)
    }
}

mod adaptive;
mod from_data;
mod pool;
mod priority;
mod queue;

pub use adaptive::Adaptive;
pub use from_data::FromData;
pub use pool::Pool;
pub use priority::Priority;
pub use queue::{Fair, Queue};

control!(
    /// Maximum number of starts per period: a throttle delays the excess, a rate limit drops it.
    ///
    /// ```
    /// use tidegate::prelude::*;
    ///
    /// let ask = Workflow::new("ask", async |_: Ctx, _: serde_json::Value| Ok(()))
    ///     // Ten starts a second, and 100,000 tokens a minute.
    ///     .throttle(Rate::per_second(10))
    ///     .throttle(Rate::per_minute(100_000).burst(100_000).cost("tokens"));
    /// ```
    Rate
);
keyed!(Rate);
costing!(Rate);

impl Rate {
    /// Allows `limit` starts per period.
    pub fn of(limit: u32, per: Duration) -> Self {
        Self(Map::new()).with("limit", json!(limit)).with("perMs", millis(per))
    }

    /// Uses the rates of a [`Pool`], which other workflows share. A key replaces the pool's own.
    pub fn pool(name: &str) -> Self {
        Self(Map::new()).with("pool", json!(name))
    }

    /// Allows `limit` starts per second.
    pub fn per_second(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(1))
    }

    /// Allows `limit` starts per minute.
    pub fn per_minute(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(60))
    }

    /// Allows `limit` starts per hour.
    pub fn per_hour(limit: u32) -> Self {
        Self::of(limit, Duration::from_secs(60 * 60))
    }

    /// Allows up to `burst` starts at once after a time without starts.
    pub fn burst(self, burst: u32) -> Self {
        self.with("burst", json!(burst))
    }
}

control!(
    /// One run for a burst of events: when it is over, with the data of the last one, if nothing
    /// else is set.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let burst = Debounce::quiet(Duration::from_secs(10)).at_most(Duration::from_secs(60));
    /// let index = Workflow::new("index", async |_: Ctx, _: Value| Ok(()))
    ///     .debounce(burst.key("document"));
    /// ```
    Debounce
);
keyed!(Debounce);

impl Debounce {
    /// Starts the run when no event has arrived for this time.
    pub fn quiet(period: Duration) -> Self {
        Self(Map::new()).with("periodMs", millis(period))
    }

    /// Starts the run at most this long after the first event, even if more events arrive.
    pub fn at_most(self, max_wait: Duration) -> Self {
        self.with("maxWaitMs", millis(max_wait))
    }

    /// Gives the run the first event of the burst instead of the last.
    pub fn keep_first(self) -> Self {
        self.with("keep", json!("first"))
    }

    /// Gives the run all events of the burst, in order of arrival ([`Ctx::events`]).
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// // One turn for a burst of chat messages.
    /// let burst = Debounce::quiet(Duration::from_secs(2)).keep_all().key("conversation");
    /// let reply = Workflow::new("reply", async |ctx: Ctx, _: Value| {
    ///     Ok(ctx.events().map_or(1, <[_]>::len))
    /// })
    /// .debounce(burst);
    /// ```
    ///
    /// [`Ctx::events`]: crate::Ctx::events
    pub fn keep_all(self) -> Self {
        self.with("keep", json!("all"))
    }

    /// Starts the run when this number of events has arrived, even if the burst is not over. Only
    /// with [`Debounce::keep_all`].
    pub fn max_size(self, size: u32) -> Self {
        self.with("maxSize", json!(size))
    }

    /// Starts the run with the first event of the burst, at once. The other events make no run.
    pub fn leading(self) -> Self {
        self.with("edge", json!("leading"))
    }

    /// Starts a run with the first event of the burst, at once, and another one when the burst is
    /// over if more events have arrived.
    pub fn both_edges(self) -> Self {
        self.with("edge", json!("both"))
    }
}

control!(
    /// Collects many events into one run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::prelude::*;
    ///
    /// let index = Workflow::new("index", async |_: Ctx, all: Vec<String>| Ok(all.len()))
    ///     .batch(Batch::of(100).within(Duration::from_secs(5)));
    /// // The handler gets a list, but each start passes one event.
    /// let reference: WorkflowRef<String, usize> = index.reference();
    /// ```
    Batch
);
keyed!(Batch);

impl Batch {
    /// Collects at most this number of events into one run.
    pub fn of(max_size: u32) -> Self {
        Self(Map::new()).with("maxSize", json!(max_size))
    }

    /// Starts the run at most this long after the first event.
    pub fn within(self, timeout: Duration) -> Self {
        self.with("timeoutMs", millis(timeout))
    }

    /// Collects only events for which an expression is true: `event.data.priority < 5`. Another
    /// event gets a run at once, with a batch of one.
    pub fn only_if(self, condition: &str) -> Self {
        self.with("if", json!(condition))
    }

    /// Collects events with at most this number of bytes of data into one run.
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.with("maxBytes", json!(bytes))
    }
}

/// Setters of events that concern single runs.
macro_rules! matching {
    ($name:ident) => {
        impl $name {
            /// Selects events of this name. [`matching`](Self::matching) says which runs they
            /// concern.
            pub fn event(name: &str) -> Self {
                Self(Map::new()).with("event", json!(name))
            }

            /// The event concerns a run if its value at this path is equal to that of the run's own
            /// data at the path `own`. Required; all of several paths must match.
            pub fn matching(mut self, path: &str, own: &str) -> Self {
                self.0.entry("match").or_insert_with(|| json!({}))[path] = json!(own);
                self
            }
        }
    };
}

control!(
    /// Event that cancels runs which it makes useless, also while they wait or sleep.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let remind = Workflow::new("cart/remind", async |ctx: Ctx, cart: Value| {
    ///     ctx.sleep("a day", Duration::from_secs(86_400)).await?;
    ///     ctx.step("mail", async || Ok(())).await
    /// })
    /// .cancel_on(CancelOn::event("cart/bought").matching("cart", "cart"));
    /// ```
    CancelOn
);
matching!(CancelOn);

impl CancelOn {
    /// Cancels a run only within this time after its admission.
    pub fn within(self, time: Duration) -> Self {
        self.with("withinMs", millis(time))
    }
}

control!(
    /// Event that a run receives from its admission on, also before it waits for it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// let onboard = Workflow::new("onboard", async |ctx: Ctx, user: Value| {
    ///     ctx.sleep("two days", Duration::from_secs(2 * 86_400)).await?;
    ///     // Returns at once if the user has verified during the sleep.
    ///     let verified = ctx.wait_for_event::<Value>("verified", "user/verified");
    ///     verified.matching("user", &user["user"]).timeout(Duration::from_secs(86_400)).await
    /// })
    /// .waits_for(WaitsFor::event("user/verified").matching("user", "user"));
    /// ```
    WaitsFor
);
matching!(WaitsFor);

control!(
    /// Singleton: at most one live run, or one for each value of a key.
    ///
    /// ```
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// // A new run of a customer replaces the one before it.
    /// let agent = Workflow::new("agent", async |_: Ctx, _: Value| Ok(()))
    ///     .singleton(Singleton::cancel().key("customer"));
    /// ```
    Singleton
);
keyed!(Singleton);

impl Singleton {
    /// Drops a new run while another one is live.
    pub fn skip() -> Self {
        Self(Map::new()).with("mode", json!("skip"))
    }

    /// Cancels the live run, and starts the new one.
    pub fn cancel() -> Self {
        Self(Map::new()).with("mode", json!("cancel"))
    }

    /// Keeps a run that has started, and queues the new run behind it. Replaces a run that has not
    /// started.
    pub fn latest() -> Self {
        Self(Map::new()).with("mode", json!("latest"))
    }
}

control!(
    /// One run per key in a period.
    ///
    /// ```
    /// use std::time::Duration;
    /// use serde_json::Value;
    /// use tidegate::prelude::*;
    ///
    /// // A repeated payment within a day gets the run of the first.
    /// let pay = Workflow::new("pay", async |_: Ctx, _: Value| Ok(()))
    ///     .idempotency(Idempotency::within(Duration::from_secs(24 * 60 * 60)).key("payment"));
    /// ```
    Idempotency
);
keyed!(Idempotency);

impl Idempotency {
    /// Drops events whose key was used within this time.
    pub fn within(period: Duration) -> Self {
        Self(Map::new()).with("periodMs", millis(period))
    }
}

control!(
    /// Handoff: what happens to the runs of older versions when a new version starts.
    Handoff
);

impl Handoff {
    /// Allows one run at a time for the whole workflow.
    pub fn singleton(on_new_version: OnNewVersion) -> Self {
        let handoff = Self(Map::new()).with("type", json!("singleton"));
        handoff.with("onNewVersion", json!(on_new_version.word()))
    }

    /// Allows one run at a time for each value of a key.
    pub fn keyed(key_field: impl Into<KeySource>, on_new_version: OnNewVersion) -> Self {
        let KeySource(key) = key_field.into();
        let handoff = Self(Map::new()).with("type", json!("keyed")).with("keyField", key);
        handoff.with("onNewVersion", json!(on_new_version.word()))
    }
}

/// Handling of the runs of older versions when a newer version gets its first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnNewVersion {
    /// Runs of older versions are cancelled.
    Supersede,
    /// Runs of older versions finish before the new run starts.
    Drain,
    /// Runs of older versions continue, and the new run starts beside them.
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
    /// Policy for a request whose session is busy.
    ///
    /// ```
    /// use tidegate::prelude::*;
    ///
    /// let append = Action::new("append", async |_: Ctx, _: ()| Ok(())).policy(Policy::allow());
    /// let respond = Action::new("respond", async |_: Ctx, _: ()| Ok(())).policy(Policy::queue());
    /// let chat = Flow::new("chat").action(append).action(respond);
    /// ```
    Policy
);

impl Policy {
    fn named(name: &str) -> Self {
        Self(Map::new()).with("policy", json!(name))
    }

    /// Runs the request concurrently with the other runs of the session.
    pub fn allow() -> Self {
        Self::named("allow")
    }

    /// Queues the request behind the other runs of the session.
    pub fn queue() -> Self {
        Self::named("queue")
    }

    /// Refuses the request, and names the run that blocks it.
    pub fn reject() -> Self {
        Self::named("reject")
    }

    /// Cancels the conflicting run, and starts this one.
    pub fn restart() -> Self {
        Self::named("restart")
    }

    /// Queues the request, and replaces requests of the same action that have not started.
    pub fn latest() -> Self {
        Self::named("latest")
    }

    /// Merges requests into one run, which starts when no request has arrived for this time.
    pub fn debounce(period: Duration) -> Self {
        Self::named("debounce").with("periodMs", millis(period))
    }

    /// Bounds the queue of each session, for [`Policy::queue`].
    pub fn bounded(self, queue: Queue) -> Self {
        self.with("queue", queue.into_value())
    }

    /// Sets the maximum time that a queued request waits, or that a window stays open.
    pub fn at_most(self, max_wait: Duration) -> Self {
        self.with("maxWaitMs", millis(max_wait))
    }

    /// Sets the name of the program's function that computes the key. Requests with the same key
    /// conflict.
    pub(crate) fn by_function(self, name: &str) -> Self {
        self.with("key", json!({ "function": name }))
    }

    /// Sets the key: `session`, `user`, `none`, a path such as `input.account`, a list of paths, or
    /// an [expression](KeySource::expr). Requests with the same key conflict.
    pub fn key(self, key: impl Into<KeySource>) -> Self {
        let KeySource(key) = key.into();
        self.with("key", key)
    }
}

control!(
    /// Schedule that starts a workflow.
    ///
    /// ```
    /// use tidegate::prelude::*;
    ///
    /// let nightly = Schedule::cron("0 3 * * *").time_zone("Europe/Berlin");
    /// let report = Workflow::new("report", async |_: Ctx, at: Occurrence| Ok(at.planned_at))
    ///     .schedule(nightly.on_overlap(Policy::queue()));
    /// ```
    Schedule
);

impl Schedule {
    /// Creates a schedule from a cron expression in UTC: five fields, six with seconds in front, or
    /// a word such as `@daily`.
    pub fn cron(cron: &str) -> Self {
        Self(Map::new()).with("cron", json!(cron))
    }

    /// Sets the time zone of the expression, by its name in the IANA database.
    pub fn time_zone(self, zone: &str) -> Self {
        self.with("timeZone", json!(zone))
    }

    /// Sets the policy for an occurrence that is due while the previous run of the schedule has not
    /// ended.
    ///
    /// Defaults to skipping the occurrence (`reject`). `debounce` is not allowed, and no key is
    /// needed.
    pub fn on_overlap(self, policy: Policy) -> Self {
        self.with("onOverlap", policy.into_value())
    }

    /// Sets the maximum delay with which a missed occurrence still runs after an outage.
    ///
    /// Defaults to an hour; the minimum is ten seconds.
    pub fn catch_up(self, window: Duration) -> Self {
        self.with("catchUpMs", millis(window))
    }

    /// Sets the display name.
    pub fn named(self, name: &str) -> Self {
        self.with("name", json!(name))
    }
}
