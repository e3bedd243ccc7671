//! Singleton: at most one run per key, from its admission until it is over.
//!
//! `skip` keeps the old run and drops the new one; `cancel` replaces the old run by the new one.
//! `latest` lets the new one wait for a run that has started, and replaces one that has not, so
//! that one run executes and the newest waits (spec L21). Use `concurrency` to let all wait.
//!
//! Acts when the run is created. On overflow: skip, replace or wait. Remembers the holder per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control::{Control, Field, FieldType, Moment},
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
    name: "singleton",
    purpose: "at most one run per key",
    acts: Moment::Creation,
    on_overflow: "skip the new run, cancel the old one, or keep the newest waiting",
    fields: &[
        Field::optional("key", FieldType::Path, "the whole workflow"),
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
        let mut scope = candidate.scope(Class::Singleton, singleton.key.as_ref())?;
        if definition.handoff.is_some() {
            // Between versions the handoff rules; a singleton is one within its version.
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
    limit: |_, _| Limit::Slots(1),
    ..Control::NONE
};

/// The `singleton` settings of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Singleton {
    /// The key, with one gate per value; one gate for the whole workflow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Path>,
    /// Which of the two runs stays.
    pub mode: Mode,
}

/// Which run stays when a second one comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The old one; the new one is not created.
    Skip,
    /// The new one; the old one is cancelled.
    #[default]
    Cancel,
    /// The old one if it has started, and the new one waits for it; otherwise the new one, and the
    /// old one is cancelled.
    Latest,
}

impl Singleton {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Singleton, Reported> {
        let key = fields.path("key");
        let words = [("skip", Mode::Skip), ("cancel", Mode::Cancel), ("latest", Mode::Latest)];
        let mode = fields.word("mode", &words);
        Ok(Singleton { key: key?, mode: mode?.unwrap_or_default() })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("mode", json!("cancel"))])
    }
}
