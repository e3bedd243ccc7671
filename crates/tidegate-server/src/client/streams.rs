//! `tidegate streams` and `tidegate reactions`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// What can be done with streams, and with those that reactions are stuck in.
#[derive(Debug, Subcommand)]
pub(crate) enum Streams {
    /// Shows which there are, by name.
    List {
        /// How many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Those after this name.
        #[arg(long)]
        after: Option<String>,
    },
    /// Shows the events of one.
    Show {
        /// The stream.
        stream: String,
        /// From this version on.
        #[arg(long)]
        from: Option<u64>,
        /// The newest first.
        #[arg(long)]
        backwards: bool,
        /// How many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Lets blocked streams of a reaction go on; all of them unless some are named.
    Unblock(Mend),
    /// Has streams of a reaction handled again from their first event.
    Reset(Mend),
}

/// Which streams of which reaction.
#[derive(Args, Debug)]
pub(crate) struct Mend {
    /// The reaction.
    reaction: String,
    /// These, by name.
    streams: Vec<String>,
    /// Those whose name has this text; `^` and `$` tie it to the ends.
    #[arg(long, conflicts_with = "streams")]
    matching: Option<String>,
    /// All of them.
    #[arg(long, conflicts_with_all = ["streams", "matching"])]
    all: bool,
    /// Says which it would be, without any effect.
    #[arg(long)]
    dry_run: bool,
}

/// Which places of reactions are shown.
#[derive(Args, Debug)]
pub(crate) struct Reactions {
    /// Only of this reaction.
    reaction: Option<String>,
    /// Only those that are blocked.
    #[arg(long)]
    blocked: bool,
    /// How many.
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

pub(super) async fn streams(
    server: &Server<'_>,
    command: Streams,
) -> anyhow::Result<(Value, String)> {
    match command {
        Streams::List { limit, after } => {
            let mut path = format!("/streams?limit={limit}");
            if let Some(after) = after {
                write!(path, "&cursor={}", part(&after))?;
            }
            let told = server.get(&path).await?;
            let shown = table(&told["streams"], &["name", "version", "position", "closed", "at"]);
            Ok((told, shown))
        }
        Streams::Show { stream, from, backwards, limit } => {
            let mut path = format!("/streams/{}/events?limit={limit}", part(&stream));
            if let Some(from) = from {
                write!(path, "&from={from}")?;
            }
            if backwards {
                path += "&backwards=true";
            }
            let told = server.get(&path).await?;
            let shown = table(&told["events"], &["version", "position", "at", "name", "data"]);
            Ok((told, shown))
        }
        Streams::Unblock(mend) => mended(server, "unblock", "go on", mend).await,
        Streams::Reset(mend) => mended(server, "reset", "begin again", mend).await,
    }
}

async fn mended(
    server: &Server<'_>,
    what: &str,
    verb: &str,
    mend: Mend,
) -> anyhow::Result<(Value, String)> {
    let Mend { reaction, streams, matching, all, dry_run } = mend;
    let dry = if dry_run { "?dryRun=true" } else { "" };
    let body = match (matching, streams.is_empty(), all) {
        (Some(matching), ..) => json!({ "stream": matching }),
        (None, false, _) => json!({ "streams": streams }),
        (None, true, true) => json!({ "all": true }),
        (None, true, false) => json!({}),
    };
    let told = server.post(&format!("/reactions/{}/{what}{dry}", part(&reaction)), body).await?;
    let names: Vec<_> = told["streams"].as_array().into_iter().flatten().map(text).collect();
    let would = if dry_run { "would " } else { "" };
    let mut shown = format!("{} streams {would}{verb}\n", names.len());
    for name in names {
        writeln!(shown, "{name}")?;
    }
    Ok((told, shown))
}

pub(super) async fn reactions(
    server: &Server<'_>,
    asked: Reactions,
) -> anyhow::Result<(Value, String)> {
    let mut path = format!("/reactions?limit={}", asked.limit);
    if let Some(reaction) = asked.reaction {
        write!(path, "&reaction={}", part(&reaction))?;
    }
    if asked.blocked {
        path += "&blocked=true";
    }
    let told = server.get(&path).await?;
    let columns = ["reaction", "stream", "version", "lag", "failures", "blocked"];
    let shown = table(&told["streams"], &columns);
    Ok((told, shown))
}
