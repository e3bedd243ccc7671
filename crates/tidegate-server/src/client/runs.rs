//! The `runs` commands.

use std::fmt::Write as _;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// The commands on runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first.
    List {
        /// Only runs of this workflow.
        #[arg(long)]
        workflow: Option<String>,
        /// Only runs with this status.
        #[arg(long)]
        state: Option<String>,
        /// Maximum number of runs.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Export histories, one line of JSON each, to replay them against changed code.
    Export {
        /// Only runs of this workflow.
        #[arg(long)]
        workflow: Option<String>,
        /// Only runs with this status.
        #[arg(long)]
        state: Option<String>,
        /// Maximum number of histories.
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show a run with its steps.
    Show {
        /// Id of the run.
        run: String,
    },
    /// Cancel a run.
    Cancel {
        /// Id of the run.
        run: String,
        /// Reason for the cancellation.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Pause a run at its next step boundary.
    Pause {
        /// Id of the run.
        run: String,
    },
    /// Resume a paused run.
    Resume {
        /// Id of the run.
        run: String,
    },
    /// Replay an ended run from its beginning, as a new run.
    Replay {
        /// Id of the run.
        run: String,
    },
    /// Retry an ended run from a step, as a new run.
    Retry {
        /// Id of the run.
        run: String,
        /// Id of the step.
        #[arg(long)]
        from: String,
    },
}

/// Page size.
const PAGE: u32 = 500;

/// Returns the newest runs, up to the limit. A page may have fewer runs than its limit although
/// there are more. So text output reads several pages; JSON output is the server's response,
/// unchanged.
async fn newest(server: &Server<'_>, query: &str, limit: u32) -> anyhow::Result<Value> {
    if server.remote.json {
        return server.get(&format!("/runs?limit={limit}{query}")).await;
    }
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut answer = server.get(&format!("/runs?limit={PAGE}{query}{cursor}")).await?;
        runs.extend(answer["runs"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match answer["next"].as_str() {
            Some(next) if runs.len() < limit as usize => cursor = format!("&cursor={}", part(next)),
            _ => break,
        }
    }
    runs.truncate(limit as usize);
    Ok(json!({ "runs": runs }))
}

/// Returns the filter of a list as a part of its query.
fn filter(workflow: Option<String>, state: Option<String>) -> anyhow::Result<String> {
    let mut query = String::new();
    for (name, value) in [("workflow", workflow), ("state", state)] {
        if let Some(value) = value {
            write!(query, "&{name}={}", part(&value))?;
        }
    }
    Ok(query)
}

/// Page size of an export.
const EXPORT_PAGE: usize = 50;

/// Reads the newest histories page by page, up to the limit.
async fn export(server: &Server<'_>, query: &str, limit: usize) -> anyhow::Result<Vec<Value>> {
    let (mut histories, mut cursor) = (Vec::new(), String::new());
    while histories.len() < limit {
        let count = EXPORT_PAGE.min(limit - histories.len());
        let mut page = server.get(&format!("/runs/export?limit={count}{query}{cursor}")).await?;
        histories.extend(page["histories"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={}", part(next)),
            None => break,
        }
    }
    Ok(histories)
}

pub(super) async fn runs(server: &Server<'_>, command: Runs) -> anyhow::Result<(Value, String)> {
    let answer = match command {
        Runs::List { workflow, state, limit } => {
            let query = filter(workflow, state)?;
            let answer = newest(server, &query, limit).await?;
            let mut rows = answer["runs"].clone();
            for row in rows.as_array_mut().into_iter().flatten() {
                let gate = &row["waitsFor"];
                let pool = gate["pool"].as_str().map(|pool| format!("pool {pool}"));
                let by = [text(&gate["control"]), pool.unwrap_or_default(), text(&gate["key"])];
                let by: Vec<String> = by.into_iter().filter(|part| !part.is_empty()).collect();
                row["blockedBy"] = by.join(" ").into();
            }
            let columns = ["id", "workflow", "version", "state", "blockedBy", "queuedAt"];
            return Ok((answer, table(&rows, &columns)));
        }
        Runs::Export { workflow, state, limit } => {
            let histories = export(server, &filter(workflow, state)?, limit).await?;
            let mut lines = histories.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
            if !lines.is_empty() {
                lines.push('\n');
            }
            return Ok((json!({ "histories": histories }), lines));
        }
        Runs::Show { run } => {
            let path = format!("/runs/{}", part(&run));
            let mut answer = server.get(&path).await?;
            answer["steps"] = server.get(&format!("{path}/steps")).await?["steps"].take();
            return Ok((answer.clone(), format!("{answer:#}\n")));
        }
        Runs::Cancel { run, reason } => {
            let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
            server.post(&format!("/runs/{}/cancel", part(&run)), body).await?
        }
        Runs::Pause { run } => {
            server.post(&format!("/runs/{}/pause", part(&run)), json!({})).await?
        }
        Runs::Resume { run } => {
            server.post(&format!("/runs/{}/resume", part(&run)), json!({})).await?
        }
        Runs::Replay { run } => {
            server.post(&format!("/runs/{}/replay", part(&run)), json!({})).await?
        }
        Runs::Retry { run, from } => {
            server.post(&format!("/runs/{}/retry", part(&run)), json!({ "from": from })).await?
        }
    };
    let id = answer.get("runId").or(answer.get("id")).map(text).unwrap_or_default();
    let state = answer.get("state").or(answer.get("outcome")).map(text).unwrap_or_default();
    Ok((answer, format!("{id} is {state}\n")))
}
