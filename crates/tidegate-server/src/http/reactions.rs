//! Reactions: their positions in streams, and the actions unblock and reset.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::{StreamQuery, StreamView};
use tidegate_core::{
    reaction::{Filter, Pattern, Reaction, Remedy, StreamSelection},
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body, Query, bad_cursor, is_name, page_size},
    operation::Operation,
    problem::Problem,
    schema::{DateTime, Name, PageSize},
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/reactions", "listReactions", list)
            .says("List reactions and their positions in streams, by reaction and stream.")
            .query::<ListQuery>()
            .answers::<ListView>(200, "All definitions, and a page of positions."),
        Operation::post("/reactions/{name}/unblock", "unblock", unblock)
            .logs_body()
            .says("Unblock streams: they continue after the last event that was handled.")
            .query::<Options>()
            .maybe_body::<WhichBody>()
            .answers::<Mended>(200, "The unblocked streams."),
        Operation::post("/reactions/{name}/reset", "reset", reset)
            .logs_body()
            .says("Reset streams: they are handled again from their first event.")
            .query::<Options>()
            .maybe_body::<WhichBody>()
            .answers::<Mended>(200, "The reset streams."),
    ]
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    reaction: Option<String>,
    stream: Option<String>,
    source: Option<String>,
    blocked: Option<bool>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Position of a reaction in a stream, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Place")]
struct PlaceView {
    reaction: String,
    stream: String,
    /// Version of the last handled event; -1 if no event was handled yet.
    version: i64,
    /// Number of events that are not handled yet.
    lag: i64,
    failures: u32,
    claims: u32,
    blocked: Option<String>,
    error: Option<String>,
    holder: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    lease_end: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    due_at: Option<String>,
}

impl From<StreamView> for PlaceView {
    fn from(view: StreamView) -> Self {
        Self {
            reaction: view.reaction,
            stream: view.stream,
            version: view.position,
            lag: (view.want - view.position).max(0),
            failures: view.failures,
            claims: view.claims,
            blocked: view.blocked,
            error: view.error,
            holder: view.holder.map(|engine| format!("{engine:032x}")),
            lease_end: view.lease_end.map(Timestamp::rfc3339),
            due_at: view.due.map(Timestamp::rfc3339),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Reactions")]
pub(super) struct ListView {
    reactions: Vec<Reaction>,
    streams: Vec<PlaceView>,
    next: Option<String>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<ListView>, Problem> {
    let ListQuery { reaction, stream, source, blocked, limit, cursor } = query;
    let limit = page_size(limit)? as usize;
    let filter = Filter { stream: pattern(stream)?, source, blocked };
    let after = cursor.map(|cursor| {
        let read: Option<(String, String)> = serde_json::from_str(&cursor).ok();
        let read = read.filter(|(reaction, stream)| is_name(reaction) && is_name(stream));
        read.ok_or_else(|| bad_cursor(&cursor))
    });
    let after = after.transpose()?;
    let mut reactions = caller.engine.reactions().await?;
    if let Some(wanted) = &reaction {
        reactions.retain(|it| it.name == *wanted);
        if reactions.is_empty() {
            let detail = format!("there is no reaction `{wanted}`");
            return Err(Problem::not_found("no_reaction", detail));
        }
    }
    let page = caller.engine.query_streams(&StreamQuery { reaction, filter, after, limit }).await?;
    let streams = page.streams.into_iter().map(PlaceView::from).collect();
    let next = page.next.map(|(reaction, stream)| json!([reaction, stream]).to_string());
    Ok(Json(ListView { reactions, streams, next }))
}

fn pattern(text: Option<String>) -> Result<Option<Pattern>, Problem> {
    let read = text.map(|text| Pattern::parse(&text)).transpose();
    read.map_err(|error| Problem::invalid(error.code(), error.to_string()))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Options {
    /// Whether to return the matching streams without any effect.
    #[serde(default)]
    dry_run: bool,
}

/// Selects streams: by names, by a filter, or all.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "StreamSelection")]
struct WhichBody {
    #[schemars(with = "Option<Vec<Name>>")]
    streams: Option<Vec<String>>,
    #[schemars(with = "Option<Name>")]
    stream: Option<String>,
    #[schemars(with = "Option<Name>")]
    source: Option<String>,
    blocked: Option<bool>,
    #[serde(default)]
    all: bool,
}

impl WhichBody {
    fn read(self) -> Result<StreamSelection, Problem> {
        let Self { streams, stream, source, blocked, all } = self;
        let filter = Filter { stream: pattern(stream)?, source, blocked };
        match (streams, filter == Filter::default(), all) {
            (None, _, false) => Ok(StreamSelection::Where(filter)),
            (None, true, true) => Ok(StreamSelection::All),
            (Some(mut names), true, false) => {
                names.retain(|name| is_name(name));
                Ok(StreamSelection::Names(names))
            }
            _ => {
                let detail = "select streams in one way: `streams` by name, a filter of `stream`, \
                              `source` and `blocked`, or `all: true`";
                Err(Problem::invalid("bad_body", detail))
            }
        }
    }
}

/// Names of the streams that were unblocked or reset, or would be in a dry run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mended {
    streams: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

async fn unblock(
    caller: Caller,
    At(name): At<String>,
    Query(options): Query<Options>,
    body: Body,
) -> Result<Json<Mended>, Problem> {
    mend(caller, &name, Remedy::Unblock, options, body).await
}

async fn reset(
    caller: Caller,
    At(name): At<String>,
    Query(options): Query<Options>,
    body: Body,
) -> Result<Json<Mended>, Problem> {
    mend(caller, &name, Remedy::Reset, options, body).await
}

async fn mend(
    caller: Caller,
    reaction: &str,
    remedy: Remedy,
    Options { dry_run }: Options,
    body: Body,
) -> Result<Json<Mended>, Problem> {
    let (engine, which) = (&caller.engine, body.read::<WhichBody>()?.read()?);
    if dry_run {
        let streams = engine.rehearse(reaction, remedy, which).await?;
        return Ok(Json(Mended { streams, dry_run }));
    }
    let streams = match remedy {
        Remedy::Reset => engine.reset(reaction, which).await?,
        _ => engine.unblock(reaction, which).await?,
    };
    Ok(Json(Mended { streams, dry_run }))
}
