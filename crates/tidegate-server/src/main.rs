//! The `tidegate` binary.

#![expect(clippy::disallowed_methods, reason = "connections and readers wait in real time")]
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not listed gets the common answer")]

mod call;
mod client;
mod config;
mod demo;
mod http;
mod listen;
mod metrics;
mod reload;
mod serve;
mod sign;
mod ways;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::{
    client::{Ask, Remote},
    config::Config,
};

/// Decisions make many small rows; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Decides what runs now, what waits, what merges and what is dropped, and says why.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
struct Arguments {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows two workflows with controls meet a burst, on a store in a temporary file.
    Demo,
    /// Runs the server: the HTTP API, and the workflows that are called by URL.
    Serve(Settings),
    /// Settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    #[command(flatten)]
    Ask(Ask),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Shows each setting and where it came from.
    Print(Settings),
}

#[derive(Args, Debug)]
struct Settings {
    /// A TOML file with settings and workflows.
    #[arg(long, env = "TIDEGATE_CONFIG")]
    config: Option<PathBuf>,
    /// `sqlite:PATH`, a `postgres://` URL, or `memory`.
    #[arg(long)]
    store: Option<String>,
    /// The address and port to listen at.
    #[arg(long)]
    listen: Option<String>,
}

impl Settings {
    fn load(&self) -> anyhow::Result<Config> {
        let flags = [("store", self.store.clone()), ("listen", self.listen.clone())];
        Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), &flags)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Of two that the dependencies could bring, this one is built in.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let out = &mut std::io::stdout();
    let Arguments { remote, command } = Arguments::parse();
    match command {
        Command::Demo => demo::run(&mut out.lock()).await,
        Command::Serve(settings) => {
            let config = settings.load()?;
            let filter = EnvFilter::try_new(config.text("log"))?;
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
            serve::serve(config, move || settings.load(), out).await
        }
        Command::Config { command: ConfigCommand::Print(settings) } => {
            print(out, &settings.load()?.print())
        }
        Command::Ask(ask) => client::run(&remote, ask, out).await,
    }
}

fn print(out: &mut impl std::io::Write, text: &str) -> anyhow::Result<()> {
    Ok(write!(out, "{text}")?)
}
