//! Test support: the real engine on a virtual clock, limits and leases included.
//!
//! ```
//! use std::time::Duration;
//! use serde_json::{Value, json};
//! use tidegate::{Concurrency, Ctx, Debounce, Workflow, testing::TestHarness};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tidegate::Error> {
//! let harness = TestHarness::new();
//! let sync = Workflow::new("sync", async |_: Ctx, _: Value| Ok(()))
//!     .concurrency(Concurrency::limit(5))
//!     .debounce(Debounce::quiet(Duration::from_secs(10)).key("account"));
//! let engine = harness.engine().workflow(sync).start().await?;
//! for n in 0..50 {
//!     engine.send("sync", json!({ "account": n % 10 })).await?;
//! }
//! harness.advance(Duration::from_millis(9_999)).await;
//! assert_eq!(harness.runs("sync").await.len(), 0);
//! harness.advance(Duration::from_millis(1)).await;
//! assert_eq!(harness.runs("sync").await.len(), 10);
//! # Ok(())
//! # }
//! ```
//!
//! Time moves only by [`TestHarness::advance`], and only after everything that can happen without
//! it has happened. Handlers should not do real I/O: the harness does not wait for it.

mod counted;
mod replay;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate_core::{
    id::RunId,
    row::{Ending, Phase, Row},
    time::Timestamp,
};
use tidegate_store::{Clock, MemoryStore, Store};

use self::counted::Counted;
pub use self::replay::{ReplayEnd, Replayed, Report, replay};
use crate::{api::Engine, builder::EngineBuilder, tasks::Busy, timer::Timer};

/// A clock that moves only by hand: it tells the time, and wakes tasks that wait for it.
#[derive(Debug)]
pub struct VirtualClock {
    start: Timestamp,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    elapsed: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    last: u64,
}

impl Default for VirtualClock {
    /// Creates a clock set to midnight, on a Friday in 2027.
    fn default() -> Self {
        Self::new(Timestamp::from_ms(1_798_761_600_000))
    }
}

impl VirtualClock {
    /// Creates a clock set to this time.
    pub fn new(start: Timestamp) -> Self {
        Self { start, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves to the next time that a task waits for, at most to `limit`. Returns `false` if there
    /// is none before.
    fn step(&self, limit: Duration) -> bool {
        let mut inner = self.inner();
        let next = inner.sleepers.keys().next().map(|(at, _)| *at).filter(|at| *at <= limit);
        let Some(next) = next else {
            inner.elapsed = inner.elapsed.max(limit);
            return false;
        };
        inner.elapsed = inner.elapsed.max(next);
        let later = inner.sleepers.split_off(&(next + Duration::from_nanos(1), 0));
        let due = std::mem::replace(&mut inner.sleepers, later);
        drop(inner);
        due.into_values().for_each(Waker::wake);
        true
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let micros = i64::try_from(self.inner().elapsed.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.start.micros().saturating_add(micros))
    }
}

/// The clock as an engine's timer.
#[derive(Clone, Debug)]
struct VirtualTimer(Arc<VirtualClock>);

impl Timer for VirtualTimer {
    fn elapsed(&self) -> Duration {
        self.0.inner().elapsed
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Sleep { clock: self.0.clone(), at, place: None })
    }
}

struct Sleep {
    clock: Arc<VirtualClock>,
    at: Duration,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut inner = this.clock.inner();
        if inner.elapsed >= this.at {
            return Poll::Ready(());
        }
        let place = *this.place.get_or_insert_with(|| {
            inner.last += 1;
            inner.last
        });
        inner.sleepers.insert((this.at, place), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.clock.inner().sleepers.remove(&(self.at, place));
        }
    }
}

/// A store and a virtual clock, with engines that share both.
#[derive(Debug)]
pub struct TestHarness {
    clock: Arc<VirtualClock>,
    store: Arc<dyn Store>,
    busy: Arc<Busy>,
    seed: Mutex<u64>,
}

/// Environment variable with the seed of a harness.
const SEED: &str = "TIDEGATE_SEED";

/// Lease and poll interval: no other process shares the store, so they need not keep a virtual
/// month busy.
const QUIET: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for TestHarness {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHarness {
    /// Creates a harness with an empty store in memory.
    pub fn new() -> Self {
        let clock = Arc::new(VirtualClock::default());
        Self::on(Arc::new(MemoryStore::new(clock.clone())), clock)
    }

    /// Creates a harness with the given store, which should tell the time by the same clock.
    pub fn on(store: Arc<dyn Store>, clock: Arc<VirtualClock>) -> Self {
        let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let busy = Arc::<Busy>::default();
        let store = Arc::new(Counted { store, busy: busy.clone() });
        Self { clock, store, busy, seed: Mutex::new(seed) }
    }

    /// Sets the seed from which engines created later derive all randomness.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed: Mutex::new(seed), ..self }
    }

    /// Returns a builder for an engine on the harness's store and clock.
    ///
    /// Several engines share both.
    pub fn engine(&self) -> EngineBuilder {
        self.begin(self.store.clone())
    }

    /// Returns a builder for an engine that reaches the harness's store through the given one: a
    /// store that forwards calls, and fails now and then.
    pub fn engine_through(&self, store: Arc<dyn Store>) -> EngineBuilder {
        self.begin(Arc::new(Counted { store, busy: self.busy.clone() }))
    }

    fn begin(&self, store: Arc<dyn Store>) -> EngineBuilder {
        let mut seed = self.seed.lock().unwrap_or_else(PoisonError::into_inner);
        *seed += 1;
        let timer = Arc::new(VirtualTimer(self.clock.clone()));
        let builder = Engine::builder(store).on_clock(self.clock.clone(), timer);
        let builder = builder.seeded(*seed).tracked(self.busy.clone());
        builder.lease_ttl(QUIET).poll_interval(QUIET)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns a timer of the virtual clock: a step that takes a minute waits for it here.
    pub fn timer(&self) -> Arc<dyn Timer> {
        Arc::new(VirtualTimer(self.clock.clone()))
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until nothing more happens without the clock.
    pub async fn settle(&self) {
        self.busy.idle().await;
    }

    /// Advances the clock from one due time to the next, and lets everything happen that is due on
    /// the way.
    pub async fn advance(&self, time: Duration) {
        self.settle().await;
        let until = self.clock.inner().elapsed + time;
        while self.clock.step(until) {
            self.settle().await;
        }
    }

    /// Stops an engine as a crash would: nothing is handed over, and its runs become available when
    /// its lease expires.
    pub async fn crash(&self, engine: &Engine) {
        engine.kill();
        self.settle().await;
    }

    /// Returns all runs of a workflow, oldest first.
    pub async fn runs(&self, workflow: &str) -> Vec<RunView> {
        let rows = self.store.dump().await.expect("the harness's store works");
        let mut runs: BTreeMap<RunId, RunView> = BTreeMap::new();
        for row in rows {
            match row {
                Row::Run(run) if run.workflow == workflow && run.phase != Phase::Stopping => {
                    runs.insert(
                        run.id,
                        RunView { id: run.id, state: state(run.phase), ending: None },
                    );
                }
                Row::Ended(ended) if ended.workflow == workflow => {
                    let (state, ending) = (ended.ending.state(), Some(ended.ending));
                    runs.insert(ended.id, RunView { id: ended.id, state, ending });
                }
                _ => {}
            }
        }
        runs.into_values().collect()
    }

    /// Returns the output of a run that must have completed.
    ///
    /// # Panics
    ///
    /// Panics if the run has not completed, with its state and the seed that repeats the test.
    pub async fn completed(&self, engine: &Engine, run: RunId) -> serde_json::Value {
        let (live, ended) = engine.look_up(run).await.expect("the harness's store works");
        match ended.map(|ended| ended.ending) {
            Some(Ending::Completed { output }) => {
                serde_json::from_str(output.as_str()).unwrap_or_default()
            }
            other => {
                let why = engine.why(run).await;
                let seed = *self.seed.lock().unwrap_or_else(PoisonError::into_inner);
                panic!(
                    "{run} has not completed: {other:?}, {live:?}\nwhy: {why:?}\nat {}; repeat \
                     with {SEED}={seed}",
                    self.now()
                )
            }
        }
    }
}

/// A run as a test sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunView {
    /// Id of the run.
    pub id: RunId,
    /// State: `queued`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled`.
    pub state: &'static str,
    /// End of the run, if it has ended.
    pub ending: Option<Ending>,
}

fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued { .. } | Phase::Ready => "queued",
        Phase::Driven => "running",
        Phase::Waiting => "waiting",
        Phase::Paused => "paused",
        Phase::Stopping => "cancelled",
    }
}
