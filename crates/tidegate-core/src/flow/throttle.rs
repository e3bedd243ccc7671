//! Throttle: limit how often runs start, and lose none of them.
//!
//! A burst is spread out, one start every `perMs / limit`; runs that do not fit now start later.
//! Use `rate_limit` to drop the overflow instead.
//!
//! Acts before the start. On overflow: delay. Remembers the next free time per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Field, FieldType, Moment, Reading},
    cost::Cost,
    fair::Fair,
    from_data::Amount,
    key_source::KeySource,
    meter::{self, Metered},
    one_or_list,
    pool::{self, Part},
    written,
};
use crate::{
    definition::{Code, Definition, Fields, Reported},
    row::{Class, Span},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "throttle",
    purpose: "spread starts over time and lose none",
    acts: Moment::Start,
    on_overflow: "delay",
    fields: &[
        Field::required("limit", FieldType::Amount),
        Field::required("perMs", FieldType::Duration),
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("burst", FieldType::Amount, "1"),
        Field::optional("cost", FieldType::Cost, "1"),
        Field::optional("pool", FieldType::Pool, "limits of its own"),
        Field::optional("fair", FieldType::Fair, "by rank"),
    ],
    classes: &[Class::Throttle, Class::PoolThrottle],
    is_numbered: true,
    read: |reading, value| {
        reading.definition.throttle =
            reading.list(&CONTROL, Some(Part::Throttle), value, Throttle::read);
    },
    write: |definition| {
        let own = definition.throttle.iter().map(Throttle::to_value);
        one_or_list(own.chain(definition.written_uses(Part::Throttle)))
    },
    keys: |definition| {
        let own = definition.throttle.iter().map(|it| it.key.as_ref());
        own.chain(definition.keys_of_uses(Part::Throttle)).collect()
    },
    costs: |definition| {
        let own = definition.throttle.iter().filter_map(|it| it.cost.as_ref());
        own.chain(definition.costs_of_uses(Part::Throttle)).collect()
    },
    check: |reading| {
        meter::check(reading, &CONTROL, metered);
        check_fair(reading);
    },
    plan: |candidate, plan| {
        let throttles = &candidate.workflow().throttle;
        for key in meter::keys(throttles.iter().map(|it| it.key.as_ref())) {
            let Some(scope) = candidate.scope(Class::Throttle, key)? else { continue };
            let alike = || throttles.iter().filter(|it| it.key.as_ref() == key);
            let costs = alike().map(|it| candidate.cost(CONTROL.name, it.cost.as_ref()));
            plan.add_costing(&scope, Span::Start, costs.collect::<Result<_, _>>()?);
            let given = alike().map(|it| it.metered().given(candidate.event));
            plan.give(candidate.given(CONTROL.name, given)?);
            let fair = alike().find_map(|it| it.fair.as_ref());
            plan.share(candidate, CONTROL.name, fair)?;
        }
        pool::plan(candidate, Part::Throttle, plan)
    },
    limit: |definition, scope, numbers| {
        meter::limit(&definition.map(metered).unwrap_or_default(), &scope.slot, numbers)
    },
    fair: |definition, scope| {
        let mut of_gate = definition.throttle.iter().filter(|it| slot(it) == scope.slot);
        of_gate.find_map(|it| it.fair.as_ref())
    },
    ..Control::NONE
};

/// One limit of the `throttle` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throttle {
    /// Number of units that start per period.
    pub limit: Amount,
    /// The period's length.
    pub per_ms: u64,
    /// The key, with one meter per value; one meter for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Maximum number of units that start at once after a quiet time.
    pub burst: Amount,
    /// The units that the start of a run spends; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// How the values of a key take turns in the queue; by rank if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<Fair>,
}

/// Default of `burst`: starts are evenly spaced.
const DEFAULT_BURST: u32 = 1;

impl Throttle {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Throttle, Reported> {
        let limit = Amount::required(fields, "limit");
        let per_ms = fields.duration("perMs");
        let key = fields.key("key");
        let burst = Amount::read(fields, "burst");
        let (cost, fair) = (Cost::read(fields), Fair::read(fields));
        let burst = burst?.unwrap_or(Amount::Fixed(DEFAULT_BURST));
        let (limit, per_ms, key, cost, fair) = (limit?, per_ms?, key?, cost?, fair?);
        Ok(Throttle { limit, per_ms, key, burst, cost, fair })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(DEFAULT_BURST))])
    }

    /// Returns the limit for its meter.
    pub(crate) fn metered(&self) -> Metered<'_> {
        let Self { limit, per_ms, key, burst, cost, fair: _ } = self;
        Metered { limit, per_ms: *per_ms, burst, key: key.as_ref(), cost: cost.as_ref() }
    }
}

fn slot(throttle: &Throttle) -> String {
    throttle.key.as_ref().map(KeySource::slot).unwrap_or_default()
}

/// Reports a second `fair` for limits with one key, which share one queue.
fn check_fair(reading: &mut Reading<'_>) {
    let Reading { definition, places, problems } = reading;
    let fair = definition.throttle.iter().enumerate().filter(|(_, it)| it.fair.is_some());
    let fair: Vec<_> = fair.collect();
    for (at, (n, throttle)) in fair.iter().enumerate() {
        let first = fair[..at].iter().find(|(_, other)| other.key == throttle.key);
        if let Some((m, _)) = first {
            let (place, other) =
                (Reading::place(places, &CONTROL, *n), Reading::place(places, &CONTROL, *m));
            let message = format!("is a second one for the queue of {other}: keep one of them");
            problems.error(Code::Conflict, &format!("{place}.fair"), message);
        }
    }
}

fn metered(definition: &Definition) -> Vec<Metered<'_>> {
    let each = definition.throttle.iter();
    each.map(Throttle::metered).collect()
}
