//! Engines with different lease lengths on one store: each lease has its own length.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tidegate::{
    Engine,
    testing::{TestHarness, VirtualClock},
};
use tidegate_core::{
    row::{Phase, Row},
    time::Timestamp,
};
use tidegate_store::{Clock, Store};

use crate::{
    stores,
    words::{Journal, secs, start, states, work},
};

/// Starts an engine with one worker, so that every engine drives a run of its own.
async fn engine(harness: &TestHarness, journal: &Journal, ttl: Duration, ws: &str) -> Engine {
    let builder = harness.engine().lease_ttl(ttl).poll_interval(ttl / 3).workers(1);
    let job = work(journal, "job", secs(90));
    builder.workspaces([ws]).workflow(job).start().await.unwrap()
}

/// Returns the number of takeovers of each run, live or ended.
async fn takeovers(harness: &TestHarness) -> Vec<u32> {
    let rows = harness.store().dump().await.unwrap();
    let each = rows.iter().filter_map(|row| match row {
        Row::Run(run) => Some(run.takeovers),
        Row::Ended(run) => Some(run.takeovers),
        _ => None,
    });
    each.collect()
}

/// A run that lasts longer than the shorter leases is not taken over, neither by engines of the
/// same workspace nor by others.
pub(crate) async fn a_long_lease_is_not_judged_by_a_short_one(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let mut engines = Vec::new();
    for (ttl, ws) in [(1, "left"), (30, "left"), (1, "right"), (30, "right")] {
        let engine = engine(harness, &journal, secs(ttl), ws).await;
        start(&engine, "job", json!({ "n": engines.len() })).await;
        harness.settle().await;
        engines.push(engine);
    }
    let driven: Vec<_> = engines.iter().map(Engine::driven).collect();
    assert_eq!(driven, [1; 4], "each engine must drive one run");
    harness.advance(secs(100)).await;
    assert_eq!(states(harness, "job").await, ["completed"; 4]);
    assert_eq!(takeovers(harness).await, [0; 4]);
    assert_eq!(journal.take().len(), 4, "no step ran twice");
}

/// Runs of a dead engine become available after that engine's own lease: soon if it is short,
/// although the observer's lease is long; and not earlier if it is long, although the observer's
/// lease is short.
pub(crate) async fn a_dead_engine_is_judged_by_its_own_lease(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let short = engine(harness, &journal, secs(1), "default").await;
    let run = start(&short, "job", json!({ "n": 1 })).await;
    harness.settle().await;
    let long = engine(harness, &journal, secs(30), "default").await;
    harness.advance(secs(5)).await;
    harness.crash(&short).await;
    harness.advance(secs(3)).await;
    assert_eq!((long.driven(), takeovers(harness).await), (1, vec![1]));
    let why = long.why(run).await.unwrap().sentence;
    assert!(why.ends_with("it was taken over once from an engine that died"), "{why}");
    let short = engine(harness, &journal, secs(1), "default").await;
    harness.advance(secs(11)).await;
    harness.crash(&long).await;
    // The last heartbeat was seen at most a third of the lease before the crash.
    harness.advance(secs(19)).await;
    assert_eq!((short.driven(), takeovers(harness).await), (0, vec![1]));
    harness.advance(secs(12)).await;
    assert_eq!((short.driven(), takeovers(harness).await), (1, vec![2]));
    harness.advance(secs(90)).await;
    harness.completed(&short, run).await;
    assert_eq!(takeovers(harness).await, [2], "the takeovers must still be recorded after the end");
}

/// The lease length is changed engine by engine while runs continue. Runs are handed over, never
/// taken over.
pub(crate) async fn a_rolling_change_of_the_lease_takes_nothing_over(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let start_one = async |ttl| {
        let builder = harness.engine().lease_ttl(ttl).poll_interval(secs(1));
        builder.workflow(work(&journal, "job", secs(7))).start().await.unwrap()
    };
    let mut engines = Vec::new();
    for ttl in [30, 30, 30, 1, 1, 1, 5, 60, 1] {
        engines.push(start_one(secs(ttl)).await);
        let newest = engines.last().expect("an engine was just started");
        for n in 0..5 {
            start(newest, "job", json!({ "n": n })).await;
        }
        if engines.len() > 3 {
            engines.remove(0).shutdown().await;
        }
        harness.advance(secs(4)).await;
    }
    harness.advance(secs(20)).await;
    assert_eq!(states(harness, "job").await, ["completed"; 45]);
    assert_eq!(takeovers(harness).await, [0; 45]);
}

/// A run during which its engine crashes repeatedly is paused, and continues when it is resumed.
/// Runs that were only leased, or had not started, continue by themselves.
pub(crate) async fn a_crash_loop_pauses_only_what_was_under_way(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let start_one = async |workers| {
        let builder = harness.engine().lease_ttl(secs(1)).poll_interval(secs(1)).workers(workers);
        let builder = builder.pause_after_deaths(3).workflow(work(&journal, "job", secs(90)));
        builder.start().await.unwrap()
    };
    // The engines below have one worker, so that the second run stays queued.
    let front = start_one(0).await;
    let guilty = start(&front, "job", json!({ "n": 1 })).await;
    let innocent = start(&front, "job", json!({ "n": 2 })).await;
    for deaths in 0..4 {
        let engine = start_one(1).await;
        harness.advance(secs(3)).await;
        assert_eq!((engine.driven(), journal.take()), (1, vec!["1".to_owned()]), "{deaths}");
        harness.crash(&engine).await;
        harness.advance(secs(3)).await;
    }
    let row = front.look_up(guilty).await.unwrap().0.expect("it has not ended");
    assert_eq!((row.phase, row.deaths, row.takeovers), (Phase::Paused, 3, 4));
    let why = front.why(guilty).await.unwrap().sentence;
    assert!(why.starts_with("it was paused after 3 worker deaths"), "{why}");
    let engine = start_one(2).await;
    harness.advance(secs(100)).await;
    harness.completed(&engine, innocent).await;
    assert_eq!(journal.take(), ["2"], "a paused run is not driven");
    engine.resume(guilty).await.unwrap();
    harness.advance(secs(100)).await;
    harness.completed(&engine, guilty).await;
}

/// A store clock whose difference to the engines' clock can be set.
#[derive(Debug)]
pub(crate) struct Settable {
    clock: Arc<VirtualClock>,
    ahead: AtomicI64,
}

impl Settable {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Self {
        Self { clock, ahead: AtomicI64::new(0) }
    }

    /// Sets the difference to the engines' clock, in microseconds; negative if the store's clock is
    /// behind.
    pub(crate) fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::SeqCst);
    }
}

impl Clock for Settable {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().micros() + self.ahead.load(Ordering::SeqCst))
    }
}

/// The store's clock jumps ten minutes ahead and back. No lease expires because of that.
async fn a_step_of_the_clock_takes_nothing_over(
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    settable: &Settable,
) {
    let harness = TestHarness::on(store, clock);
    let journal = Journal::new(&harness);
    let short = engine(&harness, &journal, secs(1), "default").await;
    let long = engine(&harness, &journal, secs(30), "default").await;
    for engine in [&short, &long] {
        start(engine, "job", json!({ "n": 1 })).await;
        harness.settle().await;
    }
    for minutes in [10, 0, -10, 0] {
        settable.set(minutes * 60_000_000);
        harness.advance(secs(12)).await;
        assert_eq!(
            (short.driven(), long.driven()),
            (1, 1),
            "an engine lost its run with the clock {minutes} minutes ahead"
        );
    }
    harness.advance(secs(60)).await;
    assert_eq!(states(&harness, "job").await, ["completed"; 2]);
    assert_eq!(takeovers(&harness).await, [0; 2]);
    assert_eq!(journal.take().len(), 2, "no step ran twice");
}

macro_rules! on_each_store {
    ($($test:ident: $open:ident,)*) => {
        $(#[tokio::test]
        async fn $test() {
            let clock = Arc::new(VirtualClock::default());
            let settable = Arc::new(Settable::new(clock.clone()));
            let Some(store) = stores::$open(settable.clone()).await else { return };
            a_step_of_the_clock_takes_nothing_over(store, clock, &settable).await;
        })*
    };
}

on_each_store! {
    a_step_of_the_clock_takes_nothing_over_on_memory: open_memory,
    a_step_of_the_clock_takes_nothing_over_on_sqlite: open_sqlite,
    a_step_of_the_clock_takes_nothing_over_on_postgres: open_postgres,
}
