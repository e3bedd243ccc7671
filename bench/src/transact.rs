//! `Store::transact` of the durable stores, compared with the same changes written without a store.

use std::{sync::Arc, time::Duration};

use clap::Args;
use serde_json::json;

use crate::{
    figures::{median, rate},
    raw::Transaction,
    stores::{Kind, Opened},
    workload::{Load, Recorder},
};

/// Benchmark of the stores.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of runs for each figure with batches of 256 commands; smaller batches use fewer runs.
    #[arg(long, default_value_t = 20_000)]
    runs: usize,
    /// Number of times that each figure is measured.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Stores to measure: sqlite, postgres or all.
    #[arg(long, default_value = "all")]
    store: String,
    /// Run only the workloads whose name contains this text, such as `k1.b256`.
    #[arg(long, default_value = "")]
    only: String,
    /// Number of runs that wait at one gate for the last figure; 0 skips this figure.
    #[arg(long, default_value_t = 1_000_000)]
    parked: usize,
}

/// Runs the selected workloads.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for kind in Kind::named(&arguments.store)? {
        for keys in [1, 1000] {
            for batch in [1, 16, 256] {
                measure(arguments, kind, keys, batch).await?;
            }
        }
        if arguments.parked > 0 {
            parked(arguments, kind).await?;
        }
    }
    Ok(())
}

/// Measures admission, claim and hand-off for one number of keys and one batch size.
async fn measure(
    arguments: &Arguments,
    kind: Kind,
    keys: usize,
    batch: usize,
) -> anyhow::Result<()> {
    if !format!("k{keys}.b{batch}").contains(&arguments.only) {
        return Ok(());
    }
    let runs = arguments.runs * batch / 256;
    let runs = runs.clamp(500.min(arguments.runs), arguments.runs);
    let mut figures = Figures::default();
    for _ in 0..arguments.repeat {
        // With one key, a whole batch of runs may be active at once; with a thousand keys, one run
        // per key.
        let limit = if keys == 1 { u32::try_from(batch)? } else { 1 };
        let opened = Opened::new(kind).await?;
        let mut load = Load::new(opened.store.clone(), limit).await?;
        let admitted = load.admit(runs, keys, batch).await?;
        figures.admit.push(rate(runs, admitted));
        let (done, handed) = load.hand_off(runs, batch).await?;
        figures.hand_off.push(rate(done, handed));
        drop(load);
        opened.close().await?;
        let [first, second] = record(runs, keys, batch, limit).await?;
        let (admission, hand_off) = limits(kind, &first, &second).await?;
        figures.admit_raw.push(rate(runs, admission));
        figures.hand_off_raw.push(rate(done, hand_off));
        figures.claim.push(claim(kind, runs, batch).await?);
        figures.rows = [&first, &second].map(|all| {
            let rows: usize = all.iter().map(Transaction::rows).sum();
            rate(rows, Duration::from_secs(1)) / rate(runs, Duration::from_secs(1))
        });
    }
    let name = format!("k{keys}.b{batch}");
    let [admit_rows, hand_off_rows] = figures.rows;
    report(kind, "admit", &name, runs, &figures.admit, Some((&figures.admit_raw[..], admit_rows)));
    let raw = Some((&figures.hand_off_raw[..], hand_off_rows));
    report(kind, "handoff", &name, runs, &figures.hand_off, raw);
    report(kind, "claim", &name, runs, &figures.claim, None);
    Ok(())
}

#[derive(Debug, Default)]
struct Figures {
    admit: Vec<f64>,
    admit_raw: Vec<f64>,
    hand_off: Vec<f64>,
    hand_off_raw: Vec<f64>,
    claim: Vec<f64>,
    rows: [f64; 2],
}

/// Runs the same workload in memory, and returns the changes of its transactions: those of
/// admission, then those of hand-off.
async fn record(
    runs: usize,
    keys: usize,
    batch: usize,
    limit: u32,
) -> anyhow::Result<[Vec<Transaction>; 2]> {
    let recorder = Arc::new(Recorder::new(Opened::in_memory().await?));
    let mut load = Load::new(recorder.clone(), limit).await?;
    load.admit(runs, keys, batch).await?;
    let admission = recorder.take();
    load.hand_off(runs, batch).await?;
    Ok([admission, recorder.take()])
}

/// Writes recorded changes into a new database without a store. Returns the times of both lists.
async fn limits(
    kind: Kind,
    first: &[Transaction],
    second: &[Transaction],
) -> anyhow::Result<(Duration, Duration)> {
    let opened = Opened::new(kind).await?;
    let place = opened.into_raw();
    let admission = place.write(first).await?;
    let hand_off = place.write(second).await?;
    place.close().await?;
    Ok((admission, hand_off))
}

/// Measures the leasing of ready runs: each has a key of its own, so no gate is full.
async fn claim(kind: Kind, runs: usize, batch: usize) -> anyhow::Result<f64> {
    let opened = Opened::new(kind).await?;
    let mut load = Load::new(opened.store.clone(), 1).await?;
    load.admit(runs, runs, 256).await?;
    let (leased, took) = load.lease(runs, batch).await?;
    anyhow::ensure!(leased.len() == runs, "{} of {runs} runs were leased", leased.len());
    drop(load);
    opened.close().await?;
    Ok(rate(runs, took))
}

#[expect(clippy::print_stderr, reason = "the program prints its progress")]
/// Measures hand-off on a thousand keys, in a store with many runs that wait at another gate and
/// in a store without them.
async fn parked(arguments: &Arguments, kind: Kind) -> anyhow::Result<()> {
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    let (bare, crowded) = (Opened::new(kind).await?, Opened::new(kind).await?);
    let mut alone = Load::new(bare.store.clone(), 1).await?;
    let mut beside = Load::new(crowded.store.clone(), 1).await?;
    eprintln!("parking {} runs on one gate of {kind:?} …", arguments.parked);
    beside.park(arguments.parked).await?;
    // At least 15 rounds, because the first rounds after a large load are slowed down by deferred
    // work of the database.
    for _ in 0..arguments.repeat.max(15) {
        for (load, figures) in [(&mut alone, &mut empty), (&mut beside, &mut full)] {
            load.admit(5000, 1000, 256).await?;
            let (done, took) = load.hand_off(5000, 256).await?;
            anyhow::ensure!(done == 5000, "{done} of 5000 runs were handed on");
            figures.push(rate(done, took));
        }
    }
    drop((alone, beside));
    bare.close().await?;
    crowded.close().await?;
    let n = arguments.parked;
    report(kind, "handoff", "k1000.b256.empty", 5000, &empty, None);
    report(kind, "handoff", &format!("k1000.b256.parked{n}"), 5000, &full, Some((&empty[..], 0.0)));
    Ok(())
}

/// Prints one figure, with its limit if there is one.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this function prints results")]
fn report(
    kind: Kind,
    what: &str,
    name: &str,
    n: usize,
    figures: &[f64],
    limit: Option<(&[f64], f64)>,
) {
    let (least, most) = (
        figures.iter().copied().fold(f64::INFINITY, f64::min),
        figures.iter().copied().fold(0.0, f64::max),
    );
    let rate = median(figures);
    let mut line = json!({
        "peer": kind.name(), "workload": format!("{what}.{name}"), "n": n,
        "rate": rate.round(), "least": least.round(), "most": most.round(),
    });
    let mut beside = String::new();
    if let Some((raw, rows)) = limit {
        let ratios: Vec<f64> = figures.iter().zip(raw).map(|(figure, raw)| figure / raw).collect();
        let ratio = median(&ratios);
        line["limit"] = json!(median(raw).round());
        line["ratio"] = json!((ratio * 100.0).round() / 100.0);
        line["rowsPerRun"] = json!((rows * 100.0).round() / 100.0);
        beside = format!("{:>9.0} raw  {ratio:>5.2} of it  {rows:.2} rows a run", median(raw));
    }
    println!("{line}");
    let workload = format!("{what}.{name}");
    eprintln!("{:14} {workload:26} {rate:>9.0}/s  ({least:.0}–{most:.0}) {beside}", kind.name());
}
