//! `POST /flows/{flow}/actions/{action}`: a request to an action, arbitrated by the action's
//! policy.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate::{Engine, RunId};
use tidegate_core::{
    command::Refusal,
    delivery::MAX_DELAY_MS,
    event::OutcomeView,
    flow::{Verdict, verdict::DEFERRED},
    json::MAX_EVENT_BYTES,
    request::Request,
    row::{Ended, Ending, RunError},
    run::sweep::WAITED_TOO_LONG,
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body, Query, as_is, raw},
    deferred,
    operation::Operation,
    problem::Problem,
    schema::{DateTime, Name},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/flows/{flow}/actions/{action}", "callAction", call)
            .input()
            .says("Send a request to an action, arbitrated by its policy.")
            .query::<Options>()
            .maybe_body::<RequestBody<'_>>()
            .answers::<Answers<'_>>(
                200,
                "The request has ended, is a duplicate, or would have this outcome.",
            )
            .answers::<Accepted>(202, "The request is accepted."),
    ]
}

/// Maximum of `wait`.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Maximum of `wait` for a repeated request. It is short, because the first request may still be
/// waiting for the same run.
const MAX_WAIT_AGAIN: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequestBody<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[schemars(with = "Option<Name>")]
    session: Option<String>,
    #[schemars(with = "Option<Name>")]
    user: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    /// When the request is delivered. Until then its run does not exist.
    #[schemars(with = "Option<DateTime>")]
    deliver_at: Option<Value>,
    /// The time from now to the delivery, in milliseconds.
    #[schemars(with = "Option<u64>", range(max = MAX_DELAY_MS))]
    delay_ms: Option<Value>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Options {
    app: Option<String>,
    /// Time to wait for the end of the run, in milliseconds.
    wait: Option<u64>,
    /// Whether to return the outcome without any effect.
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn call(
    caller: Caller,
    At((flow, action)): At<(String, String)>,
    Query(options): Query<Options>,
    body: Body,
) -> Result<Response, Problem> {
    let engine = &caller.engine;
    let read: RequestBody<'_> = body.read()?;
    let request = Request {
        app: caller.app(options.app),
        flow,
        action,
        input: raw(read.input, MAX_EVENT_BYTES)?,
        session: read.session,
        user: read.user,
        metadata: raw(read.metadata, MAX_EVENT_BYTES)?,
        function_key: None,
        max_wait_ms: None,
        deliver: deferred::read(read.deliver_at.as_ref(), read.delay_ms.as_ref(), "")?,
    };
    if options.dry_run {
        return Ok(Json(engine.would_dispatch(request).await?.view()).into_response());
    }
    let verdict = engine.dispatch(request).await?.verdict;
    if let Verdict::Deduped { run, .. } = verdict {
        return Ok(deduped(run));
    }
    let (run, coalesced) = match verdict {
        Verdict::Coalesced { run, .. } | Verdict::Buffered { run, .. } => (run, true),
        verdict => (verdict.run().ok_or_else(|| refused(engine, &verdict))?, false),
    };
    let most = if caller.is_again() { MAX_WAIT_AGAIN } else { MAX_WAIT };
    let wait = options.wait.map(|ms| Duration::from_millis(ms).min(most)).unwrap_or_default();
    if !wait.is_zero()
        && let Ok(ended) = tokio::time::timeout(wait, engine.ended_or_displaced(run)).await
    {
        return answered(run, ended?);
    }
    // A repeated request has waited long enough: the first one is still waiting, or its client has
    // disconnected.
    if !wait.is_zero() && caller.is_again() {
        return Err(tidegate::Error::from(Refusal::InProgress).into());
    }
    let carrier = carrier(engine, run).await?;
    let why = engine.why(carrier).await.ok();
    let state = why.as_ref().map_or("queued", |why| why.state);
    let deliver_at = why.and_then(|why| why.deliver_at);
    let (outcome, displaced) = (deliver_at.map(|_| DEFERRED), carrier != run);
    let deliver_at = deliver_at.map(Timestamp::rfc3339);
    let request_id = carrier;
    let accepted = Accepted { request_id, state, outcome, deliver_at, coalesced, displaced };
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// Answer to a request whose run has not ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AcceptedRequest")]
struct Accepted {
    request_id: RunId,
    state: &'static str,
    /// `deferred` if the request waits for its delivery: its run does not exist yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// When a deferred request is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    deliver_at: Option<String>,
    /// Whether the request was merged with others into one run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    coalesced: bool,
    /// Whether a newer request replaced this one before its run started. `requestId` is the run of
    /// the newer request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    displaced: bool,
}

/// Answer to a request with the same idempotency key as an earlier one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DuplicateRequest")]
struct Duplicate {
    deduped: bool,
    /// Run of the first request.
    request_id: Option<RunId>,
}

/// Final answers to a request.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "describes the answers; each is sent as its own type")]
#[expect(clippy::large_enum_variant, reason = "no value of it exists")]
enum Answers<'a> {
    Ended(AnswerView),
    Duplicate(Duplicate),
    DryRun(OutcomeView<'a>),
}

/// Returns the run that processes a request now. It differs from `run` if a newer request replaced
/// this one before its run started.
pub(super) async fn carrier(engine: &Engine, mut run: RunId) -> Result<RunId, tidegate::Error> {
    while let (_, Some(ended)) = engine.look_up(run).await? {
        match ended.ending.carried_by() {
            Some(newer) => run = newer,
            None => break,
        }
    }
    Ok(run)
}

/// Answer to a request whose caller waited until the run ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EndedRequest")]
struct AnswerView {
    request_id: RunId,
    state: &'static str,
    /// Whether a newer request replaced this one before its run started. This is the end of the
    /// newer request's run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    displaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Returns the response to a duplicate. Another request with the same idempotency key arrived
/// first, or its debounce window closed first.
fn deduped(first: Option<RunId>) -> Response {
    Json(Duplicate { deduped: true, request_id: first }).into_response()
}

pub(super) fn answered(run: RunId, ended: Ended) -> Result<Response, Problem> {
    if let Some(survivor) = ended.ending.deduped_by() {
        return Ok(deduped(Some(survivor)));
    }
    let (request_id, state) = (ended.id, ended.ending.state());
    let displaced = request_id != run;
    let (output, error, reason) = (None, None, None);
    let mut view = AnswerView { request_id, state, displaced, output, error, reason };
    match ended.ending {
        Ending::Completed { output } => view.output = Some(as_is(&output)),
        Ending::Failed { error } => view.error = Some(error),
        Ending::Cancelled { reason, by: Some(by) } => {
            let problem = Problem::new(StatusCode::CONFLICT, "replaced", reason);
            return Err(problem.with(|members| members.request_id = Some(by)));
        }
        Ending::Cancelled { reason, by: None } if reason == Ending::EXPIRED => {
            let detail = "the request expired: it did not start in time";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "expired", detail);
            return Err(problem
                .with(|members| members.request_id = Some(request_id))
                .retry_after(1));
        }
        Ending::Cancelled { reason, by: None } if reason == Ending::DISPLACED => {
            let detail = "a newer request displaced it from a full queue";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "displaced", detail);
            return Err(problem
                .with(|members| members.request_id = Some(request_id))
                .retry_after(1));
        }
        Ending::Cancelled { reason, by: None } if reason == WAITED_TOO_LONG => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let problem = Problem::new(status, "waited_too_long", reason);
            return Err(problem.with(|it| it.request_id = Some(request_id)).retry_after(1));
        }
        Ending::Cancelled { reason, by: None } => view.reason = Some(reason),
    }
    Ok(Json(view).into_response())
}

/// Returns the response to a request that was not admitted.
pub(super) fn refused(engine: &Engine, verdict: &Verdict) -> Problem {
    match verdict {
        Verdict::Skipped { by, holder } | Verdict::HeldByAncestor { by, holder } => {
            let (control, key) = (by.control, &by.key);
            let detail = format!("{control} gate of {key} is held by run {holder}");
            let problem = Problem::new(StatusCode::CONFLICT, "busy", detail);
            problem.with(|members| members.request_id = Some(*holder))
        }
        Verdict::Dropped { by, retry_at } => {
            let detail = format!("{} of {} is exceeded", by.control, by.key);
            let seconds = seconds_until(engine, *retry_at);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
            problem.with(|it| it.retry_at = Some(retry_at.rfc3339())).retry_after(seconds)
        }
        Verdict::QueueFull { by, waiting } => {
            let detail = format!("the {} queue of {} is full: {waiting} wait", by.control, by.key);
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", detail).retry_after(1)
        }
        verdict => Problem::invalid("rejected", verdict.to_value().to_string()),
    }
}

fn seconds_until(engine: &Engine, at: Timestamp) -> u64 {
    let micros = at.micros().saturating_sub(engine.now().micros()).max(0).unsigned_abs();
    micros.div_ceil(1_000_000).max(1)
}

#[cfg(test)]
mod tests {
    use tidegate::testing::TestHarness;

    use super::{Timestamp, seconds_until};

    /// After the time of `Retry-After` the meter admits the request: the header must not be rounded
    /// down.
    #[tokio::test]
    async fn whoever_comes_back_is_not_too_early() {
        let harness = TestHarness::new();
        let engine = harness.engine().start().await.unwrap();
        for (micros, seconds) in [
            (-1, 1),
            (0, 1),
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (1_999_999, 2),
            (60_000_000, 60),
            (60_000_001, 61),
        ] {
            let at = Timestamp::from_micros(harness.now().micros() + micros);
            assert_eq!(seconds_until(&engine, at), seconds, "{micros}");
        }
    }
}
