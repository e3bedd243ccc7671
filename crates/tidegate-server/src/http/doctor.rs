//! `GET /doctor`: consistency checks on the workspace's rows. `GET /ready`: readiness probe.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Extension, Json, extract::State, http::StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::Error;
use tidegate_core::doctor::{self, Report, Rule};
use tidegate_store::check_up;
use tokio::sync::OnceCell;

use super::{App, Caller, operation::Operation, problem::Problem};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/doctor", "checkUp", show)
            .says("Check the invariants on all rows of the workspace, in one snapshot.")
            .answers::<ReportView>(200, "The checks, and the violations found."),
        Operation::get("/ready", "ready", ready)
            .says("Check readiness: the last store writes worked and the server is not draining.")
            .open()
            .answers::<Ready>(200, "The server is ready for requests."),
    ]
}

async fn show(
    caller: Caller,
    Extension(checkups): Extension<Checkups>,
) -> Result<Json<Value>, Problem> {
    let engine = &caller.engine;
    let report = checkups.share(engine.workspace(), || async {
        let (ws, kept_since) = (engine.workspace().into(), engine.runs_kept_since());
        let report = check_up(Some(ws), kept_since, |visit| engine.store().walk(visit)).await;
        Ok::<_, Error>(json!(ReportView::from(&report?)))
    });
    Ok(Json(report.await?))
}

/// The checks in progress. Each scans all rows, so one runs at a time in a server, and concurrent
/// requests for the same workspace share its result.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkups {
    under_way: Arc<Mutex<HashMap<String, Arc<OnceCell<Value>>>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Checkups {
    /// Returns the result of the workspace's check in progress, or of a new one. If the caller that
    /// runs it disconnects, or the check fails, another caller that waits for it runs it.
    async fn share<E, F: Future<Output = Result<Value, E>>>(
        &self,
        ws: &str,
        check: impl FnOnce() -> F,
    ) -> Result<Value, E> {
        let lock = || self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = lock().entry(ws.to_owned()).or_default().clone();
        let checked = answer.get_or_try_init(|| async {
            let _turn = self.turn.lock().await;
            check().await
        });
        let report = checked.await?.clone();
        let mut under_way = lock();
        if under_way.get(ws).is_some_and(|it| Arc::ptr_eq(it, &answer)) {
            under_way.remove(ws);
        }
        Ok(report)
    }
}

/// A report as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Report")]
pub(crate) struct ReportView {
    healthy: bool,
    /// Number of rows that were read.
    rows: u64,
    checks: Vec<Check>,
    /// Number of violations.
    found: u64,
    /// The violations, as far as they are listed.
    findings: Vec<Finding>,
}

/// One invariant.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Check {
    number: &'static str,
    holds: bool,
    checked: u64,
    what: &'static str,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Finding {
    number: &'static str,
    detail: String,
}

impl From<&Report> for ReportView {
    fn from(report: &Report) -> Self {
        let check = |rule: &Rule| Check {
            number: rule.number(),
            holds: report.findings.iter().all(|finding| finding.rule != *rule),
            checked: report.checked.get(rule).copied().unwrap_or(0),
            what: rule.sentence(),
        };
        let finding =
            |it: &doctor::Finding| Finding { number: it.rule.number(), detail: it.text.clone() };
        Self {
            healthy: report.found == 0,
            rows: report.rows,
            checks: Rule::ALL.iter().map(check).collect(),
            found: report.found,
            findings: report.findings.iter().map(finding).collect(),
        }
    }
}

/// The state of a server that is ready.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Ready {
    status: &'static str,
    heartbeat_age_ms: u64,
}

/// Answers from memory: a probe gets the result of the last writes, and never waits for a store
/// that does not answer.
async fn ready(State(App { engine, .. }): State<App>) -> Result<Json<Ready>, Problem> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if engine.is_draining() {
        let runs = engine.driven();
        let detail = format!("the server is draining and starts no new runs; active runs: {runs}");
        return Err(Problem::new(unavailable, "draining", detail));
    }
    let health = engine.health();
    // The log has the text of the error, with paths and addresses that a probe must not see.
    if let Some(error) = health.error() {
        return Err(Problem::of_store(error));
    }
    let age = health.heartbeat_age.as_millis();
    if health.is_overdue() {
        let detail = format!("the last successful heartbeat was {age} ms ago");
        return Err(Problem::new(unavailable, "store_unavailable", detail).retry_after(1));
    }
    let heartbeat_age_ms = u64::try_from(age).unwrap_or(u64::MAX);
    Ok(Json(Ready { status: "ready", heartbeat_age_ms }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::sync::Notify;

    use super::Checkups;

    #[tokio::test]
    async fn one_check_runs_at_a_time_and_is_shared() {
        let (checkups, begun, go) = (Checkups::default(), AtomicUsize::new(0), Notify::new());
        let at_once = AtomicUsize::new(0);
        let check = || async {
            let number = begun.fetch_add(1, Ordering::SeqCst);
            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            go.notified().await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ()>(json!(number))
        };
        let ask = |ws| checkups.share(ws, check);
        let release = async {
            for _ in 0..2 {
                tokio::task::yield_now().await;
                go.notify_one();
            }
        };
        let (first, second, other, ()) = tokio::join!(ask("a"), ask("a"), ask("b"), release);
        assert_eq!((&first, &second), (&Ok(json!(0)), &Ok(json!(0))), "shared");
        assert_eq!(other, Ok(json!(1)), "another workspace's rows are others");
        go.notify_one();
        assert_eq!(ask("a").await, Ok(json!(2)), "one that ended is not shared");
        let left = tokio::time::timeout(std::time::Duration::ZERO, ask("a")).await;
        assert!(left.is_err(), "the caller that ran it leaves");
        at_once.store(0, Ordering::SeqCst);
        go.notify_one();
        assert_eq!(ask("a").await, Ok(json!(4)));
    }
}
