//! `/deferred`: events and requests that are delivered later than they are sent.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate::{CancelledDelivery, DeferredEvent, EventId, RunId};
use tidegate_core::{
    delivery::{self, MAX_DELAY_MS},
    observe::Part,
    row::Kind,
    run::record::Until,
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body, Query, newest_below, page_size},
    events_query::EventView,
    operation::Operation,
    problem::Problem,
    schema::{Cursor, DateTime, PageSize},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/deferred", "listDeferred", list)
            .says("List events and requests that wait for their delivery, newest first.")
            .query::<ListQuery>()
            .answers::<Page>(200, "A page of deferred events and requests."),
        Operation::post("/deferred/{id}/cancel", "cancelDeferred", cancel)
            .says(
                "Cancel a deferred event or request before its delivery, and free its `dedupeId`.",
            )
            .maybe_body::<CancelBody>()
            .answers::<Cancelled>(200, "What was cancelled."),
    ]
}

/// Reads when an event or a request is delivered. `place` names it in the problem.
pub(super) fn read(
    deliver_at: Option<&Value>,
    delay_ms: Option<&Value>,
    place: &str,
) -> Result<Option<Until>, Problem> {
    let bad = |rule: String| Err(Problem::invalid("bad_time", format!("{place}{rule}")));
    match (deliver_at, delay_ms) {
        (None | Some(Value::Null), None | Some(Value::Null)) => Ok(None),
        (Some(at), None | Some(Value::Null)) => {
            match at.as_str().and_then(Timestamp::parse_rfc3339) {
                Some(at) => Ok(Some(Until::At(at))),
                None => {
                    bad(format!("`deliverAt` must be a time like 2026-11-16T12:00:00Z, got {at}"))
                }
            }
        }
        (None | Some(Value::Null), Some(delay)) => match delay.as_u64() {
            Some(ms @ ..=MAX_DELAY_MS) => Ok(Some(Until::In(ms))),
            _ => bad(format!(
                "`delayMs` must be a whole number of milliseconds from 0 to {MAX_DELAY_MS} \
                 (365 days), got {delay}"
            )),
        },
        (Some(at), Some(delay)) => bad(format!(
            "`deliverAt` ({at}) and `delayMs` ({delay}) exclude each other; leave one out"
        )),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
}

/// A deferred event or request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeferredEvent")]
pub(super) struct DeferredView {
    /// `event` or `request`. A request has the name of its action, and as data the document of the
    /// request.
    kind: Kind,
    #[serde(flatten)]
    event: EventView,
    /// The deduplication id of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_id: Option<String>,
    /// The run that a request gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RunId>,
}

impl From<DeferredEvent> for DeferredView {
    fn from(deferred: DeferredEvent) -> Self {
        let DeferredEvent { event, dedupe_id, run: request_id, .. } = deferred;
        Self { kind: event.kind, event: EventView::listed(&event), dedupe_id, request_id }
    }
}

/// A page of deferred events and requests.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeferredEvents")]
pub(super) struct Page {
    deferred: Vec<DeferredView>,
    next: Option<String>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Page>, Problem> {
    let part = Part { below: newest_below(query.cursor)?, limit: page_size(query.limit)? };
    let page = caller.engine.deferred(part).await?;
    let deferred = page.items.into_iter().map(DeferredView::from).collect();
    Ok(Json(Page { deferred, next: page.next.map(|next| next.to_string()) }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CancelDeferred")]
pub(super) struct CancelBody {
    reason: Option<String>,
}

/// A deferred event or request that was cancelled.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CancelledDelivery")]
pub(super) struct Cancelled {
    id: EventId,
    /// The name of the event, or of the action.
    name: String,
    /// When it would have been delivered.
    #[schemars(with = "DateTime")]
    deliver_at: String,
    /// The deduplication id, which can be used again.
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_id: Option<String>,
    /// The run that a request would have got. It has ended as cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RunId>,
}

async fn cancel(
    caller: Caller,
    At(id): At<String>,
    body: Body,
) -> Result<Json<Cancelled>, Problem> {
    let CancelBody { reason } = body.read()?;
    let reason = reason.unwrap_or_else(|| "cancelled by the user".to_owned());
    let cancelled = caller.engine.cancel_deferred(event_of(&id)?, &reason).await?;
    let CancelledDelivery { id, run: request_id, name, deliver_at, dedupe_id, .. } = cancelled;
    let deliver_at = deliver_at.rfc3339();
    Ok(Json(Cancelled { id, name, deliver_at, dedupe_id, request_id }))
}

/// Parses the id of an event, or of the run of a request.
fn event_of(id: &str) -> Result<EventId, Problem> {
    if let Ok(run) = id.parse::<RunId>() {
        return Ok(delivery::event_of(run));
    }
    let unknown = || Problem::not_found("no_event", format!("there is no event `{id}`"));
    id.parse().map_err(|_| unknown())
}
