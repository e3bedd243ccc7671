//! Rate limit: drop events that arrive too often.
//!
//! In any interval of length w at most `burst + ⌊w · limit / perMs⌋` events are admitted; with the
//! default burst that is up to `2 · limit − 1` in one period. A lone event is always admitted.
//! Use `throttle` to delay the overflow instead.
//!
//! Acts on arrival. On overflow: drop. Remembers the next free time per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Field, FieldType, Moment},
    cost::Cost,
    from_data::Amount,
    key_source::KeySource,
    meter::{self, Ahead, Metered, Rate},
    one_or_list,
    plan::Candidate,
    pool::{self, Part},
    verdict::{By, Verdict},
    written,
};
use crate::{
    catalog::Limit,
    definition::{Definition, Fields, Reported},
    draft::{Decided, Draft, Stop},
    row::{Class, Costs, Gate, GateKey, GateState, Given, Meters, Number, Numbers, Scope},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "rateLimit",
    purpose: "drop events over a rate",
    acts: Moment::Arrival,
    on_overflow: "drop",
    fields: &[
        Field::required("limit", FieldType::Amount),
        Field::required("perMs", FieldType::Duration),
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("burst", FieldType::Amount, "limit"),
        Field::optional("cost", FieldType::Cost, "1"),
        Field::optional("pool", FieldType::Pool, "limits of its own"),
    ],
    classes: &[Class::RateLimit, Class::PoolRateLimit],
    is_numbered: true,
    read: |reading, value| {
        reading.definition.rate_limit =
            reading.list(&CONTROL, Some(Part::RateLimit), value, RateLimit::read);
    },
    write: |definition| {
        let own = definition.rate_limit.iter().map(RateLimit::to_value);
        one_or_list(own.chain(definition.written_uses(Part::RateLimit)))
    },
    keys: |definition| {
        let own = definition.rate_limit.iter().map(|it| it.key.as_ref());
        own.chain(definition.keys_of_uses(Part::RateLimit)).collect()
    },
    check: |reading| meter::check(reading, &CONTROL, metered),
    limit: |definition, scope, numbers| {
        meter::limit(&definition.map(metered).unwrap_or_default(), &scope.slot, numbers)
    },
    ..Control::NONE
};

/// One limit of the `rateLimit` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Number of admitted units per period.
    pub limit: Amount,
    /// The period's length.
    pub per_ms: u64,
    /// The key, with one meter per value; one meter for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Maximum number of units admitted at once after a quiet time; `limit` unless given.
    pub burst: Amount,
    /// The units that an event spends; one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl RateLimit {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<RateLimit, Reported> {
        let limit = Amount::required(fields, "limit");
        let per_ms = fields.duration("perMs");
        let key = fields.key("key");
        let burst = Amount::read(fields, "burst");
        let cost = Cost::read(fields);
        let (limit, per_ms, cost) = (limit?, per_ms?, cost?);
        let burst = burst?.unwrap_or_else(|| limit.clone());
        fields.check_cost(cost.as_ref(), burst.number(Number::Highest), "burst");
        Ok(RateLimit { limit, per_ms, key: key?, burst, cost })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(self.limit))])
    }

    /// Returns the limit for its meter.
    pub(crate) fn metered(&self) -> Metered<'_> {
        let Self { limit, per_ms, key, burst, cost } = self;
        Metered { limit, per_ms: *per_ms, burst, key: key.as_ref(), cost: cost.as_ref() }
    }
}

fn metered(definition: &Definition) -> Vec<Metered<'_>> {
    let each = definition.rate_limit.iter();
    each.map(RateLimit::metered).collect()
}

/// One meter row that an event has to pass, with its limits and the units that the event spends.
#[derive(Debug)]
pub(super) struct Spend {
    scope: Scope,
    rates: Vec<Rate>,
    costs: Costs,
    /// The numbers of its limits from the data of the event.
    given: Option<Given>,
}

impl Spend {
    /// Creates the spending of `cost` units at each limit of one meter row.
    pub(super) fn new(scope: Scope, rates: Vec<Rate>, cost: u32) -> Self {
        let costs = Costs::new(vec![cost; rates.len()]);
        Self { scope, rates, costs, given: None }
    }
}

/// Returns the meter rows of an event. Rejects a cost that would never be admitted, also of an event
/// that joins a fold and spends nothing: its verdict must not depend on who came before it.
pub(super) fn spends(draft: &Draft, candidate: &Candidate<'_>) -> Decided<Vec<Spend>, Verdict> {
    let mut spends = own_spends(draft, candidate)?;
    let pooled = pool::spends(candidate)?;
    if pooled.is_empty() {
        return Ok(spends);
    }
    let catalog = draft.catalog(&candidate.ws)?;
    for (scope, cost) in pooled {
        let Limit::Rates(rates) = candidate.pools.limit(&scope, Numbers::Highest) else { continue };
        let rates = catalog.overrides().rates(&scope, rates);
        rates.iter().try_for_each(|rate| affordable(cost, *rate, &scope))?;
        spends.push(Spend::new(scope, rates, cost));
    }
    Ok(spends)
}

fn own_spends(draft: &Draft, candidate: &Candidate<'_>) -> Decided<Vec<Spend>, Verdict> {
    let limits = &candidate.workflow().rate_limit;
    if limits.is_empty() {
        return Ok(Vec::new());
    }
    let catalog = draft.catalog(&candidate.ws)?;
    let keys = meter::keys(limits.iter().map(|limit| limit.key.as_ref()));
    let mut spends = Vec::new();
    for key in keys {
        let Some(scope) = candidate.scope(Class::RateLimit, key)? else { continue };
        let alike = limits.iter().filter(|limit| limit.key.as_ref() == key);
        let given = alike.clone().map(|limit| limit.metered().given(candidate.event));
        let given = candidate.given(CONTROL.name, given)?;
        // The event is the newest one with this key: its own numbers apply.
        let numbers = Numbers::Of(given.as_ref().into());
        let each = alike.clone().enumerate();
        let rates = each.map(|(n, limit)| limit.metered().rate(numbers, n)).collect();
        let rates = catalog.overrides().rates(&scope, rates);
        let mut costs = Vec::new();
        for (limit, rate) in alike.zip(&rates) {
            let cost = candidate.cost(CONTROL.name, limit.cost.as_ref())?;
            affordable(cost, *rate, &scope)?;
            costs.push(cost);
        }
        spends.push(Spend { scope, rates, costs: Costs::new(costs), given });
    }
    Ok(spends)
}

/// Rejects a cost above the burst.
fn affordable(cost: u32, rate: Rate, scope: &Scope) -> Decided<(), Verdict> {
    if cost <= rate.burst {
        return Ok(());
    }
    let owner = By::scope(scope).limiter();
    let reason = format!("cost {cost} exceeds the burst {} of {owner}", rate.burst);
    Err(Stop::Refused(Verdict::Rejected { control: CONTROL.name, reason }))
}

/// Spends the tokens of all rate limits, or of none and drops the event.
///
/// A drop is not a refusal, which would undo the writes: nothing was taken yet, and the meter that
/// dropped the event has to be stored under the current rate.
pub(super) fn spend<E>(draft: &mut Draft, spends: &[Spend]) -> Decided<Option<Verdict>, E> {
    let now = draft.now();
    let mut rows = Vec::with_capacity(spends.len());
    for Spend { scope, rates, costs, .. } in spends {
        let key = GateKey::new(scope);
        let row = draft.gate(&key)?.cloned();
        let meters = match &row {
            Some(Gate { state: GateState::Meter(meters), .. }) => {
                meter::all_of_today(meters, rates, now)
            }
            _ => Meters::default(),
        };
        let conforms = meter::all_conform(&meters, rates, Ahead::NOBODY, costs, now);
        if let (Some(row), Err(retry_at)) = (&row, conforms) {
            draft.put(Gate { state: GateState::Meter(meters), ..row.clone() });
            let (by, retry_at) = (By::scope(scope), retry_at.unwrap_or(now));
            return Ok(Some(Verdict::Dropped { by, retry_at }));
        }
        rows.push((key, row.map(|row| row.id), meters));
    }
    for ((key, id, meters), Spend { rates, costs, given, .. }) in rows.into_iter().zip(spends) {
        let id = id.map_or_else(|| draft.next_seq(), Ok)?;
        let meters = meter::stamp_all(&meters, rates, costs, now, meter::stamp);
        let due = meter::all_forget_at(&meters);
        let mut state = GateState::Meter(meters);
        state.give(given.as_ref());
        draft.put(Gate { key, id, at: now, due, state });
    }
    Ok(None)
}
