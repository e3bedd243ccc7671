//! Benchmark of Tidegate, compared with the limits of the machine it runs on.
//!
//! Prints one JSON object per line on standard output and a table on standard error. Machines are
//! shared and their speed varies, so only ratios within one run of the benchmark are meaningful:
//! each figure is measured several times, alternating with its limit, and the table has the median
//! and the spread.

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

/// The allocator that the server uses, too. With the system's allocator, a third of the processor
/// time went into allocations.
#[cfg(not(feature = "allocations"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The system's allocator with counters.
#[cfg(feature = "allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Returns the number of allocations so far, or 0 without the feature `allocations`.
#[expect(clippy::cast_precision_loss, reason = "there are a few billion at most")]
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
