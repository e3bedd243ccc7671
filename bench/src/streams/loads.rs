//! Workloads that commit events to streams and that load streams.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};
use tidegate::ActError;

use super::{
    Arguments,
    rig::{CALLERS, Rig, Tally, add, share},
};
use crate::{
    figures::{Figures, ms_since},
    group::{self, Job},
    limits,
    stores::{Kind, Opened},
    workload::Recorder,
};

/// Number of events of the loaded stream up to its last snapshot, and number of events after it.
/// 99 is the maximum, because every 100th event makes a snapshot.
const LONG: usize = 10_000;
const BEHIND: usize = 99;

pub(super) async fn all(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    let n = arguments.events;
    for (workload, streams) in [("W6.s1", 1), ("W6.s1000", 1000)] {
        if !arguments.wants(workload) {
            continue;
        }
        acts(figures, kind, workload, n, streams).await?;
        if !arguments.bare {
            group(figures, kind, workload, n).await?;
            replay(figures, kind, workload, n, streams).await?;
        }
    }
    if arguments.wants("W6.pinned") {
        pinned(figures, kind, n / 10).await?;
    }
    if arguments.wants("W6.load") {
        load(figures, kind).await?;
    }
    Ok(())
}

/// W6.s1 and W6.s1000: all callers commit actions of one event each to 1 or to 1000 streams.
async fn acts(
    figures: &mut Figures,
    kind: Kind,
    workload: &str,
    n: usize,
    streams: usize,
) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let rig = Rig::new(opened.store.clone(), None).await?;
    rig.meter.reset();
    let (took, again) = rig.act(n, streams).await?;
    rig.count(figures, kind, workload, n);
    let conflicts = conflicts(figures, kind, workload, n, again);
    figures.throughput(kind.name(), workload, n, took, conflicts);
    rig.close(opened).await
}

fn conflicts(figures: &mut Figures, kind: Kind, workload: &str, n: usize, lost: usize) -> Value {
    let share = share(f64::from(u32::try_from(lost).unwrap_or(u32::MAX)), n + lost);
    figures.keep(kind.name(), &format!("{workload}.conflicts"), share);
    json!({ "conflicts": share })
}

/// Measures a bare group commit by the same number of callers, with one row of the same payload for
/// each event.
async fn group(figures: &mut Figures, kind: Kind, workload: &str, n: usize) -> anyhow::Result<()> {
    let place = Opened::new(kind).await?.into_raw();
    let jobs = (0..).take(n).map(Job::Plain).collect();
    let took = group::commit(&place, jobs, CALLERS).await?;
    place.close().await?;
    let name = format!("{workload}.group");
    figures.throughput(limits::peer(kind), &name, n, took, Value::Null);
    Ok(())
}

/// Runs the same workload again and records its transactions, then measures the time to write the
/// same transactions without an engine.
async fn replay(
    figures: &mut Figures,
    kind: Kind,
    workload: &str,
    n: usize,
    streams: usize,
) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let recorder = Arc::new(Recorder::new(opened.store.clone()));
    let rig = Rig::new(recorder.clone(), None).await?;
    let _registered = recorder.take();
    rig.act(n, streams).await?;
    rig.close(opened).await?;
    let all = recorder.take();
    let place = Opened::new(kind).await?.into_raw();
    let took = place.write(&all).await?;
    place.close().await?;
    let name = format!("{workload}.replay");
    figures.throughput(limits::peer(kind), &name, n, took, json!({ "transactions": all.len() }));
    Ok(())
}

/// W6.pinned: each caller commits with an expected version, and loads the stream again after a
/// conflict.
async fn pinned(figures: &mut Figures, kind: Kind, n: usize) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let rig = Rig::new(opened.store.clone(), None).await?;
    rig.meter.reset();
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let stream = rig.stream(0);
            tokio::spawn(async move {
                let (mut version, mut lost) = (stream.load().await?.version, 0);
                for _ in (caller..n).step_by(CALLERS) {
                    loop {
                        match stream.clone().expecting(version).act(add(1)).await {
                            Ok(acted) => version = acted.version,
                            Err(ActError::Conflict { .. }) => {
                                lost += 1;
                                version = stream.load().await?.version;
                                continue;
                            }
                            Err(error) => return Err(error.into()),
                        }
                        break;
                    }
                }
                anyhow::Ok(lost)
            })
        })
        .collect();
    let mut lost = 0;
    for caller in callers {
        lost += caller.await??;
    }
    let took = began.elapsed();
    rig.count(figures, kind, "W6.pinned", n);
    let conflicts = conflicts(figures, kind, "W6.pinned", n, lost);
    figures.throughput(kind.name(), "W6.pinned", n, took, conflicts);
    rig.close(opened).await
}

/// W6.load: loads a long stream that has as many events after its last snapshot as possible.
async fn load(figures: &mut Figures, kind: Kind) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let rig = Rig::new(opened.store.clone(), None).await?;
    let stream = rig.stream(0);
    for _ in 0..LONG / 100 {
        stream.act(add(100)).await?;
    }
    let last = stream.act(add(BEHIND)).await?.version;
    rig.meter.reset();
    let (mut each, loads) = (Vec::new(), 550);
    for at in 0..loads {
        let began = Instant::now();
        let loaded: tidegate::Loaded<Tally> = stream.load().await?;
        // The first 50 loads do not count: they run with cold caches.
        if at >= 50 {
            each.push(ms_since(began));
        }
        anyhow::ensure!(loaded.version == last, "loaded {} of {last} events", loaded.version);
    }
    rig.count(figures, kind, "W6.load", loads);
    figures.latency(kind.name(), "W6.load", each);
    rig.close(opened).await
}
