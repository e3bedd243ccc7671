//! `POST /events`: posts events.

use axum::{
    Extension, Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tidegate_core::{
    delivery::MAX_DELAY_MS,
    event::{MAX_EVENTS, NewEvent, Posted, PostedView},
    json::MAX_EVENT_BYTES,
    time::Timestamp,
};

use super::{
    Caller,
    body::{Body, Query, object, raw},
    deferred,
    idempotency_key::Recomputable,
    operation::Operation,
    problem::Problem,
    schema::DateTime,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/events", "postEvents", post)
            .input()
            .says("Post one event or a list, all or none. The response has the outcome of each.")
            .query::<Options>()
            .body_as(|schemas| {
                let event = schemas.subschema_for::<EventBody<'_>>();
                let (least, most) = (1, MAX_EVENTS);
                let list = json_schema!({
                    "type": "array", "items": event, "minItems": least, "maxItems": most,
                });
                json_schema!({ "anyOf": [event, list] })
            })
            .answers::<PostedEvents<'_>>(202, "All events are durable.")
            .answers::<PostedEvents<'_>>(200, "The outcomes of a dry run."),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewEvent")]
struct EventBody<'a> {
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^\u0000]*$"))]
    name: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^\u0000]*$"))]
    dedupe_id: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    ts: Option<String>,
    /// When the event is delivered. Until then it starts and wakes no run.
    #[schemars(with = "Option<DateTime>")]
    deliver_at: Option<Value>,
    /// The time from now to the delivery, in milliseconds.
    #[schemars(with = "Option<u64>", range(max = MAX_DELAY_MS))]
    delay_ms: Option<Value>,
}

impl EventBody<'_> {
    fn read(self, place: usize) -> Result<NewEvent, Problem> {
        let ts = self.ts.map(|ts| {
            Timestamp::parse_rfc3339(&ts).ok_or_else(|| {
                let detail = format!(
                    "event {place}: `ts` must be a time like \
                                      2026-11-16T12:00:00Z, got `{ts}`"
                );
                Problem::invalid("bad_time", detail)
            })
        });
        let data = raw(self.data, MAX_EVENT_BYTES)?;
        let (at, delay) = (self.deliver_at.as_ref(), self.delay_ms.as_ref());
        let deliver = deferred::read(at, delay, &format!("event {place}: "))?;
        Ok(NewEvent {
            name: self.name,
            data,
            dedupe_id: self.dedupe_id,
            ts: ts.transpose()?,
            deliver,
            attributes: None,
        })
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Options {
    /// Whether to return the outcomes without any effect.
    #[serde(default)]
    dry_run: bool,
}

/// The outcomes of all events of a request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Posted")]
struct PostedEvents<'a> {
    events: Vec<PostedView<'a>>,
}

/// Posts one event or a list of events, all or none.
pub(super) async fn post(
    caller: Caller,
    Query(options): Query<Options>,
    body: Body,
) -> Result<Response, Problem> {
    let engine = &caller.engine;
    let json = body.json()?.get();
    let many = json.starts_with('[').then(|| serde_json::from_str::<Vec<&RawValue>>(json));
    let events = many.and_then(Result::ok).map_or_else(
        || Ok(vec![object(json)?]),
        |events| events.into_iter().map(|event| object(event.get())).collect(),
    );
    let events: Vec<EventBody<'_>> = events?;
    if events.is_empty() || events.len() > MAX_EVENTS {
        let detail = format!("a request must have 1 to {MAX_EVENTS} events, got {}", events.len());
        return Err(Problem::invalid("too_many_events", detail));
    }
    let read = events.into_iter().enumerate().map(|(place, event)| event.read(place));
    let events = read.collect::<Result<Vec<_>, _>>()?;
    let (status, posted) = if options.dry_run {
        (StatusCode::OK, engine.dry_run(events).await?)
    } else {
        (StatusCode::ACCEPTED, engine.send_all(events).await?)
    };
    let events = posted.iter().map(Posted::view).collect();
    let recomputable = (!options.dry_run).then_some(Extension(Recomputable));
    Ok((status, recomputable, Json(PostedEvents { events })).into_response())
}
