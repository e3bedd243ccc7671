//! An engine on a fresh store, with the workflows that the workloads need.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tidegate::{
    CancelOn, Concurrency, Ctx, Engine, Fair, NewEvent, Pool, Posted, Workflow, new_event,
};
use tidegate_core::{id::Seq, time::Timestamp};
use tidegate_store::Store;

use super::meter::{Meter, Witness};
use crate::{
    group::PAD,
    stores::{Kind, Opened},
};

/// The payload of every run. `k` is the concurrency key, or for `Waker` the time to sleep until.
#[derive(Debug, Deserialize, Serialize)]
struct Input {
    n: u64,
    k: u64,
    #[serde(skip_deserializing)]
    pad: &'static str,
}

/// The workflows that the workloads use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flow {
    /// Has no step.
    Noop,
    /// Has one step.
    One,
    /// Has one step, and a concurrency limit that is never reached.
    Slack,
    /// Has ten steps, each durable before the next one starts.
    Ten,
    /// Has no step. One run at a time for each key.
    Keyed,
    /// Sleeps for a day.
    Sleeper,
    /// Sleeps until the time in `k`, in microseconds.
    Waker,
    /// Two workflows with one step, and a pool whose limit is never reached.
    Pool,
    /// Two workflows without a step that share a pool. One run at a time.
    HotPool,
    /// Has no step. Ten runs at a time.
    Shared,
    /// As `Shared`; the values of `k` take turns.
    Fair,
    /// Has one step, and a limit for each key that is never reached.
    Wide,
    /// Has one step, and events that cancel its runs.
    Listening,
}

const ALL: [Flow; 13] = [
    Flow::Noop,
    Flow::One,
    Flow::Slack,
    Flow::Ten,
    Flow::Keyed,
    Flow::Sleeper,
    Flow::Waker,
    Flow::Pool,
    Flow::HotPool,
    Flow::Shared,
    Flow::Fair,
    Flow::Wide,
    Flow::Listening,
];

/// A limit that is never reached.
const SLACK: u32 = 1_000_000;

impl Flow {
    /// Returns the names of the workflows. Runs are started in rotation.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Noop => &["noop"],
            Self::One => &["one"],
            Self::Slack => &["slack"],
            Self::Ten => &["ten"],
            Self::Keyed => &["keyed"],
            Self::Sleeper => &["sleeper"],
            Self::Waker => &["waker"],
            Self::Pool => &["pool.a", "pool.b"],
            Self::HotPool => &["hot.a", "hot.b"],
            Self::Shared => &["shared"],
            Self::Fair => &["fair"],
            Self::Wide => &[WIDE],
            Self::Listening => &["listening"],
        }
    }

    /// Returns the name of the workflow that run number `n` belongs to.
    fn name(self, n: u64) -> &'static str {
        let names = self.names();
        names[usize::try_from(n).unwrap_or(0) % names.len()]
    }

    fn workflow(self, name: &str, witness: Arc<Witness>) -> Workflow<Input, u64> {
        let workflow = Workflow::new(name, move |ctx: Ctx, input: Input| {
            witness.begin(ctx.run_id().seq, input.k);
            self.handle(ctx, input.n, input.k)
        });
        match self {
            Self::Slack => workflow.concurrency(Concurrency::limit(SLACK)),
            Self::Keyed => workflow.concurrency(Concurrency::limit(1).key("k")),
            Self::Pool => workflow.concurrency(Concurrency::pool("slack")),
            Self::HotPool => workflow.concurrency(Concurrency::pool("hot")),
            Self::Shared => workflow.concurrency(Concurrency::limit(10)),
            Self::Fair => workflow.concurrency(Concurrency::limit(10).fair(Fair::by("k"))),
            Self::Wide => workflow.concurrency(Concurrency::limit(SLACK).key("k")),
            Self::Listening => workflow.cancel_on(CancelOn::event("stop").matching("k", "k")),
            Self::Noop | Self::One | Self::Ten | Self::Sleeper | Self::Waker => workflow,
        }
    }

    async fn handle(self, ctx: Ctx, n: u64, k: u64) -> tidegate::Result<u64> {
        match self {
            Self::Noop => {}
            // Other tasks may run here, so that a second run of the same key would be noticed.
            Self::Keyed | Self::HotPool | Self::Shared | Self::Fair => {
                tokio::task::yield_now().await;
            }
            Self::One | Self::Slack | Self::Pool | Self::Wide | Self::Listening => {
                return ctx.step("a", || async move { Ok(n) }).await;
            }
            Self::Ten => {
                for at in 0..10 {
                    ctx.step(format!("s{at}"), || async move { Ok(n) }).await?;
                }
            }
            Self::Sleeper => ctx.sleep("night", Duration::from_secs(86_400)).await?,
            Self::Waker => {
                let at = Timestamp::from_micros(i64::try_from(k).unwrap_or(i64::MAX));
                ctx.sleep_until("nap", at).await?;
            }
        }
        Ok(n)
    }
}

/// The name of the workflow of [`Flow::Wide`].
pub(crate) const WIDE: &str = "wide";

fn name_of_many(n: usize) -> String {
    format!("many.{n}")
}

/// Returns the additional workflow number `n`, which has no step.
fn one_of_many(n: usize, witness: Arc<Witness>) -> Workflow<Input, u64> {
    Workflow::new(&name_of_many(n), move |ctx: Ctx, input: Input| {
        witness.begin(ctx.run_id().seq, input.k);
        async move { Ok(input.n) }
    })
}

/// An engine on a metered store.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) meter: Arc<Meter>,
    /// The number of additional workflows.
    more: usize,
}

impl Rig {
    /// Starts an engine with `workers` workers and without additional workflows.
    pub(crate) async fn new(store: Arc<dyn Store>, workers: usize) -> anyhow::Result<Self> {
        Self::on(Arc::new(Meter::new(store)), workers, 0).await
    }

    /// Starts an engine on a metered store, with `more` additional workflows.
    async fn on(meter: Arc<Meter>, workers: usize, more: usize) -> anyhow::Result<Self> {
        let store: Arc<dyn Store> = meter.clone();
        let mut builder = Engine::builder(store).workers(workers);
        builder = builder.pool(Pool::new("slack").concurrency(SLACK));
        builder = builder.pool(Pool::new("hot").concurrency(1));
        for flow in ALL {
            for name in flow.names() {
                builder = builder.workflow(flow.workflow(name, meter.witness.clone()));
            }
        }
        for n in 0..more {
            builder = builder.workflow(one_of_many(n, meter.witness.clone()));
        }
        let engine = builder.start().await?;
        Ok(Self { engine, meter, more })
    }

    /// Starts `n` runs of all additional workflows in rotation, with 500 events per call.
    pub(crate) async fn load_many(&self, n: usize) -> anyhow::Result<()> {
        for first in (0..n).step_by(500) {
            let events: Result<Vec<NewEvent>, _> = (first..n.min(first + 500))
                .map(|n| new_event(&name_of_many(n % self.more), input(n as u64, |_| 0)))
                .collect();
            for posted in self.engine.send_all(events?).await? {
                started(&posted)?;
            }
        }
        Ok(())
    }

    /// Shuts the engine down and starts another with `workers` workers on the same store.
    pub(crate) async fn with_workers(self, workers: usize) -> anyhow::Result<Self> {
        let (meter, more) = (self.meter.clone(), self.more);
        self.engine.shutdown().await;
        Self::on(meter, workers, more).await
    }

    /// Starts `n` runs by concurrent clients, with one call for each run. Returns the time until
    /// the last answer.
    pub(crate) async fn start(
        &self,
        flow: Flow,
        n: usize,
        clients: usize,
        key: impl Fn(u64) -> u64 + Copy + Send + 'static,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let clients: Vec<_> = (0..clients)
            .map(|client| {
                let (engine, step) = (self.engine.clone(), clients);
                tokio::spawn(async move {
                    for n in (client..n).step_by(step) {
                        started(&engine.send(flow.name(n as u64), input(n as u64, key)).await?)?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for client in clients {
            client.await??;
        }
        Ok(began.elapsed())
    }

    /// Starts `n` runs by concurrent clients, with 500 events per call. Returns the sequence number
    /// of the last run.
    pub(crate) async fn load(
        &self,
        flow: Flow,
        n: usize,
        clients: usize,
        key: impl Fn(u64) -> u64 + Copy + Send + 'static,
    ) -> anyhow::Result<Seq> {
        let clients: Vec<_> = (0..clients)
            .map(|client| {
                let (engine, step) = (self.engine.clone(), clients * 500);
                tokio::spawn(async move {
                    let mut last = Seq(0);
                    for first in (client * 500..n).step_by(step) {
                        let events: Result<Vec<NewEvent>, _> = (first..n.min(first + 500))
                            .map(|n| new_event(flow.name(n as u64), input(n as u64, key)))
                            .collect();
                        for posted in engine.send_all(events?).await? {
                            last = last.max(started(&posted)?);
                        }
                    }
                    anyhow::Ok(last)
                })
            })
            .collect();
        let mut last = Seq(0);
        for client in clients {
            last = last.max(client.await??);
        }
        Ok(last)
    }

    /// Starts one run and waits until its caller knows that it has ended.
    pub(crate) async fn one(&self, flow: Flow, n: u64) -> anyhow::Result<()> {
        let posted = self.engine.send(flow.name(n), input(n, |_| 0)).await?;
        let run = posted.runs.first().and_then(|answer| answer.verdict.run());
        let run = run.ok_or_else(|| anyhow::anyhow!("no run was started: {posted:?}"))?;
        self.engine.ended(run).await?;
        Ok(())
    }
}

fn input(n: u64, key: impl Fn(u64) -> u64) -> Input {
    Input { n, k: key(n), pad: PAD }
}

/// Returns the sequence number of the run that an event started.
fn started(posted: &Posted) -> anyhow::Result<Seq> {
    let run = posted.runs.first().and_then(|answer| answer.verdict.run());
    Ok(run.ok_or_else(|| anyhow::anyhow!("no run was started: {posted:?}"))?.seq)
}

/// A rig with a store of its own. `close` removes the store.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) rig: Rig,
    opened: Opened,
}

impl Bench {
    pub(crate) async fn new(kind: Kind, workers: usize) -> anyhow::Result<Self> {
        Self::with_more(kind, workers, 0).await
    }

    /// Opens an empty store and starts an engine on it, with `more` additional workflows.
    pub(crate) async fn with_more(kind: Kind, workers: usize, more: usize) -> anyhow::Result<Self> {
        let opened = Opened::new(kind).await?;
        let meter = Arc::new(Meter::new(opened.store.clone()));
        let rig = Rig::on(meter, workers, more).await?;
        Ok(Self { rig, opened })
    }

    pub(crate) async fn with_workers(self, workers: usize) -> anyhow::Result<Self> {
        let Self { rig, opened } = self;
        Ok(Self { rig: rig.with_workers(workers).await?, opened })
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.rig.engine.shutdown().await;
        drop(self.rig);
        self.opened.close().await
    }
}
