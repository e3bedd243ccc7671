//! Singleton: at most one run per key, from its admission until it is over.
//!
//! `skip` keeps the old run and drops the new one; `cancel` replaces the old run by the new one.
//! Use `concurrency` to let the second run wait instead.
//!
//! Acts when the run is created. On overflow: skip or replace. Remembers the holder per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::written;
use crate::{
    definition::{Fields, Reported},
    key::Path,
};

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Singleton {
    /// What is kept apart; the whole workflow if absent.
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
}

pub(super) const FIELDS: &[&str] = &["key", "mode"];

impl Singleton {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Singleton, Reported> {
        let key = fields.path("key");
        let mode = fields.word("mode", &[("skip", Mode::Skip), ("cancel", Mode::Cancel)]);
        Ok(Singleton { key: key?, mode: mode?.unwrap_or_default() })
    }

    pub(crate) fn to_value(&self) -> Value {
        written(self, &[("mode", json!("cancel"))])
    }
}
