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
    debounce::{Edge, Keep},
    fair,
    fold::{Folding, Kept, Timing},
    key_source::KeySource,
    policy::PolicyKind,
    singleton::Mode,
    written,
};
use crate::{
    definition::{Code, Definition, Fields, Reported},
    expr::Formula,
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
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("maxBytes", FieldType::Count, "4194304"),
        Field::optional("if", FieldType::Condition, "every event"),
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
        Some(Folding {
            class: Class::Batch,
            timing: Timing::FromFirst { timeout_ms },
            keep: Kept::all(Some(max_size), Some(max_bytes)),
            edge: Edge::Trailing,
        })
    },
    ..Control::NONE
};

fn check(reading: &mut Reading<'_>) {
    let Some(batch) = reading.definition.batch.clone() else { return };
    if batch.max_size == 1 {
        reading.problems.warn(Code::NoEffect, "batch.maxSize", "of 1 collects nothing");
    }
    check_run_of_many(reading, "batch", batch.key.as_ref());
}

/// Checks the other controls of a definition whose runs get many events. `noun` names the events
/// of one run. No other run may replace such a run. It has one key, so its gates must use the key
/// of its events or no key.
pub(super) fn check_run_of_many(reading: &mut Reading<'_>, noun: &str, own: Option<&KeySource>) {
    let mode = reading.definition.singleton.as_ref().map(|singleton| singleton.mode);
    let mode = mode.and_then(|mode| match mode {
        Mode::Skip => None,
        Mode::Cancel => Some("cancel"),
        Mode::Latest => Some("latest"),
    });
    let lost = |mode| format!("`{mode}` would lose the events of a cancelled {noun}: use");
    if let Some(mode) = mode {
        let message = format!("{} `skip`", lost(mode));
        reading.problems.error(Code::Conflict, "singleton.mode", message);
    }
    let policy = reading.definition.policy.as_ref().filter(|it| it.kind != PolicyKind::Allow);
    match policy.map(|policy| &policy.kind) {
        Some(PolicyKind::Restart) => {
            let message = format!("{} `queue`", lost("restart"));
            reading.problems.error(Code::Conflict, "concurrency", message);
        }
        Some(PolicyKind::Latest) => {
            let message = format!("{} `queue`", lost("latest"));
            reading.problems.error(Code::Conflict, "concurrency", message);
        }
        _ => {}
    }
    if let Some(queue) = policy.and_then(|policy| policy.kind.queue()) {
        queue.check("concurrency", false, Some(noun), reading.problems);
    }
    let later = CONTROLS.iter().filter(|control| control.acts > Moment::Arrival);
    let mut keys = later.flat_map(|control| reading.keys(control)).collect::<Vec<_>>();
    let key = policy.and_then(|policy| policy.key.source());
    keys.extend(key.map(|key| ("concurrency".to_owned(), key)));
    keys.extend(fair::sources(reading));
    for (field, key) in keys {
        if Some(&key) == own {
            continue;
        }
        let fix = match own {
            Some(own) => format!("use `{own}`, the {noun}'s key, or none"),
            None => format!("give the {noun} the same key, or drop this one"),
        };
        let message = format!("`{key}` may differ between the events of one {noun}: {fix}");
        reading.problems.error(Code::Conflict, &field, message);
    }
}

/// Returns the noun and the key of the fold whose events become one run; none if each run has one
/// event.
pub(crate) fn run_of_many(definition: &Definition) -> Option<(&'static str, Option<&KeySource>)> {
    let batch = definition.batch.as_ref().map(|batch| ("batch", batch.key.as_ref()));
    let window = definition.debounce.as_ref().filter(|it| it.keep == Keep::All);
    batch.or_else(|| window.map(|window| ("window", window.key.as_ref())))
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
    pub key: Option<KeySource>,
    /// Maximum number of payload bytes in one run.
    pub max_bytes: u64,
    /// The condition under which an event is collected. Another event gets a run at once, with a
    /// batch of one.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Formula>,
}

/// Default of `maxBytes`: the size limit of one request.
pub(super) const DEFAULT_BYTES: u64 = 4 * 1024 * 1024;

impl Batch {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Batch, Reported> {
        let max_size = fields.number("maxSize", 1, MAX_SIZE).and_then(|size| {
            size.ok_or_else(|| fields.missing("maxSize", "a whole number of at least 1"))
        });
        let timeout_ms = fields.duration("timeoutMs");
        let key = fields.key("key");
        let max_bytes = fields.number("maxBytes", 1, MAX_BYTES);
        let condition = fields.formula("if");
        let max_size = u32::try_from(max_size?).expect("number() checked the range");
        let max_bytes = max_bytes?.unwrap_or(DEFAULT_BYTES);
        let (timeout_ms, key, condition) = (timeout_ms?, key?, condition?);
        Ok(Batch { max_size, timeout_ms, key, max_bytes, condition })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("maxBytes", json!(DEFAULT_BYTES))])
    }
}
