//! `POST /mcp`: the actions of all flows as tools of the Model Context Protocol.
//!
//! Streamable HTTP without sessions: every message is independent. So any server of the same store
//! can answer it, and a crash of a server loses no session.

mod call;
mod frame;
mod tools;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{json, value::RawValue};

use self::frame::{Answer, Answers, Fault, Message, MethodResult, REVISIONS, Request, to_raw};
use super::{App, Caller, body::Body, operation::Operation, problem::Problem, workflows};
use crate::ingress::Ingress;

/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 100;

/// Returns the HTTP operations that this file defines. A read-only key may list the tools; a call
/// of a tool with such a key is rejected when it is dispatched.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/mcp", "mcp", take)
            .input()
            .says("Send a Model Context Protocol message. The tools are the actions of all flows.")
            .read()
            .body::<Message<'_>>()
            .answers::<Answers>(200, "The response, or server-sent events that end with it.")
            .answers_nothing(202, "The message needs no response.")
            .answers::<Answer>(400, "The body is not a message."),
    ]
}

async fn take(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let revision = match revision(&headers) {
        Ok(revision) => revision,
        Err(fault) => return Ok(fault.refuse()),
    };
    let text: &RawValue = match serde_json::from_slice(body.bytes()) {
        Ok(text) => text,
        Err(error) => return Ok(Fault::parse(&error).refuse()),
    };
    if text.get().starts_with('[') {
        return batch(&app, &caller, revision, text).await;
    }
    match frame::read(text) {
        Ok(Some(request)) if request.method == "tools/call" => {
            call::call(&app, &caller, &request).await
        }
        Ok(Some(request)) => {
            let result = answer(&app, &caller, &request).await?;
            Ok(Json(Answer::new(request.id, result)).into_response())
        }
        Ok(None) => Ok(StatusCode::ACCEPTED.into_response()),
        Err(fault) => Ok(fault.refuse()),
    }
}

/// Returns the protocol revision of the client. Without the header it is the oldest revision, which
/// did not have this header.
fn revision(headers: &HeaderMap) -> Result<&'static str, Fault> {
    let Some(given) = headers.get("mcp-protocol-version") else { return Ok(REVISIONS[0]) };
    let given = given.to_str().unwrap_or_default();
    REVISIONS.into_iter().find(|it| *it == given).ok_or_else(|| Fault::revision(given))
}

/// Handles a batch, one message after another. Only the oldest revision has batches.
async fn batch(
    app: &App,
    caller: &Caller,
    revision: &str,
    text: &RawValue,
) -> Result<Response, Problem> {
    if revision != REVISIONS[0] {
        let said = format!("revision {revision} has no batches; send one message at a time");
        return Ok(Fault::invalid(said).refuse());
    }
    let messages: Vec<&RawValue> = serde_json::from_str(text.get()).unwrap_or_default();
    if messages.is_empty() || messages.len() > MAX_BATCH {
        let said = format!("a batch must have 1 to {MAX_BATCH} messages, got {}", messages.len());
        return Ok(Fault::invalid(said).refuse());
    }
    // All messages are parsed before any of them takes effect.
    let read: Result<Vec<_>, Fault> = messages.into_iter().map(frame::read).collect();
    let requests = match read {
        Ok(requests) => requests.into_iter().flatten(),
        Err(fault) => return Ok(fault.refuse()),
    };
    let mut answers = Vec::new();
    for request in requests {
        let result = match request.method.as_str() {
            "initialize" => {
                Err(Fault::invalid("`initialize` must not be in a batch; send it alone"))
            }
            _ => answer(app, caller, &request).await?,
        };
        answers.push(Answer::new(request.id, result));
    }
    if answers.is_empty() {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    Ok(Json(answers).into_response())
}

async fn answer(
    app: &App,
    caller: &Caller,
    request: &Request<'_>,
) -> Result<MethodResult, Problem> {
    Ok(match request.method.as_str() {
        "initialize" => frame::initialize(request),
        "ping" => Ok(to_raw(&json!({}))),
        "tools/list" => {
            let catalog = workflows::catalog(&caller.engine).await?;
            tools::list(&tools::all(&catalog, ways(app, caller)), request)
        }
        "tools/call" => call::result_of(app, caller, request).await?,
        method => Err(Fault::method(method)),
    })
}

/// Returns the ingress definitions of the config file, if the caller is in the workspace of that
/// file: they apply only there.
fn ways<'a>(app: &'a App, caller: &Caller) -> Option<&'a Ingress> {
    (caller.engine.workspace() == app.engine.workspace()).then_some(&*app.ways)
}
