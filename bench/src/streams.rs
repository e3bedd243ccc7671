//! W6 of `bench/README.md`: streams and reactions, beside bare group commit and raw rows in the
//! same run.

mod loads;
mod react;
mod rig;
mod table;

use clap::Args;

use crate::{figures::Figures, stores::Kind};

/// The benchmark of streams and reactions.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many events are committed; pinned commits are a tenth of it.
    #[arg(long, default_value_t = 10_000)]
    events: usize,
    /// How often each figure is taken, in turn with its limit.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Which stores: sqlite, postgres or all.
    #[arg(long, default_value = "all")]
    store: String,
    /// Only workloads whose name contains one of these, such as `s1000,load`.
    #[arg(long, default_value = "", value_delimiter = ',')]
    only: Vec<String>,
    /// Leaves the limits out, to look at the engine alone.
    #[arg(long)]
    bare: bool,
}

impl Arguments {
    fn wants(&self, workload: &str) -> bool {
        self.only.iter().any(|part| workload.contains(part.as_str()))
    }
}

/// Measures what is asked for.
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
