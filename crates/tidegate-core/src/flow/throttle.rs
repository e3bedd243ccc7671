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
    meter::{self, Rate},
    plan::WhenFull,
    written,
};
use crate::{
    catalog::Limit,
    definition::{Fields, Reported},
    key::Path,
    row::{Class, Span},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "throttle",
    purpose: "spread starts over time and lose none",
    acts: Moment::Start,
    on_overflow: "delay",
    fields: &[
        Field::required("limit", FieldType::Count),
        Field::required("perMs", FieldType::Duration),
        Field::optional("key", FieldType::Path, "the whole workflow"),
        Field::optional("burst", FieldType::Count, "1"),
    ],
    classes: &[Class::Throttle],
    is_numbered: true,
    read: |reading, value| {
        reading.definition.throttle = reading.object(&CONTROL, value, Throttle::read);
    },
    write: |definition| definition.throttle.as_ref().map(Throttle::to_value),
    keys: |definition| definition.throttle.iter().map(|it| it.key.as_ref()).collect(),
    check: |reading| {
        let rate = reading.definition.throttle.as_ref().map(Throttle::rate);
        meter::check_refill("throttle", rate, reading.problems);
    },
    plan: |candidate, plan| {
        if let Some(throttle) = &candidate.workflow().throttle {
            let scope = candidate.scope(Class::Throttle, throttle.key.as_ref())?;
            plan.add(&scope, Span::Start, WhenFull::Wait);
        }
        Ok(())
    },
    limit: |definition, _| {
        let throttle = definition.and_then(|definition| definition.throttle.as_ref());
        throttle.map_or(Limit::Open, |throttle| Limit::Rate(throttle.rate()))
    },
    ..Control::NONE
};

/// The `throttle` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throttle {
    /// Number of starts per period.
    pub limit: u32,
    /// The period's length.
    pub per_ms: u64,
    /// The key, with one meter per value; one meter for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// Maximum number of starts at once after a quiet time.
    pub burst: u32,
}

/// Default of `burst`: starts are evenly spaced.
const DEFAULT_BURST: u32 = 1;

impl Throttle {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Throttle, Reported> {
        let limit = fields.count("limit");
        let per_ms = fields.duration("perMs");
        let key = fields.path("key");
        let burst = fields.optional_count("burst");
        let burst = burst?.unwrap_or(DEFAULT_BURST);
        Ok(Throttle { limit: limit?, per_ms: per_ms?, key: key?, burst })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("burst", json!(DEFAULT_BURST))])
    }

    /// Returns the meter's rate.
    pub fn rate(&self) -> Rate {
        Rate { limit: self.limit, per_ms: self.per_ms, burst: self.burst }
    }
}
