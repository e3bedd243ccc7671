//! `tidegate schedules`.

use std::fmt::Write as _;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// What can be done with schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// Shows which there are, with what became of the last occurrence and when the next is.
    List {
        /// Only those of an app.
        #[arg(long)]
        app: Option<String>,
        /// Only those of a workflow; `flow/action` of an action.
        #[arg(long)]
        workflow: Option<String>,
        /// How many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Plans nothing of it any more; what has begun goes on.
    Pause {
        /// The schedule, by the id that the list shows.
        schedule: String,
    },
    /// Lets it go on with its next occurrence from now.
    Resume {
        /// The schedule, by the id that the list shows.
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
            let told = server.get(&path).await?;
            let shown = list(&told);
            Ok((told, shown))
        }
        Schedules::Pause { schedule } => held(server, &schedule, "pause", "is paused").await,
        Schedules::Resume { schedule } => held(server, &schedule, "resume", "goes on").await,
    }
}

fn list(told: &Value) -> String {
    let mut rows = told["schedules"].clone();
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
    let told = server.post(&format!("/schedules/{}/{verb}", part(id)), json!({})).await?;
    let (workflow, schedule) = (text(&told["workflow"]), text(&told["schedule"]));
    let next = told["next"][0].as_str();
    let next = next.map(|at| format!(", next at {at}")).unwrap_or_default();
    let shown = format!("{schedule} of {workflow} {then}{next}\n");
    Ok((told, shown))
}
