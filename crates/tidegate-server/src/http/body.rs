//! Request parsing: bodies, paths, queries and pages.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request, rejection::BytesRejection},
    http::{StatusCode, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tidegate_core::{
    id::{RunId, Seq},
    json::Payload,
};

use super::problem::Problem;

/// Maximum size of a request body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a request body, at most `MAX_BODY_BYTES`.
#[derive(Debug)]
pub(crate) struct Body(Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let read = Bytes::from_request(request, state).await;
        read.map(Self).map_err(|error: BytesRejection| {
            if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let detail = format!("the request body must have at most {MAX_BODY_BYTES} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", detail)
            } else {
                Problem::new(StatusCode::BAD_REQUEST, "bad_body", error.body_text())
            }
        })
    }
}

impl Body {
    /// Parses the body as an object. An empty body counts as `{}`.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        if self.0.is_empty() {
            return object("{}");
        }
        object(self.json()?.get())
    }

    /// Parses the body as an object. An empty body is an error.
    pub(crate) fn required<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        if self.0.is_empty() {
            return Err(Problem::invalid("bad_body", "the request body is missing"));
        }
        self.read()
    }

    /// Returns the body as JSON, byte for byte.
    pub(crate) fn json(&self) -> Result<&RawValue, Problem> {
        let read = serde_json::from_slice(&self.0);
        read.map_err(|error| {
            let detail = format!("the request body is not JSON: {error}");
            Problem::new(StatusCode::BAD_REQUEST, "bad_json", detail)
        })
    }

    /// Returns the bytes of the body as they were sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Parses an object. A list of its values without names, which serde would accept, is rejected.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    if !text.starts_with('{') {
        let start: String = text.chars().take(40).collect();
        return Err(Problem::invalid(
            "bad_body",
            format!("the body must be an object, got `{start}`"),
        ));
    }
    serde_json::from_str(text)
        .map_err(|error| Problem::invalid("bad_body", format!("invalid request body: {error}")))
}

/// Returns a value of a document as a payload, byte for byte; `null` if it is absent.
pub(crate) fn raw(value: Option<&RawValue>, limit: usize) -> Result<Payload, Problem> {
    let text = value.map_or("null", RawValue::get);
    Payload::parse(text.as_bytes(), limit).map_err(|error| {
        let problem = tidegate::Error::from(error);
        problem.into()
    })
}

/// Returns a payload as a part of a response, byte for byte.
pub(crate) fn as_is(payload: &Payload) -> Box<RawValue> {
    let text = payload.as_str().to_owned();
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Default page size.
const PAGE: u32 = 50;

/// Maximum page size.
pub(crate) const MAX_PAGE: u32 = 500;

/// Checks the page size of a query.
pub(crate) fn page_size(limit: Option<u32>) -> Result<u32, Problem> {
    let limit = limit.unwrap_or(PAGE);
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("`limit` must be 1 to {MAX_PAGE}, got {limit}");
    Err(Problem::invalid("bad_query", detail))
}

/// Returns the problem of an invalid cursor.
pub(crate) fn bad_cursor(cursor: &str) -> Problem {
    let detail = format!("`cursor` must be the `next` of the previous page, got `{cursor}`");
    Problem::invalid("bad_query", detail)
}

/// Parses the cursor of a list that is ordered by sequence number.
pub(crate) fn newest_below(cursor: Option<String>) -> Result<Option<Seq>, Problem> {
    let below = cursor.map(|cursor| cursor.parse().map(Seq).map_err(|_| bad_cursor(&cursor)));
    below.transpose()
}

/// The run id in a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOf(pub(crate) RunId);

impl<S: Send + Sync> FromRequestParts<S> for RunOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let At(id): At<Named> = At::from_request_parts(parts, state).await?;
        // An id that cannot be parsed cannot be the id of a run.
        let unknown = || Problem::not_found("no_run", format!("there is no run `{}`", id.id));
        id.id.parse().map(Self).map_err(|_| unknown())
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// A NUL character in a URL.
const NUL: &str = "%00";

/// The parameters of a path, decoded.
#[derive(Debug)]
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // No row has such a name, and PostgreSQL refuses a query for it.
        if parts.uri.path().contains(NUL) {
            let detail = format!("a name in the path must not contain NUL (`{NUL}`)");
            return Err(Problem::invalid("bad_path_part", detail));
        }
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        let axum::extract::Path(parts) =
            read.map_err(|error| Problem::invalid("bad_path_part", error.body_text()))?;
        Ok(Self(parts))
    }
}

/// Whether a text can be the name of a row: it is not empty and has no control characters. Not
/// every store accepts a query for another text.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}

/// The query of a request. Unknown parameters are rejected.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let empty = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
        let mut empty = empty.filter_map(|member| member.strip_suffix('='));
        if let Some(name) = empty.next() {
            let detail =
                format!("query parameter `{name}` is empty; give it a value or leave it out");
            return Err(Problem::invalid("bad_query", detail));
        }
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        let axum::extract::Query(query) =
            read.map_err(|error| Problem::invalid("bad_query", error.body_text()))?;
        Ok(Self(query))
    }
}
