//! `GET /doctor`: what always holds, checked on the workspace's rows; `GET /ready`: whether new
//! requests should be sent here.

use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use tidegate::{
    Error,
    core::doctor::{Report, Rule},
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
            .says("Whether to send requests here: the last writes to the store worked, no drain is under way.")
            .open()
            .answers(
                200,
                "The server takes requests.",
                object([("status", string()), ("heartbeatAgeMs", count())]),
            ),
    ]
}

async fn show(caller: Caller) -> Result<Json<Value>, Problem> {
    let engine = &caller.engine;
    let (ws, kept_since) = (engine.workspace().into(), engine.runs_kept_since());
    let report = check_up(Some(ws), kept_since, |visit| engine.store().walk(visit)).await;
    let report = report.map_err(Error::from)?;
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

/// Answers from memory: a prober learns what the last writes came to, and never waits for a store
/// that does not answer.
async fn ready(State(App { engine, .. }): State<App>) -> Result<Json<Value>, Problem> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if engine.is_draining() {
        let runs = engine.driven();
        let detail = format!("the server stops and takes no new runs; runs under way: {runs}");
        return Err(Problem::new(unavailable, "draining", detail));
    }
    let health = engine.health();
    // The log has its text, with paths and addresses that are no business of every prober.
    if let Some(error) = health.error() {
        return Err(Problem::of_store(error));
    }
    let age = health.heartbeat_age.as_millis();
    if health.is_overdue() {
        let detail = format!("the store has taken no heartbeat for {age} ms");
        return Err(Problem::new(unavailable, "store_unavailable", detail).retry_after(1));
    }
    Ok(Json(json!({ "status": "ready", "heartbeatAgeMs": u64::try_from(age).unwrap_or(u64::MAX) })))
}
