//! Flow control: the rules that decide what runs now, waits, merges, is replaced or dropped.
//!
//! Four primitives decide: gates (`gate.rs`), meters (`meter.rs`), folds (`fold.rs`) and claims
//! (`claim.rs`). A control is one file that spells its settings in them; [`control`] is the table of
//! controls, `admit.rs` the order in which they act, `plan.rs` the gates that a run passes.

pub mod admit;
pub mod claim;
pub mod control;
pub mod fold;
pub mod gate;
pub mod meter;
pub mod plan;
pub mod receipts;
pub mod verdict;

pub mod batch;
pub mod concurrency;
pub mod debounce;
pub mod handoff;
pub mod idempotency;
pub mod policy;
pub mod priority;
pub mod rate_limit;
pub mod singleton;
pub mod throttle;

pub use control::{CONTROLS, Control, Field, FieldType, Moment, gate_owners};
pub use verdict::{By, Verdict};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The name of a control. (Under its plain type serde would want to borrow it from what it reads.)
pub(crate) type Word = &'static str;

/// Reads the name of a control back.
pub(crate) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let name = String::deserialize(from)?;
    let known = CONTROLS.iter().map(|control| control.name).find(|known| *known == name);
    // A policy is none of the list, but can refuse as well.
    Ok(known.unwrap_or("policy"))
}

/// Reads names of controls back.
pub(crate) fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Word>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "word")] Word);
    Ok(Vec::<One>::deserialize(from)?.into_iter().map(|One(name)| name).collect())
}

/// A control as its author writes it: without the fields that say what is said anyway.
pub(crate) fn written(control: &impl Serialize, defaults: &[(&str, Value)]) -> Value {
    let mut value = serde_json::to_value(control).expect("a control is plain data");
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, value| {
            !defaults.iter().any(|(field, default)| field == name && default == value)
        });
    }
    value
}
