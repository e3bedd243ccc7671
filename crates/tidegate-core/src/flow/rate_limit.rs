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
    meter::{self, Rate},
    plan::Candidate,
    verdict::{By, Verdict},
    written,
};
use crate::{
    catalog::Limit,
    definition::{Fields, Reported},
    draft::{Decided, Draft},
    key::Path,
    row::{Class, Gate, GateKey, GateState},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "rateLimit",
    purpose: "drop events over a rate",
    acts: Moment::Arrival,
    on_overflow: "drop",
    fields: &[
        Field::required("limit", FieldType::Count),
        Field::required("perMs", FieldType::Duration),
        Field::optional("key", FieldType::Path, "the whole workflow"),
        Field::optional("burst", FieldType::Count, "limit"),
    ],
    classes: &[Class::RateLimit],
    is_numbered: true,
    read: |reading, value| {
        reading.definition.rate_limit = reading.object(&CONTROL, value, RateLimit::read);
    },
    write: |definition| definition.rate_limit.as_ref().map(RateLimit::to_value),
    keys: |definition| definition.rate_limit.iter().map(|it| it.key.as_ref()).collect(),
    check: |reading| {
        let rate = reading.definition.rate_limit.as_ref().map(RateLimit::rate);
        meter::check_refill("rateLimit", rate, reading.problems);
    },
    limit: |definition, _| {
        let limit = definition.and_then(|definition| definition.rate_limit.as_ref());
        limit.map_or(Limit::Open, |limit| Limit::Rate(limit.rate()))
    },
    ..Control::NONE
};

/// The `rateLimit` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Number of admitted events per period.
    pub limit: u32,
    /// The period's length.
    pub per_ms: u64,
    /// The key, with one meter per value; one meter for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// Maximum number of events admitted at once after a quiet time; `limit` unless given.
    pub burst: u32,
}

impl RateLimit {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<RateLimit, Reported> {
        let limit = fields.count("limit");
        let per_ms = fields.duration("perMs");
        let key = fields.path("key");
        let burst = fields.optional_count("burst");
        let (limit, per_ms) = (limit?, per_ms?);
        Ok(RateLimit { limit, per_ms, key: key?, burst: burst?.unwrap_or(limit) })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(self.limit))])
    }

    /// Returns the meter's rate.
    pub fn rate(&self) -> Rate {
        Rate { limit: self.limit, per_ms: self.per_ms, burst: self.burst }
    }
}

/// Spends one token of the rate limit, or drops the event.
///
/// A dropped event is not a refusal, because a refusal would undo the write of the meter, which
/// must be stored under the current rate. No other control has written anything yet.
pub(super) fn spend(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
) -> Decided<Option<Verdict>, Verdict> {
    let Some(limit) = &candidate.workflow().rate_limit else { return Ok(None) };
    let (rate, now) = (limit.rate(), draft.now());
    let scope = candidate.scope(Class::RateLimit, limit.key.as_ref())?;
    let key = GateKey::new(&scope);
    let row = draft.gate(&key)?.cloned();
    let last = match &row {
        Some(Gate { state: GateState::Meter(meter), .. }) => {
            Some(meter::of_today(*meter, rate, now))
        }
        _ => None,
    };
    if let (Some(row), Some(last), Err(retry_at)) =
        (&row, last, meter::conforms(last, rate, 0, now))
    {
        draft.put(Gate { state: GateState::Meter(last), ..row.clone() });
        let (by, retry_at) = (By::scope(&scope), retry_at.unwrap_or(now));
        return Ok(Some(Verdict::Dropped { by, retry_at }));
    }
    let id = match row {
        Some(row) => row.id,
        None => draft.next_seq()?,
    };
    let meter = meter::stamp(last, rate, now);
    let due = Some(meter::forgets_at(meter));
    draft.put(Gate { key, id, at: now, due, state: GateState::Meter(meter) });
    Ok(None)
}
