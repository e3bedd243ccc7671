//! The engine workloads of `bench/README.md`, each compared with a limit of the same machine.

mod controls;
mod goals;
mod loads;
pub(crate) mod memory;
mod meter;
mod page;
mod rig;

use clap::Args;

pub(crate) use self::meter::Meter;
use crate::{figures::Figures, limits, stores::Kind};

/// Benchmark of the engine.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of runs that the ordinary workloads start; some use a fraction or a multiple of it.
    #[arg(long, default_value_t = 5_000)]
    runs: usize,
    /// Number of times that each figure is measured.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Stores to measure: sqlite, postgres or all.
    #[arg(long, default_value = "all")]
    store: String,
    /// Workloads to run, by name or by the part of the name before a dot, such as `W2,W5.hot`.
    #[arg(long, default_value = "", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of workers per engine.
    #[arg(long, default_value_t = 100)]
    workers: usize,
    /// Number of waiting runs in the largest backlog of W7.
    #[arg(long, default_value_t = 1_000_000)]
    backlog: usize,
    /// Number of sleeping runs of W9.
    #[arg(long, default_value_t = 100_000)]
    sleepers: usize,
    /// Number of distinct keys that W9 uses.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Number of runs that wake at the same moment in W9.
    #[arg(long, default_value_t = 10_000)]
    wakers: usize,
    /// Write the table of results into bench/README.md, and the chart into bench/results.svg.
    #[arg(long)]
    write: bool,
}

impl Arguments {
    fn wants(&self, workload: &str) -> bool {
        self.only.iter().any(|part| {
            let rest = workload.strip_prefix(part.as_str());
            part.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// Runs the selected workloads.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut figures = Figures::default();
    let kinds = Kind::named(&arguments.store)?;
    for _ in 0..arguments.repeat {
        limits::disk(&mut figures)?;
        for kind in &kinds {
            limits::store(&mut figures, *kind).await?;
            loads::all(arguments, &mut figures, *kind).await?;
            loads::workflows(arguments, &mut figures, *kind).await?;
        }
    }
    for kind in &kinds {
        // Not in the loop above: a backlog is loaded once for all its rounds, and the other
        // figures hardly vary.
        loads::backlogs(arguments, &mut figures, *kind).await?;
        memory::both(arguments, &mut figures, *kind).await?;
        loads::wake(arguments, &mut figures, *kind).await?;
        loads::idle(arguments, &mut figures, *kind).await?;
        controls::pairs(arguments, &mut figures, *kind).await?;
    }
    let lines = goals::lines(&figures, &kinds);
    goals::print(&lines);
    if arguments.write { page::write(&lines, arguments.repeat) } else { Ok(()) }
}
