//! The final outcome of a run.

use serde::{Deserialize, Serialize};

use super::RunError;
use crate::{id::RunId, json::Payload};

/// Final outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Ending {
    /// The run completed with an output.
    Completed {
        /// The handler's return value.
        output: Payload,
    },
    /// The run failed with an error.
    Failed {
        /// The error.
        error: RunError,
    },
    /// The run was cancelled.
    Cancelled {
        /// The reason.
        reason: String,
        /// The run that replaced this run, or that has its idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<RunId>,
    },
}

impl Ending {
    /// Reason of a run that was cancelled before it started because another run has its idempotency
    /// key.
    pub const DEDUPED: &str = "deduped";

    /// Receipt outcome of a run that an event cancelled (`cancelOn`).
    pub const CANCELLED: &str = "cancelled";

    /// Reason of a run that was cancelled because it was not leased in time.
    pub const EXPIRED: &str = "expired";

    /// Reason of a run that was cancelled before it started because a newer run replaced it.
    pub const DISPLACED: &str = "displaced";

    /// Reason of a run that was not created, because its deferred request joined the window of another
    /// run.
    pub const COALESCED: &str = "coalesced";

    /// Returns the name of the state.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns the run that has the idempotency key, if this run was cancelled for that reason.
    pub fn deduped_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::DEDUPED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => None,
        }
    }

    /// Returns the run that replaced this run before it started.
    pub fn displaced_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::DISPLACED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => None,
        }
    }

    /// Returns the run that carries the request instead of this run, which had not started: a newer
    /// run has replaced it, or its deferred request joined the window of another run. Callers that
    /// wait for this run then wait for that one.
    pub fn carried_by(&self) -> Option<RunId> {
        match self {
            Self::Cancelled { reason, by } if reason == Self::COALESCED => *by,
            Self::Cancelled { .. } | Self::Completed { .. } | Self::Failed { .. } => {
                self.displaced_by()
            }
        }
    }

    /// Returns the result for a step that waited for the run.
    pub fn result(&self) -> Result<Payload, RunError> {
        match self {
            Self::Completed { output } => Ok(output.clone()),
            Self::Failed { error } => Err(error.clone()),
            Self::Cancelled { reason, .. } if reason == Self::EXPIRED => {
                Err(RunError::new("Expired", reason.clone()))
            }
            Self::Cancelled { reason, .. } if reason == Self::DISPLACED => {
                Err(RunError::new("Displaced", reason.clone()))
            }
            Self::Cancelled { reason, .. } => Err(RunError::new("Cancelled", reason.clone())),
        }
    }
}
