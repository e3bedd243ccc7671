//! The commands that talk to a server: they ask over HTTP what any other client could.

mod bulk;
mod inside;
mod keys;
mod lenient;
mod observe;
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

/// Where the server is, and how to print its answers.
#[derive(Args, Debug)]
pub(crate) struct Remote {
    /// The server's address.
    #[arg(long, env = "TIDEGATE_URL", default_value = "http://127.0.0.1:7400", global = true)]
    server: String,
    /// The workspace.
    #[arg(long, env = "TIDEGATE_WORKSPACE", global = true)]
    workspace: Option<String>,
    /// Looks into this SQLite file instead, which no server may hold.
    #[arg(long, global = true, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Prints the server's answer as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Remote {
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Prints an answer: as data, or as people read it.
    pub(crate) fn print(
        &self,
        out: &mut impl Write,
        told: &Value,
        shown: &str,
    ) -> anyhow::Result<()> {
        Ok(if self.json { writeln!(out, "{told}") } else { write!(out, "{shown}") }?)
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
        /// Its data, as JSON; text is written in quotes.
        #[arg(default_value = "null")]
        data: String,
        /// Takes it once, however often it is sent under this id.
        #[arg(long)]
        dedupe_id: Option<String>,
        /// Sends it so many times.
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Gives this field of its data the values 0 to N - 1 in turn: `--vary account=20`.
        #[arg(long, value_name = "FIELD=N", value_parser = send::read_vary)]
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
        /// The app; that of the server's file unless given.
        #[arg(long)]
        app: Option<String>,
    },
    #[command(flatten)]
    Observe(observe::Observe),
    /// Shows schedules, and pauses and resumes them.
    Schedules {
        #[command(subcommand)]
        command: Option<schedules::Schedules>,
    },
}

/// What can be done with workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflows {
    /// Nothing starts it any more; its runs go on, its history stays.
    Delete {
        /// The workflow.
        workflow: String,
        /// The app; that of the server's file unless given.
        #[arg(long)]
        app: Option<String>,
    },
}

/// The variable that holds the key to show.
const API_KEY: &str = "TIDEGATE_API_KEY";

/// The key to show, if there is one.
pub(crate) fn key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|key| !key.is_empty())
}

struct Server<'a> {
    client: Client,
    remote: &'a Remote,
    /// From the environment alone: what is on a command line can be seen by others.
    key: Option<String>,
    /// What answers in its place, if a file is looked into.
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
                "no server answers at {base}; start one with `tidegate serve`, or give --server"
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

/// What an answer says.
fn read(status: StatusCode, text: &str, who: &str) -> anyhow::Result<Value> {
    let told =
        lenient::read(text).with_context(|| format!("{who} is not a Tidegate server: {status}"))?;
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

/// What a server says at a path.
pub(crate) async fn get(remote: &Remote, path: &str) -> anyhow::Result<Value> {
    Server::new(remote).await?.get(path).await
}

/// Asks, and prints the answer.
pub(crate) async fn run(remote: &Remote, ask: Ask, out: &mut impl Write) -> anyhow::Result<()> {
    let server = Server::new(remote).await?;
    let (told, shown) = match ask {
        Ask::Send { name, data, dedupe_id, count, vary, dry_run } => {
            let data = send::read_data(&data)?;
            let mut event = json!({ "name": name, "data": data });
            if let Some(id) = dedupe_id {
                event["dedupeId"] = id.into();
            }
            let told = send::send(&server, &event, (count, vary.as_ref()), dry_run).await?;
            let shown = send::verdicts(&told);
            (told, shown)
        }
        Ask::Why { run } => {
            let told = server.get(&format!("/runs/{}/why", part(&run))).await?;
            let shown = format!("{run} is {}: {}\n", text(&told["state"]), text(&told["sentence"]));
            (told, shown)
        }
        Ask::Runs { command } => runs::runs(&server, command).await?,
        Ask::Observe(what) => observe::ask(&server, what).await?,
        Ask::Streams { command } => streams::streams(&server, command).await?,
        Ask::Reactions(asked) => streams::reactions(&server, asked).await?,
        Ask::Bulk(asked) => bulk::bulk(&server, asked).await?,
        Ask::Schedules { command } => schedules::schedules(&server, command).await?,
        Ask::Workflows { command: Some(Workflows::Delete { workflow, app }) } => {
            let path = format!("/workflows/{}{}", part(&workflow), of_app(app));
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
            let path = format!("/workflows/{}/release{}", part(&workflow), of_app(app));
            let told = server.post(&path, json!({ "version": version })).await?;
            let (older, stranded) = (&told["older"], &told["stranded"]);
            let mut shown = format!(
                "{workflow} v{version} gets the new runs; {older} older runs are not over, \
                 {stranded} of them stranded\n"
            );
            for run in told["lacking"].as_array().into_iter().flatten() {
                let _ = writeln!(shown, "{} lacks the key of its handoff", text(run));
            }
            (told, shown)
        }
    };
    remote.print(out, &told, &shown)
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

/// The parameter that names an app, where one is given.
fn of_app(app: Option<String>) -> String {
    app.map(|app| format!("?app={}", part(&app))).unwrap_or_default()
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
