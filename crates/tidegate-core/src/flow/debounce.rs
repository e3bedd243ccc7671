//! Debounce: run once for a burst of events.
//!
//! Each event of a key moves the deadline to `periodMs` after it, but never past `maxWaitMs`
//! after the first event. `keep` says which events of the window the run gets: the last, the first
//! or all. `edge` says when a run starts: when the window ends, when it opens, or both.
//!
//! Acts on arrival. On overflow: coalesce. Remembers one open window per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    batch,
    control::{Control, Field, FieldType, Moment, Reading},
    fold::{Folding, Kept, Timing},
    key_source::KeySource,
    written,
};
use crate::{
    definition::{Code, Fields, Reported},
    row::Class,
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "debounce",
    purpose: "run once for a burst of events",
    acts: Moment::Arrival,
    on_overflow: "coalesce: keep the last, the first or all events",
    fields: &[
        Field::required("periodMs", FieldType::Duration),
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("maxWaitMs", FieldType::Duration, "no bound"),
        Field::optional("keep", FieldType::OneOf(&["last", "first", "all"]), "last"),
        Field::optional("edge", FieldType::OneOf(&["trailing", "leading", "both"]), "trailing"),
        Field::optional("maxSize", FieldType::Count, "10000"),
    ],
    classes: &[Class::Debounce, Class::Gather],
    read: |reading, value| {
        reading.definition.debounce = reading.object(&CONTROL, value, Debounce::read);
    },
    write: |definition| definition.debounce.as_ref().map(Debounce::to_value),
    keys: |definition| definition.debounce.iter().map(|it| it.key.as_ref()).collect(),
    check,
    folding: |definition| Some(definition.debounce.as_ref()?.folding()),
    ..Control::NONE
};

/// Checks `keep: all` beside other controls: no control may drop the events of the window's run.
fn check(reading: &mut Reading<'_>) {
    let definition = &reading.definition;
    let Some(debounce) = definition.debounce.clone().filter(|it| it.keep == Keep::All) else {
        return;
    };
    if definition.batch.is_some() {
        let message = "`all` is not allowed beside `batch`, which collects the events that the \
                       window fires: use `last` or `first`, or drop `batch`";
        reading.problems.error(Code::Conflict, "debounce.keep", message);
    }
    batch::check_run_of_many(reading, "window", debounce.key.as_ref());
}

/// The `debounce` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Debounce {
    /// The quiet time after which the window ends.
    pub period_ms: u64,
    /// The key, with one window per value; one window for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Maximum time that a window stays open; if absent, a steady stream of events keeps it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    /// Which events of the window the run gets.
    #[serde(default, skip_serializing_if = "Keep::is_default")]
    pub keep: Keep,
    /// When runs of the window start.
    #[serde(default, skip_serializing_if = "Edge::is_default")]
    pub edge: Edge,
    /// Maximum number of events in one run, with `keep: all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u32>,
}

/// Which events of a window its run gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Keep {
    /// The last event.
    #[default]
    Last,
    /// The first event.
    First,
    /// All events, in order of arrival.
    All,
}

/// When runs of a window start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Edge {
    /// One run when the window ends.
    #[default]
    Trailing,
    /// One run when the window opens. The other events of the window make no run.
    Leading,
    /// One run when the window opens, and another when it ends if more events have arrived.
    Both,
}

impl Keep {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Edge {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Debounce {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Debounce, Reported> {
        let period_ms = fields.duration("periodMs");
        let key = fields.key("key");
        let max_wait_ms = fields.optional_duration("maxWaitMs");
        let keep = [("last", Keep::Last), ("first", Keep::First), ("all", Keep::All)];
        let keep = fields.word("keep", &keep);
        let edge = [("trailing", Edge::Trailing), ("leading", Edge::Leading), ("both", Edge::Both)];
        let edge = fields.word("edge", &edge);
        let max_size = fields.number("maxSize", 1, batch::MAX_SIZE);
        let (period_ms, max_wait_ms) = (period_ms?, max_wait_ms?);
        fields.check_max_wait(period_ms, max_wait_ms);
        let (keep, edge, max_size) = (keep?, edge?.unwrap_or_default(), max_size?);
        if let (Some(size), false) = (max_size, keep == Some(Keep::All)) {
            let message =
                format!("({size}) is only allowed with `keep: all`: add it, or drop this");
            fields.error(Code::Misplaced, "maxSize", message);
        }
        match (keep, edge) {
            (Some(Keep::All), Edge::Leading) => {
                let message = "`leading` starts no run with the other events of the window, which \
                               `keep: all` promises: use `both` or `trailing`";
                fields.error(Code::Conflict, "edge", message);
            }
            (Some(_), Edge::Leading) => {
                let at = fields.field("keep");
                let message = "has no effect with `edge: leading`: the run has the event that \
                               opened the window";
                fields.problems().warn(Code::NoEffect, &at, message);
            }
            (None | Some(_), _) => {}
        }
        let max_size = max_size.map(|size| u32::try_from(size).expect("number() checked it"));
        let keep = keep.unwrap_or_default();
        Ok(Debounce { period_ms, key: key?, max_wait_ms, keep, edge, max_size })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("keep", json!("last")), ("edge", json!("trailing"))])
    }

    fn folding(&self) -> Folding {
        let Self { period_ms, max_wait_ms, edge, .. } = *self;
        let (class, keep) = match self.keep {
            Keep::Last => (Class::Debounce, Kept::Last),
            Keep::First => (Class::Debounce, Kept::First),
            Keep::All => (Class::Gather, Kept::all(self.max_size, None)),
        };
        Folding { class, timing: Timing::Quiet { period_ms, max_wait_ms }, keep, edge }
    }
}
