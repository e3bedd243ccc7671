//! `POST /webhooks/{flow}/{name}`: signed deliveries of other services.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tidegate_core::{
    flow::Verdict,
    json::{MAX_EVENT_BYTES, Payload},
    request::Request,
};

use super::{
    App, actions,
    body::{At, Body},
    operation::Operation,
    problem::Problem,
    schema::{any, object, string},
};
use crate::ingress::webhook::Webhook;

/// The operations of this file. The sender has no API key: the signature authenticates it.
pub(super) fn operations() -> Vec<Operation> {
    let told = || object([("status?", string()), ("requestId?", string())]);
    vec![
        Operation::post("/webhooks/{flow}/{name}", "takeDelivery", take)
            .says("Receive a delivery, signed with the scheme of its webhook.")
            .open()
            .any_query()
            .body(any())
            .answers(202, "The delivery is accepted, or ignored.", told())
            .answers(200, "The delivery is rejected by a policy, or is a duplicate.", told()),
    ]
}

async fn take(
    State(app): State<App>,
    At((flow, name)): At<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let known = app.ways.flow(&flow).and_then(|it| Some((it, it.webhooks.get(&name)?)));
    let (ways, webhook) = known.ok_or_else(|| {
        let detail = format!("flow `{flow}` has no webhook `{name}`");
        Problem::not_found("no_webhook", detail)
    })?;
    let checked = webhook.check(&headers, body.bytes(), app.engine.now());
    let delivery = checked
        .map_err(|reason| Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", reason))?;
    if let Some(challenge) = webhook.challenge(body.bytes()) {
        return Ok(Json(json!({ "challenge": challenge })).into_response());
    }
    if !webhook.takes(&delivery) {
        return Ok(told(StatusCode::ACCEPTED, json!({ "status": "ignored" })));
    }
    let input = Payload::parse(body.json()?.get().as_bytes(), MAX_EVENT_BYTES);
    let input = input.map_err(tidegate::Error::from)?;
    let (session, user) = webhook.subjects(&input);
    let request = Request {
        app: ways.app.clone(),
        action: webhook.action.clone(),
        flow,
        input,
        session,
        user,
        metadata: Payload::from_value(&Webhook::metadata(&name, &delivery)),
        function_key: None,
        max_wait_ms: None,
    };
    answer(&app, &app.engine.dispatch(request).await?.verdict)
}

/// Senders repeat a delivery unless the status is 2xx: so only verdicts that may change later get
/// another status.
fn answer(app: &App, verdict: &Verdict) -> Result<Response, Problem> {
    let status = match verdict {
        Verdict::Started { .. } | Verdict::Queued { .. } | Verdict::Replaced { .. } => {
            return Ok(told(StatusCode::ACCEPTED, json!({ "requestId": verdict.run() })));
        }
        Verdict::Dropped { .. } => return Err(actions::refused(&app.engine, verdict)),
        verdict => verdict.outcome(),
    };
    let run = match verdict {
        Verdict::Skipped { holder, .. } | Verdict::HeldByAncestor { holder, .. } => Some(*holder),
        verdict => verdict.carrier(),
    };
    let mut said = json!({ "status": status });
    if let Some(run) = run {
        said["requestId"] = json!(run);
    }
    Ok(told(StatusCode::OK, said))
}

fn told(status: StatusCode, said: Value) -> Response {
    (status, Json(said)).into_response()
}
