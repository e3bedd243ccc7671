//! Handoff: pass the work from one version to the next.
//!
//! At most one run is active, per workflow or per key. When a newer version's first run comes,
//! the older runs are cancelled (`supersede`), finish first (`drain`) or are left alone
//! (`coexist`). Within one version a second run waits.
//!
//! Acts when the run is created. On overflow: by the new definition's word. Remembers the holder
//! and its version per key.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    definition::{Code, Fields, Reported},
    key::Path,
};

/// What the workflow's author writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// Of what there is one.
    pub scope: HandoffScope,
    /// What happens to older runs.
    pub on_new_version: OnNewVersion,
}

/// Of what there is one active run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HandoffScope {
    /// The whole workflow.
    Singleton,
    /// Each value found at the path; an event without it is refused.
    Keyed(Path),
}

/// What happens to older runs when a newer version's first run comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnNewVersion {
    /// They are cancelled, and the new one starts.
    Supersede,
    /// They finish, and the new one waits for them.
    Drain,
    /// They go on beside the new one.
    Coexist,
}

pub(super) const FIELDS: &[&str] = &["type", "keyField", "onNewVersion"];

/// The words for [`OnNewVersion`].
const WORDS: [(&str, OnNewVersion); 3] = [
    ("supersede", OnNewVersion::Supersede),
    ("drain", OnNewVersion::Drain),
    ("coexist", OnNewVersion::Coexist),
];

impl Handoff {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Handoff, Reported> {
        let keyed = fields
            .word("type", &[("singleton", false), ("keyed", true)])
            .and_then(|word| word.ok_or_else(|| fields.missing("type", "`singleton` or `keyed`")));
        let key = fields.path("keyField");
        let on_new_version = fields.word("onNewVersion", &WORDS).and_then(|word| {
            word.ok_or_else(|| fields.missing("onNewVersion", "`supersede`, `drain` or `coexist`"))
        });
        let scope = match (keyed?, key?) {
            (false, None) => HandoffScope::Singleton,
            (true, Some(path)) => HandoffScope::Keyed(path),
            (true, None) => {
                return Err(fields.missing("keyField", "type `keyed` needs the path of its key"));
            }
            (false, Some(path)) => {
                let fix = "drop it or write type `keyed`";
                let message = format!("means nothing with type `singleton`, got `{path}`: {fix}");
                return Err(fields.error(Code::Conflict, "keyField", message));
            }
        };
        Ok(Handoff { scope, on_new_version: on_new_version? })
    }

    pub(crate) fn to_value(&self) -> Value {
        let word = serde_json::to_value(self.on_new_version).expect("a word is plain data");
        match &self.scope {
            HandoffScope::Singleton => json!({"type": "singleton", "onNewVersion": word}),
            HandoffScope::Keyed(path) => {
                json!({"type": "keyed", "keyField": path, "onNewVersion": word})
            }
        }
    }

    /// The path of the key, if there is one.
    pub fn key(&self) -> Option<&Path> {
        match &self.scope {
            HandoffScope::Singleton => None,
            HandoffScope::Keyed(path) => Some(path),
        }
    }
}
