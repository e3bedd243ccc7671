//! W6 of `bench/README.md`: streams and reactions, compared with bare group commit and with the
//! same rows written without an engine.

mod loads;
mod react;
mod rig;
mod table;

use clap::Args;

use crate::{figures::Figures, stores::Kind};

/// Benchmark of streams and reactions.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of events that each workload commits; W6.pinned commits a tenth of them.
    #[arg(long, default_value_t = 10_000)]
    events: usize,
    /// Number of times that each figure and its limit are measured, alternating.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Stores to measure: sqlite, postgres or all.
    #[arg(long, default_value = "all")]
    store: String,
    /// Run only the workloads whose name contains one of these texts, such as `s1000,load`.
    #[arg(long, default_value = "", value_delimiter = ',')]
    only: Vec<String>,
    /// Measure only the engine, without its limits.
    #[arg(long)]
    bare: bool,
}

impl Arguments {
    fn wants(&self, workload: &str) -> bool {
        self.only.iter().any(|part| workload.contains(part.as_str()))
    }
}

/// Runs the selected workloads.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut figures = Figures::default();
    let kinds = Kind::named(&arguments.store)?;
    for _ in 0..arguments.repeat {
        for kind in &kinds {
            loads::all(arguments, &mut figures, *kind).await?;
            react::all(arguments, &mut figures, *kind).await?;
        }
    }
    table::print(&figures, &kinds);
    Ok(())
}
