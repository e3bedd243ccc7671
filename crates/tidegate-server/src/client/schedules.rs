//! The `schedules` commands.

use std::fmt::Write as _;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// The commands on schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List schedules with their last outcome and next occurrence.
    List {
        /// Only schedules of this app.
        #[arg(long)]
        app: Option<String>,
        /// Only schedules of this workflow; `flow/action` for an action.
        #[arg(long)]
        workflow: Option<String>,
        /// Maximum number of schedules.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Pause a schedule: it plans no more runs; started runs continue.
    Pause {
        /// Id of the schedule, as in the list.
        schedule: String,
    },
    /// Resume a schedule: it continues with the next occurrence after now.
    Resume {
        /// Id of the schedule, as in the list.
        schedule: String,
    },
}

pub(super) async fn schedules(
    server: &Server<'_>,
    command: Option<Schedules>,
) -> anyhow::Result<(Value, String)> {
    let all = Schedules::List { app: None, workflow: None, limit: 50 };
    match command.unwrap_or(all) {
        Schedules::List { app, workflow, limit } => {
            let mut path = format!("/schedules?limit={limit}");
            for (name, value) in [("app", app), ("workflow", workflow)] {
                if let Some(value) = value {
                    write!(path, "&{name}={}", part(&value))?;
                }
            }
            let answer = server.get(&path).await?;
            let shown = list(&answer);
            Ok((answer, shown))
        }
        Schedules::Pause { schedule } => held(server, &schedule, "pause", "is paused").await,
        Schedules::Resume { schedule } => held(server, &schedule, "resume", "is resumed").await,
    }
}

fn list(answer: &Value) -> String {
    let mut rows = answer["schedules"].clone();
    for row in rows.as_array_mut().into_iter().flatten() {
        let next = if row["paused"] == true { json!("paused") } else { row["next"][0].clone() };
        row["next"] = next;
        let last = [&row["last"]["plannedAt"], &row["last"]["outcome"]].map(text);
        row["last"] = last.join(" ").trim().into();
    }
    let columns = ["id", "workflow", "name", "schedule", "onOverlap", "last", "next"];
    table(&rows, &columns)
}

async fn held(
    server: &Server<'_>,
    id: &str,
    verb: &str,
    then: &str,
) -> anyhow::Result<(Value, String)> {
    let answer = server.post(&format!("/schedules/{}/{verb}", part(id)), json!({})).await?;
    let (workflow, schedule) = (text(&answer["workflow"]), text(&answer["schedule"]));
    let next = answer["next"][0].as_str();
    let next = next.map(|at| format!(", next at {at}")).unwrap_or_default();
    let shown = format!("{schedule} of {workflow} {then}{next}\n");
    Ok((answer, shown))
}
