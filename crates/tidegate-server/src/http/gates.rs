//! `GET /gates`, `GET /flow-state` and `GET /runs/stats`: gates, open folds and run counts.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_core::{
    observe::{
        folds::FlowState,
        gates::{GateFilter, GateView},
        stats::Stats,
    },
    row::GateKey,
};

use super::{
    Caller,
    body::{Query, bad_cursor, page_size},
    events_query::known_control,
    operation::Operation,
    problem::Problem,
    schema::PageSize,
};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/gates", "listGates", list)
            .says("List gates with their holders and queues, in the order in which they act.")
            .query::<ListQuery>()
            .answers::<Gates>(200, "A page of gates."),
        Operation::get("/flow-state", "flowState", flow_state)
            .says("Show the open windows of debounces and batches.")
            .query::<FlowQuery>()
            .answers::<FlowState>(200, "The open windows of each workflow."),
        Operation::get("/runs/stats", "runStats", stats)
            .says("Count the running, queued, waiting and paused runs.")
            .answers::<Stats>(200, "The counts, in total and by version."),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    control: Option<String>,
    app: Option<String>,
    workflow: Option<String>,
    pool: Option<String>,
    key: Option<String>,
    #[schemars(with = "Option<PageSize>")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A page of gates.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Gates {
    gates: Vec<GateView>,
    next: Option<GateKey>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Gates>, Problem> {
    let ListQuery { control, app, workflow, pool, key, .. } = query;
    let after: Option<GateKey> = query
        .cursor
        .map(|cursor| {
            serde_json::from_value(cursor.as_str().into()).map_err(|_| bad_cursor(&cursor))
        })
        .transpose()?;
    let control = control.map(known_control).transpose()?;
    let limit = page_size(query.limit)?;
    let which = GateFilter { control, app, workflow, pool, key };
    let page = caller.engine.gates(&which, after.as_ref(), limit).await?;
    Ok(Json(Gates { gates: page.gates, next: page.next }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FlowQuery {
    app: Option<String>,
    workflow: Option<String>,
}

async fn flow_state(
    caller: Caller,
    Query(FlowQuery { app, workflow }): Query<FlowQuery>,
) -> Result<Json<FlowState>, Problem> {
    Ok(Json(caller.engine.flow_state(app.as_deref(), workflow.as_deref()).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

async fn stats(caller: Caller, Query(Nothing {}): Query<Nothing>) -> Result<Json<Stats>, Problem> {
    Ok(Json(caller.engine.stats().await?))
}
