//! Cost: how many units of a limit one run takes.
//!
//! A cost is a number of the definition, or a path to one in the data. It is read when the run is
//! admitted, and stored with the gates of its plan: a later change of the data or of the
//! definition does not change what the run takes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definition::{Code, Fields, Reported, shorten, shorten_text, whole},
    json::Payload,
    key::Path,
    row::BatchCosts,
};

/// Upper bound of a cost. Sums of costs stay far below the range of their type.
pub const MAX_COST: u32 = 1_000_000;

/// The `cost` of a limit, as its author wrote it. Without one a run takes one unit, also a run
/// that gets a batch; with one a batch takes the sum of its events' costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cost {
    /// The same for every run.
    Units(u32),
    /// A number in the data; 1 if it is missing.
    From(Path),
}

impl Cost {
    /// Reads the field `cost`.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Option<Cost>, Reported> {
        match fields.get("cost") {
            None => Ok(None),
            Some(Value::String(_) | Value::Array(_)) => Ok(fields.path("cost")?.map(Cost::From)),
            Some(Value::Number(_)) => {
                let units = fields.number("cost", 1, u64::from(MAX_COST))?;
                Ok(units.and_then(|units| u32::try_from(units).ok()).map(Cost::Units))
            }
            Some(other) => {
                let rule = "must be a whole number, or the path of one in the data";
                let message = format!("{rule}, got {}", shorten(other));
                Err(fields.error(Code::WrongType, "cost", message))
            }
        }
    }

    /// Returns the cost of one input, or why its value is none.
    pub fn of(&self, data: &Payload) -> Result<u32, String> {
        let path = match self {
            Cost::Units(units) => return Ok(*units),
            Cost::From(path) => path,
        };
        let Some(text) = data.text_at(path).filter(|text| *text != "null") else { return Ok(1) };
        let value = serde_json::from_str::<Value>(text).ok();
        let units = value.as_ref().and_then(whole).and_then(|units| u32::try_from(units).ok());
        units.filter(|units| (1..=MAX_COST).contains(units)).ok_or_else(|| {
            let shown = shorten_text(text);
            format!("cost `{path}` must be a whole number from 1 to {MAX_COST}, got {shown}")
        })
    }
}

impl BatchCosts {
    /// Returns the cost of the batch. Saturates: a batch of the greatest costs exceeds any limit.
    pub fn cost(&self, cost: &Cost) -> u32 {
        match cost {
            Cost::Units(units) => units.saturating_mul(self.events),
            Cost::From(path) => self.at.get(&path.to_string()).copied().unwrap_or(self.events),
        }
    }
}
