//! What callers of an engine are told when it does not do what they asked for.

use std::sync::Arc;

use tidegate_core::{command::Refusal, definition::Problem, json::PayloadError};
use tidegate_store::StoreError;

use crate::step_error::StepError;

/// Why an engine did not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The answer is no, and nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed; nothing changed, except where the error says that it is not known.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// Definitions that do not hold: everything that is wrong with them.
    #[error("{}", listed(.0))]
    Definition(Vec<Problem>),
    /// A value that is not JSON, or too large.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A value that cannot be written as JSON, or read in the caller's type.
    #[error("{0}")]
    Value(String),
    /// The events of a closed stream could not be archived: it stays closed, and none is deleted.
    #[error("the archive failed, and the stream stays closed with all its events: {0}")]
    Archive(StepError),
    /// The engine has been shut down.
    #[error("the engine has been shut down")]
    ShutDown,
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
