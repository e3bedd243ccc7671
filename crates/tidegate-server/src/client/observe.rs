//! The `gates`, `events`, `receipts` and `stats` commands.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// The commands that only read: gates, events, receipts and stats.
#[derive(Debug, Subcommand)]
pub(crate) enum Observe {
    /// List gates with their limits, holders and queues.
    Gates {
        #[command(flatten)]
        of: Of,
        /// Only gates of this control.
        #[arg(long)]
        control: Option<String>,
        /// Only gates of this pool.
        #[arg(long)]
        pool: Option<String>,
        /// Only gates whose key contains this text.
        #[arg(long)]
        key: Option<String>,
        /// Maximum number of gates.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// List and show events.
    Events {
        #[command(subcommand)]
        command: Events,
    },
    /// List verdicts other than plain starts, newest first.
    Receipts {
        #[command(flatten)]
        of: Of,
        /// Only receipts of this event.
        #[arg(long)]
        event: Option<String>,
        /// Only receipts of this control.
        #[arg(long)]
        control: Option<String>,
        /// Only receipts with this key.
        #[arg(long)]
        key: Option<String>,
        /// Only receipts with this outcome: queued, dropped and so on.
        #[arg(long)]
        outcome: Option<String>,
        /// Maximum number of receipts.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Count runs by status, and the events held by debounces and batches.
    Stats,
}

/// Filter by app and workflow.
#[derive(Args, Debug)]
pub(crate) struct Of {
    /// Only entries of this app.
    #[arg(long)]
    app: Option<String>,
    /// Only entries of this workflow.
    #[arg(long)]
    workflow: Option<String>,
}

/// The commands on events.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List events, newest first.
    List {
        /// Only events of this name, or of all names with a prefix: `order.*`.
        #[arg(long)]
        name: Option<String>,
        /// Maximum number of events.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show an event with its verdicts and its runs.
    Show {
        /// Id of the event.
        event: String,
    },
}

/// Adds what a gate holds, in words: runs with their units, or the events of a window or buffer.
fn describe(row: &mut Value) {
    let events = row["pending"].as_u64();
    let units = row["units"].as_u64();
    row["holders"] = match (events, units) {
        (Some(1), _) => "1 event".into(),
        (Some(events), _) => format!("{events} events").into(),
        (None, Some(units)) => format!("{} ({units} units)", row["inside"]).into(),
        (None, None) => row["inside"].clone(),
    };
    if let Some(until) = row["closed"]["until"].as_str() {
        row["letsIn"] = format!("{}, closed until {until}", text(&row["letsIn"])).into();
    }
    if events.is_some() && row["until"].is_string() {
        row["next"] = format!("at {}", text(&row["until"])).into();
    }
}

/// Says that no gate was found. A workflow or a pool that does not exist is an error.
async fn nothing(
    server: &Server<'_>,
    workflow: Option<String>,
    pool: Option<String>,
    is_filtered: bool,
) -> anyhow::Result<String> {
    if let Some(workflow) = workflow {
        server.get(&format!("/workflows/{}", part(&workflow))).await?;
    }
    if let Some(pool) = pool {
        server.get(&format!("/pools/{}", part(&pool))).await?;
    }
    let found = if is_filtered { "no gate matches" } else { "no gates" };
    Ok(format!(
        "{found}: a gate is listed while runs are inside or wait, or part of its rate is spent\n"
    ))
}

/// Runs a command. Returns the response, and its text form for people.
pub(super) async fn ask(server: &Server<'_>, what: Observe) -> anyhow::Result<(Value, String)> {
    match what {
        Observe::Gates { of, control, pool, key, limit } => {
            let named = (of.workflow.clone(), pool.clone());
            let is_filtered = control.is_some() || key.is_some();
            let filters = [("app", of.app), ("workflow", of.workflow)];
            let more = [("control", control), ("pool", pool), ("key", key)];
            let filters = filters.into_iter().chain(more);
            let (mut answer, more) = many(server, "gates", filters, limit).await?;
            let mut rows = answer["gates"].clone();
            for row in rows.as_array_mut().into_iter().flatten() {
                let first = row["line"]["first"].as_array().map(|runs| runs.iter().map(text));
                let first = first.map(|runs| runs.take(2).collect::<Vec<_>>().join(" "));
                row["next"] = first.unwrap_or_default().into();
                row["queued"] = counted(&row["line"]).into();
                if let Some(pool) = row["pool"].as_str() {
                    row["workflow"] = format!("pool {pool}").into();
                }
                describe(row);
            }
            answer["next"] = more;
            if rows.as_array().is_none_or(Vec::is_empty) {
                let shown = nothing(server, named.0, named.1, is_filtered).await?;
                return Ok((answer, shown));
            }
            let columns =
                ["control", "workflow", "key", "letsIn", "holders", "queued", "tokens", "next"];
            Ok((answer, table(&rows, &columns)))
        }
        Observe::Events { command: Events::List { name, limit } } => {
            let (answer, _) = many(server, "events", [("name", name)], limit).await?;
            let shown = table(&answer["events"], &["id", "name", "at", "data"]);
            Ok((answer, shown))
        }
        Observe::Events { command: Events::Show { event } } => {
            let answer = server.get(&format!("/events/{}", part(&event))).await?;
            Ok((answer.clone(), format!("{answer:#}\n")))
        }
        Observe::Receipts { of, event, control, key, outcome, limit } => {
            let filters = [("app", of.app), ("workflow", of.workflow), ("event", event)];
            let more = [("control", control), ("key", key), ("outcome", outcome)];
            let filters = filters.into_iter().chain(more);
            let (answer, _) = many(server, "receipts", filters, limit).await?;
            let columns = ["at", "workflow", "outcome", "control", "key", "runId", "eventId"];
            let shown = table(&answer["receipts"], &columns);
            Ok((answer, shown))
        }
        Observe::Stats => {
            let mut answer = server.get("/runs/stats").await?;
            let flow = server.get("/flow-state").await?;
            let shown = numbers(&answer, &flow);
            answer["flowState"] = flow;
            Ok((answer, shown))
        }
    }
}

/// Reads the first `limit` items of a list. It reads as many pages as needed, because a filter may
/// leave a page empty.
async fn many(
    server: &Server<'_>,
    list: &str,
    filters: impl IntoIterator<Item = (&'static str, Option<String>)>,
    limit: u32,
) -> anyhow::Result<(Value, Value)> {
    let mut query = String::new();
    for (name, value) in filters {
        if let Some(value) = value {
            write!(query, "&{name}={}", part(&value))?;
        }
    }
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let left = limit.saturating_sub(u32::try_from(all.len())?).clamp(1, PAGE);
        let from = cursor.as_str().map(|at| format!("&cursor={}", part(at))).unwrap_or_default();
        let mut page = server.get(&format!("/{list}?limit={left}{query}{from}")).await?;
        all.extend(page[list].as_array_mut().map(std::mem::take).unwrap_or_default());
        cursor = page["next"].take();
        if cursor.is_null() || all.len() >= limit as usize {
            let answer = json!({ list: all, "next": cursor });
            return Ok((answer, cursor));
        }
    }
}

/// Page size.
const PAGE: u32 = 500;

/// Formats a count, with `+` if it is only a lower bound.
fn counted(of: &Value) -> String {
    let more = if of["atLeast"] == true { "+" } else { "" };
    format!("{}{more}", text(&of["count"]))
}

/// Returns the table of all counts by workflow.
fn numbers(stats: &Value, flow: &Value) -> String {
    let pending = |app: &Value, workflow: &Value, what: &str| {
        let all = flow["workflows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is = |it: &&Value| (&it["app"], &it["workflow"]) == (app, workflow);
        let binding = all.iter().find(is);
        binding.map(|it| it[what]["pending"].clone()).unwrap_or_default()
    };
    let mut rows = stats["byWorkflow"].as_array().cloned().unwrap_or_default();
    for row in &mut rows {
        let debounce = pending(&row["app"], &row["workflow"], "debounce");
        let batch = pending(&row["app"], &row["workflow"], "batch");
        (row["debounced"], row["buffered"]) = (debounce, batch);
    }
    let mut all = stats.clone();
    all["workflow"] = "(all)".into();
    rows.push(all);
    for row in rows.iter_mut().filter(|row| row["ready"].is_null()) {
        row["ready"] = 0.into();
    }
    let columns = [
        "workflow",
        "version",
        "inFlight",
        "ready",
        "queued",
        "waiting",
        "paused",
        "debounced",
        "buffered",
    ];
    table(&rows.into(), &columns)
}
