//! The `tidegate` binary.

#![expect(clippy::disallowed_methods, reason = "connections and readers wait in real time")]
#![expect(clippy::wildcard_enum_match_arm, reason = "variants that are not listed share one arm")]

mod call;
mod client;
mod config;
mod demo;
mod dev;
mod exit;
mod http;
mod ingress;
mod inngest;
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

use anyhow::bail;
use clap::{
    ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource,
};
use tracing_subscriber::EnvFilter;

use crate::{
    client::{Ask, Remote},
    config::Config,
    demo::Demo,
    dev::Dev,
    load::Load,
    log::Log,
    operate::Operate,
};

/// Decisions allocate many small rows, and this allocator is fast for small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable workflow engine with flow control.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version = env!("TIDEGATE_VERSION"))]
struct Arguments {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a demo with live traffic and open it in the console.
    Demo(Demo),
    /// Run everything for the development of an app: engine, console, sync of the app.
    Dev(Dev),
    /// Run the server: the HTTP API, and the workflows that are called by URL.
    Serve(Settings),
    /// Show the settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Create, list and revoke API keys: in the store, or through the server that has it open.
    Keys {
        #[command(flatten)]
        settings: Settings,
        #[command(subcommand)]
        command: client::Keys,
    },
    /// Load a running server with events and measure its throughput.
    Bench(Load),
    #[command(flatten)]
    Operate(Operate),
    #[command(flatten)]
    Ask(Ask),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print each setting, its value and its source.
    Print(Settings),
}

#[derive(Args, Debug)]
struct Settings {
    /// TOML file with settings and workflows.
    #[arg(long, env = "TIDEGATE_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// Store: `sqlite:PATH`, a `postgres://` URL, or `memory`.
    #[arg(long, global = true)]
    store: Option<String>,
    /// Address and port to listen on.
    #[arg(long, global = true)]
    listen: Option<String>,
}

impl Settings {
    fn load(&self) -> anyhow::Result<Config> {
        self.load_with(&[("store", self.store.clone()), ("listen", self.listen.clone())])
    }

    fn load_with(&self, flags: &[(&'static str, Option<String>)]) -> anyhow::Result<Config> {
        Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), flags)
    }
}

/// Time to wait for blocked threads at shutdown, such as a thread in a DNS lookup that gets no
/// answer.
const BLOCKED: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("the runtime must be able to start threads");
    let ended = runtime.block_on(run());
    runtime.shutdown_timeout(BLOCKED);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe, as `head` does.
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            exit::status(&error)
        }
    }
}

/// Commands that neither call a server nor read the file of `--file`: the flags of [`Remote`] are
/// not allowed with them.
const WITHOUT_REMOTE: [&str; 4] = ["demo", "dev", "serve", "config"];

/// Parses the command line. A flag that a command does not use is not in its help, and is an error.
fn arguments() -> anyhow::Result<Arguments> {
    let mut command = Arguments::command();
    // This adds the global flags to each command.
    command.build();
    for name in WITHOUT_REMOTE {
        command = command.mut_subcommand(name, without_remote);
    }
    let matches = command.get_matches();
    if let Some((name, matches)) = matches.subcommand()
        && WITHOUT_REMOTE.contains(&name)
        && let Some(flag) = Remote::FLAGS.iter().find(|flag| is_given(matches, flag))
    {
        bail!("`--{flag}` is for commands that ask a server; `tidegate {name}` does not use it");
    }
    Ok(Arguments::from_arg_matches(&matches)?)
}

fn without_remote(command: clap::Command) -> clap::Command {
    let nested: Vec<_> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let command = command.mut_args(|flag| {
        let hidden = Remote::FLAGS.contains(&flag.get_id().as_str());
        flag.hide(hidden)
    });
    nested.into_iter().fold(command, |command, name| command.mut_subcommand(name, without_remote))
}

fn is_given(matches: &ArgMatches, flag: &str) -> bool {
    matches.value_source(flag) == Some(ValueSource::CommandLine)
}

async fn run() -> anyhow::Result<()> {
    // Dependencies support two TLS providers, so one must be chosen: the one that is compiled in.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let out = &mut std::io::stdout();
    let Arguments { remote, command } = arguments()?;
    match command {
        Command::Demo(demo) => demo::run(demo, out).await,
        Command::Dev(dev) => {
            let config = dev.load()?;
            dev.prepare()?;
            serve_logged(config, move || dev.load(), out).await
        }
        Command::Serve(settings) => {
            serve_logged(settings.load()?, move || settings.load(), out).await
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

/// Serves, and writes the log to standard error.
async fn serve_logged(
    config: Config,
    load: impl Fn() -> anyhow::Result<Config> + Send + Sync + 'static,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(config.text("log"))?;
    let stderr = std::io::stderr();
    // Colours are used only on a terminal: in a file the escape codes would make searches fail.
    let ansi = stderr.is_terminal();
    let log = Log::to(stderr)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi);
    lines.with_writer(log.clone()).init();
    let ended = serve::serve(config, load, out).await;
    log.flush();
    ended
}

fn print(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    Ok(write!(out, "{text}")?)
}
