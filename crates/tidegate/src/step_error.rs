//! Errors of handlers and steps, and their retry decisions.

use std::{fmt, time::Duration};

use tidegate_core::row;

/// Result of handlers and steps.
pub type Result<T, E = StepError> = std::result::Result<T, E>;

/// Error of a handler or a step.
///
/// Any error converts into it, and is retried by the step's retry policy. [`StepResultExt::fatal`]
/// makes it final; [`StepResultExt::retry_after`] sets the time of the next attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct StepError {
    code: String,
    message: String,
    again: RetryDecision,
}

/// Whether and when a failed step is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Retry by the step's retry policy.
    Retry,
    /// Retry after this time, if an attempt is left.
    After(Duration),
    /// Never retry: the failure is recorded.
    Never,
}

impl StepError {
    /// Creates an error with this message, retried by the step's retry policy.
    pub fn new(message: impl Into<String>) -> Self {
        Self::coded("Error", message)
    }

    /// Creates an error with a stable code, by which callers and consoles can distinguish errors.
    pub fn coded(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), again: RetryDecision::Retry }
    }

    /// Marks the error as final: it is not retried.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { again: RetryDecision::Never, ..self }
    }

    /// Retries after this time.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { again: RetryDecision::After(delay), ..self }
    }

    /// Returns the stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns the human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether the error is final: it is not retried.
    pub fn is_fatal(&self) -> bool {
        self.again == RetryDecision::Never
    }

    pub(crate) fn again(&self) -> RetryDecision {
        self.again
    }

    pub(crate) fn to_row(&self) -> row::RunError {
        row::RunError { code: self.code.clone(), message: self.message.clone() }
    }

    /// Creates the error of a recorded failure, which is not retried.
    pub(crate) fn recorded(fault: &row::RunError) -> Self {
        Self::coded(&fault.code, &fault.message).fatal()
    }

    /// Creates the error of a panic.
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::coded("Panicked", text.unwrap_or("the handler panicked"))
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

// Not an error itself, so that every error converts: two conversions would overlap otherwise.
impl<E: std::error::Error> From<E> for StepError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        let name = std::any::type_name::<E>();
        let name = name.split('<').next().unwrap_or(name);
        Self::coded(name.rsplit("::").next().unwrap_or(name), message)
    }
}

/// Extension of results that sets whether and when a failure is retried.
pub trait StepResultExt<T> {
    /// Marks the error as final: it is not retried.
    fn fatal(self) -> Result<T>;
    /// Retries after this time.
    fn retry_after(self, delay: Duration) -> Result<T>;
}

impl<T, E: Into<StepError>> StepResultExt<T> for std::result::Result<T, E> {
    fn fatal(self) -> Result<T> {
        self.map_err(|error| error.into().fatal())
    }

    fn retry_after(self, delay: Duration) -> Result<T> {
        self.map_err(|error| error.into().retry_after(delay))
    }
}
