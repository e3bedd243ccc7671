//! `POST /runs/bulk`: one action on many runs, processed in chunks.

use axum::{Json, http::StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::{BulkProgress, Engine};
use tidegate_core::{
    id::ChoreId,
    row::{BulkFilter, BulkWhat, LiveState},
    time::Timestamp,
};

use super::{
    Caller,
    body::{At, Body},
    operation::Operation,
    problem::Problem,
    schema::DateTime,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/runs/bulk", "bulk", begin)
            .logs_body()
            .says("Cancel, pause or resume all matching runs admitted so far.")
            .body::<BulkBody>()
            .answers::<BulkView>(
                202,
                "The operation is accepted and continues in chunks, on any engine.",
            ),
        Operation::get("/runs/bulk/{id}", "showBulk", show)
            .says("Show the progress of a bulk operation, until a day after its end.")
            .answers::<BulkView>(200, "The progress so far."),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BulkBody {
    action: Action,
    #[serde(default)]
    filter: FilterBody,
    #[serde(default)]
    all: bool,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Action {
    Cancel,
    Pause,
    Resume,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FilterBody {
    app: Option<String>,
    workflow: Option<String>,
    version: Option<u32>,
    state: Option<LiveState>,
    #[schemars(with = "Option<DateTime>")]
    queued_before: Option<String>,
}

impl FilterBody {
    fn read(self) -> Result<BulkFilter, Problem> {
        let Self { app, workflow, version, state, queued_before } = self;
        let queued_before = queued_before.map(|text| {
            Timestamp::parse_rfc3339(&text).ok_or_else(|| {
                let detail = format!(
                    "`queuedBefore` must be a time like 2026-11-16T12:00:00Z, got `{text}`"
                );
                Problem::invalid("bad_time", detail)
            })
        });
        let queued_before = queued_before.transpose()?;
        Ok(BulkFilter { app, workflow, version, state, queued_before, waits_at: None })
    }
}

/// Progress of a bulk operation, as the API returns it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Bulk")]
pub(super) struct BulkView {
    id: String,
    /// Number of runs that were changed.
    done: u32,
    /// Number of runs that could not be changed.
    refused: u32,
    finished: bool,
}

async fn begin(caller: Caller, body: Body) -> Result<(StatusCode, Json<BulkView>), Problem> {
    let BulkBody { action, filter, all, reason } = body.read()?;
    let filter = filter.read()?;
    if (filter == BulkFilter::default()) != all {
        let detail = "a bulk operation needs a `filter` of app, workflow, version, state or \
                      queuedBefore, or `all: true` for every run of the workspace, and not both";
        return Err(Problem::invalid("bulk_needs_filter", detail));
    }
    let what = match (action, reason) {
        (Action::Cancel, reason) => {
            BulkWhat::Cancel { reason: reason.unwrap_or_else(|| "cancelled manually".to_owned()) }
        }
        (Action::Pause, None) => BulkWhat::Pause,
        (Action::Resume, None) => BulkWhat::Resume,
        (Action::Pause | Action::Resume, Some(_)) => {
            return Err(Problem::invalid("bad_body", "`reason` is only allowed for `cancel`"));
        }
    };
    let id = caller.engine.bulk(what, filter).await?;
    let progress_view = view(&caller.engine, id, &id.to_string()).await?;
    Ok((StatusCode::ACCEPTED, Json(progress_view)))
}

async fn show(caller: Caller, At(id): At<String>) -> Result<Json<BulkView>, Problem> {
    let chore = id.parse().map_err(|_| unknown(&id))?;
    Ok(Json(view(&caller.engine, chore, &id).await?))
}

async fn view(engine: &Engine, chore: ChoreId, id: &str) -> Result<BulkView, Problem> {
    let progress = engine.bulk_progress(chore).await?;
    let BulkProgress { counts, done: finished } = progress.ok_or_else(|| unknown(id))?;
    Ok(BulkView { id: id.to_owned(), done: counts.done, refused: counts.refused, finished })
}

fn unknown(id: &str) -> Problem {
    let detail = format!(
        "there is no bulk operation `{id}`; a bulk operation is deleted one day after its end"
    );
    Problem::not_found("no_bulk", detail)
}
