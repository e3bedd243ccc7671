//! `GET /runs/{id}/timeline`: the past and current states of a run.

use axum::Json;
use tidegate_core::observe::timeline::Timeline;

use super::{Caller, body::RunOf, operation::Operation, problem::Problem};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/runs/{id}/timeline", "timeline", timeline)
            .says("Show the timeline of a run: queued at gates, running, or waiting.")
            .answers::<Timeline>(200, "The spans of the run, without gaps."),
    ]
}

async fn timeline(caller: Caller, RunOf(run): RunOf) -> Result<Json<Timeline>, Problem> {
    if let Some(timeline) = caller.engine.timeline(run).await? {
        return Ok(Json(timeline));
    }
    // The id may be that of a window or buffer: its timeline is empty. For an unknown id this call
    // fails.
    caller.engine.why(run).await?;
    Ok(Json(Timeline::default()))
}
