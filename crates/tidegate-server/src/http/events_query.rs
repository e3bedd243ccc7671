//! `GET /events` and `GET /receipts`: posted events and their verdicts.

use axum::Json;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate::RunId;
use tidegate_core::{
    flow::{
        gate_owners,
        verdict::{OUTCOMES, VerdictView},
    },
    id::EventId,
    observe::{
        Part,
        events::Name,
        receipts::{ReceiptEntry, ReceiptFilter},
    },
    row::{DeliveryEnd, Event, Receipt},
    schedule::CATCH_UP,
};

use super::{
    Caller,
    body::{At, Query, as_is, newest_below, page_size},
    operation::Operation,
    problem::Problem,
    runs::{RunView, view},
    schema::{Cursor, DateTime, PageSize},
};

/// Maximum size of a payload in a list, in bytes; `GET /events/{id}` returns larger ones too.
const SHOWN_DATA: usize = 4096;

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/events", "listEvents", list)
            .says("List posted events, newest first.")
            .query::<ListQuery>()
            .answers::<Events>(200, "A page of events."),
        Operation::get("/events/{id}", "showEvent", show)
            .says("Show an event with its verdicts and its runs.")
            .answers::<EventDetailsView>(200, "The event, its receipts and its runs."),
        Operation::get("/receipts", "listReceipts", receipts)
            .says("List verdicts other than plain starts, newest first.")
            .query::<ReceiptQuery>()
            .answers::<Receipts>(200, "A page of receipts."),
    ]
}

/// An event, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
pub(super) struct EventView {
    id: EventId,
    name: String,
    #[schemars(with = "DateTime")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    ts: Option<String>,
    /// When a deferred event is, was, or would have been delivered, at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    deliver_at: Option<String>,
    /// When a deferred event was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    delivered_at: Option<String>,
    /// When a deferred event was cancelled before its delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    cancelled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    /// Size of the payload in bytes, if it is too large for the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_bytes: Option<usize>,
}

impl EventView {
    pub(super) fn listed(event: &Event) -> Self {
        let bytes = event.data.as_str().len();
        let large = bytes > SHOWN_DATA;
        let data = (!large).then(|| as_is(&event.data));
        Self { data, data_bytes: large.then_some(bytes), ..Self::whole(event) }
    }

    fn whole(event: &Event) -> Self {
        let end = event.delivery.and_then(|delivery| delivery.end);
        let (delivered_at, cancelled_at) = match end {
            Some(DeliveryEnd::Delivered { at, .. }) => (Some(at.rfc3339()), None),
            Some(DeliveryEnd::Cancelled { at }) => (None, Some(at.rfc3339())),
            None => (None, None),
        };
        Self {
            deliver_at: event.delivery.map(|delivery| delivery.at.rfc3339()),
            delivered_at,
            cancelled_at,
            id: event.id,
            name: event.name.clone(),
            at: event.at.rfc3339(),
            ts: event.ts.map(tidegate_core::time::Timestamp::rfc3339),
            data: Some(as_is(&event.data)),
            data_bytes: None,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    name: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Events {
    events: Vec<EventView>,
    next: Option<String>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Events>, Problem> {
    let name = query.name.as_deref().map(Name::parse).unwrap_or_default();
    let part = Part { below: newest_below(query.cursor)?, limit: page_size(query.limit)? };
    let page = caller.engine.events(&name, part).await?;
    let events = page.items.iter().map(EventView::listed).collect();
    Ok(Json(Events { events, next: page.next.map(|next| next.to_string()) }))
}

/// A receipt, as the API returns it. Its verdict has the same members as in the answer to the
/// event's sender.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Receipt")]
struct ReceiptView {
    #[schemars(with = "DateTime")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    app: String,
    workflow: String,
    /// The verdict, stored as it was sent.
    #[serde(flatten)]
    #[schemars(with = "ReceiptVerdict")]
    verdict: Value,
    /// Reason of the cancellation, if the run was cancelled. `survivor` is the other run with the
    /// same idempotency key, if it was cancelled as a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    survivor: Option<RunId>,
}

/// Members of a stored verdict: those of the answer to the event's sender, and those about missed
/// occurrences of a schedule.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes stored JSON")]
struct ReceiptVerdict {
    #[serde(flatten)]
    verdict: VerdictView,
    /// Controls whose key is missing in the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_missing: Option<Vec<String>>,
    /// Number of occurrences that a schedule has missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u32>,
    /// Whether `missed` is only a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<bool>,
    /// Time of the last missed occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    planned_at: Option<String>,
    /// Time of the next occurrence of the schedule, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_or_null")]
    next: Option<Value>,
}

/// Schema of a time that may be null.
fn time_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "oneOf": [{ "type": "string", "format": "date-time" }, { "type": "null" }] })
}

impl From<ReceiptEntry> for ReceiptView {
    fn from(ReceiptEntry { receipt, event: event_id, cancelled }: ReceiptEntry) -> Self {
        let Receipt { app, workflow, verdict, .. } = receipt;
        let (reason, survivor) = cancelled.unzip();
        let survivor = survivor.flatten();
        Self { at: receipt.at.rfc3339(), event_id, app, workflow, verdict, reason, survivor }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "EventDetails")]
pub(super) struct EventDetailsView {
    #[serde(flatten)]
    event: EventView,
    receipts: Vec<ReceiptView>,
    runs: Vec<RunView>,
}

async fn show(caller: Caller, At(id): At<String>) -> Result<Json<EventDetailsView>, Problem> {
    let unknown = || Problem::not_found("no_event", format!("there is no event `{id}`"));
    let event = id.parse().map_err(|_| unknown())?;
    let details = caller.engine.event(event).await?.ok_or_else(unknown)?;
    let receipts = details.receipts.into_iter().map(ReceiptView::from);
    Ok(Json(EventDetailsView {
        event: EventView::whole(&details.event),
        receipts: receipts.collect(),
        runs: details.runs.iter().filter_map(view).collect(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReceiptQuery {
    event: Option<String>,
    app: Option<String>,
    workflow: Option<String>,
    control: Option<String>,
    key: Option<String>,
    #[schemars(extend("enum" = OUTCOMES))]
    outcome: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    #[schemars(with = "Option<Cursor>")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Receipts {
    receipts: Vec<ReceiptView>,
    next: Option<String>,
}

async fn receipts(
    caller: Caller,
    Query(query): Query<ReceiptQuery>,
) -> Result<Json<Receipts>, Problem> {
    let ReceiptQuery { app, workflow, control, key, outcome, .. } = query;
    if let Some(word) = &outcome
        && !OUTCOMES.contains(&word.as_str())
    {
        let words = OUTCOMES.join(", ");
        let detail = format!("`outcome` must be one of {words}, got `{word}`");
        return Err(Problem::invalid("bad_query", detail));
    }
    let control = control.map(known_control).transpose()?;
    let event = query.event.map(event_of).transpose()?;
    let which = ReceiptFilter { event, app, workflow, control, key, outcome };
    let part = Part { below: newest_below(query.cursor)?, limit: page_size(query.limit)? };
    let page = caller.engine.receipts(&which, part).await?;
    let receipts = page.items.into_iter().map(ReceiptView::from).collect();
    Ok(Json(Receipts { receipts, next: page.next.map(|next| next.to_string()) }))
}

/// Parses the id of an event in a query.
pub(super) fn event_of(id: String) -> Result<EventId, Problem> {
    let bad = || format!("`event` must be the id of an event, like evt_…, got `{id}`");
    id.parse().map_err(|_| Problem::invalid("bad_query", bad()))
}

/// Checks the name of a control in a query on gates or receipts.
pub(super) fn known_control(word: String) -> Result<String, Problem> {
    let mut names = gate_owners();
    names.push(CATCH_UP);
    if names.contains(&word.as_str()) {
        return Ok(word);
    }
    let detail = format!("`control` must be one of {}, got `{word}`", names.join(", "));
    Err(Problem::invalid("bad_query", detail))
}
