//! Errors of an engine's callers.

use std::sync::Arc;

use tidegate_core::{command::Refusal, definition::Problem, json::PayloadError};
use tidegate_store::StoreError;

use crate::step_error::StepError;

/// Error of an engine's operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation was refused, and nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed. Nothing changed, except where the error says that the outcome is unknown.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The definitions are invalid. Lists all their problems.
    #[error("{}", listed(.0))]
    Definition(Vec<Problem>),
    /// A value is not JSON, or is too large.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// A value cannot be written as JSON, or cannot be read as the caller's type.
    #[error("{0}")]
    Value(String),
    /// The events of a closed stream could not be archived. The stream stays closed, and no event
    /// is deleted.
    #[error("the archive failed, and the stream stays closed with all its events: {0}")]
    Archive(StepError),
    /// The engine has been shut down.
    #[error("the engine has been shut down")]
    ShutDown,
}

impl Error {
    /// Returns the stable code: a row of the reference, and the same as over HTTP.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Store(error) => error.code(),
            Self::Definition(_) => "bad_definition",
            Self::Payload(error) => error.code(),
            Self::Value(_) => "bad_value",
            Self::Archive(_) => "archive_failed",
            Self::ShutDown => "shutting_down",
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
