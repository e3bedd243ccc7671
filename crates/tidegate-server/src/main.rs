//! The `tidegate` binary.

mod demo;

use clap::{Parser, Subcommand};

/// Decisions make many small rows; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Decides what runs now, what waits, what merges and what is dropped, and says why.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows two workflows with controls meet a burst, on a store in a temporary file.
    Demo,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Demo => demo::run(&mut std::io::stdout().lock()).await,
    }
}
