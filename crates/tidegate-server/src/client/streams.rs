//! The `streams` and `reactions` commands.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Server, part, table, text};

/// The commands on streams, and on the streams of a reaction.
#[derive(Debug, Subcommand)]
pub(crate) enum Streams {
    /// List streams, by name.
    List {
        /// Maximum number of streams.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Only streams whose name sorts after this one.
        #[arg(long)]
        after: Option<String>,
    },
    /// Show the events of a stream.
    Show {
        /// Name of the stream.
        stream: String,
        /// First version to show.
        #[arg(long)]
        from: Option<u64>,
        /// Show the newest events first.
        #[arg(long)]
        backwards: bool,
        /// Maximum number of events.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Unblock streams of a reaction; all blocked ones by default.
    Unblock(Mend),
    /// Reset streams of a reaction: they are handled again from their first event.
    Reset(Mend),
}

/// Selection of the streams of a reaction.
#[derive(Args, Debug)]
pub(crate) struct Mend {
    /// Name of the reaction.
    reaction: String,
    /// Names of the streams.
    streams: Vec<String>,
    /// Streams whose name contains this text; `^` and `$` anchor it to the ends.
    #[arg(long, conflicts_with = "streams")]
    matching: Option<String>,
    /// All streams.
    #[arg(long, conflicts_with_all = ["streams", "matching"])]
    all: bool,
    /// Print the streams without any effect.
    #[arg(long)]
    dry_run: bool,
}

/// Filter of the positions of reactions.
#[derive(Args, Debug)]
pub(crate) struct Reactions {
    /// Only positions of this reaction.
    reaction: Option<String>,
    /// Only blocked streams.
    #[arg(long)]
    blocked: bool,
    /// Maximum number of positions.
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
            let answer = server.get(&path).await?;
            let shown = table(&answer["streams"], &["name", "version", "position", "closed", "at"]);
            Ok((answer, shown))
        }
        Streams::Show { stream, from, backwards, limit } => {
            let mut path = format!("/streams/{}/events?limit={limit}", part(&stream));
            if let Some(from) = from {
                write!(path, "&from={from}")?;
            }
            if backwards {
                path += "&backwards=true";
            }
            let answer = server.get(&path).await?;
            let shown = table(&answer["events"], &["version", "position", "at", "name", "data"]);
            Ok((answer, shown))
        }
        Streams::Unblock(mend) => mended(server, "unblock", "unblocked", mend).await,
        Streams::Reset(mend) => mended(server, "reset", "reset", mend).await,
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
    let answer = server.post(&format!("/reactions/{}/{what}{dry}", part(&reaction)), body).await?;
    let names: Vec<_> = answer["streams"].as_array().into_iter().flatten().map(text).collect();
    let would = if dry_run { "would be " } else { "" };
    let mut shown = format!("{} streams {would}{verb}\n", names.len());
    for name in names {
        writeln!(shown, "{name}")?;
    }
    Ok((answer, shown))
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
    let answer = server.get(&path).await?;
    let columns = ["reaction", "stream", "version", "lag", "failures", "blocked"];
    let shown = table(&answer["streams"], &columns);
    Ok((answer, shown))
}
