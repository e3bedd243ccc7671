//! `tidegate bulk`: one action on many runs.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Server;

/// The action, and the filter of the runs.
#[derive(Args, Debug)]
pub(crate) struct Bulk {
    /// Action on the runs.
    action: Action,
    /// Only runs of this app.
    #[arg(long)]
    app: Option<String>,
    /// Only runs of this workflow.
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs of this version.
    #[arg(long)]
    version: Option<u32>,
    /// Only runs with this status: queued, running, waiting or paused.
    #[arg(long)]
    state: Option<String>,
    /// All runs of the workspace.
    #[arg(long)]
    all: bool,
    /// Reason for a cancellation.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    Cancel,
    Pause,
    Resume,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

/// Poll interval until the operation is finished.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until a bulk operation is finished, and returns its results.
pub(super) async fn finished(server: &Server<'_>, id: &str) -> anyhow::Result<Value> {
    let path = format!("/runs/bulk/{id}");
    let mut answer = server.get(&path).await?;
    while answer["finished"] != true {
        tokio::time::sleep(LOOK).await;
        answer = server.get(&path).await?;
    }
    Ok(answer)
}

/// Starts the operation and waits until it is finished.
pub(super) async fn bulk(server: &Server<'_>, asked: Bulk) -> anyhow::Result<(Value, String)> {
    let Bulk { action, app, workflow, version, state, all, reason } = asked;
    let filter = json!({ "app": app, "workflow": workflow, "version": version, "state": state });
    let mut body = json!({ "action": action.as_str(), "filter": filter, "all": all });
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    let answer = server.post("/runs/bulk", body).await?;
    let answer = finished(server, answer["id"].as_str().unwrap_or_default()).await?;
    let shown =
        format!("{}: {} done, {} refused\n", action.as_str(), answer["done"], answer["refused"]);
    Ok((answer, shown))
}
