//! Measures Tidegate beside the limits of the machine that it runs on.
//!
//! One JSON object a line on standard output, a table on standard error. Machines are shared and
//! noisy: only ratios from one run count, so each figure is taken several times in turn with its
//! limit, and the median and the spread are given.

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

/// As the shipped binary has it: a third of the time was spent in the system's allocator.
#[cfg(not(feature = "allocations"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The system's allocator, which counts.
#[cfg(feature = "allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// How often memory was asked for so far; 0 where that is not counted.
#[expect(clippy::cast_precision_loss, reason = "some billion at the most")]
fn allocations() -> f64 {
    #[cfg(feature = "allocations")]
    let count = ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations;
    #[cfg(not(feature = "allocations"))]
    let count = 0_usize;
    count as f64
}

/// The benchmark.
#[derive(Debug, Parser)]
enum Arguments {
    /// The workloads of `bench/README.md`, through the engine.
    Engine(engine::Arguments),
    /// W6 of `bench/README.md`: streams and reactions.
    Streams(streams::Arguments),
    /// Transactions of the stores, without an engine.
    Transact(transact::Arguments),
    /// What `engine` starts as a process of its own, to look at its memory.
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
