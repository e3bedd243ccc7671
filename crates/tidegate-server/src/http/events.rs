//! `POST /events`: ingress of events.

use axum::{Extension, Json, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tidegate_core::{
    event::{MAX_EVENTS, NewEvent},
    json::MAX_EVENT_BYTES,
    time::Timestamp,
};

use super::{
    Caller,
    body::{Body, Query, object, raw},
    idempotency_key::Recomputable,
    operation::Operation,
    problem::Problem,
    schema::{self, any, closed, count, flag, list, of, string, text, time},
};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let mut many = list(of("NewEvent"));
    (many["minItems"], many["maxItems"]) = (1.into(), MAX_EVENTS.into());
    vec![
        Operation::post("/events", "postEvents", post)
            .says("Post one event or a list, all or none. The response has the outcome of each.")
            .query("dryRun", flag())
            .body(json!({ "anyOf": [of("NewEvent"), many] }))
            .answers(202, "All events are durable.", of("Posted"))
            .answers(200, "The outcomes of a dry run.", of("Posted")),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let mut name = text(1, 256);
    name["pattern"] = r"^[^\u0000]*$".into();
    let event = [
        ("name", name.clone()),
        ("data?", any()),
        ("dedupeId?", schema::nullable(name)),
        ("ts?", schema::nullable(time())),
    ];
    let posted =
        [("id", string()), ("deduped", flag()), ("woke", count()), ("runs", list(of("Outcome")))];
    let outcome = [
        ("workflow", string()),
        ("version?", count()),
        ("outcome", schema::word(&OUTCOMES)),
        ("runId?", string()),
        ("control?", string()),
        ("key?", string()),
    ];
    vec![
        ("NewEvent", closed(event)),
        ("Posted", schema::object([("events", list(schema::object(posted)))])),
        ("Outcome", schema::object(outcome)),
    ]
}

/// The possible outcomes of an event.
pub(super) const OUTCOMES: [&str; 9] = [
    "started",
    "queued",
    "coalesced",
    "buffered",
    "dropped",
    "skipped",
    "deduped",
    "replaced",
    "rejected",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventBody<'a> {
    name: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    dedupe_id: Option<String>,
    ts: Option<String>,
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
        Ok(NewEvent { name: self.name, data, dedupe_id: self.dedupe_id, ts: ts.transpose()? })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Options {
    /// Whether to compute the outcomes without any effect.
    #[serde(default)]
    dry_run: bool,
}

/// Posts one event or a list of events, all or none.
pub(super) async fn post(
    caller: Caller,
    Query(options): Query<Options>,
    body: Body,
) -> Result<(StatusCode, Option<Extension<Recomputable>>, Json<Value>), Problem> {
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
    let told: Vec<_> = posted.iter().map(tidegate_core::event::Posted::to_value).collect();
    let made_again = (!options.dry_run).then_some(Extension(Recomputable));
    Ok((status, made_again, Json(json!({ "events": told }))))
}
