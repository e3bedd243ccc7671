//! `GET /runs/{id}/timeline`: the history of a run's states.

use axum::Json;
use serde_json::Value;
use tidegate_core::observe::timeline::Timeline;

use super::{
    Caller,
    body::RunOf,
    operation::Operation,
    problem::Problem,
    schema::{count, list as many, nullable, object, of, string, time},
};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/runs/{id}/timeline", "timeline", timeline)
            .says("Show the timeline of a run: queued at gates, running, or waiting.")
            .answers(200, "The spans of the run, without gaps.", of("Timeline")),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let span = [
        ("kind", string()),
        ("control?", string()),
        ("key?", string()),
        ("on?", string()),
        ("child?", string()),
        ("step?", string()),
        ("from", time()),
        ("to", nullable(time())),
    ];
    let waited = object([("control", string()), ("key", string()), ("ms", count())]);
    let timeline = [
        ("spans", many(object(span))),
        ("waited", many(waited)),
        ("waitedMs", count()),
        ("startedAt?", time()),
    ];
    vec![("Timeline", object(timeline))]
}

async fn timeline(caller: Caller, RunOf(run): RunOf) -> Result<Json<Timeline>, Problem> {
    if let Some(timeline) = caller.engine.timeline(run).await? {
        return Ok(Json(timeline));
    }
    // The id may be that of a window or buffer, which has no timeline yet.
    caller.engine.why(run).await?;
    Ok(Json(Timeline::default()))
}
