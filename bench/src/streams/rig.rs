//! The stream type of the benchmark, and an engine that commits events to its streams.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tidegate::{Engine, Reaction, State, Stream};
use tidegate_store::Store;

use crate::{
    engine::Meter,
    figures::Figures,
    group::PAD,
    stores::{Kind, Opened},
};

/// Number of concurrent callers.
pub(super) const CALLERS: usize = 16;

/// The state of a stream: a sum.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    total: u64,
}

/// The event of a stream: a summand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Tallied {
    Added { n: u64, pad: String },
}

impl State for Tally {
    type Event = Tallied;

    const SNAPSHOT_EVERY: Option<u32> = Some(100);

    fn apply(&mut self, event: &Tallied) {
        let Tallied::Added { n, .. } = event;
        self.total += n;
    }
}

/// Returns an action that commits `events` events.
pub(super) fn add(
    events: usize,
) -> impl FnMut(&Tally) -> Result<Vec<Tallied>, Infallible> + Send + Copy {
    move |_| Ok(vec![Tallied::Added { n: 1, pad: PAD.to_owned() }; events])
}

/// An engine on a metered store.
pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) meter: Arc<Meter>,
}

impl Rig {
    pub(super) async fn new(
        store: Arc<dyn Store>,
        reaction: Option<Reaction>,
    ) -> anyhow::Result<Self> {
        let meter = Arc::new(Meter::new(store));
        let counted: Arc<dyn Store> = meter.clone();
        let mut builder = Engine::builder(counted);
        if let Some(reaction) = reaction {
            builder = builder.reaction(reaction);
        }
        let engine = builder.start().await?;
        Ok(Self { engine, meter })
    }

    pub(super) fn stream(&self, number: usize) -> Stream<Tally> {
        self.engine.stream(format!("tally-{number:04}"))
    }

    /// Runs `n` actions of one event each by all callers, on `streams` streams in rotation. Returns
    /// the time it took, and the number of attempts that were repeated after a conflict.
    pub(super) async fn act(&self, n: usize, streams: usize) -> anyhow::Result<(Duration, usize)> {
        let began = Instant::now();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let engine = self.engine.clone();
                tokio::spawn(async move {
                    let mut again = 0;
                    for at in (caller..n).step_by(CALLERS) {
                        let name = format!("tally-{:04}", at % streams);
                        let acted = engine.stream::<Tally>(name).act(add(1)).await?;
                        again += acted.attempts as usize - 1;
                    }
                    anyhow::Ok(again)
                })
            })
            .collect();
        let mut again = 0;
        for caller in callers {
            again += caller.await??;
        }
        Ok((began.elapsed(), again))
    }

    /// Stores the counts of the meter, divided by `n`, as figures of the workload.
    pub(super) fn count(&self, figures: &mut Figures, kind: Kind, workload: &str, n: usize) {
        for (what, count) in self.meter.counts() {
            figures.keep(kind.name(), &format!("{workload}.{what}"), share(count, n));
        }
    }

    /// Shuts the engine down, and removes the store.
    pub(super) async fn close(self, opened: Opened) -> anyhow::Result<()> {
        self.engine.shutdown().await;
        drop(self);
        opened.close().await
    }
}

/// Returns `count` divided by `n`.
pub(super) fn share(count: f64, n: usize) -> f64 {
    count / f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}
