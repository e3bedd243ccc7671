//! Error responses: `application/problem+json` with a stable code.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate::{Error, RunId};
use tidegate_core::{
    access::AccessRefusal, command::Refusal, definition, overrides::OverrideRefusal,
    pool::PoolRefusal, session::SessionError, stream::StreamRefusal,
};
use tidegate_store::StoreError;

/// An error response.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// The stable code.
    error: String,
    detail: String,
    members: Box<Members>,
    retry_after: Option<u64>,
    /// Whether the response has the header `WWW-Authenticate`.
    challenge: bool,
}

/// Further members of an error response. Which of them are set depends on the error code.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Members {
    /// All problems of a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problems: Option<Vec<definition::Problem>>,
    /// Run that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<RunId>,
    /// Whether the chat message was stored, although the reply was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) appended: Option<bool>,
    /// Time at which the same request would be admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub(crate) retry_at: Option<String>,
    /// Name of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<String>,
    /// Version at which the stream was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<i64>,
    /// Version that the request expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<i64>,
    /// Current version of the stream or session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) actual: Option<i64>,
}

/// An error response, as the API returns it (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemView {
    /// Name of the HTTP status.
    title: &'static str,
    status: u16,
    #[serde(flatten)]
    body: ProblemBody,
}

/// An error without its HTTP status, for clients that do not see the status.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProblemBody {
    /// The stable code.
    error: String,
    /// The message for people.
    detail: String,
    #[serde(flatten)]
    members: Members,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, error: &str, detail: impl Into<String>) -> Self {
        let (error, detail) = (error.to_owned(), detail.into());
        let (members, retry_after) = (Box::default(), None);
        Self { status, error, detail, members, retry_after, challenge: false }
    }

    /// Status 422: the request is invalid.
    pub(crate) fn invalid(error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, detail)
    }

    pub(crate) fn not_found(error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, detail)
    }

    /// Status 401: the caller is not authenticated.
    pub(crate) fn unauthorized(error: &str, detail: impl Into<String>) -> Self {
        Self { challenge: true, ..Self::new(StatusCode::UNAUTHORIZED, error, detail) }
    }

    /// Sets further members of the body.
    pub(crate) fn with(mut self, set: impl FnOnce(&mut Members)) -> Self {
        set(&mut self.members);
        self
    }

    /// Sets `Retry-After`, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl Problem {
    /// Returns the status and the text, for protocols with other error bodies.
    pub(crate) fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.detail)
    }

    pub(crate) fn into_body(self) -> ProblemBody {
        let Self { error, detail, members, .. } = self;
        ProblemBody { error, detail, members: *members }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after, challenge) = (self.status, self.retry_after, self.challenge);
        let body = ProblemView {
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            body: self.into_body(),
        };
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
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
                Self::invalid("bad_definition", detail).with(|it| it.problems = Some(problems))
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

/// Logs a store error with all details, and returns the response without them.
fn failed(error: &StoreError) -> Problem {
    tracing::error!(%error, "request failed with a store error");
    Problem::of_store(error)
}

impl Problem {
    /// Returns the response to a store error. It does not have the error's text, which may contain
    /// paths, addresses and rows.
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
        | Refusal::NoEvent(_)
        | Refusal::NoStep { .. }
        | Refusal::NoWorkflow { .. }
        | Refusal::NoVersion { .. }
        | Refusal::NoReaction(_)
        | Refusal::NoSchedule(_)
        | Refusal::Pool(PoolRefusal::NoPool { .. })
        | Refusal::Override(OverrideRefusal::NoOverride)
        | Refusal::Access(AccessRefusal::NoKey(_)) => StatusCode::NOT_FOUND,
        Refusal::Ended { .. }
        | Refusal::DeliveryEnded { .. }
        | Refusal::Deferred { .. }
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
        | Refusal::Pool(PoolRefusal::InUse { .. })
        | Refusal::Override(
            OverrideRefusal::NothingToUndo
            | OverrideRefusal::Expired
            | OverrideRefusal::EpochChanged { .. },
        )
        | Refusal::Access(AccessRefusal::Taken(_)) => StatusCode::CONFLICT,
        Refusal::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let problem = Problem::new(status, refusal.code(), refusal.to_string());
    match refusal {
        Refusal::Stream(StreamRefusal::Conflict { stream, expected, actual }) => {
            problem.with(|members| {
                members.stream = Some(stream.clone());
                members.expected = Some(expected.version());
                members.actual = Some(*actual);
            })
        }
        Refusal::Stream(StreamRefusal::StreamClosed { stream, guard }) => problem.with(|members| {
            (members.stream, members.version) = (Some(stream.clone()), Some(*guard));
        }),
        Refusal::Session(SessionError::Changed { expected, actual, .. }) => {
            problem.with(|members| {
                (members.expected, members.actual) = (Some(*expected), Some(*actual));
            })
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

    /// Each kind of store error has its own code, and `Retry-After` if a retry may help.
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
