//! Streams: list, read and commit.
//!
//! The name of a stream is one segment of the path, percent-encoded: `/` is sent as `%2F`.

use axum::{Json, http::StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate::{Listed, Query as What, StreamEvent};
use tidegate_core::{
    id::EventId,
    json::{MAX_EVENT_BYTES, Payload},
    stream::{Expected, MAX_COMMIT_EVENTS, MAX_NAME_CHARS, NewLogged},
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body, Query, as_is, bad_cursor, is_name, page_size, raw},
    operation::Operation,
    problem::Problem,
    schema::{DateTime, Name, PageSize},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/streams", "listStreams", list)
            .says("List streams, by name.")
            .query::<ListQuery>()
            .answers::<ListView>(200, "A page of streams."),
        Operation::get("/streams/{stream}/events", "readStream", read_events)
            .says("Read the events of a stream from a version on, forwards or backwards.")
            .query::<ReadQuery>()
            .answers::<ReadView>(200, "A page of events, and the version of the stream."),
        Operation::post("/streams/{stream}/events", "commit", commit_events)
            .input()
            .says("Commit events to a stream, all or none, at the expected version.")
            .body::<CommitBody<'_>>()
            .answers::<CommittedView>(201, "All events are durable."),
    ]
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stream")]
struct StreamItem {
    name: String,
    version: i64,
    closed: bool,
    position: Option<i64>,
    #[schemars(with = "Option<DateTime>")]
    at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Streams")]
pub(super) struct ListView {
    streams: Vec<StreamItem>,
    next: Option<String>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<ListView>, Problem> {
    let limit = page_size(query.limit)?;
    if let Some(cursor) = query.cursor.as_ref().filter(|cursor| !is_name(cursor)) {
        return Err(bad_cursor(cursor));
    }
    let page = caller.engine.streams().list(query.cursor.as_deref(), limit).await?;
    let full = page.len() >= limit as usize;
    let next = page.last().filter(|_| full).map(|last| last.name.clone());
    let streams = page.into_iter().map(|listed| {
        let Listed { name, version, closed, position, at } = listed;
        StreamItem { name, version, closed, position, at: at.map(Timestamp::rfc3339) }
    });
    Ok(Json(ListView { streams: streams.collect(), next }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReadQuery {
    #[schemars(range(min = 0))]
    from: Option<i64>,
    #[serde(default)]
    backwards: bool,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
}

/// An event, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StreamEvent")]
struct EventView {
    id: String,
    stream: String,
    version: i64,
    position: i64,
    name: String,
    data: Box<RawValue>,
    #[schemars(with = "DateTime")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<String>,
}

impl From<StreamEvent> for EventView {
    fn from(event: StreamEvent) -> Self {
        Self {
            id: event.id.to_string(),
            stream: event.stream,
            version: event.version,
            position: event.position,
            name: event.name,
            data: as_is(&event.data),
            at: event.at.rfc3339(),
            correlation_id: event.correlation,
            causation_id: event.causation,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StreamEvents")]
pub(super) struct ReadView {
    events: Vec<EventView>,
    /// Version of the last event.
    version: i64,
    closed: bool,
    /// `from` of the next page, if there is one.
    next: Option<i64>,
}

async fn read_events(
    caller: Caller,
    At(stream): At<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<ReadView>, Problem> {
    let limit = page_size(query.limit)?;
    if let Some(from) = query.from.filter(|from| *from < 0) {
        let detail = format!("`from` must be a version, 0 or more, got {from}");
        return Err(Problem::invalid("bad_query", detail));
    }
    let streams = caller.engine.streams();
    let head = if is_name(&stream) { streams.head(&stream).await? } else { None };
    let head = head.ok_or_else(|| {
        let detail = format!("there is no stream `{stream}`: the first commit creates it");
        Problem::not_found("no_stream", detail)
    })?;
    let what = What::stream(&stream).limit(limit as usize);
    let what = if query.backwards { what.backwards() } else { what };
    let what = query.from.into_iter().fold(what, What::from_version);
    let page = streams.read(&what).await?;
    let step = if query.backwards { -1 } else { 1 };
    let next = page.events.last().filter(|_| page.more).map(|last| last.version + step);
    let events = page.events.into_iter().map(EventView::from).collect();
    Ok(Json(ReadView { events, version: head.version, closed: head.closed, next }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Commit")]
struct CommitBody<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = MAX_COMMIT_EVENTS))]
    events: Vec<NewEvent<'a>>,
    #[schemars(range(min = -1))]
    expected_version: Option<i64>,
    #[schemars(with = "Option<Name>")]
    correlation_id: Option<String>,
    #[schemars(with = "Option<Name>")]
    causation_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewStreamEvent")]
struct NewEvent<'a> {
    #[schemars(with = "Name")]
    name: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The result of a commit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Committed")]
pub(super) struct CommittedView {
    stream: String,
    /// Version of the last event.
    version: i64,
    events: Vec<CommittedEvent>,
}

/// Position of a committed event. The other members are not returned, because the sender has them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CommittedEvent {
    id: EventId,
    version: i64,
    position: i64,
    #[schemars(with = "DateTime")]
    at: String,
    correlation_id: Option<String>,
}

async fn commit_events(
    caller: Caller,
    At(stream): At<String>,
    body: Body,
) -> Result<(StatusCode, Json<CommittedView>), Problem> {
    let read: CommitBody<'_> = body.read()?;
    if let Some(version) = read.expected_version.filter(|version| *version < -1) {
        let detail = format!(
            "`expectedVersion` must be the version of the last event, or -1 for a new stream, got \
             {version}"
        );
        return Err(Problem::invalid("bad_body", detail));
    }
    for (name, id) in [("correlationId", &read.correlation_id), ("causationId", &read.causation_id)]
    {
        check_id(name, id.as_deref())?;
    }
    let events = read.events.into_iter().map(|event| {
        let (name, data) = (event.name, raw(event.data, MAX_EVENT_BYTES)?);
        Ok(NewLogged { name, data, meta: Payload::null() })
    });
    let events = events.collect::<Result<Vec<_>, Problem>>()?;
    let expected = read.expected_version.map(Expected::after);
    let streams = caller.engine.streams().under(read.correlation_id, read.causation_id);
    let committed = streams.commit(&stream, events, expected).await?;
    let version = committed.last().map_or(-1, |last| last.version);
    let events = committed.into_iter().map(|event| CommittedEvent {
        id: event.id,
        version: event.version,
        position: event.position,
        at: event.at.rfc3339(),
        correlation_id: event.correlation,
    });
    let events = events.collect();
    Ok((StatusCode::CREATED, Json(CommittedView { stream, version, events })))
}

fn check_id(name: &str, id: Option<&str>) -> Result<(), Problem> {
    let chars = id.map_or(1, |id| id.chars().count());
    if (1..=MAX_NAME_CHARS).contains(&chars) {
        return Ok(());
    }
    let detail = format!("`{name}` must have 1 to {MAX_NAME_CHARS} characters, got {chars}");
    Err(Problem::invalid("bad_body", detail))
}
