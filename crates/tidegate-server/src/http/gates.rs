//! `GET /gates`, `/flow-state` and `/runs/stats`: gates, open folds and run counts.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    body::{MAX_PAGE, Query, bad_cursor, page_size},
    events_query::known_control,
    operation::Operation,
    problem::Problem,
    schema::{count, flag, list as many, number, object, of, page, string, text, time},
};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let name = || text(1, 256);
    vec![
        Operation::get("/gates", "listGates", list)
            .says("List gates with their holders and queues, in the order in which they act.")
            .query("control", text(1, 32))
            .query("app", name())
            .query("workflow", name())
            .query("key", text(1, 1024))
            .query("limit", number(1, MAX_PAGE))
            .query("cursor", text(1, 8192))
            .answers(200, "A page of gates.", page("gates", of("Gate"))),
        Operation::get("/flow-state", "flowState", flow_state)
            .says("Show the open windows of debounces and batches.")
            .query("app", name())
            .query("workflow", name())
            .answers(200, "The open windows of each workflow.", of("FlowState")),
        Operation::get("/runs/stats", "runStats", stats)
            .says("Count the running, queued, waiting and paused runs.")
            .answers(200, "The counts, in total and by version.", of("Stats")),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let line =
        [("count", count()), ("atLeast?", flag()), ("first", many(string())), ("since?", time())];
    let gate = [
        ("control", string()),
        ("app", string()),
        ("workflow", string()),
        ("slot?", string()),
        ("key", string()),
        ("letsIn?", string()),
        ("limit?", count()),
        ("perMs?", count()),
        ("burst?", count()),
        ("inside?", count()),
        ("holders?", many(string())),
        ("draining?", many(string())),
        ("line?", object(line)),
        ("tokens?", count()),
        ("nextAt?", time()),
        ("pending?", count()),
        ("until?", time()),
        ("eventId?", string()),
        ("runId?", string()),
    ];
    let held = |at: &str| {
        let key = object([
            ("key", string()),
            ("pending", count()),
            ("maxSize?", count()),
            (at, time()),
            ("held?", flag()),
        ]);
        object([("pending", count()), ("keys", many(key)), ("atLeast?", flag())])
    };
    let of_workflow = object([
        ("app", string()),
        ("workflow", string()),
        ("debounce", held("fireAt?")),
        ("batch", held("flushAt?")),
    ]);
    let counts = [
        ("inFlight", count()),
        ("queued", count()),
        ("ready?", count()),
        ("waiting", count()),
        ("paused", count()),
        ("atLeast?", flag()),
    ];
    let mut by_workflow = object(counts.clone());
    let mut all = object(counts);
    for (name, shape) in [("app", string()), ("workflow", string()), ("version", count())] {
        add(&mut by_workflow, name, shape);
    }
    add(&mut all, "byWorkflow", many(by_workflow));
    vec![
        ("Gate", object(gate)),
        ("FlowState", object([("workflows", many(of_workflow))])),
        ("Stats", all),
    ]
}

/// Adds a required member.
fn add(shape: &mut Value, name: &str, member: Value) {
    shape["properties"][name] = member;
    if let Some(required) = shape["required"].as_array_mut() {
        required.push(name.into());
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    control: Option<String>,
    app: Option<String>,
    workflow: Option<String>,
    key: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A page of gates.
#[derive(Debug, Serialize)]
pub(super) struct Gates {
    gates: Vec<GateView>,
    next: Option<GateKey>,
}

async fn list(caller: Caller, Query(query): Query<ListQuery>) -> Result<Json<Gates>, Problem> {
    let ListQuery { control, app, workflow, key, .. } = query;
    let after: Option<GateKey> = query
        .cursor
        .map(|cursor| {
            serde_json::from_value(cursor.as_str().into()).map_err(|_| bad_cursor(&cursor))
        })
        .transpose()?;
    let control = control.map(known_control).transpose()?;
    let limit = page_size(query.limit)?;
    let which = GateFilter { control, app, workflow, key };
    let page = caller.engine.gates(&which, after.as_ref(), limit).await?;
    Ok(Json(Gates { gates: page.gates, next: page.next }))
}

#[derive(Debug, Deserialize)]
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
