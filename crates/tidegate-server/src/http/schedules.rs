//! Schedules: list, pause and resume.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::ScheduleId;
use tidegate_core::observe::schedules::{Place, ScheduleFilter, ScheduleView};

use super::{
    Caller,
    body::{At, Query, bad_cursor, is_name, page_size},
    operation::Operation,
    problem::Problem,
    schema::PageSize,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/schedules", "listSchedules", list)
            .says("List the schedules of the current releases, by app, workflow and expression.")
            .query::<ListQuery>()
            .answers::<Schedules>(200, "A page of schedules."),
        Operation::post("/schedules/{id}/pause", "pauseSchedule", pause)
            .says("Pause a schedule: it plans no more runs; started runs continue.")
            .answers::<ScheduleView>(200, "The paused schedule."),
        Operation::post("/schedules/{id}/resume", "resumeSchedule", resume)
            .says("Resume a paused schedule with its next occurrence from now.")
            .answers::<ScheduleView>(200, "The resumed schedule."),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    app: Option<String>,
    workflow: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A page of schedules.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Schedules {
    schedules: Vec<ScheduleView>,
    next: Option<String>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Schedules>, Problem> {
    let ListQuery { app, workflow, limit, cursor } = query;
    let limit = page_size(limit)?;
    let after = cursor.map(|cursor| {
        let read: Option<Place> = serde_json::from_str(&cursor).ok();
        let read = read.filter(|(app, workflow, _)| is_name(app) && is_name(workflow));
        read.ok_or_else(|| bad_cursor(&cursor))
    });
    let (after, which) = (after.transpose()?, ScheduleFilter { app, workflow, id: None });
    let page = caller.engine.schedules(&which, after.as_ref(), limit).await?;
    let next = page.next.map(|place| json!(place).to_string());
    Ok(Json(Schedules { schedules: page.schedules, next }))
}

async fn pause(caller: Caller, At(id): At<String>) -> Result<Json<ScheduleView>, Problem> {
    Ok(Json(caller.engine.pause_schedule(schedule_id(&id)?).await?))
}

async fn resume(caller: Caller, At(id): At<String>) -> Result<Json<ScheduleView>, Problem> {
    Ok(Json(caller.engine.resume_schedule(schedule_id(&id)?).await?))
}

/// Parses the id of a schedule. No schedule has an invalid id, so that is 404.
fn schedule_id(id: &str) -> Result<ScheduleId, Problem> {
    id.parse().map_err(|_| {
        let detail = format!("there is no schedule `{id}`; `GET /schedules` lists them");
        Problem::not_found("no_schedule", detail)
    })
}
