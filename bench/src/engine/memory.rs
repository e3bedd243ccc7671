//! W9.sleeping and W9.keys: resident memory of an engine, measured in a new process each time.

use clap::Args;
use serde_json::{Value, json};

use super::{
    Arguments as Asked,
    rig::{Bench, Flow},
};
use crate::{
    figures::Figures,
    stores::{self, Kind},
};

/// Arguments of the child process whose memory is measured.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Store: sqlite or postgres.
    #[arg(long)]
    store: String,
    /// Number of runs that go to sleep.
    #[arg(long, default_value_t = 0)]
    sleepers: usize,
    /// Number of keys for which a run starts and ends.
    #[arg(long, default_value_t = 0)]
    keys: usize,
}

/// Measures W9.sleeping and W9.keys.
pub(super) async fn both(asked: &Asked, figures: &mut Figures, kind: Kind) -> anyhow::Result<()> {
    let store = match kind {
        Kind::Sqlite => "sqlite",
        Kind::Postgres => "postgres",
    };
    for (workload, option, n) in
        [("W9.sleeping", "--sleepers", asked.sleepers), ("W9.keys", "--keys", asked.keys)]
    {
        if !asked.wants(workload) || n == 0 {
            continue;
        }
        let mut child = std::process::Command::new(std::env::current_exe()?);
        child.args(["memory", "--store", store, option, &n.to_string()]);
        if kind == Kind::Postgres {
            // The child uses the cluster of this process, which stays up when the child ends.
            child.env("TIDEGATE_TEST_POSTGRES", stores::url()?);
        }
        let output = tokio::task::spawn_blocking(move || {
            child.stderr(std::process::Stdio::inherit()).output()
        });
        let output = output.await??;
        let reply: Value = serde_json::from_slice(&output.stdout)?;
        let mb = reply["mb"].as_f64().unwrap_or(f64::NAN);
        figures.memory(kind.name(), workload, n, mb, json!({ "peak": reply["peak"] }));
    }
    Ok(())
}

/// Runs the workload in the child process, and prints the memory of that process.
#[expect(clippy::print_stdout, reason = "the parent process reads the output")]
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let kind = Kind::named(&arguments.store)?[0];
    let bench = Bench::new(kind, 100).await?;
    bench.rig.meter.witness.forget();
    if arguments.sleepers > 0 {
        bench.rig.load(Flow::Sleeper, arguments.sleepers, 4, |_| 0).await?;
        while bench.rig.meter.witness.begun() < arguments.sleepers {
            pause().await;
        }
    } else {
        bench.rig.load(Flow::Keyed, arguments.keys, 4, |n| n).await?;
        bench.rig.meter.ended(arguments.keys).await;
    }
    while bench.rig.engine.driven() > 0 {
        pause().await;
    }
    let (mb, peak) = (status_mb("VmRSS:")?, status_mb("VmHWM:")?);
    println!("{}", json!({ "mb": mb, "peak": peak }));
    bench.close().await
}

#[expect(clippy::disallowed_methods, reason = "a benchmark needs real time")]
pub(super) async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
}

/// Returns a field of `/proc/self/status` in megabytes.
fn status_mb(field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kb = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    let kb = kb.ok_or_else(|| anyhow::anyhow!("no {field} in /proc/self/status"))?;
    Ok(kb / 1024.0)
}
