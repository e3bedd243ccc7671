//! Header `Idempotency-Key`: a repeated request takes effect once and gets the same response.

use std::sync::Arc;

use axum::{
    body::{Bytes, to_bytes},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tidegate::{Engine, IdempotentCall};
use tidegate_core::{idempotency_key::IdempotentRequest, json::Payload};

use super::{middleware::Caller, problem::Problem};
use crate::keys::hash;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Maximum length of a key.
const MAX_KEY: usize = 255;

/// Maximum size of a stored response, in bytes. A longer response is computed again for a repeated
/// request.
const MAX_KEPT: usize = 256 * 1024;

/// Statuses of responses that are not stored: a repeated request may get another outcome.
const NOT_KEPT: [StatusCode; 6] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::CONFLICT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];

/// Marks a response that can be computed again from the stored effect, so it need not be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recomputable;

/// Marks a response that must not be sent again, for example because it contains a secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotReplayable;

/// Stored form of a response.
#[derive(Serialize, Deserialize)]
struct StoredResponse {
    status: u16,
    kind: String,
    body: String,
}

/// Returns the request with its idempotency key, if it has one.
pub(super) fn keyed(
    caller: &Caller,
    parts: &Parts,
    body: &Bytes,
) -> Result<Option<IdempotentRequest>, Problem> {
    let Some(key) = parts.headers.get(KEY) else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY {
        let detail =
            format!("Idempotency-Key must have 1 to {MAX_KEY} characters, got {}", key.len());
        return Err(Problem::invalid("bad_idempotency_key", detail));
    }
    // The parts are joined by line breaks, which neither a method nor a path can contain. The key
    // is last.
    let id = [parts.method.as_str().as_bytes(), parts.uri.path().as_bytes(), key.as_bytes()];
    let rest = [parts.uri.query().unwrap_or_default().as_bytes(), body];
    let ws = caller.engine.workspace().into();
    Ok(Some(IdempotentRequest { ws, id: hash(id.join(&b'\n')), hash: hash(rest.join(&b'\n')) }))
}

/// Returns the stored response of an earlier request with the same key.
pub(super) async fn stored(
    caller: &Caller,
    request: &IdempotentRequest,
) -> Result<Option<Response>, Problem> {
    let reply = caller.engine.kept(request).await?;
    let Some(response) = reply.and_then(|reply| reply.response) else { return Ok(None) };
    read(&response).map(Some)
}

/// Stores the response if it is final, and returns the response to send.
pub(super) async fn keep(
    engine: &Engine,
    once: &Arc<IdempotentCall>,
    response: Response,
) -> Result<Response, Problem> {
    let status = response.status();
    let final_word = status.is_success() || status.is_client_error();
    let marks = response.extensions();
    if marks.get::<NotReplayable>().is_some() || NOT_KEPT.contains(&status) || !final_word {
        return Ok(response);
    }
    if marks.get::<Recomputable>().is_some() && once.is_again() {
        return Ok(replayed(response));
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if marks.get::<Recomputable>().is_some() || !kind.contains("json") {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let made = Response::from_parts(parts, body.into());
    if text.len() > MAX_KEPT {
        return Ok(if once.is_again() { replayed(made) } else { made });
    }
    let own = write(&StoredResponse { status: status.as_u16(), kind, body: text });
    let first = engine.keep(once, own.clone()).await?;
    // A concurrent request with the same key may have stored its response first: then send that
    // one.
    if first != own {
        return read(&first);
    }
    Ok(if once.is_again() { replayed(made) } else { made })
}

fn write(response: &StoredResponse) -> Payload {
    let text = serde_json::to_vec(response).expect("a response can be serialized");
    Payload::parse(&text, usize::MAX).expect("serialized JSON can be parsed")
}

fn read(response: &Payload) -> Result<Response, Problem> {
    let unreadable = || {
        let detail = "the stored response cannot be read; see the server's log";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", detail)
    };
    let StoredResponse { status, kind, body } =
        serde_json::from_str(response.as_str()).map_err(|_| unreadable())?;
    let status = StatusCode::from_u16(status).map_err(|_| unreadable())?;
    Ok(replayed((status, [(header::CONTENT_TYPE, kind)], body).into_response()))
}

fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
