//! The commands that talk to a server: they ask over HTTP what any other client could.

mod bulk;
mod observe;
mod streams;

use std::{fmt::Write as _, io::Write};

use anyhow::Context;
use clap::{Args, Subcommand};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tidegate::{
    core::{access::AccessCommand, row::Workspace, time::Timestamp},
    store::{Clock as _, Store, StoreError, SystemClock},
};

use crate::{config::Config, exit::Failure, keys, progress::Progress, serve::open};

/// Where the server is, and how to print its answers.
#[derive(Args, Debug)]
pub(crate) struct Remote {
    /// The server's address.
    #[arg(long, env = "TIDEGATE_URL", default_value = "http://127.0.0.1:7400", global = true)]
    server: String,
    /// The workspace.
    #[arg(long, env = "TIDEGATE_WORKSPACE", global = true)]
    workspace: Option<String>,
    /// Prints the server's answer as it is.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Remote {
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What every request says about who asks.
    pub(crate) fn headers(&self) -> Vec<(&'static str, &str)> {
        self.workspace.iter().map(|name| ("tidegate-workspace", name.as_str())).collect()
    }
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Sends an event, and says what became of it.
    Send {
        /// The event's name.
        name: String,
        /// Its data, as JSON; text that is none is taken as text.
        #[arg(default_value = "null")]
        data: String,
        /// Takes it once, however often it is sent under this id.
        #[arg(long)]
        dedupe_id: Option<String>,
        /// Sends it so many times.
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Gives this field of its data the values 0 to N - 1 in turn: `--vary account=20`.
        #[arg(long, value_name = "FIELD=N", value_parser = read_vary)]
        vary: Option<Vary>,
        /// Says what would become of it, without any effect.
        #[arg(long)]
        dry_run: bool,
    },
    /// Says why a run waits, or what became of it.
    Why {
        /// The run.
        run: String,
    },
    /// Looks at runs and acts on them.
    Runs {
        #[command(subcommand)]
        command: Runs,
    },
    /// Shows what is defined, or takes it away.
    Workflows {
        #[command(subcommand)]
        command: Option<Workflows>,
    },
    /// Looks at streams, and mends those that reactions are stuck in.
    Streams {
        #[command(subcommand)]
        command: streams::Streams,
    },
    /// Shows how far reactions are in their streams, and what keeps them.
    Reactions(streams::Reactions),
    /// Cancels, pauses or resumes all runs that fit.
    Bulk(bulk::Bulk),
    /// Gives a version the new runs. Rolling back is a release.
    Release {
        /// The workflow.
        workflow: String,
        /// The version.
        version: u32,
        /// The app.
        #[arg(long, default_value = "default")]
        app: String,
    },
    #[command(flatten)]
    Observe(observe::Observe),
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Makes one, and shows it this once.
    Create {
        /// What people call it.
        #[arg(long)]
        name: String,
        /// It only lets look.
        #[arg(long)]
        read_only: bool,
        /// It ends after so many days.
        #[arg(long)]
        expires_days: Option<u32>,
    },
    /// Shows them, without their secrets.
    List,
    /// Takes one back, for good.
    Revoke {
        /// Its public part.
        id: String,
    },
}

impl Keys {
    /// Without a server: the only way to the first key of one that others can reach.
    async fn in_store(
        self,
        store: &dyn Store,
        ws: Workspace,
    ) -> anyhow::Result<(Value, Option<String>)> {
        match self {
            Self::Create { name, read_only, expires_days } => {
                keys::check_name(&name)?;
                let wanted = keys::Wanted { ws, name, read_only, expires_at: end(expires_days) };
                let (text, key) = keys::make(store, wanted).await?;
                let mut told = keys::view(&key);
                told["key"] = text.clone().into();
                Ok((told, Some(format!("{text}\n"))))
            }
            Self::List => {
                let all = keys::all(store).await?.0;
                Ok((json!({ "keys": all.iter().map(keys::view).collect::<Vec<_>>() }), None))
            }
            Self::Revoke { id } => {
                let revoke = AccessCommand::Revoke { ws, id: id.clone() };
                keys::change(store, revoke).await?;
                Ok((json!({ "id": id, "revoked": true }), Some(format!("{id} is revoked\n"))))
            }
        }
    }

    async fn by_server(self, server: &Server<'_>) -> anyhow::Result<(Value, Option<String>)> {
        match self {
            Self::Create { name, read_only, expires_days } => {
                let end = end(expires_days).map(Timestamp::rfc3339);
                let body = json!({ "name": name, "readOnly": read_only, "expiresAt": end });
                let told = server.post("/keys", body).await?;
                let shown = format!("{}\n", text(&told["key"]));
                Ok((told, Some(shown)))
            }
            Self::List => Ok((server.get("/keys").await?, None)),
            Self::Revoke { id } => {
                let path = format!("/keys/{}", part(&id));
                let told = server.ask(Method::DELETE, &path, None).await?;
                Ok((told, Some(format!("{id} is revoked\n"))))
            }
        }
    }
}

/// So many days from now.
fn end(days: Option<u32>) -> Option<Timestamp> {
    days.map(|days| SystemClock.now().plus_ms(u64::from(days) * 24 * 60 * 60 * 1000))
}

/// What can be done with workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// Nothing starts it any more; its runs go on, its history stays.
    Delete {
        /// The workflow.
        workflow: String,
        /// The app.
        #[arg(long, default_value = "default")]
        app: String,
    },
}

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// Shows the newest.
    List {
        /// Only those of a workflow.
        #[arg(long)]
        workflow: Option<String>,
        /// Only those in a state.
        #[arg(long)]
        state: Option<String>,
        /// How many.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Shows one, with its steps.
    Show {
        /// The run.
        run: String,
    },
    /// Cancels one.
    Cancel {
        /// The run.
        run: String,
        /// Why.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Pauses one at its next boundary.
    Pause {
        /// The run.
        run: String,
    },
    /// Lets a paused one go on.
    Resume {
        /// The run.
        run: String,
    },
    /// Starts a new run of one that has ended.
    Replay {
        /// The run.
        run: String,
    },
    /// Starts a new run from a step of one that has ended.
    Retry {
        /// The run.
        run: String,
        /// The step.
        #[arg(long)]
        from: String,
    },
}

/// The variable that holds the key to show.
const API_KEY: &str = "TIDEGATE_API_KEY";

/// The key to show, if there is one.
pub(crate) fn key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|key| !key.is_empty())
}

/// A field whose value changes from event to event.
#[derive(Clone, Debug)]
pub(crate) struct Vary {
    field: String,
    values: u32,
}

fn read_vary(text: &str) -> Result<Vary, String> {
    let (field, values) = text.split_once('=').ok_or("write FIELD=N, such as account=20")?;
    match values.parse() {
        Ok(values) if values > 0 => Ok(Vary { field: field.to_owned(), values }),
        _ => Err(format!("N must be a number above 0, got `{values}`")),
    }
}

/// The most events of one request.
const AT_ONCE: u32 = 1000;

/// The runs of one page.
const PAGE: u32 = 500;

struct Server<'a> {
    client: Client,
    remote: &'a Remote,
    /// From the environment alone: what is on a command line can be seen by others.
    key: Option<String>,
}

impl<'a> Server<'a> {
    fn new(remote: &'a Remote) -> anyhow::Result<Self> {
        Ok(Self { client: Client::builder().no_proxy().build()?, remote, key: key() })
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let base = self.remote.server.trim_end_matches('/');
        let mut request = self.client.request(method, format!("{base}{path}"));
        for (name, value) in self.remote.headers() {
            request = request.header(name, value);
        }
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.map_err(|_| {
            Failure::Unreachable(format!(
                "no server answers at {base}; start one with `tidegate serve`, or give --server"
            ))
        })?;
        let (status, text) = (answer.status(), answer.text().await?);
        let told: Value = serde_json::from_str(&text)
            .with_context(|| format!("{base} is not a Tidegate server: {status}"))?;
        if status.is_success() {
            return Ok(told);
        }
        let (detail, code) = (&told["detail"], &told["error"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = format!("{} ({})", text(detail), text(code));
        Err(match status {
            StatusCode::NOT_FOUND => Failure::NotFound(said).into(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Forbidden(said).into(),
            _ => anyhow::anyhow!(said),
        })
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Some(body)).await
    }
}

/// Does it in the store, or by the server that holds it.
pub(crate) async fn keys(
    remote: &Remote,
    config: &Config,
    command: Keys,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let server = Server::new(remote)?;
    let store = match server.key {
        Some(_) => None,
        None => match open(config.text("store")).await {
            Ok(store) if config.text("store") != "memory" => Some(store),
            Ok(_) => None,
            Err(error) if held(&error) => None,
            Err(error) => return Err(error),
        },
    };
    let ws = remote.workspace.clone().unwrap_or_else(|| config.workspace.clone());
    let (told, shown) = match store {
        Some(store) => command.in_store(&*store, ws.as_str().into()).await?,
        None => command.by_server(&server).await?,
    };
    let shown = shown.unwrap_or_else(|| {
        let columns = ["id", "name", "workspace", "access", "madeAt", "lastUsedAt", "revokedAt"];
        table(&told["keys"], &columns)
    });
    if remote.json {
        writeln!(out, "{told:#}")?;
    } else {
        write!(out, "{shown}")?;
    }
    Ok(())
}

/// Another process has the file.
fn held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::InUse { .. }))
}

/// What a server says at a path.
pub(crate) async fn get(remote: &Remote, path: &str) -> anyhow::Result<Value> {
    Server::new(remote)?.get(path).await
}

/// Asks, and prints the answer.
pub(crate) async fn run(remote: &Remote, ask: Ask, out: &mut impl Write) -> anyhow::Result<()> {
    let server = Server::new(remote)?;
    let (told, shown) = match ask {
        Ask::Send { name, data, dedupe_id, count, vary, dry_run } => {
            let data = serde_json::from_str(&data).unwrap_or(Value::String(data));
            let mut event = json!({ "name": name, "data": data });
            if let Some(id) = dedupe_id {
                event["dedupeId"] = id.into();
            }
            let told = send(&server, &event, (count, vary.as_ref()), dry_run).await?;
            let shown = verdicts(&told);
            (told, shown)
        }
        Ask::Why { run } => {
            let told = server.get(&format!("/runs/{}/why", part(&run))).await?;
            let shown = format!("{run} is {}: {}\n", text(&told["state"]), text(&told["sentence"]));
            (told, shown)
        }
        Ask::Runs { command } => runs(&server, command).await?,
        Ask::Observe(what) => observe::ask(&server, what).await?,
        Ask::Streams { command } => streams::streams(&server, command).await?,
        Ask::Reactions(asked) => streams::reactions(&server, asked).await?,
        Ask::Bulk(asked) => bulk::bulk(&server, asked).await?,
        Ask::Workflows { command: Some(Workflows::Delete { workflow, app }) } => {
            let path = format!("/workflows/{}?app={}", part(&workflow), part(&app));
            let told = server.ask(Method::DELETE, &path, None).await?;
            let live = &told["live"];
            let shown = format!("nothing starts {workflow} any more; {live} of its runs go on\n");
            (told, shown)
        }
        Ask::Workflows { command: None } => {
            let told = server.get("/workflows").await?;
            let shown = table(&told["workflows"], &["name", "app", "version", "flowControl"]);
            (told, shown)
        }
        Ask::Release { workflow, version, app } => {
            let path = format!("/workflows/{}/release?app={}", part(&workflow), part(&app));
            let told = server.post(&path, json!({ "version": version })).await?;
            let (older, stranded) = (&told["older"], &told["stranded"]);
            let shown = format!(
                "{workflow} v{version} gets the new runs; {older} older runs are not over, \
                 {stranded} of them stranded\n"
            );
            (told, shown)
        }
    };
    let printed = if remote.json { format!("{told}\n") } else { shown };
    Ok(out.write_all(printed.as_bytes())?)
}

/// Sends an event so many times, in requests as large as they may be.
async fn send(
    server: &Server<'_>,
    event: &Value,
    (count, vary): (u32, Option<&Vary>),
    dry_run: bool,
) -> anyhow::Result<Value> {
    let path = if dry_run { "/events?dryRun=true" } else { "/events" };
    let (count, mut sent, mut all) = (count.max(1), 0, Vec::new());
    let progress = Progress::of(if count > AT_ONCE { count.into() } else { 0 });
    while sent < count {
        let until = count.min(sent + AT_ONCE);
        let events = (sent..until).map(|n| varied(event, vary, n));
        let events = events.collect::<anyhow::Result<Vec<_>>>()?;
        let mut told = server.post(path, events.into()).await?;
        all.extend(told["events"].as_array_mut().map(std::mem::take).unwrap_or_default());
        sent = until;
        progress.at(sent.into());
    }
    Ok(json!({ "events": all }))
}

/// The newest runs, as many as were asked for. A page may be short although there are more, so that
/// people are shown what several of them hold; programs get the server's answer as it is.
async fn newest(server: &Server<'_>, query: &str, limit: u32) -> anyhow::Result<Value> {
    if server.remote.json {
        return server.get(&format!("/runs?limit={limit}{query}")).await;
    }
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut told = server.get(&format!("/runs?limit={PAGE}{query}{cursor}")).await?;
        runs.extend(told["runs"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match told["next"].as_str() {
            Some(next) if runs.len() < limit as usize => cursor = format!("&cursor={}", part(next)),
            _ => break,
        }
    }
    runs.truncate(limit as usize);
    Ok(json!({ "runs": runs }))
}

/// The n-th of many events.
fn varied(event: &Value, vary: Option<&Vary>, n: u32) -> anyhow::Result<Value> {
    let mut event = event.clone();
    if let Some(Vary { field, values }) = vary {
        if event["data"].is_null() {
            event["data"] = json!({});
        }
        let data = event["data"].as_object_mut();
        let data = data.context("--vary needs data that is an object")?;
        data.insert(field.clone(), (n % values).into());
    }
    Ok(event)
}

async fn runs(server: &Server<'_>, command: Runs) -> anyhow::Result<(Value, String)> {
    let told = match command {
        Runs::List { workflow, state, limit } => {
            let mut query = String::new();
            for (name, value) in [("workflow", workflow), ("state", state)] {
                if let Some(value) = value {
                    write!(query, "&{name}={}", part(&value))?;
                }
            }
            let told = newest(server, &query, limit).await?;
            let shown = table(&told["runs"], &["id", "workflow", "version", "state", "queuedAt"]);
            return Ok((told, shown));
        }
        Runs::Show { run } => {
            let path = format!("/runs/{}", part(&run));
            let mut told = server.get(&path).await?;
            told["steps"] = server.get(&format!("{path}/steps")).await?["steps"].take();
            return Ok((told.clone(), format!("{told:#}\n")));
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
    let id = told.get("runId").or(told.get("id")).map(text).unwrap_or_default();
    let state = told.get("state").or(told.get("outcome")).map(text).unwrap_or_default();
    Ok((told, format!("{id} is {state}\n")))
}

/// How many of each verdict there are, workflow by workflow, and whose word it was.
fn verdicts(told: &Value) -> String {
    let mut counts: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
    let events = told["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    for event in events {
        let runs = event["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
        for run in runs {
            let by = run["control"].as_str().map(|control| format!(" by {control}"));
            let word = format!("{}{}", text(&run["outcome"]), by.unwrap_or_default());
            *counts.entry((text(&run["workflow"]), word)).or_default() += 1;
        }
        if runs.is_empty() {
            let word = if event["deduped"] == true { "deduped" } else { "recorded" };
            *counts.entry((String::new(), word.to_owned())).or_default() += 1;
        }
    }
    let lines = counts.into_iter().map(|((workflow, word), count)| {
        if workflow.is_empty() {
            format!("{count} {word}\n")
        } else {
            format!("{count} {word}: {workflow}\n")
        }
    });
    lines.collect()
}

/// Rows of a list under their names.
fn table(list: &Value, columns: &[&str]) -> String {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut cells = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    cells.extend(rows.iter().map(|row| columns.iter().map(|name| text(&row[*name])).collect()));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    cells.iter().map(line).collect()
}

/// A value as people read it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A text as a part of an address.
fn part(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}
