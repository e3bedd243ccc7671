//! Flow control: the rules that decide what runs now, waits, merges, is replaced or dropped.
//!
//! One file a control, each with the same five parts: what it is for, what the author writes,
//! what a gate remembers, what it decides, and a table of cases. [`CONTROLS`] is the one list of
//! them; parser, API, console and book read it.

pub mod admit;
pub mod claim;
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

/// One row of [`CONTROLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    /// The field of a definition, and the word in answers, logs and console.
    pub name: &'static str,
    /// What an author uses it for.
    pub purpose: &'static str,
    /// When it decides.
    pub acts: Moment,
    /// What happens to what does not fit.
    pub on_overflow: &'static str,
    /// The fields that it takes.
    pub fields: &'static [&'static str],
    /// Whether actions take it too.
    pub on_actions: bool,
}

/// The moments of an admission at which controls decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// When the event or request comes in.
    Arrival,
    /// When its run is created: on arrival, or when a window or buffer closes.
    Creation,
    /// Between the run's creation and its first step, and at each wake.
    Start,
}

impl Moment {
    /// The word for tables and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Moment::Arrival => "arrival",
            Moment::Creation => "creation",
            Moment::Start => "start",
        }
    }
}

/// Every control, in the order in which they act.
///
/// An action's policy is no row of its own: it is one of the spellings of `concurrency`.
pub const CONTROLS: [Control; 9] = [
    Control {
        name: "idempotency",
        purpose: "one run per key and period",
        acts: Moment::Arrival,
        on_overflow: "drop as deduped",
        fields: idempotency::FIELDS,
        on_actions: true,
    },
    Control {
        name: "rateLimit",
        purpose: "shed what comes too often",
        acts: Moment::Arrival,
        on_overflow: "drop",
        fields: rate_limit::FIELDS,
        on_actions: true,
    },
    Control {
        name: "debounce",
        purpose: "run once when a burst is over",
        acts: Moment::Arrival,
        on_overflow: "coalesce, the last event wins",
        fields: debounce::FIELDS,
        on_actions: true,
    },
    Control {
        name: "batch",
        purpose: "handle many events in one run",
        acts: Moment::Arrival,
        on_overflow: "collect",
        fields: batch::FIELDS,
        on_actions: false,
    },
    Control {
        name: "handoff",
        purpose: "pass the work from one version to the next",
        acts: Moment::Creation,
        on_overflow: "supersede, drain or coexist",
        fields: handoff::FIELDS,
        on_actions: true,
    },
    Control {
        name: "singleton",
        purpose: "at most one run per key",
        acts: Moment::Creation,
        on_overflow: "skip the new run or cancel the old one",
        fields: singleton::FIELDS,
        on_actions: true,
    },
    Control {
        name: "priority",
        purpose: "start before others that wait",
        acts: Moment::Creation,
        on_overflow: "re-order",
        fields: priority::FIELDS,
        on_actions: true,
    },
    Control {
        name: "throttle",
        purpose: "spread starts over time and lose none",
        acts: Moment::Start,
        on_overflow: "delay",
        fields: throttle::FIELDS,
        on_actions: true,
    },
    Control {
        name: "concurrency",
        purpose: "bound how many run at once",
        acts: Moment::Start,
        on_overflow: "wait in line",
        fields: concurrency::FIELDS,
        on_actions: true,
    },
];

/// A control as its author writes it: without the fields that say what is said anyway.
fn written(control: &impl Serialize, defaults: &[(&str, Value)]) -> Value {
    let mut value = serde_json::to_value(control).expect("a control is plain data");
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, value| {
            !defaults.iter().any(|(field, default)| field == name && default == value)
        });
    }
    value
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_of_controls_is_what_the_book_prints() {
        let lines = CONTROLS.map(|control| {
            let (name, acts) = (control.name, control.acts.as_str());
            let fields = control.fields.join(", ");
            format!("{name} {{{fields}}}: {}; {acts}; {}", control.purpose, control.on_overflow)
        });
        expect![[r#"
            idempotency {key, periodMs}: one run per key and period; arrival; drop as deduped
            rateLimit {limit, perMs, key, burst}: shed what comes too often; arrival; drop
            debounce {periodMs, key, maxWaitMs}: run once when a burst is over; arrival; coalesce, the last event wins
            batch {maxSize, timeoutMs, key, maxBytes}: handle many events in one run; arrival; collect
            handoff {type, keyField, onNewVersion}: pass the work from one version to the next; creation; supersede, drain or coexist
            singleton {key, mode}: at most one run per key; creation; skip the new run or cancel the old one
            priority {shiftMs}: start before others that wait; creation; re-order
            throttle {limit, perMs, key, burst}: spread starts over time and lose none; start; delay
            concurrency {limit, key, span}: bound how many run at once; start; wait in line"#]].assert_eq(&lines.join("\n"));
    }
}
