//! `GET /events` and `GET /receipts`: posted events and their verdicts.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate::RunId;
use tidegate_core::{
    flow::gate_owners,
    id::EventId,
    observe::{
        Part,
        events::Name,
        receipts::{ReceiptEntry, ReceiptFilter},
    },
    row::{Event, Receipt},
    schedule::CATCH_UP,
};

use super::{
    Caller,
    body::{At, MAX_PAGE, Query, as_is, newest_below, page_size},
    operation::Operation,
    problem::Problem,
    runs::{RunView, view},
    schema::{
        any, count, cursor, list as many, number, object, of, page, string, text, time, word,
    },
};

/// Largest payload in a list; `GET /events/{id}` has all payloads.
const SHOWN_DATA: usize = 4096;

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let name = || text(1, 257);
    vec![
        Operation::get("/events", "listEvents", list)
            .says("List posted events, newest first.")
            .query("name", name())
            .query("limit", number(1, MAX_PAGE))
            .query("cursor", cursor())
            .answers(200, "A page of events.", page("events", of("Event"))),
        Operation::get("/events/{id}", "showEvent", show)
            .says("Show an event with its verdicts and its runs.")
            .answers(200, "The event, its receipts and its runs.", of("Event")),
        Operation::get("/receipts", "listReceipts", receipts)
            .says("List verdicts other than plain starts, newest first.")
            .query("event", text(1, 256))
            .query("app", name())
            .query("workflow", name())
            .query("control", text(1, 32))
            .query("key", text(1, 1024))
            .query("outcome", word(&super::events::OUTCOMES))
            .query("limit", number(1, MAX_PAGE))
            .query("cursor", cursor())
            .answers(200, "A page of receipts.", page("receipts", of("Receipt"))),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let event = [
        ("id", string()),
        ("name", string()),
        ("at", time()),
        ("ts?", time()),
        ("data?", any()),
        ("dataBytes?", count()),
        ("receipts?", many(of("Receipt"))),
        ("runs?", many(of("Run"))),
    ];
    let receipt = [
        ("at", time()),
        ("eventId?", string()),
        ("app", string()),
        ("workflow", string()),
        ("outcome?", string()),
        ("control?", string()),
        ("key?", string()),
        ("runId?", string()),
        ("reason?", string()),
        ("survivor?", string()),
    ];
    vec![("Event", object(event)), ("Receipt", object(receipt))]
}

/// An event as clients see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    id: EventId,
    name: String,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    /// The size of the payload, where it is too large for a list.
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
        Self {
            id: event.id,
            name: event.name.clone(),
            at: event.at.rfc3339(),
            ts: event.ts.map(tidegate_core::time::Timestamp::rfc3339),
            data: Some(as_is(&event.data)),
            data_bytes: None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    name: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
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

/// A receipt as clients see it: the verdict in the form in which its sender got it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptView {
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<EventId>,
    app: String,
    workflow: String,
    #[serde(flatten)]
    verdict: Value,
    /// The reason if its run was cancelled, and the run that survived it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    survivor: Option<RunId>,
}

impl From<ReceiptEntry> for ReceiptView {
    fn from(ReceiptEntry { receipt, event: event_id, cancelled }: ReceiptEntry) -> Self {
        let Receipt { app, workflow, verdict, .. } = receipt;
        let (reason, survivor) = cancelled.unzip();
        let survivor = survivor.flatten();
        Self { at: receipt.at.rfc3339(), event_id, app, workflow, verdict, reason, survivor }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct EventDetailsView {
    #[serde(flatten)]
    event: EventView,
    receipts: Vec<ReceiptView>,
    runs: Vec<RunView>,
}

async fn show(caller: Caller, At(id): At<String>) -> Result<Json<EventDetailsView>, Problem> {
    let unknown = || Problem::not_found("no_event", format!("there is no event `{id}`"));
    let event = id.parse().map_err(|_| unknown())?;
    let told = caller.engine.event(event).await?.ok_or_else(unknown)?;
    let receipts = told.receipts.into_iter().map(ReceiptView::from);
    Ok(Json(EventDetailsView {
        event: EventView::whole(&told.event),
        receipts: receipts.collect(),
        runs: told.runs.iter().filter_map(view).collect(),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReceiptQuery {
    event: Option<String>,
    app: Option<String>,
    workflow: Option<String>,
    control: Option<String>,
    key: Option<String>,
    outcome: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
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
        && !super::events::OUTCOMES.contains(&word.as_str())
    {
        let words = super::events::OUTCOMES.join(", ");
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
    let mut known = gate_owners();
    known.push(CATCH_UP);
    if known.contains(&word.as_str()) {
        return Ok(word);
    }
    let detail = format!("`control` must be one of {}, got `{word}`", known.join(", "));
    Err(Problem::invalid("bad_query", detail))
}
