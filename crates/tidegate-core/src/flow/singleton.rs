//! Singleton: at most one run per key, from its admission until it has ended.
//!
//! `skip` keeps the old run and drops the new one; `cancel` replaces the old run by the new one.
//! `latest`: if the old run has started, the new one waits for it; if not, the new one replaces it.
//! So one run executes and the newest waits (spec L21). Use `concurrency` if all runs must wait.
//!
//! Acts when the run is created. On overflow: skip, replace or wait. Remembers the holder per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Field, FieldType, Moment},
    key_source::KeySource,
    plan::WhenFull,
    written,
};
use crate::{
    catalog::Limit,
    definition::{Fields, Reported},
    row::{Class, Span},
};

/// Row in the table of controls.
pub(super) const CONTROL: Control = Control {
    name: "singleton",
    purpose: "at most one run per key",
    acts: Moment::Creation,
    on_overflow: "skip the new run, cancel the old one, or keep the newest waiting",
    fields: &[
        Field::optional("key", FieldType::Key, "the whole workflow"),
        Field::optional("mode", FieldType::OneOf(&["skip", "cancel", "latest"]), "cancel"),
    ],
    classes: &[Class::Singleton],
    read: |reading, value| {
        reading.definition.singleton = reading.object(&CONTROL, value, Singleton::read);
    },
    write: |definition| definition.singleton.as_ref().map(Singleton::to_value),
    keys: |definition| definition.singleton.iter().map(|it| it.key.as_ref()).collect(),
    plan: |candidate, plan| {
        let definition = candidate.workflow();
        let Some(singleton) = &definition.singleton else { return Ok(()) };
        let scope = candidate.scope(Class::Singleton, singleton.key.as_ref())?;
        let Some(mut scope) = scope else { return Ok(()) };
        if definition.handoff.is_some() {
            // With a handoff, each version has its own gate: the handoff decides between versions.
            scope.slot = format!("{}@{}", scope.slot, candidate.current.version.number);
        }
        let when_full = match singleton.mode {
            Mode::Skip => WhenFull::Refuse,
            Mode::Cancel => WhenFull::Replace,
            Mode::Latest => WhenFull::Displace,
        };
        plan.add(&scope, Span::Run, when_full);
        Ok(())
    },
    limit: |_, _, _| Limit::Slots(1),
    ..Control::NONE
};

/// The `singleton` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Singleton {
    /// The key, with one gate per value; one gate for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Which of two runs with the same key stays.
    pub mode: Mode,
}

/// Which run stays when a second run with the same key arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The old run stays; the new run is not created.
    Skip,
    /// The new run stays; the old run is cancelled.
    #[default]
    Cancel,
    /// If the old run has started, both stay and the new run waits. Otherwise the old run is
    /// cancelled.
    Latest,
}

impl Singleton {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Singleton, Reported> {
        let key = fields.key("key");
        let words = [("skip", Mode::Skip), ("cancel", Mode::Cancel), ("latest", Mode::Latest)];
        let mode = fields.word("mode", &words);
        Ok(Singleton { key: key?, mode: mode?.unwrap_or_default() })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("mode", json!("cancel"))])
    }
}
