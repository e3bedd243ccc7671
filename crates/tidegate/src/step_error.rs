//! Errors of handlers and steps, and whether they are retried.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use tidegate_core::{
    flow::adaptive::NewOverload,
    flow::close::{GateToClose, MAX_CLOSE_MS, NewClose},
    row,
    run::record::Until,
};

/// Result of handlers and steps.
///
/// ```
/// use tidegate::prelude::*;
///
/// fn parse(text: &str) -> Result<u32> {
///     Ok(text.parse()?)
/// }
///
/// assert_eq!(parse("x").unwrap_err().code(), "ParseIntError");
/// ```
pub type Result<T, E = StepError> = std::result::Result<T, E>;

/// Error of a handler or a step.
///
/// Any error converts into it by `?`, including errors of `anyhow` and `eyre` and plain texts. A
/// step that fails is retried by its retry policy. [`StepResultExt::fatal`] prevents a retry;
/// [`StepResultExt::retry_after`] sets the time of the next attempt. Code and message are recorded
/// with the step; the [source](Self::source) is not.
///
/// Like `anyhow::Error`, it does not implement [`std::error::Error`], because the conversion from
/// any error would overlap with the conversion from itself. [`into_error`](Self::into_error)
/// converts it.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Result, StepError, StepResultExt};
///
/// fn charge(cents: i64) -> Result<i64> {
///     if cents <= 0 {
///         // Retrying does not help.
///         return Err(StepError::coded("BadAmount", format!("cannot charge {cents}")).fatal());
///     }
///     let text: String = std::env::var("TIDEGATE_DOC_BALANCE").unwrap_or("100".to_owned());
///     let balance: i64 = text.parse()?; // retried, with the parse error as its source
///     if balance < cents {
///         return Err("not enough").retry_after(Duration::from_secs(60));
///     }
///     Ok(balance - cents)
/// }
///
/// assert_eq!(charge(40)?, 60);
/// assert_eq!(charge(-1).unwrap_err().code(), "BadAmount");
/// # Ok::<(), StepError>(())
/// ```
#[derive(Clone)]
pub struct StepError {
    code: Box<str>,
    message: String,
    again: RetryDecision,
    closes: Option<Box<NewClose>>,
    overload: bool,
    details: Option<Box<serde_json::Value>>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Two errors are equal if code, message, details, retry decision and closed gate are equal.
impl PartialEq for StepError {
    fn eq(&self, other: &Self) -> bool {
        (&self.code, &self.message, &self.details, self.again, &self.closes)
            == (&other.code, &other.message, &other.details, other.again, &other.closes)
    }
}

impl Eq for StepError {}

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
        let (code, message): (String, String) = (code.into(), message.into());
        let code = code.into_boxed_str();
        Self {
            code,
            message,
            again: RetryDecision::Retry,
            closes: None,
            overload: false,
            details: None,
            source: None,
        }
    }

    /// Marks the error as final: it is not retried.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { again: RetryDecision::Never, ..self }
    }

    /// Sets the delay after which the step is retried.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { again: RetryDecision::After(delay), ..self }
    }

    /// Closes a gate until a time or for a duration, and retries the step then, without using up an
    /// attempt. As [`Ctx::close_gate`](crate::Ctx::close_gate), for an error with a code and a
    /// message of its own.
    ///
    /// If the run has no such gate, the step is retried by its retry policy.
    #[must_use]
    pub fn close_gate(self, gate: impl Into<GateToClose>, until: impl Into<Until>) -> Self {
        self.close_gate_for_most(gate, until, Duration::from_millis(MAX_CLOSE_MS))
    }

    /// As [`StepError::close_gate`], with the longest time that the gate stays closed.
    #[must_use]
    pub fn close_gate_for_most(
        self,
        gate: impl Into<GateToClose>,
        until: impl Into<Until>,
        most: Duration,
    ) -> Self {
        let (gate, until) = (gate.into(), until.into());
        let max_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let closes = Some(Box::new(NewClose { gate, until, max_ms }));
        Self { closes, ..self }
    }

    /// Says that the called service has too many calls, or did not answer in time: the adaptive
    /// limits that the step has passed are lowered. The timeout of a step and an error that closes a
    /// gate say so by themselves.
    ///
    /// ```
    /// use tidegate::{Result, StepError};
    ///
    /// fn check(status: u16) -> Result<()> {
    ///     match status {
    ///         429 | 503 => Err(StepError::coded("Busy", "too many calls").overload()),
    ///         _ => Ok(()),
    ///     }
    /// }
    /// # assert!(check(200).is_ok());
    /// ```
    #[must_use]
    pub fn overload(self) -> Self {
        Self { overload: true, ..self }
    }

    /// Sets what else is known of the error. It is recorded with code and message, and part of the
    /// result of the step, of the run, and of a call of the run: an error of another language keeps
    /// its name, its stack and its cause.
    ///
    /// ```
    /// use serde_json::json;
    /// use tidegate::StepError;
    ///
    /// let error = StepError::coded("TypeError", "x is undefined");
    /// let error = error.with_details(json!({ "stack": "at a.js:1" }));
    /// assert_eq!(error.details().unwrap()["stack"], "at a.js:1");
    /// ```
    #[must_use]
    pub fn with_details(self, details: serde_json::Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// Returns what else is known of the error.
    pub fn details(&self) -> Option<&serde_json::Value> {
        self.details.as_deref()
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

    /// Returns the error that this one was converted from; `None` for an error read from a record.
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Converts the error into a boxed error, for code that needs `dyn Error`.
    pub fn into_error(self) -> Box<dyn Error + Send + Sync> {
        Box::new(Boxed(self))
    }

    pub(crate) fn again(&self) -> RetryDecision {
        self.again
    }

    /// Returns the gate that the error closes, unless it is final.
    pub(crate) fn closes(&self) -> Option<&NewClose> {
        self.closes.as_deref().filter(|_| !self.is_fatal())
    }

    /// Returns the overload of the step that the error reports, if it does.
    pub(crate) fn overload_of(&self, step: &str) -> Option<NewOverload> {
        let pool = match self.closes.as_ref().map(|closes| &closes.gate) {
            Some(GateToClose::Pool(pool)) => Some(pool.clone()),
            Some(GateToClose::Throttle | GateToClose::Concurrency) | None => None,
        };
        let is_overload = self.overload || self.closes.is_some();
        is_overload.then(|| NewOverload { step: step.to_owned(), pool })
    }

    /// Returns the error as the handler gets it, after the failure was recorded.
    pub(crate) fn after_record(self) -> Self {
        Self { closes: None, overload: false, ..self.fatal() }
    }

    pub(crate) fn to_row(&self) -> row::RunError {
        let details = self.details.as_deref().cloned();
        row::RunError { details, ..row::RunError::new(&*self.code, &self.message) }
    }

    /// Creates the error of a recorded failure. It is not retried.
    pub(crate) fn recorded(fault: &row::RunError) -> Self {
        let details = fault.details.clone().map(Box::new);
        Self { details, ..Self::coded(&fault.code, &fault.message).fatal() }
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

/// Wrapper of a [`StepError`] that implements `Error`.
#[derive(Debug)]
struct Boxed(StepError);

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Boxed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for StepError {
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        let name = std::any::type_name::<E>();
        let name = name.split('<').next().unwrap_or(name);
        let code = match name.rsplit("::").next().unwrap_or(name) {
            // A plain text has no type name that would serve as a code.
            "&str" | "str" | "String" | "Cow" | "Box" => "Error",
            name => name,
        };
        Self { source: Some(Arc::from(error)), ..Self::coded(code, message) }
    }
}

/// Extension of results that sets whether and when a failure is retried.
///
/// ```
/// use std::time::Duration;
/// use tidegate::prelude::*;
///
/// // A retry would fail in the same way.
/// let amount: Result<u32> = "x".parse::<u32>().fatal();
/// assert!(amount.unwrap_err().is_fatal());
/// // The service has said when to retry.
/// let busy: Result<()> = Err("busy").retry_after(Duration::from_secs(30));
/// assert!(!busy.unwrap_err().is_fatal());
/// ```
pub trait StepResultExt<T> {
    /// Marks the error as final: it is not retried.
    fn fatal(self) -> Result<T>;
    /// Sets the delay after which the step is retried.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_converts_with_its_causes_and_stays_the_source() {
        let parsed: StepError = "x".parse::<i32>().unwrap_err().into();
        assert_eq!(
            (parsed.code(), parsed.message()),
            ("ParseIntError", "invalid digit found in string")
        );
        assert!(parsed.source().unwrap().is::<std::num::ParseIntError>());
        let text = StepError::from("no such account");
        assert_eq!((text.code(), text.message()), ("Error", "no such account"));
        let owned = StepError::from(String::from("gone"));
        assert_eq!(owned.code(), "Error");
        let boxed: Box<dyn Error + Send + Sync> = "boxed".into();
        assert_eq!(StepError::from(boxed).message(), "boxed");
    }

    #[test]
    fn an_error_is_equal_by_what_is_recorded() {
        let [first, second] = [(); 2].map(|()| StepError::from("x".parse::<i32>().unwrap_err()));
        assert_eq!(first, second);
        assert_ne!(first.clone().fatal(), second);
        assert_eq!(StepError::recorded(&first.to_row()).source().map(ToString::to_string), None);
    }

    #[test]
    fn it_becomes_an_error_with_its_source() {
        let error = StepError::from("x".parse::<i32>().unwrap_err()).into_error();
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert!(error.source().unwrap().is::<std::num::ParseIntError>());
    }
}
