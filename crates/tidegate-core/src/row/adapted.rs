//! Adaptive limits: the value of a gate, and what runs inside know of it (spec L28).

use serde::{Deserialize, Serialize};

use super::{Given, run::is_default};
use crate::time::Timestamp;

/// Value of an adaptive limit at one gate. A gate without it has the limit of the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adapted {
    /// The limit. It is brought into the range of the current release when it is read.
    pub limit: u32,
    /// Number of changes of the limit. A run knows by it whether its calls began before the last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: u32,
    /// Number of successful calls that began after the last change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub successes: u32,
    /// When the limit was lowered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowered_at: Option<Timestamp>,
}

impl Adapted {
    /// Creates the value of a limit that has not changed yet.
    pub fn new(limit: u32) -> Self {
        Self { limit, changes: 0, successes: 0, lowered_at: None }
    }
}

/// Calls of a run, or of one of its steps, since it has entered a gate with an adaptive limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calls {
    /// The number of changes of the limit when the calls began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub since: u32,
    /// Number of successful calls that the gate has not counted yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub successes: u32,
}

/// Numbers of a gate's limit that are in the gate's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowNumbers<'a> {
    /// The numbers from the data of an event.
    pub given: Option<&'a Given>,
    /// The value of an adaptive limit.
    pub adapted: Option<&'a Adapted>,
}

impl<'a> From<Option<&'a Given>> for RowNumbers<'a> {
    fn from(given: Option<&'a Given>) -> Self {
        Self { given, adapted: None }
    }
}
