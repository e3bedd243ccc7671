//! `POST /flows/{flow}/sessions/{session}/messages`: sends a chat message and streams the reply.

use std::time::Duration;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response, sse::Event},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tidegate::{Engine, RunId};
use tidegate_core::{json::MAX_EVENT_BYTES, request::Request, row::Ending};

use super::{
    App, Caller, actions,
    body::{At, Body, raw},
    operation::Operation,
    problem::Problem,
    run_stream,
    schema::Name,
};

/// Maximum time to wait until the message is stored.
const APPENDING: Duration = Duration::from_secs(30);

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/flows/{flow}/sessions/{session}/messages", "sendMessage", send)
            .input()
            .says("Send a message to a conversation and stream the reply.")
            .maybe_body::<Message<'_>>()
            .answers_text(200, "Server-sent events.", "text/event-stream")
            .fails(&[502, 504]),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Message<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[schemars(with = "Option<Name>")]
    user: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Sends a message. The runs of the message and of its reply are admitted in one transaction, so
/// that neither a disconnect nor a crash can separate them. The reply starts when the message is
/// stored.
async fn send(
    State(app): State<App>,
    caller: Caller,
    At((flow, session)): At<(String, String)>,
    body: Body,
) -> Result<Response, Problem> {
    let engine = &caller.engine;
    let ways = app.ways.flow(&flow).and_then(|it| Some((it, it.chat.as_ref()?)));
    let (ways, chat) = ways.ok_or_else(|| {
        Problem::not_found(
            "no_chat",
            format!("flow `{flow}` is not a conversation: it has no `chat`"),
        )
    })?;
    let message: Message<'_> = body.read()?;
    let append = Request {
        app: ways.app.clone(),
        flow,
        action: chat.append.clone(),
        input: raw(message.input, MAX_EVENT_BYTES)?,
        session: Some(session),
        user: message.user,
        metadata: raw(message.metadata, MAX_EVENT_BYTES)?,
        function_key: None,
        max_wait_ms: None,
        deliver: None,
    };
    let respond = Request { action: chat.respond.clone(), ..append.clone() };
    let (outcome, respond) = engine.dispatch_then(append, respond).await?;
    let (Some(append), Some(respond)) = (outcome.verdict.carrier(), respond) else {
        return Err(actions::refused(engine, &outcome.verdict));
    };
    // The response is sent after the message is stored. So the messages of a sender that waits for
    // each response stay in order.
    wait_for_append(engine, append).await?;
    let reply = respond
        .verdict
        .carrier()
        .ok_or_else(|| actions::refused(engine, &respond.verdict))
        .map_err(|problem| problem.with(|members| members.appended = Some(true)))?;
    let first = json!({ "appended": true, "appendRequestId": append, "requestId": reply });
    let first = first.to_string();
    let first = Event::default().event("accepted").data(first);
    Ok(run_stream::stream(engine.clone(), reply, 0, Some(first))?.into_response())
}

/// Waits until the message is stored, so that the sender gets an error if it is not.
async fn wait_for_append(engine: &Engine, run: RunId) -> Result<(), Problem> {
    let not_appended = |detail: String| {
        let problem = Problem::new(StatusCode::BAD_GATEWAY, "not_appended", detail);
        problem.with(|it| (it.request_id, it.appended) = (Some(run), Some(false)))
    };
    let Ok(ended) = tokio::time::timeout(APPENDING, engine.ended(run)).await else {
        let detail =
            format!("run {run} has not stored the message yet; it continues in the background");
        return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "not_appended", detail)
            .with(|members| members.request_id = Some(run)));
    };
    match ended?.ending {
        Ending::Completed { .. } => Ok(()),
        Ending::Failed { error } => Err(not_appended(error.message)),
        Ending::Cancelled { reason, .. } => Err(not_appended(reason)),
    }
}
