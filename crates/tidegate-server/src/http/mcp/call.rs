//! `tools/call`: calls an action and returns the end of its run as the result of the tool.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tidegate::{Engine, RunId};
use tidegate_core::{
    flow::Verdict,
    json::{MAX_EVENT_BYTES, Payload},
    request,
    row::{Ended, Ending},
};
use tokio::sync::mpsc;

use super::{
    frame::{Answer, Fault, MethodResult, Request, is_id, to_raw},
    tools::{self, Tool},
};
use crate::http::{
    App, Caller, access, actions,
    body::as_is,
    problem::Problem,
    run_stream::{self, Receiver},
    workflows,
};

/// Maximum time in the queue of a gate, if the policy sets none (spec mcp). Clients give up after a
/// while, and a call that no client waits for should not keep its position in the queue.
const MAX_WAIT_MS: u64 = 30_000;

/// Time to wait for a result that is sent as one JSON response. After it the response becomes a
/// stream, so that no proxy closes the connection as idle.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Poll interval of a run whose progress is streamed.
const LOOK: Duration = Duration::from_millis(200);

/// Number of messages that are buffered for a slow client before polling pauses.
const WAITING: usize = 16;

#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(rename = "tidegate/user")]
    user: Option<String>,
}

/// Outcome of dispatching a call.
enum Called {
    /// The call continues as this run.
    Run(RunId),
    /// The call has ended without a run of its own: it was rejected, is invalid or is a duplicate.
    Over(MethodResult),
}

/// Answers a call. The answer is a stream if the client wants progress or the call takes long.
pub(super) async fn call(
    app: &App,
    caller: &Caller,
    request: &Request<'_>,
) -> Result<Response, Problem> {
    let respond = |result| Ok(Json(Answer::new(request.id, result)).into_response());
    let params: Params<'_> = match request.params() {
        Ok(params) => params,
        Err(fault) => return respond(Err(fault)),
    };
    let run = match dispatch(app, caller, request, &params).await? {
        Called::Run(run) => run,
        Called::Over(over) => return respond(over),
    };
    let engine = caller.engine.clone();
    if params.meta.progress_token.is_none()
        && let Ok(ended) = tokio::time::timeout(AT_ONCE, engine.ended_or_displaced(run)).await
    {
        return respond(result(ended));
    }
    let token = params.meta.progress_token.map(RawValue::to_owned);
    stream(Progress { engine, run, token, after: 0, steps: 0, said: None }, request.id)
}

/// Returns the result of a call, however long it takes.
pub(super) async fn result_of(
    app: &App,
    caller: &Caller,
    request: &Request<'_>,
) -> Result<MethodResult, Problem> {
    let params: Params<'_> = match request.params() {
        Ok(params) => params,
        Err(fault) => return Ok(Err(fault)),
    };
    Ok(match dispatch(app, caller, request, &params).await? {
        Called::Run(run) => result(caller.engine.ended_or_displaced(run).await),
        Called::Over(over) => over,
    })
}

/// Dispatches the action, as the HTTP operation does.
async fn dispatch(
    app: &App,
    caller: &Caller,
    message: &Request<'_>,
    params: &Params<'_>,
) -> Result<Called, Problem> {
    access::may_change(caller.key.as_deref())?;
    let wrong = |fault| Ok(Called::Over(Err(fault)));
    if params.meta.progress_token.is_some_and(|token| !is_id(token)) {
        return wrong(Fault::params("`progressToken` must be a string or a number"));
    }
    let catalog = workflows::catalog(&caller.engine).await?;
    let tools = tools::all(&catalog, super::ways(app, caller));
    let Some(tool) = tools.iter().find(|tool| tool.name == params.name) else {
        return wrong(Fault::params(format!(
            "there is no tool `{}`; tools/list lists them",
            params.name
        )));
    };
    let input = match tool.input(params.arguments) {
        Ok(input) => input,
        Err(fault) => return wrong(fault),
    };
    let request = request(tool, input, caller, message, params);
    let outcome = match request {
        Ok(request) => caller.engine.dispatch(request).await,
        Err(error) => Err(error),
    };
    let admitted = outcome
        .map_err(Problem::from)
        .and_then(|outcome| admitted(&caller.engine, &outcome.verdict));
    Ok(admitted.unwrap_or_else(|problem| Called::Over(Ok(refused(problem)))))
}

/// Returns the request of a call. It has no session. Its user is the one that the client names,
/// otherwise the name of the API key. A client may name any user: over HTTP, too, a key that may
/// call actions may do so.
fn request(
    tool: &Tool<'_>,
    input: &str,
    caller: &Caller,
    message: &Request<'_>,
    params: &Params<'_>,
) -> Result<request::Request, tidegate::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Called<'a> {
        tool: &'a str,
        request_id: &'a RawValue,
    }
    let mcp = to_raw(&Called { tool: &tool.name, request_id: message.id });
    let metadata = format!(r#"{{"mcp":{mcp}}}"#);
    let key = caller.key.as_ref().map(|key| key.name.clone());
    Ok(request::Request {
        app: tool.action.app.clone(),
        flow: tool.flow.to_owned(),
        action: tool.action.short_name().to_owned(),
        input: Payload::parse(input.as_bytes(), MAX_EVENT_BYTES)?,
        session: None,
        user: params.meta.user.clone().or(key),
        metadata: Payload::parse(metadata.as_bytes(), MAX_EVENT_BYTES)?,
        function_key: None,
        max_wait_ms: Some(MAX_WAIT_MS),
        deliver: None,
    })
}

/// Returns the run that processes a request, or the result if there is none.
fn admitted(engine: &Engine, verdict: &Verdict) -> Result<Called, Problem> {
    if let Verdict::Deduped { run, .. } = verdict {
        return Ok(Called::Over(Ok(deduped(*run))));
    }
    verdict.run().map(Called::Run).ok_or_else(|| actions::refused(engine, verdict))
}

/// Returns the result of a duplicate: another call with the same idempotency key was first.
fn deduped(first: Option<RunId>) -> Box<RawValue> {
    let detail = "duplicate: an earlier call has the same idempotency key";
    error(&json!({ "error": "deduped", "detail": detail, "requestId": first }))
}

/// Returns the result of a tool, made from the end of its run.
fn result(ended: Result<Ended, tidegate::Error>) -> MethodResult {
    let ended = ended.map_err(|error| Fault::internal(error.to_string()))?;
    let request_id = ended.id;
    if let Some(survivor) = ended.ending.deduped_by() {
        return Ok(deduped(Some(survivor)));
    }
    Ok(match &ended.ending {
        Ending::Completed { output } => completed(output, request_id),
        Ending::Failed { error: fault } => error(&json!({
            "error": fault.code, "detail": fault.message, "requestId": request_id,
            "state": "failed",
        })),
        Ending::Cancelled { reason, .. } => {
            let failure = json!({
                "error": "cancelled", "detail": reason, "requestId": request_id,
                "state": "cancelled",
            });
            // The same errors as over HTTP: some endings have their own code there.
            actions::answered(request_id, ended).map_or_else(refused, |_| error(&failure))
        }
    })
}

/// Result of a tool, as it is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    content: [Content; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Box<RawValue>>,
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

#[derive(Serialize)]
struct Content {
    r#type: &'static str,
    text: String,
}

impl Content {
    fn text(text: impl Into<String>) -> [Self; 1] {
        [Self { r#type: "text", text: text.into() }]
    }
}

fn completed(output: &Payload, request_id: RunId) -> Box<RawValue> {
    let text = serde_json::from_str(output.as_str()).unwrap_or_else(|_| output.as_str().to_owned());
    to_raw(&ToolResult {
        content: Content::text(text),
        structured_content: output.as_str().starts_with('{').then(|| as_is(output)),
        is_error: false,
        meta: Some(json!({ "tidegate/requestId": request_id })),
    })
}

fn refused(problem: Problem) -> Box<RawValue> {
    error(&json!(problem.into_body()))
}

/// Returns a tool result for an error that the model must see: a code, and a text that says how to
/// fix it.
fn error(what: &Value) -> Box<RawValue> {
    let part = |name: &str| what.get(name).and_then(Value::as_str).unwrap_or_default();
    to_raw(&ToolResult {
        content: Content::text(format!("{}: {}", part("error"), part("detail"))),
        structured_content: Some(to_raw(what)),
        is_error: true,
        meta: None,
    })
}

/// Streams the progress of a run, and finally its end. If the client disconnects, the run
/// continues.
fn stream(mut progress: Progress, id: &RawValue) -> Result<Response, Problem> {
    let room = run_stream::room()?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let id = id.to_owned();
    tokio::spawn(async move {
        let _room = room;
        loop {
            let (messages, over) = match progress.look().await {
                Ok((messages, None)) => (messages, None),
                Ok((messages, Some(ended))) => (messages, Some(result(Ok(ended)))),
                Err(error) => (Vec::new(), Some(result(Err(error)))),
            };
            let last = over.map(|it| to_raw(&Answer::new(&id, it)).get().to_owned());
            let ends = last.is_some();
            for message in messages.into_iter().chain(last) {
                let event = Ok::<_, Infallible>(Event::default().event("message").data(message));
                if sender.send(event).await.is_err() {
                    return;
                }
            }
            if ends {
                return;
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    });
    Ok(Sse::new(Receiver(receiver)).keep_alive(KeepAlive::default()).into_response())
}

/// A run whose progress is streamed.
struct Progress {
    engine: Engine,
    run: RunId,
    /// Progress token that the client sent with the call; `None` if it wants no progress.
    token: Option<Box<RawValue>>,
    after: u32,
    steps: u64,
    said: Option<String>,
}

impl Progress {
    /// Returns the messages since the last poll, and the end of the run if it has ended.
    async fn look(&mut self) -> Result<(Vec<String>, Option<Ended>), tidegate::Error> {
        // The state is read before the chunks: a run that has ended emits no more chunks, so none
        // is missed.
        let (_, ended) = self.engine.look_up(self.run).await?;
        let mut messages = Vec::new();
        if let Some(newer) = ended.as_ref().and_then(|ended| ended.ending.carried_by()) {
            self.run = newer;
            return Ok((messages, None));
        }
        if self.token.is_none() {
            return Ok((messages, ended));
        }
        if ended.is_none() {
            let why = self.engine.why(self.run).await?;
            let said = format!("{}: {}", why.state, why.sentence);
            if self.said.as_ref() != Some(&said) {
                messages.extend(self.notification(&said));
                self.said = Some(said);
            }
        }
        for chunk in run_stream::emitted(&self.engine, self.run, &mut self.after).await? {
            messages.extend(self.notification(chunk.data.as_str()));
        }
        Ok((messages, ended))
    }

    /// Returns a `notifications/progress` message. Its progress is a counter, because the total is
    /// unknown.
    fn notification(&mut self, said: &str) -> Option<String> {
        let token = self.token.as_ref()?;
        self.steps += 1;
        let said = to_raw(&said);
        let steps = self.steps;
        // Built as text: a progress token may be a number that a `Value` cannot hold.
        Some(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{steps},"message":{said}}}}}"#
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::{super::super::ending::Ending, Progress};

    /// The last chunks of a run are sent before its end, whichever read of a poll the run ends
    /// after.
    #[tokio::test]
    async fn the_last_chunks_come_before_the_result() {
        for reads in 0..8 {
            let ending = Ending::begin().await;
            let mut progress = Progress {
                engine: ending.engine.clone(),
                run: ending.run,
                token: Some(to_raw_value(&1).unwrap()),
                after: 0,
                steps: 0,
                said: None,
            };
            ending.end_behind(reads);
            let mut said = Vec::new();
            loop {
                let (messages, ended) = progress.look().await.unwrap();
                said.extend(messages);
                if ended.is_some() {
                    break;
                }
            }
            for chunk in ["first", "last"] {
                let count =
                    said.iter().filter(|it| it.contains(&format!("\\\"{chunk}\\\""))).count();
                assert_eq!(
                    count, 1,
                    "chunk {chunk} must be sent once (the run ends after read {reads}): {said:?}"
                );
            }
            ending.engine.shutdown().await;
        }
    }
}
