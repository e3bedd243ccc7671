//! `Idempotency-Key`: a request that is sent again is answered as it was, and takes place once.

use std::sync::Arc;

use axum::{
    body::{Bytes, to_bytes},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use tidegate::{
    Engine, IdempotentCall,
    core::{idempotency_key::IdempotentRequest, json::Payload},
};

use super::{middleware::Caller, problem::Problem};
use crate::keys::hash;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key.
const MAX_KEY: usize = 255;

/// The longest answer that is kept as it was; a longer one is made again.
const MAX_KEPT: usize = 256 * 1024;

/// Answers that say "not now": asked again, it may be otherwise.
const NOT_KEPT: [StatusCode; 6] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::CONFLICT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];

/// Marks an answer that says what the effect came to and nothing else: it needs not be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recomputable;

/// Marks an answer that nobody may hear twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotReplayable;

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Told {
    status: u16,
    kind: String,
    body: String,
}

/// The request, if it has an idempotency key.
pub(super) fn asked(
    caller: &Caller,
    parts: &Parts,
    body: &Bytes,
) -> Result<Option<IdempotentRequest>, Problem> {
    let Some(key) = parts.headers.get(KEY) else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY {
        let detail = format!("an Idempotency-Key has 1 to {MAX_KEY} characters, got {}", key.len());
        return Err(Problem::invalid("bad_idempotency_key", detail));
    }
    // Neither a method nor a path has a line break, and the key comes last.
    let id = [parts.method.as_str().as_bytes(), parts.uri.path().as_bytes(), key.as_bytes()];
    let rest = [parts.uri.query().unwrap_or_default().as_bytes(), body];
    let ws = caller.engine.workspace().into();
    Ok(Some(IdempotentRequest { ws, id: hash(id.join(&b'\n')), hash: hash(rest.join(&b'\n')) }))
}

/// What its sender was told before.
pub(super) async fn told(
    caller: &Caller,
    asked: &IdempotentRequest,
) -> Result<Option<Response>, Problem> {
    let kept = caller.engine.kept(asked).await?;
    let Some(response) = kept.and_then(|kept| kept.response) else { return Ok(None) };
    read(&response).map(Some)
}

/// Keeps what its sender is told, where that is final.
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
    let told = write(&Told { status: status.as_u16(), kind, body: text });
    let kept = engine.keep(once, told.clone()).await?;
    // Somebody else may have answered it in the meantime.
    if kept != told {
        return read(&kept);
    }
    Ok(if once.is_again() { replayed(made) } else { made })
}

fn write(told: &Told) -> Payload {
    let text = serde_json::to_vec(told).expect("an answer can be written");
    Payload::parse(&text, usize::MAX).expect("what was written can be read")
}

fn read(kept: &Payload) -> Result<Response, Problem> {
    let unreadable = || {
        let detail = "what was answered before cannot be read; see the server's log";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "store_error", detail)
    };
    let Told { status, kind, body } =
        serde_json::from_str(kept.as_str()).map_err(|_| unreadable())?;
    let status = StatusCode::from_u16(status).map_err(|_| unreadable())?;
    Ok(replayed((status, [(header::CONTENT_TYPE, kind)], body).into_response()))
}

fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
