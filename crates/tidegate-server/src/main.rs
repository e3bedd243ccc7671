//! The `tidegate` binary.

#![expect(clippy::disallowed_methods, reason = "connections and readers wait in real time")]
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not listed gets the common answer")]

mod call;
mod client;
mod config;
mod demo;
mod exit;
mod http;
mod keys;
mod listen;
mod load;
mod metrics;
mod operate;
mod progress;
mod reload;
mod serve;
mod sign;
mod ways;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::{
    client::{Ask, Remote},
    config::Config,
    demo::Demo,
    load::Load,
    operate::Operate,
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
    /// Runs a small world that is alive, to be watched in the console.
    Demo(Demo),
    /// Runs the server: the HTTP API, and the workflows that are called by URL.
    Serve(Settings),
    /// Settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Makes, lists and takes back keys of the API: in the store, or by the server that holds it.
    Keys {
        #[command(flatten)]
        settings: Settings,
        #[command(subcommand)]
        command: client::Keys,
    },
    /// Loads a running server with events, and says how many it takes.
    Bench(Load),
    #[command(flatten)]
    Operate(Operate),
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
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            exit::status(&error)
        }
    }
}

async fn run() -> anyhow::Result<()> {
    // Of two that the dependencies could bring, this one is built in.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let out = &mut std::io::stdout();
    let Arguments { remote, command } = Arguments::parse();
    match command {
        Command::Demo(demo) => demo::run(demo, out).await,
        Command::Serve(settings) => {
            let config = settings.load()?;
            let filter = EnvFilter::try_new(config.text("log"))?;
            let stderr = std::io::stderr;
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
            // Colours are for eyes: in a file they are noise that searches stumble over.
            log.with_ansi(stderr().is_terminal()).init();
            serve::serve(config, move || settings.load(), out).await
        }
        Command::Config { command: ConfigCommand::Print(settings) } => {
            print(out, &settings.load()?.print())
        }
        Command::Keys { settings, command } => {
            client::keys(&remote, &settings.load()?, command, out).await
        }
        Command::Bench(load) => load::run(&remote, load, out).await,
        Command::Operate(operate) => operate::run(&remote, operate, out).await,
        Command::Ask(ask) => client::run(&remote, ask, out).await,
    }
}

fn print(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    Ok(write!(out, "{text}")?)
}
