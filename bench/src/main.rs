//! Benchmark of Tidegate beside the limits of the machine it runs on.
//!
//! Prints one JSON object a line on standard output and a table on standard error. Machines are
//! shared and noisy: only ratios from one run count, so each figure is measured several times in
//! turn with its limit, and the median and the spread are given.

mod engine;
mod figures;
mod group;
mod limits;
mod raw;
mod stores;
mod streams;
mod transact;
mod workload;

use clap::Parser;

/// The allocator of the shipped binary: a third of the time was spent in the system's allocator.
#[cfg(not(feature = "allocations"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The system's allocator with counters.
#[cfg(feature = "allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Returns the number of allocations so far; 0 where they are not counted.
#[expect(clippy::cast_precision_loss, reason = "a few billion at most")]
fn allocations() -> f64 {
    #[cfg(feature = "allocations")]
    let count = ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations;
    #[cfg(not(feature = "allocations"))]
    let count = 0_usize;
    count as f64
}

/// Benchmark of Tidegate.
#[derive(Debug, Parser)]
enum Arguments {
    /// Engine workloads of `bench/README.md`.
    Engine(engine::Arguments),
    /// Streams and reactions: W6 of `bench/README.md`.
    Streams(streams::Arguments),
    /// Transactions of the stores, without an engine.
    Transact(transact::Arguments),
    /// Child process of `engine` whose memory is measured.
    #[command(hide = true)]
    Memory(engine::memory::Arguments),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse() {
        Arguments::Engine(arguments) => engine::run(&arguments).await,
        Arguments::Streams(arguments) => streams::run(&arguments).await,
        Arguments::Transact(arguments) => transact::run(&arguments).await,
        Arguments::Memory(arguments) => engine::memory::run(&arguments).await,
    }
}
