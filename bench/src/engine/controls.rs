//! W12: flow control beside the same workload without it, in alternating pairs.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{Engine, OverrideFields, OverrideTarget};

use super::{
    Arguments, loads,
    rig::{Bench, Flow, Rig, WIDE},
};
use crate::{
    figures::Figures,
    limits,
    stores::{Kind, Opened},
    workload::Recorder,
};

/// Number of overrides of `W12.overrides`, the most that a workspace may have.
const OVERRIDES: u64 = 10_000;

/// Number of values that take turns in `W12.fair`. The first of them has half of the runs.
const VALUES: u64 = 50;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// 64 clients start runs, and workers drive them.
    Drive,
    /// Workers drive runs that were started before.
    Drain,
    /// 64 clients start runs, and no worker drives them.
    Start,
}

/// A workload with a control, and the same one without it.
struct Pair {
    name: &'static str,
    timed: Timed,
    with: Flow,
    without: Flow,
    /// Returns the key of run number `n`.
    key: fn(u64) -> u64,
    overrides: bool,
}

const PAIRS: [Pair; 5] = [
    Pair {
        name: "W12.pool",
        timed: Timed::Drive,
        with: Flow::Pool,
        without: Flow::Slack,
        key: |_| 0,
        overrides: false,
    },
    Pair {
        name: "W12.hotPool",
        timed: Timed::Drain,
        with: Flow::HotPool,
        without: Flow::Keyed,
        key: |_| 0,
        overrides: false,
    },
    Pair {
        name: "W12.fair",
        timed: Timed::Drain,
        with: Flow::Fair,
        without: Flow::Shared,
        key: |n| if n % 2 == 0 { 0 } else { n / 2 % (VALUES - 1) + 1 },
        overrides: false,
    },
    Pair {
        name: "W12.overrides",
        timed: Timed::Drive,
        with: Flow::Wide,
        without: Flow::Wide,
        key: |n| n % OVERRIDES,
        overrides: true,
    },
    Pair {
        name: "W12.cancelOn",
        timed: Timed::Start,
        with: Flow::Listening,
        without: Flow::One,
        key: |n| n,
        overrides: false,
    },
];

/// Measures all pairs, alternating within each round. Every other round begins with the second of
/// the pair.
pub(super) async fn pairs(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    for pair in &PAIRS {
        let without = format!("{}.without", pair.name);
        for round in 0..arguments.repeat {
            let both = [(pair.name, pair.with, pair.overrides), (&*without, pair.without, false)];
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for (workload, flow, overridden) in order.map(|n| both[n]) {
                if !arguments.wants(workload) {
                    continue;
                }
                let mut bench = Bench::new(kind, 0).await?;
                if overridden {
                    override_keys(&bench.rig.engine, 0..OVERRIDES).await?;
                }
                let n = match pair.timed {
                    Timed::Drive | Timed::Drain if pair.name == "W12.hotPool" => arguments.runs / 5,
                    Timed::Drive | Timed::Drain | Timed::Start => arguments.runs,
                };
                let took;
                (bench, took) = time(arguments, bench, pair, flow, n).await?;
                let counts = loads::count(figures, kind, workload, &bench.rig, n);
                figures.throughput(kind.name(), workload, n, took, counts);
                bench.close().await?;
                replay(arguments, figures, (kind, workload), pair, flow, n).await?;
            }
        }
    }
    Ok(())
}

/// Runs one workload again and records its changes, then measures the time to write the same changes
/// without an engine.
async fn replay(
    arguments: &Arguments,
    figures: &mut Figures,
    (kind, workload): (Kind, &str),
    pair: &Pair,
    flow: Flow,
    n: usize,
) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let recorder = Arc::new(Recorder::new(opened.store.clone()));
    let mut rig = Rig::new(recorder.clone(), 0).await?;
    let mut before = Vec::new();
    let _registered = recorder.take();
    if pair.timed == Timed::Drain {
        rig.load(flow, n, 1, pair.key).await?;
        before = recorder.take();
    }
    if pair.timed != Timed::Start {
        rig = rig.with_workers(arguments.workers).await?;
    }
    if pair.timed != Timed::Drain {
        rig.start(flow, n, 64, pair.key).await?;
    }
    if pair.timed != Timed::Start {
        rig.meter.ended(n).await;
    }
    rig.engine.shutdown().await;
    drop(rig);
    opened.close().await?;
    let all = recorder.take();
    let place = Opened::new(kind).await?.into_raw();
    place.write(&before).await?;
    let took = place.write(&all).await?;
    place.close().await?;
    let name = format!("{workload}.replay");
    figures.throughput(limits::peer(kind), &name, n, took, Value::Null);
    Ok(())
}

/// Runs one workload on a fresh store. Returns the time that it took.
async fn time(
    arguments: &Arguments,
    bench: Bench,
    pair: &Pair,
    flow: Flow,
    n: usize,
) -> anyhow::Result<(Bench, Duration)> {
    match pair.timed {
        Timed::Start => {
            bench.rig.meter.reset();
            let took = bench.rig.start(flow, n, 64, pair.key).await?;
            Ok((bench, took))
        }
        Timed::Drive => {
            let bench = bench.with_workers(arguments.workers).await?;
            bench.rig.meter.reset();
            let began = Instant::now();
            bench.rig.start(flow, n, 64, pair.key).await?;
            ended(bench, began, n).await
        }
        Timed::Drain => {
            bench.rig.load(flow, n, 1, pair.key).await?;
            bench.rig.meter.reset();
            let began = Instant::now();
            ended(bench.with_workers(arguments.workers).await?, began, n).await
        }
    }
}

async fn ended(bench: Bench, began: Instant, n: usize) -> anyhow::Result<(Bench, Duration)> {
    bench.rig.meter.ended(n).await;
    let took = began.elapsed();
    bench.rig.meter.witness.check(n)?;
    Ok((bench, took))
}

/// Overrides the limit of each of these keys, by concurrent clients, so that changes share commits.
async fn override_keys(engine: &Engine, keys: Range<u64>) -> anyhow::Result<()> {
    const CLIENTS: usize = 256;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (engine, own) = (engine.clone(), keys.clone().skip(client).step_by(CLIENTS));
            tokio::spawn(async move {
                for key in own {
                    let target = json!({
                        "workflow": WIDE, "control": "concurrency", "path": "k", "key": key,
                    });
                    let target: OverrideTarget = serde_json::from_value(target)?;
                    let fields =
                        OverrideFields { limit: Some(2_000_000), ..OverrideFields::default() };
                    engine.set_override(target, fields, None, None).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}
