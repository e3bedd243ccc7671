//! `GET /doctor`: what always holds, checked on the workspace's rows; `GET /ready`: whether the
//! store answers.

use std::time::Duration;

use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use tidegate::{
    Error,
    core::{
        doctor::{Report, Rule},
        reads::ReadSet,
    },
    store::check_up,
};

use super::{
    App, Caller,
    operation::Operation,
    problem::Problem,
    shape::{count, flag, list, object, string},
};

/// What this file adds to the API.
pub(super) fn operations() -> Vec<Operation> {
    let check = [("number", string()), ("holds", flag()), ("checked", count()), ("what", string())];
    let finding = object([("number", string()), ("detail", string())]);
    let report = object([
        ("healthy", flag()),
        ("rows", count()),
        ("checks", list(object(check))),
        ("found", count()),
        ("findings", list(finding)),
    ]);
    vec![
        Operation::get("/doctor", "checkUp", show)
            .says("Checks what always holds on all rows of the workspace, as of one moment.")
            .answers(200, "What was checked, and what does not hold.", report),
        Operation::get("/ready", "ready", ready)
            .says("Says whether the store answers; `/health` says that the server does.")
            .open()
            .answers(200, "It does.", object([("status", string())])),
    ]
}

async fn show(caller: Caller) -> Result<Json<Value>, Problem> {
    let (store, ws) = (caller.engine.store(), caller.engine.workspace().into());
    let report = check_up(Some(ws), |visit| store.walk(visit)).await.map_err(Error::from)?;
    Ok(Json(view(&report)))
}

/// A report as clients read it.
pub(crate) fn view(report: &Report) -> Value {
    let checks: Vec<_> = Rule::ALL
        .iter()
        .map(|rule| {
            let holds = report.findings.iter().all(|finding| finding.rule != *rule);
            let checked = report.checked.get(rule).copied().unwrap_or(0);
            let (number, what) = (rule.number(), rule.sentence());
            json!({ "number": number, "holds": holds, "checked": checked, "what": what })
        })
        .collect();
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| json!({ "number": finding.rule.number(), "detail": finding.text }))
        .collect();
    json!({
        "healthy": report.found == 0, "rows": report.rows, "checks": checks,
        "found": report.found, "findings": findings,
    })
}

/// How long the store may take to answer that it is there.
const READY: Duration = Duration::from_secs(1);

async fn ready(State(App { engine, .. }): State<App>) -> Result<Json<Value>, Problem> {
    match tokio::time::timeout(READY, engine.store().read(ReadSet::default())).await {
        Ok(Ok(_)) => Ok(Json(json!({ "status": "ready" }))),
        Ok(Err(error)) => Err(Error::from(error).into()),
        Err(_) => {
            let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable");
            Err(Problem::new(status, code, "the store does not answer").retry_after(1))
        }
    }
}
