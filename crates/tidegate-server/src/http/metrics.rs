//! `GET /metrics`: metrics in the text format of Prometheus.

use std::fmt::Write as _;

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use tidegate_core::observe::stats::{Counts, Stats};

use super::{Caller, operation::Operation, problem::Problem};
use crate::metrics::{escaped, text};

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/metrics", "metrics", show)
            .says("Get metrics in the text format of Prometheus.")
            .answers_text(
                200,
                "Metrics of this server, and of the runs of the workspace.",
                "text/plain",
            ),
    ]
}

async fn show(caller: Caller) -> Result<Response, Problem> {
    let stats = caller.engine.stats().await?;
    let body = text() + &runs(caller.engine.workspace(), &stats);
    Ok(([(CONTENT_TYPE, KIND)], body).into_response())
}

/// Formats the number of runs by state. It is read from the store, so it includes the runs of all
/// engines.
fn runs(workspace: &str, stats: &Stats) -> String {
    let mut text = String::from("# TYPE tidegate_runs gauge\n");
    let mut waiting_for_workers = String::from("# TYPE tidegate_ready_runs gauge\n");
    for of in &stats.by_workflow {
        let Counts { in_flight, queued, ready, waiting, paused, .. } = of.counts;
        let counts =
            [("running", in_flight), ("queued", queued), ("waiting", waiting), ("paused", paused)];
        let [workspace, app, workflow] =
            [workspace, of.app.as_str(), of.workflow.as_str()].map(escaped);
        let labels = format!(
            "workspace=\"{workspace}\",app=\"{app}\",workflow=\"{workflow}\",version=\"{}\"",
            of.version
        );
        // The results are ignored: writing to a string does not fail.
        for (state, count) in counts {
            let _ = writeln!(text, "tidegate_runs{{{labels},state=\"{state}\"}} {count}");
        }
        let _ = writeln!(waiting_for_workers, "tidegate_ready_runs{{{labels}}} {ready}");
    }
    text + &waiting_for_workers
}
