//! The controls of one definition in the simulator: how they are drawn, and their fields. The
//! simulator does not use the parser of the core.

use serde_json::{Map, Value, json};
use tidegate_core::{definition::Definition, row::Class};

use super::script::When;
use crate::workload::Chance;

/// The path of a key; `None` means the whole workflow.
pub type KeyPath = Option<&'static str>;

/// A limit of the control `concurrency`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Maximum number of holds; the default of one that comes from data.
    pub limit: u64,
    /// Path of a limit from data.
    pub from: KeyPath,
    /// Path of the key.
    pub key: KeyPath,
    /// Whether the hold lasts until the run ends, or only while it is driven.
    pub run: bool,
    /// Path of the cost.
    pub cost: KeyPath,
    /// Bound of the queue.
    pub queue: Option<Queue>,
    /// Turns in the queue.
    pub fair: Option<Fair>,
    /// The range of an adaptive limit.
    pub adaptive: Option<Range>,
}

/// Range of an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The lowest limit.
    pub min: u64,
    /// The highest limit.
    pub max: u64,
    /// The shortest time between two halvings, in milliseconds.
    pub cooldown: u64,
}

impl Range {
    /// Draws a range that contains the limits from 1 to `most`.
    pub fn draw(most: u64, chance: &mut Chance) -> Self {
        let (max, cooldown) = (most + chance.below(3), chance.one(&[1, 5, 50, 1000]));
        Self { min: 1, max, cooldown }
    }

    /// Reads the settings of a definition.
    pub fn read(value: &Value) -> Option<Self> {
        let number = |name: &str| value[name].as_u64();
        let cooldown = number("cooldownMs").unwrap_or(1000);
        Some(Self { min: number("min")?, max: number("max")?, cooldown })
    }

    /// Returns the settings in the form of a definition.
    pub fn to_value(self) -> Value {
        json!({ "min": self.min, "max": self.max, "cooldownMs": self.cooldown })
    }
}

/// Turns of the values at a path: the weight of the value 0, and that of all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fair {
    /// Path of the value.
    pub by: &'static str,
    /// Weight of the value 0.
    pub zero: u64,
    /// Weight of all other values.
    pub others: u64,
}

impl Fair {
    fn draw(action: bool, chance: &mut Chance) -> Self {
        let by = chance.one(if action { &["input.k", "input.j"] } else { &["k", "j"] });
        let mut weight = || chance.one(&[1, 1, 2, 3, 1000]);
        Self { by, zero: weight(), others: weight() }
    }

    /// Returns the settings in the form of a definition.
    pub fn to_value(self) -> Value {
        json!({ "by": self.by, "weights": { "0": self.zero }, "defaultWeight": self.others })
    }

    /// Returns the weight of a value, as it is shown.
    pub fn weight(self, value: &str) -> u64 {
        if value == "0" { self.zero } else { self.others }
    }
}

/// A use of a pool's limit on runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolUse {
    /// The name of the pool.
    pub pool: &'static str,
    /// Path of the key.
    pub key: KeyPath,
    /// Path of the cost.
    pub cost: KeyPath,
}

/// Bound of a queue: the number of waiting runs, and what happens to the next one.
pub type Queue = (u64, &'static str);

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
    /// Turns in the queue of a throttle.
    pub fair: Option<Fair>,
}

/// Policy of an action: what happens to a request while its session is busy.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// All requests run at the same time.
    Allow,
    /// Requests run one after another; the maximum wait in milliseconds, and the bound of the
    /// queue, if any.
    Queue(Option<u64>, Option<Queue>),
    /// The new request is refused.
    Reject,
    /// The new request replaces the running one.
    Restart,
    /// Requests coalesce; the period in milliseconds.
    Debounce(u64),
    /// The new request replaces unstarted ones and waits for a started one.
    Latest,
}

/// The control `debounce`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// The period, in milliseconds.
    pub period: u64,
    /// The longest wait, in milliseconds.
    pub longest: Option<u64>,
    /// Path of the key.
    pub key: KeyPath,
    /// Which events the run gets.
    pub keep: &'static str,
    /// When runs start.
    pub edge: &'static str,
    /// Maximum number of events in one run, with `all`.
    pub size: Option<u64>,
}

/// All controls of one definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controls {
    /// Limits of `concurrency`.
    pub limits: Vec<Bound>,
    /// Uses of pools, in the list of `concurrency`, too.
    pub pools: Vec<PoolUse>,
    /// Rate of `throttle`.
    pub throttle: Option<Pace>,
    /// Rate of a second `throttle`, of the whole workflow.
    pub wide_throttle: Option<Pace>,
    /// Rate of `rateLimit`.
    pub rate: Option<Pace>,
    /// Debounce.
    pub debounce: Option<Quiet>,
    /// Batch: size, timeout and key.
    pub batch: Option<(u64, u64, KeyPath)>,
    /// Priority: the shift in milliseconds, which may come from data.
    pub shift_ms: Option<Shift>,
    /// `startWithinMs`: the time within which a run must start.
    pub start_within_ms: Option<u64>,
    /// `cancelOn`: the event's name and the path in the run's data.
    pub cancel_on: Option<(&'static str, &'static str)>,
    /// The condition of `cancelOn`, which compares the event with the run's data. [`When::Alike`]
    /// stands in place of the path.
    pub cancel_if: Option<When>,
    /// `waitsFor`: the event's name and the path in the run's data.
    pub waits_for: Option<(&'static str, &'static str)>,
    /// Singleton: key and mode.
    pub singleton: Option<(KeyPath, &'static str)>,
    /// Idempotency: key and period.
    pub idempotency: Option<(KeyPath, u64)>,
    /// Handoff: key, and policy for older runs.
    pub handoff: Option<(KeyPath, &'static str)>,
    /// Bound of the queue of the handoff.
    pub handoff_queue: Option<Queue>,
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
            let mode = bound.queue.map_or("reject", |(_, mode)| mode);
            bound.queue = if chance.percent(30) {
                chance.percent(60).then(|| (chance.one(&[1, 2, 3]), mode))
            } else {
                bound.queue
            };
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

    /// Draws uses of pools, which the core accepts beside the other controls.
    pub fn draw_pools(&mut self, names: &[&'static str], action: bool, chance: &mut Chance) {
        let (path, cost) = if action { ("input.k", "input.c") } else { ("k", "c") };
        let before = self.clone();
        // Two uses may be of one pool, and of one gate.
        for _ in 0..chance.one(&[0, 1, 1, 2]) {
            let pool = chance.one(names);
            let key = chance.percent(50).then_some(path);
            self.pools.push(PoolUse { pool, key, cost: chance.percent(50).then_some(cost) });
        }
        if !self.is_accepted(action) {
            *self = before;
        }
    }

    /// Draws turns at its limits. Leaves out those that the core refuses.
    pub fn draw_fair(&mut self, action: bool, chance: &mut Chance) {
        for n in 0..self.limits.len() {
            let before = self.clone();
            self.limits[n].fair = chance.percent(60).then(|| Fair::draw(action, chance));
            if !self.is_accepted(action) {
                *self = before;
            }
        }
        let before = self.clone();
        let fair = chance.percent(60).then(|| Fair::draw(action, chance));
        if let Some(pace) = &mut self.throttle {
            pace.fair = fair;
        }
        if !self.is_accepted(action) {
            *self = before;
        }
    }

    /// Draws limits that follow the outcomes of calls, among those that are numbers.
    pub fn draw_adaptive(&mut self, chance: &mut Chance) {
        for bound in self.limits.iter_mut().filter(|bound| bound.from.is_none()) {
            bound.adaptive = chance.percent(60).then(|| Range::draw(3, chance));
        }
    }

    /// Returns the range of the limit of a gate of this class and slot.
    pub fn adaptive(&self, class: Class, slot: &str) -> Option<Range> {
        self.limits.iter().filter(|bound| bound.is_of(class, slot)).find_map(|it| it.adaptive)
    }

    /// Returns the turns of a gate of this class and slot.
    pub fn fair(&self, class: Class, slot: &str) -> Option<Fair> {
        if class == Class::Throttle {
            let mut of_gate = self.throttles().filter(|pace| pace.key.unwrap_or_default() == slot);
            return of_gate.find_map(|pace| pace.fair);
        }
        self.limits.iter().filter(|bound| bound.is_of(class, slot)).find_map(|bound| bound.fair)
    }

    /// Draws the events that concern single runs. Leaves out those that the core refuses.
    pub fn listen(&mut self, action: bool, chance: &mut Chance) {
        let path = if action { "input.k" } else { "k" };
        let mut topic = || chance.percent(25).then(|| (chance.one(&["ping", "pong", "all"]), path));
        (self.cancel_on, self.waits_for) = (topic(), topic());
        // Both compare with a value of the run, which may differ between the events of a batch.
        if !self.is_accepted(action) {
            (self.cancel_on, self.waits_for) = (None, None);
        }
    }

    /// Draws a condition on the events that cancel runs. Leaves out one that the core refuses.
    pub fn draw_condition(&mut self, action: bool, chance: &mut Chance) {
        let when = chance.percent(60).then(|| chance.one(&When::ALL));
        self.cancel_if = when.filter(|_| self.cancel_on.is_some());
        if !self.is_accepted(action) {
            self.cancel_if = None;
        }
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
        for bound in &mut controls.limits {
            let path = if action { "input.c" } else { "c" };
            bound.from = chance.percent(25).then_some(path);
        }
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
        let data = Shift::From(if action { "input.c" } else { "c" });
        let shifts = [1, 50, 5000, -1, -50].map(Shift::Ms);
        controls.shift_ms =
            chance.percent(on).then(|| if chance.percent(25) { data } else { chance.one(&shifts) });
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
            controls.handoff_queue = queue(chance);
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
        limits.extend(self.pools.iter().map(PoolUse::to_value));
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
        add("debounce", self.debounce.map(Quiet::to_value));
        add(
            "batch",
            self.batch.map(|(size, timeout, key)| {
                with(json!({ "maxSize": size, "timeoutMs": timeout }), &[("key", json!(key))])
            }),
        );
        add("priority", self.shift_ms.map(|shift| json!({ "shiftMs": shift.to_value() })));
        let listener =
            |(event, own): (&str, &str)| json!({ "event": event, "match": { "k": own } });
        let cancelling = |(event, own): (&str, &str)| match self.cancel_if {
            None => listener((event, own)),
            Some(when) => {
                let root = if own == "k" { "event.data" } else { "request.input" };
                let condition = when.text(&format!("{root}.{}", when.field()));
                let matched = (when != When::Alike).then(|| json!({ "k": own }));
                let fields = [("match", json!(matched))];
                with(json!({ "event": event, "if": condition }), &fields)
            }
        };
        add("cancelOn", self.cancel_on.map(cancelling));
        add("waitsFor", self.waits_for.map(listener));
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
                let fields = [("keyField", json!(key)), ("queue", queue_value(self.handoff_queue))];
                with(json!({ "type": kind, "onNewVersion": on }), &fields)
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

    /// Returns the bound of the queue of a gate of this class and slot, if there is one.
    pub fn queue(&self, class: Class, slot: &str) -> Option<Queue> {
        let mut limits = self.limits.iter();
        match (class, &self.policy) {
            (Class::Handoff, _) => self.handoff.and(self.handoff_queue),
            (Class::Policy, Some(Policy::Queue(_, queue))) => *queue,
            _ => limits.find_map(|bound| bound.queue.filter(|_| bound.is_of(class, slot))),
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

    /// Returns the maximum number of events in a run of a fold of this class; `None` if the
    /// definition does not have its control.
    pub fn most(&self, class: Class) -> Option<u64> {
        match class {
            Class::Batch => self.batch.map(|(size, ..)| size),
            Class::Gather => self.debounce.map(Quiet::most),
            _ => None,
        }
    }

    /// Returns the limit of a gate of this class and slot, with the number that an event has set;
    /// `None` if it has no limit.
    pub fn limit(&self, class: Class, slot: &str, given: Option<u32>) -> Option<u64> {
        match class {
            Class::RunLimit | Class::Keyed | Class::Whole => {
                let limits = self.limits.iter().filter(|bound| bound.is_of(class, slot));
                limits.map(|bound| bound.number(given)).min()
            }
            // Runs that were queued under another key are admitted at the current rate, too.
            Class::Throttle => self.throttle_at(slot).map(|pace| pace.burst),
            _ => Some(1),
        }
    }
}

impl PoolUse {
    fn to_value(&self) -> Value {
        let fields = [("key", json!(self.key)), ("cost", json!(self.cost))];
        with(json!({ "pool": self.pool }), &fields)
    }
}

/// Shift of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shift {
    /// The same for every run.
    Ms(i64),
    /// Path of a small number in the data.
    From(&'static str),
}

impl Shift {
    fn to_value(self) -> Value {
        match self {
            Self::Ms(ms) => json!(ms),
            Self::From(path) => json!({ "from": path, "min": -1, "max": 2 }),
        }
    }

    /// Returns the shift of a run with this data.
    pub fn of(self, data: &Value) -> i64 {
        match self {
            Self::Ms(ms) => ms,
            Self::From(path) => {
                let value = path.split('.').try_fold(data, |at, name| at.get(name));
                value.and_then(Value::as_i64).unwrap_or(0).clamp(-1, 2)
            }
        }
    }
}

impl Bound {
    /// Returns the limit, with the number that an event has set.
    fn number(&self, given: Option<u32>) -> u64 {
        match (self.from, given) {
            (Some(_), Some(given)) => u64::from(given).clamp(1, MOST),
            _ => self.limit,
        }
    }

    fn is_of(&self, class: Class, slot: &str) -> bool {
        self.class() == class && self.key.unwrap_or_default() == slot
    }

    fn class(&self) -> Class {
        match (self.run, self.key) {
            (true, _) => Class::RunLimit,
            (false, Some(_)) => Class::Keyed,
            (false, None) => Class::Whole,
        }
    }

    fn to_value(&self) -> Value {
        let span = if self.run { "run" } else { "executing" };
        let queue = queue_value(self.queue);
        let fair = json!(self.fair.map(Fair::to_value));
        let fields = [
            ("key", json!(self.key)),
            ("cost", json!(self.cost)),
            ("queue", queue),
            ("fair", fair),
            ("adaptive", json!(self.adaptive.map(Range::to_value))),
        ];
        let limit = match self.from {
            Some(from) => json!({ "from": from, "default": self.limit, "min": 1, "max": MOST }),
            None => json!(self.limit),
        };
        with(json!({ "limit": limit, "span": span }), &fields)
    }
}

impl Pace {
    fn to_value(&self) -> Value {
        let value = json!({ "limit": self.limit, "perMs": self.per_ms, "burst": self.burst });
        let fair = json!(self.fair.map(Fair::to_value));
        with(value, &[("key", json!(self.key)), ("cost", json!(self.cost)), ("fair", fair)])
    }
}

impl Quiet {
    fn to_value(self) -> Value {
        let Self { period, longest, key, keep, edge, size } = self;
        let fields = [("maxWaitMs", json!(longest)), ("key", json!(key)), ("maxSize", json!(size))];
        with(json!({ "periodMs": period, "keep": keep, "edge": edge }), &fields)
    }

    /// Returns the maximum number of events in one run.
    pub fn most(self) -> u64 {
        if self.keep == "all" { self.size.unwrap_or(10_000) } else { 1 }
    }
}

impl Policy {
    fn to_value(&self) -> Value {
        match self {
            Self::Allow => json!({ "policy": "allow" }),
            Self::Queue(max, queue) => {
                let fields = [("maxWaitMs", json!(max)), ("queue", queue_value(*queue))];
                with(json!({ "policy": "queue" }), &fields)
            }
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

/// Highest limit that an event may set.
pub(super) const MOST: u64 = 4;

fn bounds(path: &'static str, chance: &mut Chance) -> Vec<Bound> {
    let mut all = Vec::new();
    for (key, run) in [(Some(path), false), (None, false), (None, true), (Some(path), true)] {
        if chance.percent(40) {
            let (limit, queue) = (chance.one(&[1, 1, 2, 3]), queue(chance));
            let bound = Bound {
                limit,
                from: None,
                key,
                run,
                cost: None,
                queue,
                fair: None,
                adaptive: None,
            };
            all.push(bound);
        }
    }
    all
}

fn queue(chance: &mut Chance) -> Option<Queue> {
    let mode = chance.one(&["reject", "reject", "dropOldest", "dropNewest"]);
    let most = if mode == "reject" { chance.one(&[0, 1, 3]) } else { chance.one(&[1, 2, 3]) };
    chance.percent(25).then_some((most, mode))
}

fn queue_value(queue: Option<Queue>) -> Value {
    queue.map_or(Value::Null, |(most, mode)| json!({ "maxWaiting": most, "onOverflow": mode }))
}

fn pace(key: KeyPath, burst: u64, chance: &mut Chance) -> Pace {
    let (limit, per_ms) = (chance.one(&[1, 2, 3]), chance.one(&[1, 20, 100]));
    Pace { limit, per_ms, burst, key, cost: None, fair: None }
}

fn window(key: KeyPath, chance: &mut Chance) -> Quiet {
    let period = chance.one(&[1, 20, 60]);
    let longest = chance.percent(50).then(|| period * chance.one(&[1, 2]));
    let keep = chance.one(&["last", "last", "first", "all", "all"]);
    let edge = chance.one(&["trailing", "trailing", "leading", "both"]);
    let size = chance.percent(50).then(|| chance.one(&[1, 2, 3]));
    Quiet { period, longest, key, keep, edge, size: size.filter(|_| keep == "all") }
}

fn policy(chance: &mut Chance) -> Policy {
    match chance.below(10) {
        0 => Policy::Allow,
        1..4 => Policy::Queue(chance.percent(30).then(|| chance.one(&[10, 100])), queue(chance)),
        4 => Policy::Reject,
        5..7 => Policy::Restart,
        7..9 => Policy::Latest,
        _ => Policy::Debounce(chance.one(&[1, 30])),
    }
}
