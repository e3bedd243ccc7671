//! Reactions: throughput on a backlog, and latency of new events.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use serde_json::Value;
use tidegate::{Reaction, ReactionCtx};
use tidegate_core::row::Row;
use tidegate_store::{Clock as _, Store, SystemClock};
use tokio::sync::Notify;

use super::{
    Arguments,
    rig::{Rig, Tallied, add},
};
use crate::{
    figures::{Figures, ms_since},
    limits,
    stores::{Kind, Opened},
    workload::Recorder,
};

/// Number of streams whose events the reaction handles.
const STREAMS: usize = 1000;

/// Record of the events that the reaction's handler got.
#[derive(Debug, Default)]
struct Seen {
    handled: AtomicUsize,
    /// Milliseconds from the commit of each event to the call of the handler.
    lags: Mutex<Vec<f64>>,
    last: Mutex<Option<Instant>>,
    bell: Notify,
}

impl Seen {
    /// Returns a reaction that only counts events, of up to `parallel` streams at once.
    fn reaction(self: &Arc<Self>, parallel: usize) -> Reaction {
        let seen = self.clone();
        Reaction::new("count").parallel_streams(parallel).on(move |ctx: ReactionCtx, _: Tallied| {
            seen.see(ctx.event().at.micros());
            async { Ok(()) }
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "the last digits do not matter")]
    fn see(&self, committed: i64) {
        let lag = (SystemClock.now().micros() - committed) as f64 / 1000.0;
        self.lags.lock().unwrap_or_else(PoisonError::into_inner).push(lag);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.handled.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_one();
    }

    async fn wait(&self, n: usize) {
        while self.handled.load(Ordering::SeqCst) < n {
            self.bell.notified().await;
        }
    }

    fn last(&self) -> Instant {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or_else(Instant::now)
    }

    fn lags(&self) -> Vec<f64> {
        std::mem::take(&mut self.lags.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) async fn all(
    arguments: &Arguments,
    figures: &mut Figures,
    kind: Kind,
) -> anyhow::Result<()> {
    let n = arguments.events;
    for (workload, parallel) in [("W6.react", 10), ("W6.react.p100", 100)] {
        if arguments.wants(workload) {
            drain(figures, kind, workload, n, parallel).await?;
            if !arguments.bare {
                replay(figures, kind, workload, n, parallel).await?;
            }
        }
    }
    if arguments.wants("W6.live") {
        live(figures, kind, n).await?;
    }
    if arguments.wants("W6.delivery") {
        delivery(figures, kind).await?;
    }
    Ok(())
}

/// Registers a reaction, stops its engine, and commits `n` events that the reaction has not
/// handled.
async fn preloaded(store: &Arc<dyn Store>, n: usize) -> anyhow::Result<()> {
    let registered = Rig::new(store.clone(), Some(Arc::<Seen>::default().reaction(10))).await?;
    registered.engine.shutdown().await;
    let rig = Rig::new(store.clone(), None).await?;
    rig.act(n, STREAMS).await?;
    rig.engine.shutdown().await;
    Ok(())
}

/// W6.react: a reaction claims, handles and acks a backlog. Measures the time until the engine has
/// shut down, because it acks the last handled events then.
async fn drain(
    figures: &mut Figures,
    kind: Kind,
    workload: &str,
    n: usize,
    parallel: usize,
) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    preloaded(&opened.store, n).await?;
    let seen = Arc::<Seen>::default();
    let began = Instant::now();
    let rig = Rig::new(opened.store.clone(), Some(seen.reaction(parallel))).await?;
    seen.wait(n).await;
    rig.engine.shutdown().await;
    let took = began.elapsed();
    rig.count(figures, kind, workload, n);
    figures.throughput(kind.name(), workload, n, took, Value::Null);
    let handled = seen.handled.load(Ordering::SeqCst);
    anyhow::ensure!(handled == n, "{handled} of {n} events were handled");
    let behind = opened.store.dump().await?.into_iter();
    let behind =
        behind.filter(|row| matches!(row, Row::Subscription(sub) if sub.at != sub.want)).count();
    anyhow::ensure!(behind == 0, "the last events of {behind} streams are not acked");
    rig.close(opened).await
}

/// Runs W6.react again and records its transactions, then measures the time to write the same
/// transactions without an engine.
async fn replay(
    figures: &mut Figures,
    kind: Kind,
    workload: &str,
    n: usize,
    parallel: usize,
) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let recorder = Arc::new(Recorder::new(opened.store.clone()));
    let store: Arc<dyn Store> = recorder.clone();
    preloaded(&store, n).await?;
    let before = recorder.take();
    let seen = Arc::<Seen>::default();
    let rig = Rig::new(store, Some(seen.reaction(parallel))).await?;
    seen.wait(n).await;
    rig.close(opened).await?;
    let all = recorder.take();
    let place = Opened::new(kind).await?.into_raw();
    place.write(&before).await?;
    let took = place.write(&all).await?;
    place.close().await?;
    let name = format!("{workload}.replay");
    figures.throughput(limits::peer(kind), &name, n, took, Value::Null);
    Ok(())
}

/// W6.live: the same calls as W6.s1000, while a reaction handles the committed events. Measures the
/// time until the last event is handled.
async fn live(figures: &mut Figures, kind: Kind, n: usize) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let seen = Arc::<Seen>::default();
    let rig = Rig::new(opened.store.clone(), Some(seen.reaction(10))).await?;
    rig.meter.reset();
    let began = Instant::now();
    rig.act(n, STREAMS).await?;
    seen.wait(n).await;
    let took = seen.last() - began;
    rig.count(figures, kind, "W6.live", n);
    figures.throughput(kind.name(), "W6.live", n, took, Value::Null);
    figures.latency(kind.name(), "W6.live.lag", seen.lags());
    rig.close(opened).await
}

/// W6.delivery: measures the time from the call of an action on an idle engine until the handler
/// gets its event. W6.act is the time of the call itself.
async fn delivery(figures: &mut Figures, kind: Kind) -> anyhow::Result<()> {
    let opened = Opened::new(kind).await?;
    let seen = Arc::<Seen>::default();
    let rig = Rig::new(opened.store.clone(), Some(seen.reaction(10))).await?;
    let (mut delivered, mut acted) = (Vec::new(), Vec::new());
    for at in 0..300 {
        let began = Instant::now();
        rig.stream(at % STREAMS).act(add(1)).await?;
        let answered = ms_since(began);
        seen.wait(at + 1).await;
        if at >= 50 {
            acted.push(answered);
            delivered.push((seen.last() - began).as_secs_f64() * 1000.0);
        }
    }
    figures.latency(kind.name(), "W6.act", acted);
    figures.latency(kind.name(), "W6.delivery", delivered);
    rig.close(opened).await
}
