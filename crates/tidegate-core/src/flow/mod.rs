//! Flow control: the rules that decide whether a run starts now, waits, is merged, replaced or
//! dropped.
//!
//! Four primitives decide: gates (`gate.rs`), meters (`meter.rs`), folds (`fold.rs`) and claims
//! (`claim.rs`). A control is one file that expresses its settings in them; [`control`] is the
//! table of controls, `admit.rs` the order in which they act, `plan.rs` the gates that a run
//! passes, `step_pool.rs` those of single steps.

pub mod admit;
pub mod claim;
pub mod close;
pub mod control;
pub mod cost;
pub mod fold;
pub mod from_data;
pub mod gate;
pub mod key_source;
pub mod meter;
pub mod plan;
pub mod queue;
pub mod receipts;
pub mod settle;
pub mod share;
pub mod step_pool;
pub mod verdict;

pub mod adaptive;
pub mod batch;
pub mod cancel_on;
pub mod concurrency;
pub mod debounce;
pub mod fair;
pub mod handoff;
pub mod idempotency;
pub mod pause;
pub mod policy;
pub mod pool;
pub mod priority;
pub mod rate_limit;
pub mod singleton;
pub mod start_within;
pub mod throttle;

pub use control::{CONTROLS, Control, Field, FieldType, Moment, gate_owners};
pub use from_data::FromData;
pub use key_source::KeySource;
pub use verdict::{By, Verdict};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Name of a control. (For a field of type `&'static str`, serde would borrow from the input.)
pub(crate) type Word = &'static str;

/// Deserializes the name of a control.
pub(crate) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let name = String::deserialize(from)?;
    let control = CONTROLS.iter().map(|control| control.name).find(|control| *control == name);
    // Triggers and `policy` are not in the table, and can also refuse.
    let trigger = Some(verdict::TRIGGERS).filter(|word| *word == name);
    Ok(control.or(trigger).unwrap_or("policy"))
}

/// Deserializes a list of names of controls.
pub(crate) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "word")] Word);
    Ok(Vec::<One>::deserialize(from)?.into_iter().map(|One(name)| name).collect())
}

/// Returns a list of limits in its author's form: a single one is not written as a list.
pub(crate) fn one_or_list(entries: impl Iterator<Item = Value>) -> Option<Value> {
    let mut entries: Vec<Value> = entries.collect();
    match entries.len() {
        0 | 1 => entries.pop(),
        _ => Some(Value::Array(entries)),
    }
}

/// Returns a control in its author's form: without the fields that have their default value.
pub(crate) fn written(control: &impl Serialize, defaults: &[(&str, Value)]) -> Value {
    let mut value = serde_json::to_value(control).expect("a control is serializable");
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, value| {
            !defaults.iter().any(|(field, default)| field == name && default == value)
        });
    }
    value
}
