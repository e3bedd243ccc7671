//! Batch: handle many events in one run.
//!
//! A buffer per key is flushed when it is full, or `timeoutMs` after its first event. Every event
//! is in exactly one run, in order of arrival. Use `debounce` when only the last one matters.
//!
//! Acts on arrival. On overflow: collect. Remembers one open buffer per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{CONTROLS, Control, Field, FieldType, Moment, Reading},
    fold::Folding,
    singleton::Mode,
    written,
};
use crate::{
    definition::{Code, Fields, Reported},
    key::Path,
    row::Class,
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "batch",
    purpose: "handle many events in one run",
    acts: Moment::Arrival,
    on_overflow: "collect",
    fields: &[
        Field::required("maxSize", FieldType::Count),
        Field::required("timeoutMs", FieldType::Duration),
        Field::optional("key", FieldType::Path, "the whole workflow"),
        Field::optional("maxBytes", FieldType::Count, "4194304"),
    ],
    on_actions: false,
    classes: &[Class::Batch],
    read: |reading, value| {
        reading.definition.batch = reading.object(&CONTROL, value, Batch::read);
    },
    write: |definition| definition.batch.as_ref().map(Batch::to_value),
    keys: |definition| definition.batch.iter().map(|it| it.key.as_ref()).collect(),
    check,
    folding: |definition| {
        let Batch { max_size, timeout_ms, max_bytes, .. } = *definition.batch.as_ref()?;
        Some(Folding::All { max_size, timeout_ms, max_bytes })
    },
    ..Control::NONE
};

/// Checks the keys of the other controls. The run of a batch has one key, so its gates must use
/// the key of the batch or no key.
fn check(reading: &mut Reading<'_>) {
    let Some(batch) = reading.definition.batch.clone() else { return };
    if batch.max_size == 1 {
        reading.problems.warn(Code::NoEffect, "batch.maxSize", "of 1 collects nothing");
    }
    let mode = reading.definition.singleton.as_ref().map(|singleton| singleton.mode);
    let mode = mode.and_then(|mode| match mode {
        Mode::Skip => None,
        Mode::Cancel => Some("cancel"),
        Mode::Latest => Some("latest"),
    });
    if let Some(mode) = mode {
        let message = format!("`{mode}` would lose the events of a cancelled batch: use `skip`");
        reading.problems.error(Code::Conflict, "singleton.mode", message);
    }
    let later = CONTROLS.iter().filter(|control| control.acts > Moment::Arrival);
    for (field, key) in later.flat_map(|control| reading.keys(control)).collect::<Vec<_>>() {
        if Some(&key) == batch.key.as_ref() {
            continue;
        }
        let fix = match &batch.key {
            Some(batch) => format!("use `{batch}`, the batch's key, or none"),
            None => "give the batch the same key, or drop this one".to_owned(),
        };
        let message = format!("`{key}` may differ between the events of one batch: {fix}");
        reading.problems.error(Code::Conflict, &field, message);
    }
}

/// Upper bound of `maxSize`: a handler gets all events of a run in memory.
pub const MAX_SIZE: u64 = 10_000;

/// Upper bound of `maxBytes`: a handler gets all events of a run in memory.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The `batch` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Maximum number of events in one run.
    pub max_size: u32,
    /// Maximum time from a buffer's first event to its flush.
    pub timeout_ms: u64,
    /// The key, with one buffer per value; one buffer for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// Maximum number of payload bytes in one run.
    pub max_bytes: u64,
}

/// Default of `maxBytes`: the size limit of one request.
const DEFAULT_BYTES: u64 = 4 * 1024 * 1024;

impl Batch {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Batch, Reported> {
        let max_size = fields.number("maxSize", 1, MAX_SIZE).and_then(|size| {
            size.ok_or_else(|| fields.missing("maxSize", "a whole number of at least 1"))
        });
        let timeout_ms = fields.duration("timeoutMs");
        let key = fields.path("key");
        let max_bytes = fields.number("maxBytes", 1, MAX_BYTES);
        let max_size = u32::try_from(max_size?).expect("number() checked the range");
        let max_bytes = max_bytes?.unwrap_or(DEFAULT_BYTES);
        Ok(Batch { max_size, timeout_ms: timeout_ms?, key: key?, max_bytes })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("maxBytes", json!(DEFAULT_BYTES))])
    }
}
