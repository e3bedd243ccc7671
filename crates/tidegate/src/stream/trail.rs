//! Correlation ids and causes of stream events.

use serde::{Deserialize, Serialize};
use tidegate_core::json::Payload;

use crate::entropy::Entropy;

/// Correlation id and cause, as they are stored in an event's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trail {
    /// Correlation id, the same for all events with one origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation: Option<String>,
    /// Event, or step of a run, that caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) causation: Option<String>,
}

impl Trail {
    pub(crate) fn new(correlation: impl Into<String>, causation: impl Into<String>) -> Self {
        Self { correlation: Some(correlation.into()), causation: Some(causation.into()) }
    }

    /// Reads correlation id and cause from an event's metadata.
    pub(crate) fn read(meta: &Payload) -> Self {
        serde_json::from_str(meta.as_str()).unwrap_or_default()
    }

    /// Returns correlation id and cause as an event's metadata. A commit without a correlation id
    /// gets a random one, because the ids of its events are not known before it is committed.
    pub(crate) fn meta(&self, entropy: &Entropy) -> Payload {
        let fresh = || format!("cor_{:016x}{:016x}", entropy.number(), entropy.number());
        let correlation = self.correlation.clone().unwrap_or_else(fresh);
        let trail = Self { correlation: Some(correlation), causation: self.causation.clone() };
        let value = serde_json::to_value(&trail).expect("two texts can be written as JSON");
        Payload::from_value(&value)
    }
}
