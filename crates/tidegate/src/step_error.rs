//! What goes wrong inside of a handler, and whether trying again may help.

use std::{fmt, time::Duration};

use tidegate_core::row;

/// What handlers and steps return.
pub type Result<T, E = StepError> = std::result::Result<T, E>;

/// An error of a handler or a step.
///
/// Any error converts into one, and is tried again as its step's retry says. [`StepResultExt::fatal`]
/// makes it final, [`StepResultExt::retry_after`] says when to try again.
#[derive(Clone, PartialEq, Eq)]
pub struct StepError {
    code: String,
    message: String,
    again: RetryDecision,
}

/// Whether and when a failed step is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// As the step's retry says.
    Retry,
    /// After this time, if an attempt is left.
    After(Duration),
    /// Never: the failure is recorded.
    Never,
}

impl StepError {
    /// An error in the caller's words, tried again as the step's retry says.
    pub fn new(message: impl Into<String>) -> Self {
        Self::coded("Error", message)
    }

    /// An error with a stable name that callers and consoles can tell apart.
    pub fn coded(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), again: RetryDecision::Retry }
    }

    /// Trying again will not help.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { again: RetryDecision::Never, ..self }
    }

    /// Trying again will help after this time.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { again: RetryDecision::After(delay), ..self }
    }

    /// The stable name.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What people read.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether trying again may help.
    pub fn is_fatal(&self) -> bool {
        self.again == RetryDecision::Never
    }

    pub(crate) fn again(&self) -> RetryDecision {
        self.again
    }

    pub(crate) fn to_row(&self) -> row::RunError {
        row::RunError { code: self.code.clone(), message: self.message.clone() }
    }

    /// A recorded failure: what is recorded is not tried again.
    pub(crate) fn recorded(fault: &row::RunError) -> Self {
        Self::coded(&fault.code, &fault.message).fatal()
    }

    /// What a panic came to.
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

/// Says of a result whether and when to try again.
pub trait StepResultExt<T> {
    /// Trying again will not help.
    fn fatal(self) -> Result<T>;
    /// Trying again will help after this time.
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
