//! `/v1/*` and `/dev`: runs and cancellations as Inngest's API shows them.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use serde_json::{Value, json};
use tidegate::Engine;
use tidegate_core::{
    id::{EventId, RunId},
    row::{BulkFilter, BulkWhat, Ended, Ending, Phase, Row, Run},
    time::Timestamp,
};

use super::{
    access::{Refused, SdkCaller, no_run, run_id},
    fields::{Fields, plain},
    function::name_of,
};
use crate::http::App;

/// Reason of runs that an SDK cancels.
const REASON: &str = "cancelled through the Inngest API";

/// `GET /dev`: how an SDK finds out that a development server is there.
pub(super) async fn dev(State(app): State<App>) -> Json<Value> {
    let kind = app.inngest.keys.kind();
    Json(json!({ "server": "tidegate", "version": env!("CARGO_PKG_VERSION"), "kind": kind }))
}

/// `GET /v1/runs/{id}`.
pub(super) async fn run(caller: SdkCaller, Path(id): Path<String>) -> Result<Json<Value>, Refused> {
    Ok(answer(&caller.engine, &show(&caller.engine, run_id(&id)?).await?))
}

/// `DELETE /v1/runs/{id}`.
pub(super) async fn cancel(
    caller: SdkCaller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let id = run_id(&id)?;
    caller.engine.cancel(id, REASON).await?;
    Ok(answer(&caller.engine, &show(&caller.engine, id).await?))
}

/// `GET /v1/events/{id}/runs`.
pub(super) async fn runs_of(
    caller: SdkCaller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let nothing = || Refused::new(StatusCode::NOT_FOUND, format!("there is no event `{id}`"));
    let event: EventId = id.parse().map_err(|_| nothing())?;
    let details = caller.engine.event(event).await?.ok_or_else(nothing)?;
    let runs: Vec<Value> = details.runs.iter().filter_map(view).collect();
    Ok(answer(&caller.engine, &Value::Array(runs)))
}

/// `POST /v1/cancellations`: cancels all runs of a function that were queued before a time.
pub(super) async fn cancel_many(caller: SdkCaller, body: Bytes) -> Result<Json<Value>, Refused> {
    let (app, function, before) = read_cancellation(&body).map_err(Refused::config)?;
    let filter = BulkFilter {
        app: Some(app.clone()),
        workflow: Some(function.clone()),
        queued_before: before,
        ..BulkFilter::default()
    };
    let what = BulkWhat::Cancel { reason: REASON.to_owned() };
    let id = caller.engine.bulk(what, filter).await?;
    let data = json!({ "id": id.to_string(), "app_id": app, "function_id": function });
    Ok(answer(&caller.engine, &data))
}

/// Returns app, function and time of a cancellation.
fn read_cancellation(body: &[u8]) -> Result<(String, String, Option<Timestamp>), String> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the cancellation is not JSON: {error}"))?;
    let value = plain(value);
    let fields = Fields::open(&value, "")?;
    let unsupported = [("if", "if"), ("startedafter", "started_after")];
    if let Some((_, name)) = unsupported.into_iter().find(|(name, _)| fields.get(name).is_some()) {
        return Err(format!("{name} is not supported: cancel by function and started_before"));
    }
    let app = fields.text("appid")?.ok_or("app_id is required")?;
    let id = fields.text("functionid")?.ok_or("function_id is required")?;
    let name = name_of(app, id);
    let before = fields.text("startedbefore")?.map(|text| {
        Timestamp::parse_rfc3339(text)
            .ok_or_else(|| format!("started_before must be a time, got `{text}`"))
    });
    Ok((app.to_owned(), name.to_owned(), before.transpose()?))
}

async fn show(engine: &Engine, id: RunId) -> Result<Value, Refused> {
    let (live, ended) = engine.look_up(id).await?;
    match (live, ended) {
        (Some(run), _) => Ok(live_view(&run)),
        (None, Some(ended)) => Ok(ended_view(&ended)),
        (None, None) => Err(no_run(&id.to_string())),
    }
}

fn answer(engine: &Engine, data: &Value) -> Json<Value> {
    let metadata = json!({ "fetched_at": engine.now().rfc3339(), "cached_until": null });
    Json(json!({ "data": data, "metadata": metadata }))
}

fn view(row: &Row) -> Option<Value> {
    match row {
        Row::Run(run) => Some(live_view(run)),
        Row::Ended(ended) => Some(ended_view(ended)),
        _ => None,
    }
}

fn live_view(run: &Run) -> Value {
    let status = match run.phase {
        Phase::Driven | Phase::Waiting => "Running",
        Phase::Queued { .. } | Phase::Ready => "Queued",
        Phase::Paused => "Paused",
        Phase::Stopping => "Cancelled",
    };
    json!({
        "run_id": run.id.to_string(), "event_id": run.source.first().to_string(),
        "function_id": format!("{}-{}", run.app, run.workflow), "function_version": run.version,
        "run_started_at": run.queued_at.rfc3339(), "ended_at": null, "status": status,
        "output": null,
    })
}

fn ended_view(ended: &Ended) -> Value {
    let (status, output) = match &ended.ending {
        Ending::Completed { output } => {
            let output: Option<Value> = serde_json::from_str(output.as_str()).ok();
            ("Completed", output.unwrap_or_default())
        }
        Ending::Failed { error } => {
            ("Failed", json!({ "name": error.code, "message": error.message }))
        }
        Ending::Cancelled { reason, .. } => {
            ("Cancelled", json!({ "name": "Cancelled", "message": reason }))
        }
    };
    json!({
        "run_id": ended.id.to_string(), "event_id": ended.source.first().to_string(),
        "function_id": format!("{}-{}", ended.app, ended.workflow),
        "function_version": ended.version, "run_started_at": ended.queued_at.rfc3339(),
        "ended_at": ended.ended_at.rfc3339(), "status": status, "output": output,
    })
}
