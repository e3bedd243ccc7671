//! The commands `limit`, `pause`, `resume` and `audit`.

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tidegate_core::time::Timestamp;

use super::{Server, part, table, text};

/// The commands on overrides of limits.
#[derive(Debug, Subcommand)]
pub(crate) enum Limits {
    /// List the overrides in force.
    List {
        /// Only overrides of this workflow.
        #[arg(long)]
        workflow: Option<String>,
        /// Only overrides of this pool.
        #[arg(long)]
        pool: Option<String>,
    },
    /// Override a limit, in place of the last override of the same target.
    Set {
        #[command(flatten)]
        target: LimitTarget,
        /// Maximum number of runs at once, or of arrivals per period.
        #[arg(long)]
        limit: Option<u32>,
        /// Period in milliseconds, for `throttle` and `rateLimit`.
        #[arg(long)]
        per_ms: Option<u64>,
        /// Maximum number of arrivals at once, for `throttle` and `rateLimit`.
        #[arg(long)]
        burst: Option<u32>,
        /// Weight of a value at a limit with `fair`; the value is given by `--value`.
        #[arg(long, requires = "value")]
        weight: Option<u32>,
        /// Close the gates for this many seconds, instead of a new limit or beside one.
        #[arg(long, value_name = "SECONDS")]
        close_for_seconds: Option<u64>,
        #[command(flatten)]
        how: How,
    },
    /// End the override of a limit.
    Remove {
        #[command(flatten)]
        target: LimitTarget,
    },
    /// Undo the latest change of a target's override.
    Undo {
        /// Workflow; `flow/action` for an action; left out with `--pool`.
        #[arg(required_unless_present = "pool")]
        workflow: Option<String>,
        /// Control: `concurrency`, `throttle` or `rateLimit`; absent for a pause.
        control: Option<String>,
        #[command(flatten)]
        keys: Keyed,
        #[command(flatten)]
        which: Which,
    },
    /// Cancel all runs that wait at the gates of a target.
    Purge {
        /// Workflow; `flow/action` for an action; left out with `--pool`.
        #[arg(required_unless_present = "pool")]
        workflow: Option<String>,
        /// Control: `concurrency` or `throttle`; absent for all runs that have not started, or for
        /// all queues of a pool.
        control: Option<String>,
        #[command(flatten)]
        keys: Keyed,
        /// Span of the `concurrency` limit: `executing` or `run`.
        #[arg(long)]
        span: Option<String>,
        /// Reason of the cancellations.
        #[arg(long)]
        reason: Option<String>,
        /// Print the number of waiting runs without cancelling them.
        #[arg(long)]
        dry_run: bool,
    },
    /// List the changes of overrides, newest first.
    History {
        /// Maximum number of changes.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

/// The gates of a control.
#[derive(Args, Debug)]
pub(crate) struct LimitTarget {
    /// Workflow; `flow/action` for an action; left out with `--pool`.
    workflow: String,
    /// Control: `concurrency`, `throttle` or `rateLimit`.
    #[arg(required_unless_present = "pool")]
    control: Option<String>,
    #[command(flatten)]
    keys: Keyed,
    #[command(flatten)]
    which: Which,
}

/// The app and the key of a target.
#[derive(Args, Debug)]
pub(crate) struct Keyed {
    /// App of the workflow; default: the app of the server's config file.
    #[arg(long)]
    app: Option<String>,
    /// Pool, instead of a workflow.
    #[arg(long, conflicts_with_all = ["app", "path"])]
    pool: Option<String>,
    /// Path of the key, as in the definition; not for a pool.
    #[arg(long)]
    path: Option<String>,
    /// Value of the key, text unless it is a JSON number or boolean; `acme-*` for all that begin so.
    #[arg(long)]
    key: Option<String>,
}

/// One of several limits of a control.
#[derive(Args, Debug)]
pub(crate) struct Which {
    /// Span of the `concurrency` limit: `executing` or `run`.
    #[arg(long)]
    span: Option<String>,
    /// Position among several limits with one path, from 0.
    #[arg(long)]
    position: Option<u32>,
    /// Value of `fair.by` whose weight is meant, as `why` shows it.
    #[arg(long, conflicts_with_all = ["key", "position"])]
    value: Option<String>,
}

/// Reason, end and preview of a change.
#[derive(Args, Debug)]
pub(crate) struct How {
    /// Reason, which `why` and the history show.
    #[arg(long)]
    reason: Option<String>,
    /// End the override after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    for_seconds: Option<u64>,
    /// Print the change without making it.
    #[arg(long)]
    dry_run: bool,
}

/// Resumes the first starts of a workflow, or the entries into a pool.
#[derive(Args, Debug)]
pub(crate) struct Resume {
    /// Workflow; `flow/action` for an action; left out with `--pool`.
    #[arg(required_unless_present = "pool", conflicts_with = "pool")]
    workflow: Option<String>,
    #[command(flatten)]
    keys: Keyed,
}

/// Pauses the first starts of a workflow, or the entries into a pool.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// Workflow; `flow/action` for an action; left out with `--pool`.
    #[arg(required_unless_present = "pool", conflicts_with = "pool")]
    workflow: Option<String>,
    #[command(flatten)]
    keys: Keyed,
    #[command(flatten)]
    how: How,
}

/// Builds the target. With `--pool` the first name is the control.
fn target(
    workflow: Option<String>,
    control: Option<String>,
    keys: Keyed,
    which: Option<Which>,
) -> anyhow::Result<Value> {
    let mut target = Map::new();
    let (workflow, control) = match &keys.pool {
        Some(_) if control.is_some() => anyhow::bail!("give a workflow or `--pool`, not both"),
        Some(_) => (None, workflow),
        None => (workflow, control),
    };
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            target.insert(name.to_owned(), value);
        }
    };
    put("workflow", workflow.map(Value::from));
    put("pool", keys.pool.map(Value::from));
    put("app", keys.app.map(Value::from));
    put("control", control.map(Value::from));
    put("path", keys.path.map(Value::from));
    if let Some(which) = which {
        put("span", which.span.map(Value::from));
        put("position", which.position.map(Value::from));
        put("value", which.value.map(Value::from));
    }
    let Some(key) = keys.key else { return Ok(Value::Object(target)) };
    if let Some(prefix) = key.strip_suffix('*') {
        put("keyPrefix", Some(prefix.into()));
    } else {
        let read: Option<Value> = serde_json::from_str(&key).ok();
        let scalar = read.filter(|it| it.is_number() || it.is_boolean() || it.is_string());
        put("key", Some(scalar.unwrap_or(Value::from(key))));
    }
    Ok(Value::Object(target))
}

async fn set(
    server: &Server<'_>,
    target: Value,
    fields: &[(&str, Option<Value>)],
    how: How,
) -> anyhow::Result<(Value, String)> {
    let mut body = json!({ "target": target });
    for (name, value) in fields {
        if let Some(value) = value {
            body[*name] = value.clone();
        }
    }
    if let Some(reason) = how.reason {
        body["reason"] = reason.into();
    }
    if let Some(seconds) = how.for_seconds {
        body["expiresAt"] = after(seconds);
    }
    let path = if how.dry_run { "/overrides?dryRun=true" } else { "/overrides" };
    let answer = server.ask(Method::PUT, path, Some(body)).await?;
    let shown = changed(&answer);
    Ok((answer, shown))
}

/// Returns the time after this many seconds.
fn after(seconds: u64) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let end = now.saturating_add(Duration::from_secs(seconds));
    let end = i64::try_from(end.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_ms(end).rfc3339().into()
}

/// Formats a change: what was in force before and after.
fn changed(answer: &Value) -> String {
    let line = |name: &str| match &answer[name] {
        Value::Null => "no override".to_owned(),
        over => fields(over),
    };
    let effect = &answer["effect"];
    let effect = match effect["enter"].as_u64() {
        Some(enter) => {
            let more = if effect["atLeast"] == true { " or more" } else { "" };
            format!("waiting runs: {enter}{more} would enter, {} would wait\n", effect["wait"])
        }
        None => String::new(),
    };
    format!("before: {}\nafter: {}\n{effect}", line("before"), line("after"))
}

fn fields(over: &Value) -> String {
    let names = [
        "limit",
        "perMs",
        "burst",
        "weight",
        "paused",
        "closedUntil",
        "drained",
        "expiresAt",
        "reason",
        "author",
    ];
    let present = names.iter().filter(|name| !over[**name].is_null());
    present.map(|name| format!("{name} {}", text(&over[*name]))).collect::<Vec<_>>().join(", ")
}

pub(super) async fn limits(
    server: &Server<'_>,
    command: Limits,
) -> anyhow::Result<(Value, String)> {
    match command {
        Limits::List { workflow, pool } => {
            let filter = workflow.map(|it| format!("&workflow={}", part(&it))).unwrap_or_default();
            let pool = pool.map(|it| format!("&pool={}", part(&it))).unwrap_or_default();
            let answer = server.get(&format!("/overrides?limit=500{filter}{pool}")).await?;
            let mut rows = answer["overrides"].clone();
            for row in rows.as_array_mut().into_iter().flatten() {
                let target = row["target"].clone();
                let prefix = target["keyPrefix"].as_str().map(|it| json!(format!("{it}*")));
                row["key"] = prefix.unwrap_or_else(|| target["key"].clone());
                if let Some(value) = target["value"].as_str() {
                    row["key"] = format!("turns of {value}").into();
                }
                row["override"] = fields(row).into();
                let control = target["control"].as_str().unwrap_or("pause").into();
                row["control"] = control;
                for name in ["workflow", "path"] {
                    row[name] = target[name].clone();
                }
                if let Some(pool) = target["pool"].as_str() {
                    row["workflow"] = format!("pool {pool}").into();
                }
            }
            let shown = table(&rows, &["workflow", "control", "path", "key", "override", "at"]);
            Ok((answer, shown))
        }
        Limits::Set { target: of, limit, per_ms, burst, weight, close_for_seconds, how } => {
            let LimitTarget { workflow, control, keys, which } = of;
            let target = target(Some(workflow), control, keys, Some(which))?;
            let fields = [
                ("limit", limit.map(Value::from)),
                ("perMs", per_ms.map(Value::from)),
                ("burst", burst.map(Value::from)),
                ("weight", weight.map(Value::from)),
                ("closedUntil", close_for_seconds.map(after)),
            ];
            set(server, target, &fields, how).await
        }
        Limits::Remove { target: of } => {
            let LimitTarget { workflow, control, keys, which } = of;
            remove(server, target(Some(workflow), control, keys, Some(which))?).await
        }
        Limits::Undo { workflow, control, keys, which } => {
            let target = target(workflow, control, keys, Some(which))?;
            let answer = server.post("/overrides/undo", json!({ "target": target })).await?;
            let shown = changed(&answer);
            Ok((answer, shown))
        }
        Limits::Purge { workflow, control, keys, span, reason, dry_run } => {
            let which = Which { span, position: None, value: None };
            let mut body = json!({ "target": target(workflow, control, keys, Some(which))? });
            if let Some(reason) = reason {
                body["reason"] = reason.into();
            }
            purge(server, body, dry_run).await
        }
        Limits::History { limit } => {
            let answer = server.get(&format!("/overrides/history?limit={limit}")).await?;
            let shown = log(&answer);
            Ok((answer, shown))
        }
    }
}

/// Purges a target, and waits until the runs are cancelled.
async fn purge(server: &Server<'_>, body: Value, dry_run: bool) -> anyhow::Result<(Value, String)> {
    let path = if dry_run { "/overrides/purge?dryRun=true" } else { "/overrides/purge" };
    let answer = server.post(path, body).await?;
    let more = if answer["atLeast"] == true { " or more" } else { "" };
    let waiting = &answer["waiting"];
    let Some(id) = answer["id"].as_str() else {
        let shown = format!("{waiting}{more} runs wait\n");
        return Ok((answer, shown));
    };
    let done = super::bulk::finished(server, id).await?;
    let shown = format!("{waiting}{more} runs waited: {} cancelled\n", done["done"]);
    Ok((done, shown))
}

async fn remove(server: &Server<'_>, target: Value) -> anyhow::Result<(Value, String)> {
    let body = json!({ "target": target });
    let answer = server.ask(Method::DELETE, "/overrides", Some(body)).await?;
    let shown = changed(&answer);
    Ok((answer, shown))
}

/// Pauses the first starts of a workflow, or the entries into a pool.
pub(super) async fn pause(server: &Server<'_>, asked: Pause) -> anyhow::Result<(Value, String)> {
    let target = target(asked.workflow, None, asked.keys, None)?;
    set(server, target, &[("paused", Some(true.into()))], asked.how).await
}

/// Resumes first starts of a workflow or entries into a pool: ends the pause of the same target.
pub(super) async fn resume(server: &Server<'_>, asked: Resume) -> anyhow::Result<(Value, String)> {
    remove(server, target(asked.workflow, None, asked.keys, None)?).await
}

pub(super) async fn audit(server: &Server<'_>, limit: u32) -> anyhow::Result<(Value, String)> {
    let answer = server.get(&format!("/audit?limit={limit}")).await?;
    let shown = log(&answer);
    Ok((answer, shown))
}

/// Returns the object of a change in words: the target of an override is JSON.
fn object(subject: &str) -> String {
    let Ok(target) = serde_json::from_str::<Map<String, Value>>(subject) else {
        return subject.to_owned();
    };
    let field = |name: &str| target.get(name).map(text);
    let owner = field("pool").map(|pool| format!("pool {pool}")).or_else(|| field("workflow"));
    let path = field("path").unwrap_or_else(|| "key".to_owned());
    let key = field("key").or_else(|| field("keyPrefix").map(|prefix| format!("{prefix}*")));
    let keyed = match (key, field("value")) {
        (Some(key), _) => Some(format!("{path}={key}")),
        (None, Some(value)) => Some(format!("turns of {value}")),
        (None, None) => field("path"),
    };
    let control = field("control").unwrap_or_else(|| "pause".to_owned());
    [owner, Some(control), keyed].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn log(answer: &Value) -> String {
    let mut rows = answer["changes"].clone();
    for row in rows.as_array_mut().into_iter().flatten() {
        row["subject"] = object(&text(&row["subject"])).into();
        for name in ["before", "after"] {
            let shown = if row[name].is_object() { fields(&row[name]) } else { String::new() };
            row[name] = shown.into();
        }
    }
    table(&rows, &["at", "author", "address", "operation", "subject", "before", "after"])
}
