//! Error responses: `application/problem+json` with a stable code.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use tidegate::Error;
use tidegate_core::{
    access::AccessRefusal, command::Refusal, session::SessionError, stream::StreamRefusal,
};
use tidegate_store::StoreError;

/// An error response.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// The stable code.
    error: String,
    detail: String,
    more: Map<String, Value>,
    retry_after: Option<u64>,
    /// Whether to send `WWW-Authenticate`.
    challenge: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error: &str, detail: impl Into<String>) -> Self {
        let (error, detail) = (error.to_owned(), detail.into());
        Self { status, error, detail, more: Map::new(), retry_after: None, challenge: false }
    }

    /// 422: the request is invalid.
    pub(crate) fn invalid(error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, detail)
    }

    pub(crate) fn not_found(error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, detail)
    }

    /// 401: the caller is not authenticated.
    pub(crate) fn unauthorized(error: &str, detail: impl Into<String>) -> Self {
        Self { challenge: true, ..Self::new(StatusCode::UNAUTHORIZED, error, detail) }
    }

    /// Adds a member to the body.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Sets `Retry-After`, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl Problem {
    /// The code, the detail and the other members, for clients that read no statuses.
    pub(crate) fn told(self) -> Map<String, Value> {
        let mut told = Map::new();
        told.insert("error".to_owned(), self.error.into());
        told.insert("detail".to_owned(), self.detail.into());
        told.extend(self.more);
        told
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default();
        let mut body = json!({
            "title": title, "status": self.status.as_u16(), "error": self.error,
            "detail": self.detail,
        });
        if let Some(members) = body.as_object_mut() {
            members.extend(self.more);
        }
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Refused(refusal) => refused(&refusal),
            Error::Definition(problems) => {
                let problems: Vec<_> = problems.iter().map(|it| json!(it)).collect();
                Self::invalid("bad_definition", detail).with("problems", problems)
            }
            Error::Payload(error) => Self::invalid(error.code(), detail),
            Error::Value(_) => Self::invalid("bad_value", detail),
            Error::Store(error) => failed(&error),
            Error::Archive(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "archive_failed", detail)
            }
            Error::ShutDown => {
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail);
                problem.retry_after(1)
            }
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, other.code(), detail),
        }
    }
}

/// Logs a failure of the store, with the details that clients must not see.
fn failed(error: &StoreError) -> Problem {
    tracing::error!(%error, "store error");
    Problem::of_store(error)
}

impl Problem {
    /// The response to a failure of the store, without its text: that may name paths, addresses and
    /// rows.
    pub(super) fn of_store(error: &StoreError) -> Self {
        let (status, code, detail) = match error {
            StoreError::Data(_) | StoreError::TooManyRounds => {
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                (
                    status,
                    "too_much_at_once",
                    "the request does not fit into one transaction; send less per request",
                )
            }
            StoreError::Unavailable(_) | StoreError::Busy(_) => {
                let detail = "the store is unreachable or busy; nothing was changed, retry";
                (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
            }
            StoreError::Full(_) => {
                let detail = "the store has no space left; nothing was changed, and writes work \
                              again once there is space";
                (StatusCode::SERVICE_UNAVAILABLE, "store_full", detail)
            }
            StoreError::FileGone(_) => {
                let detail = "the file of the store was removed or replaced while the server is \
                              running; nothing was changed: stop the server, restore the file that \
                              its log names and start again";
                (StatusCode::SERVICE_UNAVAILABLE, "store_file_gone", detail)
            }
            StoreError::ReadOnly(_) => {
                let detail = "the store is read-only; nothing was changed, and writes work again \
                              once it is writable";
                (StatusCode::SERVICE_UNAVAILABLE, "store_read_only", detail)
            }
            StoreError::Unknown(_) => {
                let detail = "the connection to the store was lost during the commit, and its \
                              outcome is unknown; repeat the request with the same dedupeId or \
                              Idempotency-Key";
                (StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", detail)
            }
            _ => {
                let detail = "the store has invalid data; see the server's log";
                (StatusCode::INTERNAL_SERVER_ERROR, "store_error", detail)
            }
        };
        let problem = Problem::new(status, code, detail);
        if status == StatusCode::SERVICE_UNAVAILABLE { problem.retry_after(1) } else { problem }
    }
}

fn refused(refusal: &Refusal) -> Problem {
    let status = match refusal {
        Refusal::NoRun(_)
        | Refusal::NoStep { .. }
        | Refusal::NoWorkflow { .. }
        | Refusal::NoVersion { .. }
        | Refusal::NoReaction(_)
        | Refusal::NoSchedule(_)
        | Refusal::Access(AccessRefusal::NoKey(_)) => StatusCode::NOT_FOUND,
        Refusal::Ended { .. }
        | Refusal::NotEnded(_)
        | Refusal::Undone { .. }
        | Refusal::InputGone(_)
        | Refusal::VersionChanged { .. }
        | Refusal::Fenced { .. }
        | Refusal::EngineDead(_)
        | Refusal::NoEngine(_)
        | Refusal::Stream(
            StreamRefusal::Conflict { .. }
            | StreamRefusal::StreamClosed { .. }
            | StreamRefusal::NotClosed { .. }
            | StreamRefusal::NotTruncated { .. },
        )
        | Refusal::Session(
            SessionError::Changed { .. }
            | SessionError::Conflict { .. }
            | SessionError::StepMismatch { .. },
        )
        | Refusal::InProgress
        | Refusal::Access(AccessRefusal::Taken(_)) => StatusCode::CONFLICT,
        Refusal::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let problem = Problem::new(status, refusal.code(), refusal.to_string());
    match refusal {
        Refusal::Stream(StreamRefusal::Conflict { stream, expected, actual }) => {
            let problem = problem.with("stream", stream.as_str());
            problem.with("expected", expected.version()).with("actual", *actual)
        }
        Refusal::Stream(StreamRefusal::StreamClosed { stream, guard }) => {
            problem.with("stream", stream.as_str()).with("version", *guard)
        }
        Refusal::Session(SessionError::Changed { expected, actual, .. }) => {
            problem.with("expected", *expected).with("actual", *actual)
        }
        Refusal::InProgress => problem.retry_after(1),
        _ => problem,
    }
}

#[cfg(test)]
mod statuses;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cause has its own code, and each that allows a retry has `Retry-After`.
    #[test]
    fn the_troubles_of_a_store_have_codes() {
        let text = || "".into();
        for (error, code) in [
            (StoreError::Unavailable(text()), "store_unavailable"),
            (StoreError::Busy(text()), "store_unavailable"),
            (StoreError::Full(text()), "store_full"),
            (StoreError::ReadOnly(text()), "store_read_only"),
            (StoreError::FileGone(String::new()), "store_file_gone"),
            (StoreError::Unknown(text()), "outcome_unknown"),
        ] {
            let problem = failed(&error);
            assert_eq!((problem.status.as_u16(), problem.error.as_str()), (503, code));
            assert_eq!(problem.retry_after, Some(1), "{code}");
        }
        assert_eq!(failed(&StoreError::Corrupt(text())).status.as_u16(), 500);
    }
}
