//! The controls of one definition in the simulator: how they are drawn, and their fields. The
//! simulator does not use the parser of the core.

use serde_json::{Map, Value, json};
use tidegate_core::{definition::Definition, row::Class};

use crate::workload::Chance;

/// The path of a key; `None` means the whole workflow.
pub type KeyPath = Option<&'static str>;

/// A limit of the control `concurrency`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Maximum number of holds.
    pub limit: u64,
    /// Path of the key.
    pub key: KeyPath,
    /// Whether the hold lasts until the run ends, or only while it is driven.
    pub run: bool,
    /// Path of the cost.
    pub cost: KeyPath,
}

/// The rate of a throttle or a rate limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Number of runs per period.
    pub limit: u64,
    /// The period, in milliseconds.
    pub per_ms: u64,
    /// Number of runs that may start at once.
    pub burst: u64,
    /// Path of the key.
    pub key: KeyPath,
    /// Path of the cost.
    pub cost: KeyPath,
}

/// Policy of an action: what happens to a request while its session is busy.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// All requests run at the same time.
    Allow,
    /// Requests run one after another; the maximum wait in milliseconds, if any.
    Queue(Option<u64>),
    /// The new request is refused.
    Reject,
    /// The new request replaces the running one.
    Restart,
    /// Requests coalesce; the period in milliseconds.
    Debounce(u64),
    /// The new request replaces unstarted ones and waits for a started one.
    Latest,
}

/// All controls of one definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controls {
    /// Limits of `concurrency`.
    pub limits: Vec<Bound>,
    /// Rate of `throttle`.
    pub throttle: Option<Pace>,
    /// Rate of a second `throttle`, of the whole workflow.
    pub wide_throttle: Option<Pace>,
    /// Rate of `rateLimit`.
    pub rate: Option<Pace>,
    /// Debounce: period, longest wait and key.
    pub debounce: Option<(u64, Option<u64>, KeyPath)>,
    /// Batch: size, timeout and key.
    pub batch: Option<(u64, u64, KeyPath)>,
    /// Priority: the shift in milliseconds.
    pub shift_ms: Option<u64>,
    /// `startWithinMs`: the time within which a run must start.
    pub start_within_ms: Option<u64>,
    /// Singleton: key and mode.
    pub singleton: Option<(KeyPath, &'static str)>,
    /// Idempotency: key and period.
    pub idempotency: Option<(KeyPath, u64)>,
    /// Handoff: key, and policy for older runs.
    pub handoff: Option<(KeyPath, &'static str)>,
    /// Policy of an action.
    pub policy: Option<Policy>,
}

impl Controls {
    /// Draws a few controls with small limits that the core accepts in one definition.
    pub fn draw(action: bool, chance: &mut Chance) -> Self {
        loop {
            let drawn = Self::draw_any(action, chance);
            if drawn.is_accepted(action) {
                return drawn;
            }
        }
    }

    /// Draws the next version: the same controls with other values, or other controls.
    #[must_use]
    pub fn changed(&self, action: bool, chance: &mut Chance) -> Self {
        let mut next = self.clone();
        for bound in &mut next.limits {
            bound.limit = chance.between(1, 3);
        }
        for pace in
            [&mut next.throttle, &mut next.wide_throttle, &mut next.rate].into_iter().flatten()
        {
            pace.limit = chance.between(1, 3);
        }
        if let Some((_, on)) = &mut next.handoff {
            *on = chance.one(&["supersede", "drain", "coexist"]);
        }
        let other = if chance.percent(25) { Self::draw(action, chance) } else { next.clone() };
        if other.is_accepted(action) { other } else { next }
    }

    fn is_accepted(&self, action: bool) -> bool {
        let mut value = self.to_value();
        value["name"] = json!("w");
        if action {
            value["flow"] = json!("f");
        }
        Definition::parse(&value).is_ok()
    }

    fn draw_any(action: bool, chance: &mut Chance) -> Self {
        // Most paths are equal, so that several controls share a key.
        let path = chance.one(&["k", "k", "j"]);
        let path = if action { "input.k" } else { path };
        let on = chance.one(&[10, 25, 40]);
        let mut controls = Self::default();
        let key = |chance: &mut Chance| chance.percent(70).then_some(path);
        if chance.percent(on + 15) {
            controls.limits = bounds(path, chance);
        }
        let cost = if action { "input.c" } else { "c" };
        let cost = chance.percent(30).then_some(cost);
        controls.limits.iter_mut().for_each(|bound| bound.cost = cost);
        if chance.percent(on) {
            let narrow = pace(key(chance), chance.one(&[1, 1, 2]), chance);
            if narrow.key.is_some() && chance.percent(40) {
                controls.wide_throttle = Some(pace(None, chance.one(&[1, 2]), chance));
            }
            controls.throttle = Some(Pace { cost, ..narrow });
        }
        if chance.percent(on) {
            let pace = pace(key(chance), 0, chance);
            controls.rate = Some(Pace { burst: pace.limit, ..pace });
        }
        if chance.percent(on) {
            controls.debounce = Some(window(key(chance), chance));
        }
        if chance.percent(on) && !action {
            let size = chance.one(&[1, 2, 3, 5]);
            controls.batch = Some((size, chance.one(&[1, 30, 100]), key(chance)));
        }
        controls.shift_ms = chance.percent(on).then(|| chance.one(&[1, 50, 5000]));
        controls.start_within_ms = chance.percent(on).then(|| chance.one(&[1, 40, 400]));
        if chance.percent(on) {
            controls.singleton = Some((key(chance), chance.one(&["skip", "cancel", "latest"])));
        }
        if chance.percent(on) {
            controls.idempotency = Some((key(chance), chance.one(&[1, 50, 5000])));
        }
        if chance.percent(on) && !action {
            let on = chance.one(&["supersede", "drain", "coexist"]);
            controls.handoff = Some((key(chance), on));
        }
        if action {
            controls.policy = Some(policy(chance));
        }
        controls
    }

    /// Returns the controls as fields of a definition.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        let mut limits: Vec<Value> = self.limits.iter().map(Bound::to_value).collect();
        if let Some(policy) = &self.policy {
            limits.push(policy.to_value());
        }
        let mut add = |name: &str, value: Option<Value>| {
            out.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("concurrency", (!limits.is_empty()).then(|| json!(limits)));
        let mut throttles: Vec<Value> = self.throttles().map(Pace::to_value).collect();
        let throttle = if throttles.len() > 1 { Some(json!(throttles)) } else { throttles.pop() };
        add("throttle", throttle);
        add("rateLimit", self.rate.as_ref().map(Pace::to_value));
        add(
            "debounce",
            self.debounce.map(|(period, max, key)| {
                with(
                    json!({ "periodMs": period }),
                    &[("maxWaitMs", json!(max)), ("key", json!(key))],
                )
            }),
        );
        add(
            "batch",
            self.batch.map(|(size, timeout, key)| {
                with(json!({ "maxSize": size, "timeoutMs": timeout }), &[("key", json!(key))])
            }),
        );
        add("priority", self.shift_ms.map(|ms| json!({ "shiftMs": ms })));
        add("startWithinMs", self.start_within_ms.map(Value::from));
        add(
            "singleton",
            self.singleton.map(|(key, mode)| with(json!({ "mode": mode }), &[("key", json!(key))])),
        );
        add(
            "idempotency",
            self.idempotency
                .map(|(key, period)| with(json!({ "periodMs": period }), &[("key", json!(key))])),
        );
        add(
            "handoff",
            self.handoff.map(|(key, on)| {
                let kind = if key.is_some() { "keyed" } else { "singleton" };
                with(json!({ "type": kind, "onNewVersion": on }), &[("keyField", json!(key))])
            }),
        );
        Value::Object(out)
    }

    /// Whether a new run at a gate of this class displaces unstarted runs.
    pub fn displaces(&self, class: Class) -> bool {
        match class {
            Class::Singleton => self.singleton.is_some_and(|(_, mode)| mode == "latest"),
            Class::Policy => self.policy == Some(Policy::Latest),
            _ => false,
        }
    }

    fn throttles(&self) -> impl Iterator<Item = &Pace> {
        self.throttle.iter().chain(&self.wide_throttle)
    }

    /// Returns the rate of the throttle whose gates have this slot; the first rate if the current
    /// release has none with this key.
    pub fn throttle_at(&self, slot: &str) -> Option<&Pace> {
        let named = self.throttles().find(|pace| pace.key.unwrap_or_default() == slot);
        named.or(self.throttle.as_ref())
    }

    /// Returns the limit of a gate of this class and slot; `None` if it has no limit.
    pub fn limit(&self, class: Class, slot: &str) -> Option<u64> {
        let alike =
            |bound: &&Bound| bound.class() == class && bound.key.unwrap_or_default() == slot;
        match class {
            Class::RunLimit | Class::Keyed | Class::Whole => {
                self.limits.iter().filter(alike).map(|bound| bound.limit).min()
            }
            // Runs that were queued under another key are admitted at the current rate, too.
            Class::Throttle => self.throttle_at(slot).map(|pace| pace.burst),
            _ => Some(1),
        }
    }
}

impl Bound {
    fn class(&self) -> Class {
        match (self.run, self.key) {
            (true, _) => Class::RunLimit,
            (false, Some(_)) => Class::Keyed,
            (false, None) => Class::Whole,
        }
    }

    fn to_value(&self) -> Value {
        let span = if self.run { "run" } else { "executing" };
        let fields = [("key", json!(self.key)), ("cost", json!(self.cost))];
        with(json!({ "limit": self.limit, "span": span }), &fields)
    }
}

impl Pace {
    fn to_value(&self) -> Value {
        let value = json!({ "limit": self.limit, "perMs": self.per_ms, "burst": self.burst });
        with(value, &[("key", json!(self.key)), ("cost", json!(self.cost))])
    }
}

impl Policy {
    fn to_value(&self) -> Value {
        match self {
            Self::Allow => json!({ "policy": "allow" }),
            Self::Queue(max) => with(json!({ "policy": "queue" }), &[("maxWaitMs", json!(max))]),
            Self::Reject => json!({ "policy": "reject" }),
            Self::Restart => json!({ "policy": "restart" }),
            Self::Debounce(period) => json!({ "policy": "debounce", "periodMs": period }),
            Self::Latest => json!({ "policy": "latest" }),
        }
    }
}

/// Adds the fields that are not null.
fn with(mut value: Value, fields: &[(&str, Value)]) -> Value {
    for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
        value[*name] = field.clone();
    }
    value
}

fn bounds(path: &'static str, chance: &mut Chance) -> Vec<Bound> {
    let mut all = Vec::new();
    for (key, run) in [(Some(path), false), (None, false), (None, true), (Some(path), true)] {
        if chance.percent(40) {
            all.push(Bound { limit: chance.one(&[1, 1, 2, 3]), key, run, cost: None });
        }
    }
    all
}

fn pace(key: KeyPath, burst: u64, chance: &mut Chance) -> Pace {
    let (limit, per_ms) = (chance.one(&[1, 2, 3]), chance.one(&[1, 20, 100]));
    Pace { limit, per_ms, burst, key, cost: None }
}

fn window(key: KeyPath, chance: &mut Chance) -> (u64, Option<u64>, KeyPath) {
    let period = chance.one(&[1, 20, 60]);
    (period, chance.percent(50).then(|| period * chance.one(&[1, 2])), key)
}

fn policy(chance: &mut Chance) -> Policy {
    match chance.below(10) {
        0 => Policy::Allow,
        1..4 => Policy::Queue(chance.percent(30).then(|| chance.one(&[10, 100]))),
        4 => Policy::Reject,
        5..7 => Policy::Restart,
        7..9 => Policy::Latest,
        _ => Policy::Debounce(chance.one(&[1, 30])),
    }
}
