//! The `tidegate` binary.

#![expect(clippy::disallowed_methods, reason = "connections and readers wait in real time")]
#![expect(clippy::wildcard_enum_match_arm, reason = "what is not listed gets the common answer")]

mod call;
mod client;
mod config;
mod demo;
mod exit;
mod http;
mod ingress;
mod keys;
mod listen;
mod load;
mod log;
mod metrics;
mod operate;
mod progress;
mod reload;
mod serve;
mod sign;
mod watchdog;

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::{
    client::{Ask, Remote},
    config::Config,
    demo::Demo,
    load::Load,
    log::Log,
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
    #[arg(long, env = "TIDEGATE_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// `sqlite:PATH`, a `postgres://` URL, or `memory`.
    #[arg(long, global = true)]
    store: Option<String>,
    /// The address and port to listen at.
    #[arg(long, global = true)]
    listen: Option<String>,
}

impl Settings {
    fn load(&self) -> anyhow::Result<Config> {
        let flags = [("store", self.store.clone()), ("listen", self.listen.clone())];
        Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), &flags)
    }
}

/// How long the end of the process waits for threads that are blocked, such as by a name server
/// that does not answer.
const BLOCKED: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a process can start threads");
    let ended = runtime.block_on(run());
    runtime.shutdown_timeout(BLOCKED);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has read enough, as `head` does.
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
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
            let stderr = std::io::stderr();
            // Colours are for eyes: in a file they are noise that searches stumble over.
            let ansi = stderr.is_terminal();
            let log = Log::to(stderr)?;
            let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi);
            lines.with_writer(log.clone()).init();
            let ended = serve::serve(config, move || settings.load(), out).await;
            log.flush();
            ended
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
