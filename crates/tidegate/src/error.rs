//! Errors that an engine returns to its callers.

use std::sync::Arc;

use tidegate_core::{
    command::Refusal, definition::Problem, flow::Verdict, id::RunId, json::PayloadError,
};
use tidegate_store::StoreError;

use crate::step_error::StepError;

/// Error of an operation of an engine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rules refused the operation. Nothing was changed.
    #[error(transparent)]
    Refused(Refusal),
    /// The store failed. Nothing was changed, unless the error says that the outcome is unknown.
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
    #[error("archiving the stream failed, so it stays closed and keeps all its events: {0}")]
    Archive(StepError),
    /// A control admitted no run for the input of [`Engine::start`](crate::Engine::start).
    #[error("workflow `{workflow}` was not started: {}", refused(.verdict))]
    NotStarted {
        /// Name of the workflow.
        workflow: String,
        /// Verdict: the control and its key, and the time to retry at or the run that holds the
        /// control.
        verdict: Box<Verdict>,
    },
    /// The run has failed: [`RunHandle::output`](crate::RunHandle::output) has no value.
    #[error("run `{run}` failed: {error}")]
    RunFailed {
        /// Id of the run.
        run: RunId,
        /// Error of the run's handler, with the handler's own code.
        error: StepError,
    },
    /// The run was cancelled, or replaced by another.
    #[error("run `{run}` was cancelled: {reason}")]
    RunCancelled {
        /// Id of the run.
        run: RunId,
        /// Reason given for the cancellation.
        reason: String,
    },
    /// The engine has been shut down.
    #[error("the engine has been shut down")]
    ShutDown,
    /// The engine was opened by [`EngineBuilder::read_only`](crate::EngineBuilder::read_only).
    #[error("the engine is read-only: build one that writes with `EngineBuilder::start`")]
    ReadOnly,
}

impl Error {
    /// Returns the stable code of this error. It is listed in the reference of errors, and is the
    /// same over HTTP.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Store(error) => error.code(),
            Self::Definition(_) => "bad_definition",
            Self::Payload(error) => error.code(),
            Self::Value(_) => "bad_value",
            Self::Archive(_) => "archive_failed",
            Self::NotStarted { .. } => "not_started",
            Self::RunFailed { .. } => "run_failed",
            Self::RunCancelled { .. } => "run_cancelled",
            Self::ShutDown => "shutting_down",
            Self::ReadOnly => "engine_read_only",
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Definition(errors) => Self::Definition(errors.0),
            other => Self::Refused(other),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// Text that is displayed as the key of a control without a key.
const WHOLE: &str = "(whole)";

/// Describes why a verdict started no run.
fn refused(verdict: &Verdict) -> String {
    let of = |key: &str| match key {
        "" | WHOLE => String::new(),
        key => format!(" of `{key}`"),
    };
    match verdict {
        Verdict::Dropped { by, retry_at } => {
            let (control, of, at) = (by.limiter(), of(&by.key), retry_at.rfc3339());
            format!("its {control}{of} is exceeded; retry at {at}")
        }
        Verdict::Skipped { by, holder } | Verdict::HeldByAncestor { by, holder } => {
            format!("its {}{} is held by run `{holder}`", by.limiter(), of(&by.key))
        }
        Verdict::QueueFull { by, waiting } => {
            let (control, of) = (by.control, of(&by.key));
            format!("the queue of its {control}{of} is full: {waiting} runs wait in it")
        }
        Verdict::Deduped { by, first, .. } => {
            let (control, of) = (by.control, of(&by.key));
            format!("its {control}{of} is taken by event `{first}`, which started no run")
        }
        Verdict::Rejected { control, reason } => format!("its {control} rejects it: {reason}"),
        other => other.outcome().to_owned(),
    }
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
