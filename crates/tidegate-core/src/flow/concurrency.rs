//! Concurrency: limit how many runs execute at the same time, and queue the others.
//!
//! Use it to protect the services that the runs call. Several limits can be combined, for example
//! 10 in all and 1 per account. With the span `executing` only runs that a worker is driving
//! count; with `run` a run counts until it has ended, sleeping or not.
//!
//! Acts before the start. On overflow: queue, in order. Remembers its holders per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    adaptive::Adaptive,
    batch::run_of_many,
    control::{Control, Field, FieldType, Moment, Reading},
    cost::Cost,
    fair::Fair,
    from_data::Amount,
    handoff::{Handoff, OnNewVersion},
    key_source::KeySource,
    one_or_list,
    policy::Policy,
    pool::{self, Part},
    queue::{Bounded, Queue},
    written,
};
use crate::{
    catalog::Limit,
    definition::{Code, Definition, Fields, Kind, Problems, Reported},
    row::{self, Class, Event, GivenLimit, Numbers, Scope},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "concurrency",
    purpose: "bound how many run at once",
    acts: Moment::Start,
    on_overflow: "wait in the queue",
    fields: &[
        Field::required("limit", FieldType::Amount),
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("span", FieldType::OneOf(&["executing", "run"]), "executing"),
        Field::optional("cost", FieldType::Cost, "1"),
        Field::optional("pool", FieldType::Pool, "a limit of its own"),
        Field::optional("queue", FieldType::Queue, "no bound"),
        Field::optional("fair", FieldType::Fair, "by rank"),
        Field::optional("adaptive", FieldType::Adaptive, "a fixed limit"),
    ],
    classes: &[Class::RunLimit, Class::PoolRunLimit, Class::Keyed, Class::Whole, Class::PoolLimit],
    is_numbered: true,
    read,
    write: |definition| {
        let policy = definition.policy.iter().map(Policy::to_value);
        let limits = definition.concurrency.iter().map(Concurrency::to_value);
        let uses = definition.written_uses(Part::Concurrency);
        one_or_list(policy.chain(limits).chain(uses))
    },
    keys: |definition| {
        let own = definition.concurrency.iter().map(|it| it.key.as_ref());
        own.chain(definition.keys_of_uses(Part::Concurrency)).collect()
    },
    costs: |definition| {
        let own = definition.concurrency.iter().filter_map(|it| it.cost.as_ref());
        own.chain(definition.costs_of_uses(Part::Concurrency)).collect()
    },
    check,
    plan: |candidate, plan| {
        for limit in &candidate.workflow().concurrency {
            let scope = candidate.scope(limit.class(), limit.key.as_ref())?;
            let Some(scope) = scope else { continue };
            let cost = candidate.cost(CONTROL.name, limit.cost.as_ref())?;
            plan.add_costing(&scope, limit.hold(), vec![cost]);
            plan.give(candidate.given(CONTROL.name, [limit.given(candidate.event)])?);
            plan.bound(limit.queue);
            plan.share(candidate, CONTROL.name, limit.fair.as_ref())?;
        }
        pool::plan(candidate, Part::Concurrency, plan)
    },
    limit: |definition, scope, numbers| {
        let limits = definition.into_iter().flat_map(|definition| of_gate(definition, scope));
        let limits = limits.map(|limit| limit.number(numbers));
        limits.min().map_or(Limit::Open, Limit::Slots)
    },
    queue: |definition, scope| {
        let limit = of_gate(definition, scope).next()?;
        let by_data = limit.cost.is_some() || matches!(limit.limit, Amount::From(_));
        Some(Bounded { queue: limit.queue?, by_data })
    },
    fair: |definition, scope| of_gate(definition, scope).find_map(|limit| limit.fair.as_ref()),
    adaptive: |definition, scope| of_gate(definition, scope).find_map(|limit| limit.adaptive),
    ..Control::NONE
};

/// Returns the limits of a definition that a gate belongs to. A definition has at most one.
fn of_gate<'a>(definition: &'a Definition, scope: &Scope) -> impl Iterator<Item = &'a Concurrency> {
    definition.concurrency.iter().filter(|limit| {
        let slot = limit.key.as_ref().map(KeySource::slot).unwrap_or_default();
        limit.class() == scope.class && slot == scope.slot
    })
}

/// One limit of the `concurrency` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// Maximum number of runs inside at once, over all engines; the first one if it is adaptive.
    pub limit: Amount,
    /// The key, with one limit per value; one limit for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// The time during which a run counts for the limit.
    pub span: Span,
    /// The units of the limit that a run takes; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The bound of the queue; none if any number of runs may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// How the values of a key take turns in the queue; by rank if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<Fair>,
    /// The range in which the limit follows the called service; it is fixed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
}

/// Time during which a run counts for a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Span {
    /// Only while a worker drives the run; a sleeping run does not count.
    #[default]
    Executing,
    /// Until the run has ended.
    Run,
}

impl Concurrency {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Concurrency, Reported> {
        let limit = Amount::required(fields, "limit");
        let key = fields.key("key");
        let span = fields.word("span", &[("executing", Span::Executing), ("run", Span::Run)]);
        let cost = Cost::read(fields);
        let (queue, fair) = (Queue::read(fields), Fair::read(fields));
        let adaptive = Adaptive::read(fields, limit.as_ref().ok());
        let (limit, key, cost) = (limit?, key?, cost?);
        let (span, queue, fair) = (span?.unwrap_or_default(), queue?, fair?);
        let adaptive = adaptive?;
        let read = Concurrency { limit, key, span, cost, queue, fair, adaptive };
        let name = if adaptive.is_some() { "highest limit" } else { "limit" };
        fields.check_cost(read.cost.as_ref(), read.number(Numbers::Highest), name);
        Ok(read)
    }

    /// Returns the limit of a gate.
    pub(crate) fn number(&self, numbers: Numbers<'_>) -> u32 {
        let start = self.limit.number(numbers.limit(0));
        match (self.adaptive, numbers) {
            (None, _) => start,
            (Some(adaptive), Numbers::Lowest) => adaptive.min,
            (Some(adaptive), Numbers::Highest) => adaptive.max,
            (Some(adaptive), Numbers::Of(own)) => adaptive.value(own.adapted, start),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut value = written(self, &[("span", json!("executing"))]);
        if let Some(queue) = self.queue {
            value["queue"] = queue.to_value();
        }
        if let Some(adaptive) = self.adaptive {
            value["adaptive"] = adaptive.to_value();
        }
        value
    }
}

impl Concurrency {
    /// Returns the class of the limit's gates.
    pub fn class(&self) -> Class {
        match (self.span, &self.key) {
            (Span::Run, _) => Class::RunLimit,
            (Span::Executing, Some(_)) => Class::Keyed,
            (Span::Executing, None) => Class::Whole,
        }
    }

    /// Returns the number that an input has for this limit.
    fn given(&self, event: &Event) -> Result<GivenLimit, String> {
        let limit = self.limit.given("limit", event)?;
        Ok(GivenLimit { limit, burst: None })
    }

    /// Returns how long a run holds the limit's gate.
    pub(crate) fn hold(&self) -> row::Span {
        match self.span {
            Span::Run => row::Span::Run,
            Span::Executing => row::Span::Executing,
        }
    }
}

/// Reads `concurrency` in all its spellings: a limit, a policy, a handoff, or a list of them.
fn read(reading: &mut Reading<'_>, value: &Value) {
    let (mut places, mut handoff) = (Vec::new(), None);
    let entries = reading.entries(&CONTROL, value).into_iter();
    let (uses, own): (Vec<_>, Vec<_>) = entries.partition(|(_, entry)| pool::is_use(entry));
    for (at, entry) in own {
        let at = at.as_str();
        let problems = &mut *reading.problems;
        if entry.is_string() || entry.get("policy").is_some() {
            let policy = read_policy(entry, at, problems);
            keep(&mut reading.definition.policy, policy, "policy", at, problems);
        } else if entry.get("type").is_some() {
            let known = super::handoff::CONTROL.field_names();
            let read = Fields::open(entry, at, &known, problems);
            let read = read.and_then(|mut fields| Handoff::read(&mut fields));
            keep(&mut handoff, read, "handoff", at, problems);
        } else {
            let read = Fields::open(entry, at, &CONTROL.field_names(), problems);
            if let Ok(limit) = read.and_then(|mut fields| Concurrency::read(&mut fields)) {
                reading.definition.concurrency.push(limit);
                places.push(at.to_owned());
            }
        }
    }
    places.extend(pool::read(reading, Part::Concurrency, uses));
    reading.places.insert(CONTROL.name, places);
    let Some(handoff) = handoff else { return };
    reading.definition.written.forget(CONTROL.name);
    if reading.definition.handoff.is_some() {
        let message = "is also given as concurrency: keep one of the two";
        reading.problems.error(Code::Conflict, "handoff", message);
    } else {
        reading.definition.handoff = Some(handoff);
    }
}

fn read_policy(entry: &Value, at: &str, problems: &mut Problems) -> Result<Policy, Reported> {
    if problems.kind == Kind::Workflow {
        let fix = "write `{\"limit\": …}`, or use singleton";
        let message = format!("cannot be a policy, because only actions have policies: {fix}");
        return Err(problems.error(Code::Misplaced, at, message));
    }
    Policy::read(entry, at, problems)
}

/// Stores the first policy or handoff of the list, and reports a second one.
fn keep<T>(
    slot: &mut Option<T>,
    read: Result<T, Reported>,
    word: &str,
    at: &str,
    problems: &mut Problems,
) {
    let Ok(value) = read else { return };
    if slot.is_some() {
        problems.error(Code::Conflict, at, format!("is a second {word}: keep one of them"));
    } else {
        *slot = Some(value);
    }
}

/// Limit of any control: the number of runs, the key, and the span during which a run counts.
struct Bound<'a> {
    field: &'a str,
    /// The lowest and the highest number of runs.
    least: u32,
    most: u32,
    key: Option<&'a KeySource>,
    span: Span,
    /// Whether it counts units, which do not compare with runs.
    has_cost: bool,
}

impl Bound<'_> {
    /// Whether this limit counts every run that `other` counts.
    fn covers(&self, other: &Bound<'_>) -> bool {
        (self.key.is_none() || self.key == other.key) && self.span >= other.span
    }

    fn counts_the_same(&self, other: &Bound<'_>) -> bool {
        self.key == other.key && self.span == other.span
    }
}

/// Refuses a duplicate limit, and warns of a limit that is never reached because of another one.
fn check(reading: &mut Reading<'_>) {
    let Reading { definition, places, problems } = reading;
    let places = places.get(CONTROL.name).into_iter().flatten();
    let limits = definition.concurrency.iter().zip(places);
    for (limit, place) in limits.clone() {
        if let Some(queue) = limit.queue {
            let executing = limit.span == Span::Executing;
            let many = run_of_many(definition).map(|(noun, _)| noun);
            queue.check(place, executing, many, problems);
            if queue.displaces() && limit.fair.is_some() {
                Fair::check(place, problems);
            }
        }
    }
    let limits: Vec<_> = limits
        .map(|(limit, field)| Bound {
            field,
            least: limit.number(Numbers::Lowest),
            most: limit.number(Numbers::Highest),
            key: limit.key.as_ref(),
            span: limit.span,
            has_cost: limit.cost.is_some(),
        })
        .collect();
    let exclusive = exclusive(definition);
    for (n, limit) in limits.iter().enumerate() {
        if let Some(other) = limits[..n].iter().find(|other| other.counts_the_same(limit)) {
            let rule = format!("counts the same runs as {}", other.field);
            // Two limits with one key and span are one gate, which counts runs or units.
            let fix = if limit.has_cost == other.has_cost {
                "keep one of them".to_owned()
            } else {
                let span = if limit.span == Span::Run { "executing" } else { "run" };
                format!("a gate counts runs or units, so give one of them `span: {span}`")
            };
            problems.error(Code::Conflict, limit.field, format!("{rule}: {fix}"));
            continue;
        }
        if limit.has_cost {
            continue;
        }
        let others = limits.iter().filter(|other| !other.counts_the_same(limit) && !other.has_cost);
        let mut bounds = others.chain(&exclusive);
        let tighter = bounds.find(|other| other.covers(limit) && other.most <= limit.least);
        if let Some(other) = tighter {
            let (most, field) = (other.most, other.field);
            let message =
                format!("of {} is never reached: {field} admits only {most}", limit.least);
            problems.warn(Code::NeverBinds, &format!("{}.limit", limit.field), message);
        }
    }
}

/// Returns the controls that admit one run at a time, from its creation until it has ended.
fn exclusive(definition: &Definition) -> Vec<Bound<'_>> {
    let singleton = definition.singleton.as_ref().map(|it| ("singleton", it.key.as_ref()));
    // With `coexist` each version has a gate of its own, so that several runs may be active.
    let handoff = definition.handoff.as_ref();
    let handoff = handoff.filter(|handoff| handoff.on_new_version != OnNewVersion::Coexist);
    let handoff = handoff.map(|handoff| ("handoff", handoff.key()));
    let pairs = singleton.into_iter().chain(handoff);
    pairs
        .map(|(field, key)| Bound {
            field,
            least: 1,
            most: 1,
            key,
            span: Span::Run,
            has_cost: false,
        })
        .collect()
}
