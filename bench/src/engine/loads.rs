//! The workloads of the engine benchmark: W1 to W5, W7, W9, W10 and `idle`.

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

/// Number of keys of `W5.k1000`, and of cold keys of `W5.cold_behind_hot`.
const KEYS: usize = 1000;

/// Runs the workloads that are repeated in every round.
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

    /// W1: clients start runs, one call for each run, and no worker drives them. Then measures a
    /// bare group commit of the same rows.
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
        // One client makes the same calls on an in-memory store, so that the rows of each call
        // are recorded separately.
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

    /// W1.bulk500: clients start 500 runs with each call. Starts ten times as many runs as W1, so
    /// that the measurement takes long enough.
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

    /// W2, W3 and W5.slack: 64 clients start runs and workers drive them. Measures the time until
    /// the last run has ended.
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

    /// Runs the same workload again and records its changes, then measures the time to write the
    /// same changes without an engine.
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

    /// W4: one client starts one run at a time on an idle engine. Measures the latency until the
    /// run has ended.
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
            // The first 50 calls do not count: they run with cold caches.
            if n >= 50 {
                each.push(ms_since(began));
            }
        }
        self.count(figures, "W4", &bench.rig, 400);
        figures.latency(self.peer(), "W4", each);
        bench.close().await
    }

    /// W5.hot and W5.k1000: workers drain runs that were started before, one at a time for each
    /// key.
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

    /// `W5.cold_behind_hot`: a thousand runs, each with its own key, start behind a long queue of
    /// another key. Measures the time until these runs have ended.
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

    /// Fails unless each of the `n` runs was driven once, and never two of one key at once.
    fn checked(rig: &Rig, n: usize) -> anyhow::Result<Value> {
        rig.meter.witness.check(n)?;
        let most = rig.meter.witness.most_at_once();
        anyhow::ensure!(most == 1, "{most} runs of one key at once");
        Ok(json!({ "mostAtOnce": most }))
    }

    fn count(&self, figures: &mut Figures, workload: &str, rig: &Rig, n: usize) {
        let _counts = count(figures, self.kind, workload, rig, n);
    }
}

/// Stores the counts of the meter, divided by `n`, as figures of the workload. Returns them.
pub(super) fn count(
    figures: &mut Figures,
    kind: Kind,
    workload: &str,
    rig: &Rig,
    n: usize,
) -> Value {
    let n = f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let each = rig.meter.counts().map(|(what, count)| (what, count / n));
    for (what, count) in each {
        figures.keep(kind.name(), &format!("{workload}.{what}"), count);
    }
    each.into_iter().map(|(what, count)| (what.to_owned(), json!(count))).collect()
}

/// W7: claims and finishes the first runs of a backlog, for several sizes of the backlog.
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

/// Time for which the calls of an idle engine are counted: several heartbeats and polls.
const IDLE: Duration = Duration::from_secs(60);

/// `idle`: counts the store calls of an idle engine, in calls a second.
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
    // Wait until the engine has no work left from this run.
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

/// The workloads of W10, each with its number of workflows.
const MANY: [(&str, usize); 5] =
    [("W10.1", 1), ("W10.10", 10), ("W10.100", 100), ("W10.1k", 1_000), ("W10.10k", 10_000)];

/// W10: drives runs of many workflows, each of which has a backlog. Also measures the time to
/// register the workflows.
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
        // Start so many runs that every workflow still has a backlog when the last counted run
        // ends.
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

/// Time from the first start to the wake-up of `W9.wake`: all runs must sleep by then.
const NAP: Duration = Duration::from_secs(45);

/// `W9.wake`: all runs sleep until the same moment. Measures the time from that moment until the
/// last run has ended.
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
    anyhow::ensure!(left > Duration::ZERO && took > Duration::ZERO, "runs woke too early");
    bench.rig.meter.witness.check_each(n, 2)?;
    load.count(figures, workload, &bench.rig, n);
    figures.throughput(kind.name(), workload, n, took, Value::Null);
    bench.close().await
}
