//! `POST /webhooks/{flow}/{name}`: signed deliveries of other services.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate::RunId;
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
};
use crate::ingress::webhook::Webhook;

/// Returns the HTTP operations that this file defines. They need no API key: the signature
/// authenticates the sender.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/webhooks/{flow}/{name}", "takeDelivery", take)
            .input()
            .says("Receive a delivery, signed with the scheme of its webhook.")
            .open()
            .any_query()
            .body::<Value>()
            .answers::<Delivery>(202, "The delivery is accepted, or ignored.")
            .answers::<Delivery>(
                200,
                "The delivery is rejected by a policy, is a duplicate, or is a challenge.",
            )
            .fails(&[401, 404, 429]),
    ]
}

/// Answer to a delivery of a webhook.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    /// `ignored`, or the outcome of a delivery that started no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RunId>,
    /// The challenge that the sender sent to verify the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<String>,
}

async fn take(
    State(app): State<App>,
    At((flow, name)): At<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let ingress = app.ways.flow(&flow).and_then(|it| Some((it, it.webhooks.get(&name)?)));
    let (ways, webhook) = ingress.ok_or_else(|| {
        let detail = format!("flow `{flow}` has no webhook `{name}`");
        Problem::not_found("no_webhook", detail)
    })?;
    let checked = webhook.check(&headers, body.bytes(), app.engine.now());
    let delivery = checked
        .map_err(|reason| Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", reason))?;
    if let Some(challenge) = webhook.challenge(body.bytes()) {
        let challenge = Some(challenge);
        return Ok(Json(Delivery { challenge, ..Delivery::default() }).into_response());
    }
    if !webhook.takes(&delivery) {
        let ignored = Delivery { status: Some("ignored"), ..Delivery::default() };
        return Ok((StatusCode::ACCEPTED, Json(ignored)).into_response());
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
        deliver: None,
    };
    answer(&app, &app.engine.dispatch(request).await?.verdict)
}

/// Returns the response to a delivery. Senders repeat a delivery unless its status is 2xx. So only
/// a verdict that may be different later gets another status.
fn answer(app: &App, verdict: &Verdict) -> Result<Response, Problem> {
    let status = match verdict {
        Verdict::Started { .. } | Verdict::Queued { .. } | Verdict::Replaced { .. } => {
            let accepted = Delivery { request_id: verdict.run(), ..Delivery::default() };
            return Ok((StatusCode::ACCEPTED, Json(accepted)).into_response());
        }
        Verdict::Dropped { .. } | Verdict::QueueFull { .. } => {
            return Err(actions::refused(&app.engine, verdict));
        }
        verdict => verdict.outcome(),
    };
    let run = match verdict {
        Verdict::Skipped { holder, .. } | Verdict::HeldByAncestor { holder, .. } => Some(*holder),
        verdict => verdict.carrier(),
    };
    let delivery = Delivery { status: Some(status), request_id: run, ..Delivery::default() };
    Ok(Json(delivery).into_response())
}
