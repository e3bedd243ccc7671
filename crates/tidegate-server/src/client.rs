//! The client commands. They use the HTTP API of a server, as any other client could.

mod bulk;
mod deferred;
mod inside;
mod keys;
mod lenient;
mod observe;
mod overrides;
mod pools;
mod runs;
mod schedules;
mod send;
mod streams;

use std::{fmt::Write as _, io::Write, path::PathBuf};

use anyhow::Context;
use axum::Router;
use clap::{Args, Subcommand};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

pub(crate) use self::keys::{Keys, keys};
use self::{runs::Runs, send::Vary};
use crate::exit::Failure;

/// Address of the server, and output format.
#[derive(Args, Debug)]
pub(crate) struct Remote {
    /// URL of the server.
    #[arg(long, env = "TIDEGATE_URL", default_value = "http://127.0.0.1:7400", global = true)]
    server: String,
    /// Workspace.
    #[arg(long, env = "TIDEGATE_WORKSPACE", global = true)]
    workspace: Option<String>,
    /// Read this SQLite file instead of a server. No server may have it open.
    #[arg(long, global = true, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Print the server's response as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Remote {
    /// Ids of the flags above.
    pub(crate) const FLAGS: [&'static str; 4] = ["server", "workspace", "file", "json"];

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Prints a response: as JSON with `--json`, otherwise as text for people.
    pub(crate) fn print(
        &self,
        out: &mut impl Write,
        answer: &Value,
        shown: &str,
    ) -> anyhow::Result<()> {
        Ok(if self.json { writeln!(out, "{answer}") } else { write!(out, "{shown}") }?)
    }

    /// Returns the headers of every request, except the API key.
    pub(crate) fn headers(&self) -> Vec<(&'static str, &str)> {
        self.workspace.iter().map(|name| ("tidegate-workspace", name.as_str())).collect()
    }
}

/// The client commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Send an event and print its outcome.
    Send {
        /// Name of the event.
        name: String,
        /// Data of the event, as JSON; text needs quotes.
        #[arg(default_value = "null")]
        data: String,
        /// Deduplication id: events with the same id are accepted once.
        #[arg(long)]
        dedupe_id: Option<String>,
        /// Deliver it after this time: `90s`, `10m`, `36h` or `3d`. Until then it starts nothing.
        #[arg(long, value_name = "TIME", conflicts_with = "at", value_parser = send::read_delay)]
        delay: Option<u64>,
        /// Deliver it at this time, like 2026-11-16T12:00:00Z.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Number of times to send it.
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Give this field of the data the values 0 to N - 1 in turn: `--vary account=20`.
        #[arg(long, value_name = "FIELD=N", value_parser = send::read_vary)]
        vary: Option<Vary>,
        /// Print the outcome without any effect.
        #[arg(long)]
        dry_run: bool,
    },
    /// List events and requests that are delivered later, or cancel one.
    Deferred {
        #[command(subcommand)]
        command: Option<deferred::Deferred>,
    },
    /// Explain why a run waits, or how it ended.
    Why {
        /// Id of the run.
        run: String,
    },
    /// List, show and change runs.
    Runs {
        #[command(subcommand)]
        command: Runs,
    },
    /// List workflows, or delete one.
    Workflows {
        #[command(subcommand)]
        command: Option<Workflows>,
    },
    /// List, change and delete pools: limits that several workflows share.
    Pools {
        #[command(subcommand)]
        command: Option<pools::Pools>,
    },
    /// List and show streams, and unblock or reset the streams of a reaction.
    Streams {
        #[command(subcommand)]
        command: streams::Streams,
    },
    /// Show the positions of reactions in their streams, and blocked streams.
    Reactions(streams::Reactions),
    /// Cancel, pause or resume all matching runs.
    Bulk(bulk::Bulk),
    /// Override limits without a release, and undo it.
    Limit {
        #[command(subcommand)]
        command: overrides::Limits,
    },
    /// Pause the first starts of a workflow, an action or a key; started runs continue.
    Pause(overrides::Pause),
    /// Resume the first starts of a workflow, an action or a key.
    Resume(overrides::Resume),
    /// Show who changed what through the API, newest first.
    Audit {
        /// Maximum number of changes.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Release a version: new runs use it. Use it to roll back, too.
    Release {
        /// Name of the workflow.
        workflow: String,
        /// Version to release.
        version: u32,
        /// App of the workflow; default: the app of the server's config file.
        #[arg(long)]
        app: Option<String>,
    },
    #[command(flatten)]
    Observe(observe::Observe),
    /// List, pause and resume schedules.
    Schedules {
        #[command(subcommand)]
        command: Option<schedules::Schedules>,
    },
}

/// The commands on workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// Delete a workflow: nothing starts it any more; its runs continue, its history stays.
    Delete {
        /// Name of the workflow.
        workflow: String,
        /// App of the workflow; default: the app of the server's config file.
        #[arg(long)]
        app: Option<String>,
    },
}

/// Environment variable with the API key.
const API_KEY: &str = "TIDEGATE_API_KEY";

/// Returns the API key of the environment, if it is set.
pub(crate) fn key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|key| !key.is_empty())
}

struct Server<'a> {
    client: Client,
    remote: &'a Remote,
    /// Read from the environment only: other users of the machine can see a command line.
    key: Option<String>,
    /// With `--file`: the router that answers requests instead of a server.
    inside: Option<Router>,
}

impl<'a> Server<'a> {
    async fn new(remote: &'a Remote) -> anyhow::Result<Self> {
        let workspace = remote.workspace.as_deref();
        let inside = match &remote.file {
            Some(file) => Some(inside::open(file, workspace).await?),
            None => None,
        };
        Ok(Self { client: Client::builder().no_proxy().build()?, remote, key: key(), inside })
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        if let Some(router) = &self.inside {
            let (status, text) = inside::ask(router, &method, path).await?;
            return read(status, &text, "the file");
        }
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
                "no server at {base}; start one with `tidegate serve`, or set --server"
            ))
        })?;
        let (status, text) = (answer.status(), answer.text().await?);
        read(status, &text, base)
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Some(body)).await
    }
}

/// Parses a response. An error status becomes an error.
fn read(status: StatusCode, text: &str, who: &str) -> anyhow::Result<Value> {
    let answer = lenient::read(text)
        .with_context(|| format!("{who} did not answer as a Tidegate server: {status}"))?;
    if status.is_success() {
        return Ok(answer);
    }
    let (detail, code) = (&answer["detail"], &answer["error"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = format!("{} ({})", text(detail), text(code));
    Err(match status {
        StatusCode::NOT_FOUND => Failure::NotFound(said).into(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Forbidden(said).into(),
        _ => anyhow::anyhow!(said),
    })
}

/// Gets a path from the server.
pub(crate) async fn get(remote: &Remote, path: &str) -> anyhow::Result<Value> {
    Server::new(remote).await?.get(path).await
}

/// Runs a command and prints the response.
pub(crate) async fn run(remote: &Remote, ask: Ask, out: &mut impl Write) -> anyhow::Result<()> {
    let server = Server::new(remote).await?;
    let (answer, shown) = match ask {
        Ask::Send { name, data, dedupe_id, delay, at, count, vary, dry_run } => {
            let data = send::read_data(&data)?;
            let mut event = json!({ "name": name, "data": data });
            if let Some(id) = dedupe_id {
                event["dedupeId"] = id.into();
            }
            if let Some(delay) = delay {
                event["delayMs"] = delay.into();
            }
            if let Some(at) = at {
                event["deliverAt"] = at.into();
            }
            let answer = send::send(&server, &event, (count, vary.as_ref()), dry_run).await?;
            let shown = send::verdicts(&answer);
            (answer, shown)
        }
        Ask::Why { run } => {
            let answer = server.get(&format!("/runs/{}/why", part(&run))).await?;
            let shown =
                format!("{run} is {}: {}\n", text(&answer["state"]), text(&answer["sentence"]));
            (answer, shown)
        }
        Ask::Runs { command } => runs::runs(&server, command).await?,
        Ask::Observe(what) => observe::ask(&server, what).await?,
        Ask::Streams { command } => streams::streams(&server, command).await?,
        Ask::Reactions(asked) => streams::reactions(&server, asked).await?,
        Ask::Bulk(asked) => bulk::bulk(&server, asked).await?,
        Ask::Deferred { command } => deferred::deferred(&server, command).await?,
        Ask::Pools { command } => pools::pools(&server, command).await?,
        Ask::Limit { command } => overrides::limits(&server, command).await?,
        Ask::Pause(asked) => overrides::pause(&server, asked).await?,
        Ask::Resume(asked) => overrides::resume(&server, asked).await?,
        Ask::Audit { limit } => overrides::audit(&server, limit).await?,
        Ask::Schedules { command } => schedules::schedules(&server, command).await?,
        Ask::Workflows { command: Some(Workflows::Delete { workflow, app }) } => {
            let path = format!("/workflows/{}{}", part(&workflow), of_app(app));
            let answer = server.ask(Method::DELETE, &path, None).await?;
            let live = &answer["live"];
            let shown = format!("{workflow} deleted; {live} of its runs continue\n");
            (answer, shown)
        }
        Ask::Workflows { command: None } => {
            let answer = server.get("/workflows").await?;
            let shown = table(&answer["workflows"], &["name", "app", "version", "flowControl"]);
            (answer, shown)
        }
        Ask::Release { workflow, version, app } => {
            let path = format!("/workflows/{}/release{}", part(&workflow), of_app(app));
            let answer = server.post(&path, json!({ "version": version })).await?;
            let (older, stranded) = (&answer["older"], &answer["stranded"]);
            let mut shown = format!(
                "{workflow} v{version} released; {older} runs of older versions are active, \
                 {stranded} of them stranded\n"
            );
            for run in answer["lacking"].as_array().into_iter().flatten() {
                let _ = writeln!(shown, "{} has no key for the handoff", text(run));
            }
            (answer, shown)
        }
    };
    remote.print(out, &answer, &shown)
}

/// Formats a list as a table with headings.
fn table(list: &Value, columns: &[&str]) -> String {
    let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut cells = vec![columns.iter().map(|name| heading(name)).collect::<Vec<_>>()];
    cells.extend(rows.iter().map(|row| columns.iter().map(|name| text(&row[*name])).collect()));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    cells.iter().map(line).collect()
}

/// Returns the heading of a column: its key in capitals, or a more common word for it.
fn heading(key: &str) -> String {
    let words = match key {
        "at" => "time",
        "inFlight" => "running",
        "inside" => "holders",
        "letsIn" => "limit",
        "madeAt" => "createdAt",
        "state" => "status",
        other => other,
    };
    let mut heading = String::new();
    for letter in words.chars() {
        if letter.is_ascii_uppercase() {
            heading.push(' ');
        }
        heading.push(letter.to_ascii_uppercase());
    }
    heading
}

/// Formats a value as text for people.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the query parameter for an app, or an empty text without one.
fn of_app(app: Option<String>) -> String {
    app.map(|app| format!("?app={}", part(&app))).unwrap_or_default()
}

/// Returns a text percent-encoded for a URL.
fn part(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            // The result is ignored: writing to a string does not fail.
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}
