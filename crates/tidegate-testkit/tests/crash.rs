//! Crash tests: no work is lost or done twice if the process dies in any transaction.
//!
//! A workload runs once without a failure. Then it runs again for each of its transactions and each
//! kind of failure: the process dies in that transaction, a new process with another engine id
//! reaps its runs, and callers repeat the requests that were not answered. At the end no work is
//! left, and the outcome is the same as without the failure.

#![expect(clippy::wildcard_enum_match_arm, reason = "the tests search for some kinds of rows")]

#[path = "crash/process.rs"]
mod process;
#[path = "crash/workloads.rs"]
mod workloads;

use std::sync::Arc;

use process::Process;
use tidegate_core::time::Timestamp;
use tidegate_store::{ManualClock, MemoryStore, SqliteStore, Store};
use tidegate_testkit::fault::{Failure, FaultStore};

/// Start time of the tests, a Friday in the year 2027.
const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);

async fn memory(clock: Arc<ManualClock>) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(clock))
}

async fn sqlite(clock: Arc<ManualClock>) -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory(clock).await.expect("SQLite opens"))
}

/// Runs a workload with at most one failure. Returns its outcome and the number of its
/// transactions.
async fn once(
    open: impl AsyncFn(Arc<ManualClock>) -> Arc<dyn Store>,
    workload: impl AsyncFn(&mut Process),
    fails: Option<(usize, Failure)>,
) -> (Vec<String>, usize) {
    let clock = Arc::new(ManualClock::new(START));
    let store = Arc::new(FaultStore::new(open(clock.clone()).await, fails));
    let mut process = Process::new(store.clone(), clock);
    workload(&mut process).await;
    process.work().await;
    process.world.check_quiet().await;
    (process.came_of_it().await, store.transactions())
}

/// The failures at a commit. The third kind, a store that cannot be reached, does not call the
/// store at all, so it is tested on one store only.
const AT_THE_COMMIT: [Failure; 2] = [Failure::BeforeCommit, Failure::AfterCommit];

async fn at_every_point(
    name: &str,
    failures: &[Failure],
    open: impl AsyncFn(Arc<ManualClock>) -> Arc<dyn Store>,
    workload: impl AsyncFn(&mut Process),
) {
    let (expected, transactions) = once(&open, &workload, None).await;
    assert!(!expected.is_empty(), "{name}: the workload has no outcome");
    for n in 0..transactions {
        for &failure in failures {
            let (came_of_it, _) = once(&open, &workload, Some((n, failure))).await;
            assert_eq!(
                came_of_it, expected,
                "{name}: transaction {n} of {transactions} {failure:?}"
            );
        }
    }
}

macro_rules! crash_points {
    ($($workload:ident,)*) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $workload() {
                let workload = super::workloads::$workload;
                let (name, failures) = (stringify!($workload), super::Failure::ALL);
                super::at_every_point(name, &failures, super::memory, workload).await;
            })*
        }
        mod in_sqlite {
            $(#[tokio::test]
            async fn $workload() {
                let workload = super::workloads::$workload;
                let (name, failures) = (stringify!($workload), super::AT_THE_COMMIT);
                super::at_every_point(name, &failures, super::sqlite, workload).await;
            })*
        }
    };
}

crash_points! {
    plain_events,
    events_into_folds,
    held_folds,
    requests,
    deferred_events,
    steps_and_their_outcomes,
    steps_in_pools,
    waits_for_events_and_signals,
    children,
    cancelled_and_replaced,
    paused_and_resumed,
    lost_workers,
    superseding_releases,
    draining_releases,
    swept_gates,
    sessions,
    undone_and_handled,
    timed_out,
    cancelled_in_chunks,
}
