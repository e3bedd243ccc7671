//! Debounce: run once when a burst is over, with the last event.
//!
//! Each event of a key moves the deadline to `periodMs` after it, but never past `maxWaitMs`
//! after the first event. Use `batch` when every event of the burst matters.
//!
//! Acts on arrival. On overflow: coalesce. Remembers one open window per key.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    control::{Control, Field, FieldType, Moment},
    fold::Folding,
    written,
};
use crate::{
    definition::{Fields, Reported},
    key::Path,
    row::Class,
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "debounce",
    purpose: "run once when a burst is over",
    acts: Moment::Arrival,
    on_overflow: "coalesce, the last event wins",
    fields: &[
        Field::required("periodMs", FieldType::Duration),
        Field::optional("key", FieldType::Path, "the whole workflow"),
        Field::optional("maxWaitMs", FieldType::Duration, "no bound"),
    ],
    classes: &[Class::Debounce],
    read: |reading, value| {
        reading.definition.debounce = reading.object(&CONTROL, value, Debounce::read);
    },
    write: |definition| definition.debounce.as_ref().map(Debounce::to_value),
    keys: |definition| definition.debounce.iter().map(|it| it.key.as_ref()).collect(),
    folding: |definition| {
        let Debounce { period_ms, max_wait_ms, .. } = *definition.debounce.as_ref()?;
        Some(Folding::Last { period_ms, max_wait_ms })
    },
    ..Control::NONE
};

/// The `debounce` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Debounce {
    /// The quiet time after which the run is created.
    pub period_ms: u64,
    /// The key, with one window per value; one window for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// Maximum time that a window stays open; if absent, a steady stream of events keeps it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
}

impl Debounce {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Debounce, Reported> {
        let period_ms = fields.duration("periodMs");
        let key = fields.path("key");
        let max_wait_ms = fields.optional_duration("maxWaitMs");
        let (period_ms, max_wait_ms) = (period_ms?, max_wait_ms?);
        fields.check_max_wait(period_ms, max_wait_ms);
        Ok(Debounce { period_ms, key: key?, max_wait_ms })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[])
    }
}
