//! `GET /doctor`: what always holds, checked on the workspace's rows; `GET /ready`: whether new
//! requests should be sent here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Extension, Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use tidegate::{
    Error,
    core::doctor::{Report, Rule},
    store::check_up,
};
use tokio::sync::OnceCell;

use super::{
    App, Caller,
    operation::Operation,
    problem::Problem,
    schema::{count, flag, list, object, string},
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

async fn show(
    caller: Caller,
    Extension(checkups): Extension<Checkups>,
) -> Result<Json<Value>, Problem> {
    let engine = &caller.engine;
    let report = checkups.share(engine.workspace(), || async {
        let (ws, kept_since) = (engine.workspace().into(), engine.runs_kept_since());
        let report = check_up(Some(ws), kept_since, |visit| engine.store().walk(visit)).await;
        Ok::<_, Error>(view(&report?))
    });
    Ok(Json(report.await?))
}

/// The checks under way. Each walks over all rows, so one runs at a time in a server, and whoever
/// asks for the same meanwhile gets its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkups {
    under_way: Arc<Mutex<HashMap<String, Arc<OnceCell<Value>>>>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Checkups {
    /// The answer of the check of a workspace that is under way, or of a new one. If the caller
    /// that runs it leaves, or it fails, another one that waits for it runs it.
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
