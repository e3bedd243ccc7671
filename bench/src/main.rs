//! Measures `transact` on the durable stores beside the limits of the machine it runs on.
//!
//! One JSON object a line on standard output, a table on standard error. Machines are shared and
//! noisy: only ratios from one run count, so each figure is taken several times in turn with its
//! limit, and the median and the spread are given.

mod raw;
mod stores;
mod workload;

use std::{sync::Arc, time::Duration};

use clap::Parser;
use raw::Transaction;
use serde_json::json;
use stores::{Kind, Opened};
use tidegate_store::{SqliteStore, SystemClock};
use workload::{Load, Recorder};

/// As the shipped binary has it: a third of the time was spent in the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The benchmark of the foundation.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs for each figure of a batch of 256; smaller batches do fewer.
    #[arg(long, default_value_t = 20_000)]
    runs: usize,
    /// How often each figure is taken.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Which stores: sqlite, postgres or all.
    #[arg(long, default_value = "all")]
    store: String,
    /// Only workloads whose name contains this, such as `k1.b256`.
    #[arg(long, default_value = "")]
    only: String,
    /// How many runs are parked on one gate for the last figure; 0 leaves it out.
    #[arg(long, default_value_t = 1_000_000)]
    parked: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let kinds: Vec<Kind> = match arguments.store.as_str() {
        "sqlite" => vec![Kind::Sqlite],
        "postgres" => vec![Kind::Postgres],
        "all" => vec![Kind::Sqlite, Kind::Postgres],
        other => anyhow::bail!("--store is sqlite, postgres or all, got `{other}`"),
    };
    for kind in kinds {
        for keys in [1, 1000] {
            for batch in [1, 16, 256] {
                measure(&arguments, kind, keys, batch).await?;
            }
        }
        if arguments.parked > 0 {
            parked(&arguments, kind).await?;
        }
    }
    Ok(())
}

/// Admission, claim and hand-off for one number of keys and one size of batch.
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
        // One hot key lets a whole batch in; a thousand keys let one in each.
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

/// What the same workload changes, transaction by transaction: admission, then hand-off.
async fn record(
    runs: usize,
    keys: usize,
    batch: usize,
    limit: u32,
) -> anyhow::Result<[Vec<Transaction>; 2]> {
    let store = SqliteStore::in_memory(Arc::new(SystemClock)).await?;
    let recorder = Arc::new(Recorder::new(Arc::new(store)));
    let mut load = Load::new(recorder.clone(), limit).await?;
    load.admit(runs, keys, batch).await?;
    let admission = take(&recorder);
    load.hand_off(runs, batch).await?;
    Ok([admission, take(&recorder)])
}

fn take(recorder: &Recorder) -> Vec<Transaction> {
    let mut changes = recorder.changes.lock().expect("nothing panics under this lock");
    changes.drain(..).map(|changes| Transaction::new(&changes)).collect()
}

/// The same changes, raw, on a fresh database.
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

/// Leases ready runs that no gate holds back.
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

#[expect(clippy::print_stderr, reason = "long work says what it does")]
/// Hand-off on a thousand keys, beside a gate on which so many runs wait, and without it.
async fn parked(arguments: &Arguments, kind: Kind) -> anyhow::Result<()> {
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    let (bare, crowded) = (Opened::new(kind).await?, Opened::new(kind).await?);
    let mut alone = Load::new(bare.store.clone(), 1).await?;
    let mut beside = Load::new(crowded.store.clone(), 1).await?;
    eprintln!("parking {} runs on one gate of {kind:?} …", arguments.parked);
    beside.park(arguments.parked).await?;
    // Many rounds: the first ones after a large load pay for what the database put off.
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

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(n: usize, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints one figure, with its limit where there is one.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what it is for")]
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
