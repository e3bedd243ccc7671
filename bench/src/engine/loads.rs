//! The workloads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate_store::{Clock, SystemClock};

use super::{
    Arguments,
    memory::pause,
    rig::{Bench, Flow, Rig},
};
use crate::{
    figures::{Figures, ms_since},
    group::{self, Job},
    limits,
    raw::Transaction,
    stores::{Kind, Opened},
    workload::Recorder,
};

/// The keys of W5.k1000, and the keys behind a hot one.
const KEYS: usize = 1000;

/// Runs the repeated workloads.
pub(super) async fn all(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    let load = Load { arguments, kind };
    for clients in [16, 64] {
        load.starts(figures, clients).await?;
    }
    load.bulk(figures).await?;
    load.runs(figures, "W2.c64", Flow::One, arguments.runs, 1).await?;
    load.runs(figures, "W5.slack", Flow::Slack, arguments.runs, 1).await?;
    load.runs(figures, "W3.steps", Flow::Ten, arguments.runs / 5, 10).await?;
    load.latency(figures).await?;
    load.drain(figures, "W5.hot", arguments.runs * 2 / 5, 1).await?;
    load.drain(figures, "W5.k1000", arguments.runs, KEYS).await?;
    load.cold_behind_hot(figures).await
}

struct Load<'a> {
    arguments: &'a Arguments,
    kind: Kind,
}

impl Load<'_> {
    fn peer(&self) -> &'static str {
        self.kind.name()
    }

    /// W1: starts, one call each, without a worker; and bare group commit with the same rows.
    async fn starts(&self, figures: &mut Figures, clients: usize) -> anyhow::Result<()> {
        let workload = format!("W1.c{clients}");
        if !self.arguments.wants(&workload) {
            return Ok(());
        }
        let n = self.arguments.runs;
        let bench = Bench::new(self.kind, 0).await?;
        bench.rig.meter.reset();
        let took = bench.rig.start(Flow::Noop, n, clients, |_| 0).await?;
        self.count(figures, &workload, &bench.rig, n);
        figures.throughput(self.peer(), &workload, n, took, Value::Null);
        bench.close().await?;
        // The same calls one by one on an in-memory store, so that each has its own rows.
        let recorder = Arc::new(Recorder::new(Opened::in_memory().await?));
        let rig = Rig::new(recorder.clone(), 0).await?;
        let _registered = recorder.take();
        rig.start(Flow::Noop, n, 1, |_| 0).await?;
        rig.engine.shutdown().await;
        let jobs = recorder.take().into_iter().map(Job::Rows).collect();
        let place = Opened::new(self.kind).await?.into_raw();
        let took = group::commit(&place, jobs, clients).await?;
        place.close().await?;
        let name = format!("group.same.c{clients}");
        figures.throughput(limits::peer(self.kind), &name, n, took, Value::Null);
        Ok(())
    }

    /// W1.bulk500: starts, 500 a call. Ten times as many, because it would be over too soon
    /// otherwise.
    async fn bulk(&self, figures: &mut Figures) -> anyhow::Result<()> {
        if !self.arguments.wants("W1.bulk500") {
            return Ok(());
        }
        let n = self.arguments.runs * 10;
        let bench = Bench::new(self.kind, 0).await?;
        bench.rig.meter.reset();
        let began = Instant::now();
        bench.rig.load(Flow::Noop, n, 16, |_| 0).await?;
        let took = began.elapsed();
        self.count(figures, "W1.bulk500", &bench.rig, n);
        figures.throughput(self.peer(), "W1.bulk500", n, took, Value::Null);
        bench.close().await
    }

    /// W2, W3 and W5.slack: 64 clients start runs, workers drive them; until the last has ended.
    async fn runs(
        &self,
        figures: &mut Figures,
        workload: &str,
        flow: Flow,
        n: usize,
        steps: usize,
    ) -> anyhow::Result<()> {
        if !self.arguments.wants(workload) {
            return Ok(());
        }
        let bench = Bench::new(self.kind, self.arguments.workers).await?;
        bench.rig.meter.reset();
        let began = Instant::now();
        bench.rig.start(flow, n, 64, |_| 0).await?;
        bench.rig.meter.ended(n).await;
        let took = began.elapsed();
        bench.rig.meter.witness.check(n)?;
        self.count(figures, workload, &bench.rig, n * steps);
        figures.throughput(self.peer(), workload, n * steps, took, Value::Null);
        bench.close().await?;
        self.replay(figures, workload, flow, n, steps).await
    }

    /// Writes the very changes of such a load again, without an engine.
    async fn replay(
        &self,
        figures: &mut Figures,
        workload: &str,
        flow: Flow,
        n: usize,
        steps: usize,
    ) -> anyhow::Result<()> {
        let opened = Opened::new(self.kind).await?;
        let recorder = Arc::new(Recorder::new(opened.store.clone()));
        let rig = Rig::new(recorder.clone(), self.arguments.workers).await?;
        let _registered = recorder.take();
        rig.start(flow, n, 64, |_| 0).await?;
        rig.meter.ended(n).await;
        rig.engine.shutdown().await;
        drop(rig);
        opened.close().await?;
        let all: Vec<Transaction> = recorder.take();
        let place = Opened::new(self.kind).await?.into_raw();
        let took = place.write(&all).await?;
        place.close().await?;
        let name = format!("{workload}.replay");
        figures.throughput(limits::peer(self.kind), &name, n * steps, took, Value::Null);
        Ok(())
    }

    /// W4: one client, an idle engine.
    async fn latency(&self, figures: &mut Figures) -> anyhow::Result<()> {
        if !self.arguments.wants("W4") {
            return Ok(());
        }
        let bench = Bench::new(self.kind, self.arguments.workers).await?;
        bench.rig.meter.reset();
        let mut each = Vec::new();
        for n in 0..400 {
            let began = Instant::now();
            bench.rig.one(Flow::One, n).await?;
            // The first calls run with cold caches.
            if n >= 50 {
                each.push(ms_since(began));
            }
        }
        self.count(figures, "W4", &bench.rig, 400);
        figures.latency(self.peer(), "W4", each);
        bench.close().await
    }

    /// W5.hot and W5.k1000: preloaded runs, one at a time for each key.
    async fn drain(
        &self,
        figures: &mut Figures,
        workload: &str,
        n: usize,
        keys: usize,
    ) -> anyhow::Result<()> {
        if !self.arguments.wants(workload) {
            return Ok(());
        }
        let bench = Bench::new(self.kind, 0).await?;
        bench.rig.load(Flow::Keyed, n, 4, move |n| n % keys as u64).await?;
        let bench = bench.with_workers(0).await?;
        bench.rig.meter.reset();
        let began = Instant::now();
        let bench = bench.with_workers(self.arguments.workers).await?;
        bench.rig.meter.ended(n).await;
        let took = began.elapsed();
        let more = Self::checked(&bench.rig, n)?;
        self.count(figures, workload, &bench.rig, n);
        figures.throughput(self.peer(), workload, n, took, more);
        bench.close().await
    }

    /// `W5.cold_behind_hot`: a long queue on one key must not hold up a thousand others.
    async fn cold_behind_hot(&self, figures: &mut Figures) -> anyhow::Result<()> {
        let workload = "W5.cold_behind_hot";
        if !self.arguments.wants(workload) {
            return Ok(());
        }
        let hot = self.arguments.runs * 2 / 5;
        let bench = Bench::new(self.kind, 0).await?;
        let last = bench.rig.load(Flow::Keyed, hot, 1, |_| 0).await?;
        bench.rig.load(Flow::Keyed, KEYS, 1, |n| n + 1).await?;
        bench.rig.meter.count_above(last);
        let began = Instant::now();
        let bench = bench.with_workers(self.arguments.workers).await?;
        bench.rig.meter.ended(KEYS).await;
        let took = began.elapsed();
        let most = bench.rig.meter.witness.most_at_once();
        anyhow::ensure!(most == 1, "{most} runs of one key at once");
        figures.throughput(self.peer(), workload, KEYS, took, json!({ "mostAtOnce": most }));
        bench.close().await
    }

    /// Fails unless every run was driven once and one at a time.
    fn checked(rig: &Rig, n: usize) -> anyhow::Result<Value> {
        rig.meter.witness.check(n)?;
        let most = rig.meter.witness.most_at_once();
        anyhow::ensure!(most == 1, "{most} runs of one key at once");
        Ok(json!({ "mostAtOnce": most }))
    }

    /// Keeps the counts per unit: row writes, transactions, reads and microseconds.
    fn count(&self, figures: &mut Figures, workload: &str, rig: &Rig, n: usize) {
        let n = f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        for (what, count) in rig.meter.counts() {
            figures.keep(self.peer(), &format!("{workload}.{what}"), count / n);
        }
    }
}

/// W7: claim and finish the first of many runs.
pub(super) async fn backlogs(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    for (workload, backlog) in
        [("W7.0", 0), ("W7.100k", arguments.backlog / 10), ("W7.1M", arguments.backlog)]
    {
        if !arguments.wants(workload) {
            continue;
        }
        let load = Load { arguments, kind };
        let rounds = arguments.repeat;
        let first = arguments.runs;
        let mut bench = Bench::new(kind, 0).await?;
        if backlog > 0 {
            bench.rig.load(Flow::Noop, backlog + first * rounds, 4, |_| 0).await?;
        }
        for _ in 0..rounds {
            if backlog == 0 {
                bench.rig.load(Flow::Noop, first, 4, |_| 0).await?;
            }
            bench.rig.meter.reset();
            bench.rig.meter.count_above(tidegate_core::id::Seq(0));
            let began = Instant::now();
            bench = bench.with_workers(arguments.workers).await?;
            bench.rig.meter.ended(first).await;
            let took = began.elapsed();
            load.count(figures, workload, &bench.rig, first);
            figures.throughput(kind.name(), workload, first, took, Value::Null);
            bench = bench.with_workers(0).await?;
        }
        bench.close().await?;
    }
    Ok(())
}

/// The time for which an idle engine is watched: several heartbeats and polls.
const IDLE: Duration = Duration::from_secs(60);

/// `idle`: the store calls of an idle engine, in calls a second.
pub(super) async fn idle(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    if !arguments.wants("idle") {
        return Ok(());
    }
    let bench = Bench::new(kind, arguments.workers).await?;
    bench.rig.one(Flow::One, 0).await?;
    // Wait for the cleanup after the last run.
    rest(Duration::from_secs(5)).await;
    bench.rig.meter.take_calls();
    let began = Instant::now();
    rest(IDLE).await;
    let [calls, locking] = bench.rig.meter.take_calls();
    let more = json!({ "locking": locking });
    figures.throughput(kind.name(), "idle", usize::try_from(calls)?, began.elapsed(), more);
    bench.close().await
}

async fn rest(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        pause().await;
    }
}

/// The workloads of W10 and their numbers of workflows.
const MANY: [(&str, usize); 5] =
    [("W10.1", 1), ("W10.10", 10), ("W10.100", 100), ("W10.1k", 1_000), ("W10.10k", 10_000)];

/// W10: runs of many workflows that all have a backlog, and the time to register them.
pub(super) async fn workflows(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    let load = Load { arguments, kind };
    for (workload, workflows) in MANY {
        if !arguments.wants(workload) {
            continue;
        }
        let first = arguments.runs;
        let began = Instant::now();
        let bench = Bench::with_more(kind, 0, workflows).await?;
        let define = format!("{workload}.define");
        figures.throughput(kind.name(), &define, workflows, began.elapsed(), Value::Null);
        // Enough that every workflow still has a backlog when the last run is counted.
        bench.rig.load_many(first + workflows * 2).await?;
        bench.rig.meter.reset();
        bench.rig.meter.count_above(tidegate_core::id::Seq(0));
        let bench = bench.with_workers(arguments.workers).await?;
        let began = Instant::now();
        bench.rig.meter.ended(first).await;
        let took = began.elapsed();
        load.count(figures, workload, &bench.rig, first);
        figures.throughput(kind.name(), workload, first, took, Value::Null);
        bench.close().await?;
    }
    Ok(())
}

/// The time that the runs of `W9.wake` have to fall asleep.
const NAP: Duration = Duration::from_secs(45);

/// `W9.wake`: runs that sleep until one moment; from that moment until the last has ended.
pub(super) async fn wake(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    let (workload, n) = ("W9.wake", arguments.wakers);
    if !arguments.wants(workload) || n == 0 {
        return Ok(());
    }
    let load = Load { arguments, kind };
    let bench = Bench::new(kind, arguments.workers).await?;
    let (began, now) = (Instant::now(), SystemClock.now().micros());
    let at = u64::try_from(now)? + u64::try_from(NAP.as_micros())?;
    bench.rig.load(Flow::Waker, n, 4, move |_| at).await?;
    while bench.rig.meter.witness.begun() < n || bench.rig.engine.driven() > 0 {
        pause().await;
    }
    let left = NAP.checked_sub(began.elapsed());
    let left = left.ok_or_else(|| anyhow::anyhow!("{n} runs took longer than {NAP:?} to sleep"))?;
    bench.rig.meter.reset();
    bench.rig.meter.ended(n).await;
    let took = began.elapsed().saturating_sub(NAP);
    anyhow::ensure!(left > Duration::ZERO && took > Duration::ZERO, "they woke too early");
    bench.rig.meter.witness.check_each(n, 2)?;
    load.count(figures, workload, &bench.rig, n);
    figures.throughput(kind.name(), workload, n, took, Value::Null);
    bench.close().await
}
