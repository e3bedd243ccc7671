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

/// Returns the HTTP operations that this file defines.
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

/// The checks in progress. A check scans all rows, so a server runs one at a time, and concurrent
/// requests for the same workspace share its result.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkups {
    under_way: Arc<Mutex<HashMap<String, Arc<OnceCell<Value>>>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Checkups {
    /// Returns the result of the check of this workspace that is in progress, or of a new one. If
    /// the caller that runs the check disconnects, or the check fails, a waiting caller runs it
    /// again.
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

/// Report of a check, as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Report")]
pub(crate) struct ReportView {
    healthy: bool,
    /// Number of rows that were read.
    rows: u64,
    checks: Vec<Check>,
    /// Number of violations.
    found: u64,
    /// The first violations; their number is limited.
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

/// Answers from memory: the state of the last writes. So a probe never waits for a store that does
/// not answer.
async fn ready(State(App { engine, .. }): State<App>) -> Result<Json<Ready>, Problem> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if engine.is_draining() {
        let runs = engine.driven();
        let detail = format!("the server is draining and starts no new runs; active runs: {runs}");
        return Err(Problem::new(unavailable, "draining", detail));
    }
    let health = engine.health();
    // The text of the error is only logged: it may have paths and addresses, which a probe must not
    // see.
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
            assert_eq!(
                at_once.fetch_add(1, Ordering::SeqCst),
                0,
                "two checks run at the same time"
            );
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
        assert_eq!(
            (&first, &second),
            (&Ok(json!(0)), &Ok(json!(0))),
            "two requests for one workspace must share a check"
        );
        assert_eq!(other, Ok(json!(1)), "another workspace must get its own check");
        go.notify_one();
        assert_eq!(ask("a").await, Ok(json!(2)), "a finished check must not be shared");
        let left = tokio::time::timeout(std::time::Duration::ZERO, ask("a")).await;
        assert!(left.is_err(), "the caller that runs the check must time out");
        at_once.store(0, Ordering::SeqCst);
        go.notify_one();
        assert_eq!(ask("a").await, Ok(json!(4)));
    }
}
