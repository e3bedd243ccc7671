//! Throttle: limit how often runs start, and lose none of them.
//!
//! A burst is spread out, one start every `perMs / limit`; runs that do not fit now start later.
//! Use `rate_limit` to drop the overflow instead.
//!
//! Acts before the start. On overflow: delay. Remembers the next free time per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Field, FieldType, Moment},
    cost::Cost,
    from_data::Amount,
    key_source::KeySource,
    meter::{self, Metered},
    one_or_list,
    pool::{self, Part},
    written,
};
use crate::{
    definition::{Definition, Fields, Reported},
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
    check: |reading| meter::check(reading, &CONTROL, metered),
    plan: |candidate, plan| {
        let throttles = &candidate.workflow().throttle;
        for key in meter::keys(throttles.iter().map(|it| it.key.as_ref())) {
            let scope = candidate.scope(Class::Throttle, key)?;
            let alike = throttles.iter().filter(|it| it.key.as_ref() == key);
            let costs = alike.clone().map(|it| candidate.cost(CONTROL.name, it.cost.as_ref()));
            plan.add_costing(&scope, Span::Start, costs.collect::<Result<_, _>>()?);
            let given = alike.map(|it| it.metered().given(&candidate.event.data));
            plan.give(candidate.given(CONTROL.name, given)?);
        }
        pool::plan(candidate, Part::Throttle, plan)
    },
    limit: |definition, scope, numbers| {
        meter::limit(&definition.map(metered).unwrap_or_default(), &scope.slot, numbers)
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
}

/// Default of `burst`: starts are evenly spaced.
const DEFAULT_BURST: u32 = 1;

impl Throttle {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Throttle, Reported> {
        let limit = Amount::required(fields, "limit");
        let per_ms = fields.duration("perMs");
        let key = fields.key("key");
        let burst = Amount::read(fields, "burst");
        let cost = Cost::read(fields);
        let burst = burst?.unwrap_or(Amount::Fixed(DEFAULT_BURST));
        Ok(Throttle { limit: limit?, per_ms: per_ms?, key: key?, burst, cost: cost? })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(DEFAULT_BURST))])
    }

    /// Returns the limit for its meter.
    pub(crate) fn metered(&self) -> Metered<'_> {
        let Self { limit, per_ms, key, burst, cost } = self;
        Metered { limit, per_ms: *per_ms, burst, key: key.as_ref(), cost: cost.as_ref() }
    }
}

fn metered(definition: &Definition) -> Vec<Metered<'_>> {
    let each = definition.throttle.iter();
    each.map(Throttle::metered).collect()
}
