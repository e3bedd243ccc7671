//! Test support: runs the real engine, with its limits and leases, on a virtual clock.
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
//! Only [`TestHarness::advance`] advances the clock, and only when no task has anything left to do
//! at the current time. Handlers should not do real I/O: the harness does not wait for it.

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

/// A clock that a test advances. It returns the time, and wakes tasks that sleep.
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
    /// Creates a clock set to midnight (UTC) on Friday, 1 January 2027.
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

    /// Advances to the next time that a task sleeps until, at most to `limit`. Returns `false` if
    /// no task sleeps until then.
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

/// Timer of an engine on the virtual clock.
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

/// Test harness: a store and a virtual clock, for engines that share both.
#[derive(Debug)]
pub struct TestHarness {
    clock: Arc<VirtualClock>,
    store: Arc<dyn Store>,
    busy: Arc<Busy>,
    seed: Mutex<u64>,
}

/// Environment variable that sets the seed of a harness.
const SEED: &str = "TIDEGATE_SEED";

/// Lease and poll interval of the engines. They are long, because no other process shares the
/// store, and a simulated month should need few steps.
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

    /// Creates a harness on the given store, which should use the same clock.
    pub fn on(store: Arc<dyn Store>, clock: Arc<VirtualClock>) -> Self {
        let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let busy = Arc::<Busy>::default();
        let store = Arc::new(Counted { store, busy: busy.clone() });
        Self { clock, store, busy, seed: Mutex::new(seed) }
    }

    /// Sets the seed. Engines that are built afterwards derive all random numbers from it.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed: Mutex::new(seed), ..self }
    }

    /// Returns a builder for an engine on the harness's store and clock.
    ///
    /// Several engines can be built; they share both.
    pub fn engine(&self) -> EngineBuilder {
        self.begin(self.store.clone())
    }

    /// Returns a builder for an engine that uses `store`, a wrapper around the harness's store that
    /// may fail calls on purpose.
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

    /// Returns the store of the harness.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns a timer on the virtual clock. A step can wait on it to take virtual time.
    pub fn timer(&self) -> Arc<dyn Timer> {
        Arc::new(VirtualTimer(self.clock.clone()))
    }

    /// Returns the time of the virtual clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until no task can continue without advancing the clock.
    pub async fn settle(&self) {
        self.busy.idle().await;
    }

    /// Advances the clock by `time`, from one due time to the next. At each one, waits until all
    /// due work is done.
    pub async fn advance(&self, time: Duration) {
        self.settle().await;
        let until = self.clock.inner().elapsed + time;
        while self.clock.step(until) {
            self.settle().await;
        }
    }

    /// Stops an engine as a crash would: it hands over no run, and its runs become available when
    /// its lease expires.
    pub async fn crash(&self, engine: &Engine) {
        engine.kill();
        self.settle().await;
    }

    /// Returns all runs of a workflow, oldest first.
    pub async fn runs(&self, workflow: &str) -> Vec<RunView> {
        let rows = self.store.dump().await.expect("the store of the harness does not fail");
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
        let (live, ended) =
            engine.look_up(run).await.expect("the store of the harness does not fail");
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
