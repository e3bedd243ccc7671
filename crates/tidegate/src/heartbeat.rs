//! Heartbeats and dead-engine detection.
//!
//! An engine renews one lease for all its runs. It declares another engine dead when that engine's
//! heartbeat has not changed for the length of *its* lease, which is in its row (engines on one
//! store may have different settings). Time is measured by the observer's monotonic clock; no wall
//! clock is involved. An engine that could not renew its own lease in time stops all its runs
//! before others may take them over.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    reads::{ReadSet, Scan, Snapshot},
    row::{Engine, EngineId, Phase, Row, RowKey, Run},
    run::record::{Record, Then},
};
use tidegate_store::{StoreError, commit};

use crate::{builder::LEASE_TTL, drive::StopReason, engine::Shared, error::Error, telemetry};

/// Maximum number of a dead engine's runs that are taken over at a time.
const REAP: u32 = 256;

/// Maximum number of engines that are watched.
const ENGINES: u32 = 1000;

/// Maximum number of its own runs that an engine checks at a time.
const OWNED: u32 = 10_000;

/// Time that a stopping engine waits for the store to remove its row.
const LEAVE: Duration = Duration::from_millis(900);

/// Renews the engine's lease. If renewals fail for too long, stops all its runs.
pub(crate) async fn renew(shared: &Arc<Shared>) {
    let ttl = shared.options.lease_ttl;
    let timer = &*shared.timer;
    let mut renewed = timer.elapsed();
    loop {
        let (id, asked) = (shared.id(), timer.elapsed());
        // Other engines wait for the whole TTL after the last heartbeat that they saw. This engine
        // gives up after three quarters of it, so that a quarter is the margin.
        let deadline = renewed + ttl * 3 / 4;
        let answer = tokio::select! {
            biased;
            answer = shared.store.heartbeat(id, shared.options.lease_ms()) => {
                Some(answer.map_err(Arc::new))
            }
            () = timer.sleep_until(deadline.max(asked)) => None,
        };
        match &answer {
            Some(Ok(_)) => shared.health.beaten(asked),
            Some(Err(error)) => shared.health.heartbeat_failed(error.clone()),
            None => {
                let late = StoreError::Unavailable("no answer in time".into());
                shared.health.heartbeat_failed(Arc::new(late));
            }
        }
        let wait = match answer {
            Some(Ok(true)) => {
                shared.beaten(id);
                renewed = asked;
                ttl / 3
            }
            Some(Ok(false)) => {
                shared.lose(id);
                renewed = timer.elapsed();
                Duration::ZERO
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "lease renewal failed");
                ttl / 30
            }
            None => Duration::ZERO,
        };
        if timer.elapsed() >= renewed + ttl * 3 / 4 {
            shared.lose(id);
            renewed = timer.elapsed();
        }
        tokio::select! {
            biased;
            () = timer.sleep_until(timer.elapsed() + wait) => {}
            // After a failed commit, send the next heartbeat early, but not earlier than after a
            // failed heartbeat.
            () = shared.health.doubt.notified() => {
                timer.sleep_until(timer.elapsed() + wait.min(ttl / 30)).await;
            }
        }
    }
}

/// Removes the row of this engine, which drives no runs, so that no other engine has to wait for
/// the end of its lease.
pub(crate) async fn leave(shared: &Shared) {
    let engine = shared.id();
    let key = RowKey::Engine(engine);
    let left = async {
        let snapshot = shared.store.read(ReadSet::default().row(key.clone())).await?;
        let Some(Some(Row::Engine(row))) = snapshot.rows.get(&key) else { return Ok(()) };
        let dead = Command::MarkDead { engine, beat: row.beat };
        let commands = vec![(dead, 0), (Command::Bury { engine }, 0)];
        commit(&*shared.store, commands).await.map(drop)
    };
    // The wait is limited, so that a store that does not answer does not delay the end of the
    // process. Without the removal, the lease ends by itself.
    let timer = &*shared.timer;
    tokio::select! {
        biased;
        left = left => if let Err(error) = left {
            tracing::debug!(%error, "removing the row of this engine failed");
        },
        () = timer.sleep_until(timer.elapsed() + LEAVE) => {
            tracing::debug!("removing the row of this engine timed out");
        }
    }
}

/// Heartbeat of an engine, and the time at which this engine first saw it.
struct Sighting {
    beat: i64,
    at: Duration,
}

/// Returns the length of an engine's lease, from its own row.
///
/// An older binary writes no length. For such a row, the longer of the observer's own setting and
/// the default is used: waiting too long only delays a takeover, while waiting too little repeats
/// work in progress.
fn lease_of(engine: &Engine, own: Duration) -> Duration {
    engine.lease_ms.map_or(own.max(LEASE_TTL), |ms| Duration::from_millis(ms.into()))
}

/// Watches the other engines, and takes over the runs of dead ones.
pub(crate) async fn watch(shared: &Arc<Shared>) {
    let mut seen: BTreeMap<EngineId, Sighting> = BTreeMap::new();
    let mut strays: BTreeMap<Seq, i64> = BTreeMap::new();
    loop {
        let lease_end = look(shared, &mut seen, &mut strays).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "watching other engines failed");
            None
        });
        let timer = &*shared.timer;
        let looked = timer.elapsed();
        let (pause, next) =
            pauses(shared.options.lease_ttl, lease_end.map(|end| end.saturating_sub(looked)));
        tokio::select! {
            biased;
            () = shared.own.notified() => timer.sleep_until(looked + pause).await,
            () = timer.sleep_until(looked + next) => {}
        }
    }
}

/// Returns the minimum time between two checks of the other engines, and the time to the next check
/// if no wake-up arrives. `lease_end` is the time until the first lease of another engine ends.
///
/// An engine with a long lease checks as often as one with the default lease: other engines may
/// have shorter leases, and engines that have started since the last check are not known yet.
fn pauses(own: Duration, lease_end: Option<Duration>) -> (Duration, Duration) {
    let own = own.min(LEASE_TTL);
    let (pause, next) = (own / 60, own / 3);
    (pause, lease_end.map_or(next, |end| end.min(next)).max(pause))
}

/// Checks all engines, and the runs of this engine. Returns the time at which the first lease of
/// another engine ends if no heartbeat changes.
async fn look(
    shared: &Arc<Shared>,
    seen: &mut BTreeMap<EngineId, Sighting>,
    strays: &mut BTreeMap<Seq, i64>,
) -> Result<Option<Duration>, Error> {
    let engine = shared.id();
    let reads = || {
        let all = ReadSet::default().scan(Scan::Engines, ENGINES).scan(Scan::Buriable, ENGINES);
        all.scan(Scan::Owned(engine), OWNED)
    };
    let mut snapshot = shared.store.read(reads()).await?;
    let (lease_end, died) = look_around(shared, &snapshot, seen).await;
    if died {
        // After the takeover there are more engine rows to delete.
        snapshot = shared.store.read(reads()).await?;
    }
    bury(shared, &snapshot).await;
    *strays = look_at_own(shared, &snapshot, engine, strays).await?;
    Ok(lease_end)
}

/// Declares engines dead whose heartbeat has not changed for the length of their lease, and takes
/// over their runs. Returns the time at which the first lease of another engine ends, and whether
/// any engine was dead.
async fn look_around(
    shared: &Arc<Shared>,
    snapshot: &Snapshot,
    seen: &mut BTreeMap<EngineId, Sighting>,
) -> (Option<Duration>, bool) {
    let now = shared.timer.elapsed();
    let mut present = BTreeMap::new();
    let mut dead = Vec::new();
    let mut lease_end: Option<Duration> = None;
    for row in snapshot.found(&Scan::Engines) {
        let Row::Engine(engine) = row else { continue };
        let known = seen.remove(&engine.id).filter(|known| known.beat == engine.beat);
        let sighting = known.unwrap_or(Sighting { beat: engine.beat, at: now });
        let end = sighting.at + lease_of(engine, shared.options.lease_ttl);
        let other = engine.id != shared.id();
        if engine.dead || (other && now >= end) {
            dead.push((engine.id, engine.beat, engine.dead));
        } else if other {
            lease_end = Some(lease_end.map_or(end, |first| first.min(end)));
        }
        present.insert(engine.id, sighting);
    }
    *seen = present;
    let died = !dead.is_empty();
    for (engine, beat, marked) in dead {
        // An engine whose runs cannot be taken over must not block the takeover of others.
        if let Err(error) = take_over(shared, engine, beat, marked).await {
            let engine = format_args!("{engine:032x}");
            tracing::warn!(%error, %engine, "takeover of dead engine failed, retrying");
        }
    }
    (lease_end, died)
}

/// Declares an engine dead, unless it is declared dead already, and takes over its runs.
async fn take_over(
    shared: &Arc<Shared>,
    engine: EngineId,
    beat: i64,
    marked: bool,
) -> Result<(), Error> {
    let gone = marked || {
        let answer = shared.ask(Command::MarkDead { engine, beat }).await?;
        answer == Answer::Changed(true)
    };
    if gone { reap(shared, engine).await } else { Ok(()) }
}

/// Takes over all runs of a dead engine, in batches. A run that cannot be taken over is skipped,
/// and its error is returned at the end.
async fn reap(shared: &Arc<Shared>, engine: EngineId) -> Result<(), Error> {
    let scan = Scan::Owned(engine);
    let mut failed = None;
    loop {
        let snapshot = shared.store.read(ReadSet::default().scan(scan.clone(), REAP)).await?;
        let runs: Vec<Run> =
            snapshot.found(&scan).into_iter().filter_map(Row::as_run).cloned().collect();
        if runs.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        tracing::info!(
            runs = runs.len(), engine = %format_args!("{engine:032x}"),
            "taking over runs of dead engine"
        );
        let max_deaths = shared.options.max_deaths;
        let asked: Vec<_> = runs
            .into_iter()
            .map(|run| {
                let (id, stopping) = (run.id, run.phase == Phase::Stopping);
                let known = Box::new(run);
                (id, stopping, shared.ask(Command::Reap { known, engine, max_deaths }))
            })
            .collect();
        let mut answered = false;
        for (run, stopping, answer) in asked {
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            answered = true;
            match answer {
                // The run was cancelled and only had to be cleaned up: this does not count as a
                // takeover.
                Answer::Changed(true) if stopping => {}
                Answer::Changed(true) => telemetry::taken_over(),
                Answer::Paused { reason } => {
                    telemetry::taken_over();
                    tracing::warn!(%run, reason, "run paused after too many engine deaths");
                }
                _ => {}
            }
        }
        if !answered && let Some(error) = failed {
            return Err(error);
        }
    }
}

/// Deletes the rows of dead engines that own no runs any more.
async fn bury(shared: &Arc<Shared>, snapshot: &Snapshot) {
    for row in snapshot.found(&Scan::Buriable) {
        let Row::Engine(Engine { id: engine, .. }) = row else { continue };
        if let Err(error) = shared.ask(Command::Bury { engine: *engine }).await {
            let engine = format_args!("{engine:032x}");
            tracing::warn!(%error, %engine, "deletion of dead engine row failed, retrying");
        }
    }
}

/// Stops runs that other engines have cancelled, tells handlers of waits that other engines have
/// answered, and releases stray runs: runs leased to this engine that none of its tasks drives,
/// because the answer to the lease was lost. A run counts as stray when two checks in a row find it
/// without a task.
async fn look_at_own(
    shared: &Arc<Shared>,
    snapshot: &Snapshot,
    engine: EngineId,
    strays: &BTreeMap<Seq, i64>,
) -> Result<BTreeMap<Seq, i64>, Error> {
    let scan = Scan::Owned(engine);
    let mut found = BTreeMap::new();
    for run in snapshot.found(&scan).into_iter().filter_map(Row::as_run) {
        let (seq, fence) = (run.id.seq, run.fence);
        if shared.drives(seq, fence) {
            if run.phase == Phase::Stopping {
                shared.stop(seq, StopReason::Cancelled);
            }
            shared.answered(seq, fence, run.answered.len());
            continue;
        }
        if strays.get(&seq) != Some(&fence) {
            found.insert(seq, fence);
            continue;
        }
        let known = Box::new(run.clone());
        let command = if run.phase == Phase::Stopping {
            Command::Stopped { known }
        } else {
            let then = Then::Yield;
            let report = Record { run: seq, engine, fence, then, ..Record::default() };
            Command::Record { known, report }
        };
        if let Err(error) = shared.ask(command).await {
            tracing::debug!(%error, run = %run.id, "releasing a stray run failed");
        }
    }
    Ok(found)
}

/// Looks for work when a wake-up from another engine arrives. The sweep's polls find work without a
/// wake-up.
pub(crate) async fn listen(shared: &Arc<Shared>) {
    let mut wakes = shared.store.wakes();
    while wakes.changed().await.is_ok() {
        shared.committer.look();
        shared.reactions.look();
        shared.look_at_own();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        sync::Mutex,
        task::{Context, Waker},
    };

    use async_trait::async_trait;
    use tidegate_core::{catalog::Catalog, row::Workspace};
    use tidegate_store::{Decide, Store, SystemClock};
    use tokio::sync::watch;

    use super::*;
    use crate::{engine::Options, entropy::Entropy, retention::Retention, timer::Timer};

    /// A timer that a test advances by hand, and a store with slow heartbeats.
    #[derive(Debug, Default)]
    struct Slow {
        elapsed: Mutex<Duration>,
        /// Time at which each heartbeat was written.
        written: Mutex<Vec<Duration>>,
    }

    impl Slow {
        fn move_on(&self, time: Duration) {
            *self.elapsed.lock().unwrap() += time;
        }
    }

    /// Sleep that is ready at its time. It needs no waker, because the test polls after each
    /// advance.
    struct Sleep(Arc<Slow>, Duration);

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> std::task::Poll<()> {
            let over = self.0.elapsed.lock().is_ok_and(|elapsed| *elapsed >= self.1);
            if over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }
    }

    #[derive(Debug)]
    struct Moved(Arc<Slow>);

    impl Timer for Moved {
        fn elapsed(&self) -> Duration {
            *self.0.elapsed.lock().unwrap()
        }

        fn sleep_until(&self, elapsed: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(Sleep(self.0.clone(), elapsed))
        }
    }

    fn gone() -> StoreError {
        StoreError::Unavailable("as planned".into())
    }

    #[async_trait]
    impl Store for Slow {
        async fn transact(&self, _: ReadSet, _: Decide) -> Result<(), StoreError> {
            Err(gone())
        }

        async fn read(&self, _: ReadSet) -> Result<Snapshot, StoreError> {
            Err(gone())
        }

        /// The second heartbeat is written at once and answered ten seconds later. All later ones
        /// fail.
        async fn heartbeat(&self, _: EngineId, _: u32) -> Result<bool, StoreError> {
            let before = self.written.lock().unwrap().len();
            if before > 1 {
                return Err(gone());
            }
            let now = *self.elapsed.lock().unwrap();
            self.written.lock().unwrap().push(now);
            self.move_on(Duration::from_secs(10) * u32::from(before == 1));
            Ok(true)
        }

        fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
            BTreeMap::new()
        }

        fn wakes(&self) -> watch::Receiver<u64> {
            watch::channel(0).1
        }

        fn wake(&self) {}

        async fn dump(&self) -> Result<Vec<Row>, StoreError> {
            Err(gone())
        }
    }

    /// A late answer does not extend the lease: the other engines saw the heartbeat when it was
    /// written, and their time runs from there.
    #[test]
    fn a_lease_is_given_up_before_others_may_take_it_over() {
        let (slow, ttl) = (Arc::new(Slow::default()), Duration::from_secs(30));
        let options = Options {
            workers: 1,
            call_workers: 1,
            lease_ttl: ttl,
            max_deaths: 0,
            poll: ttl,
            stream_state_cache: 0,
            retention: Retention::default(),
        };
        let (timer, entropy) = (Arc::new(Moved(slow.clone())), Entropy::seeded(1));
        let shared =
            Shared::new(slow.clone(), Arc::new(SystemClock), timer, entropy, options, None);
        let (shared, mut cx) = (Arc::new(shared), Context::from_waker(Waker::noop()));
        let (name, mut renewing) = (shared.id(), pin!(renew(&shared)));
        while shared.id() == name {
            assert!(renewing.as_mut().poll(&mut cx).is_pending());
            slow.move_on(Duration::from_millis(100));
        }
        let (lost, written) = (shared.timer.elapsed(), slow.written.lock().unwrap().clone());
        assert_eq!(written.len(), 2);
        assert!(
            lost < written[1] + ttl,
            "lease given up too late, at {lost:?}; heartbeats were written at {written:?}"
        );
    }

    #[test]
    fn a_long_lease_does_not_make_an_engine_look_seldom() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        for (own, lease_end, looks) in [
            (s(30), None, (ms(500), s(10))),
            (s(30), Some(s(2)), (ms(500), s(2))),
            (s(30), Some(ms(1)), (ms(500), ms(500))),
            (s(3), Some(s(2)), (ms(50), s(1))),
            // The engine's own lease is much longer than the default.
            (s(3600), None, (ms(500), s(10))),
            (s(3600), Some(s(1)), (ms(500), s(1))),
        ] {
            assert_eq!(
                pauses(own, lease_end),
                looks,
                "wrong pauses for own lease {own:?}, lease end {lease_end:?}"
            );
        }
    }

    #[test]
    fn a_lease_is_as_long_as_its_engine_says() {
        let old = Engine { lease_ms: None, ..Engine::new(1, 0) };
        for (engine, own, length) in [
            (&Engine::new(1, 1_000), 30, 1),
            (&Engine::new(1, 30_000), 1, 30),
            // The setting of an older binary is unknown: the longer time counts.
            (&old, 1, 30),
            (&old, 60, 60),
        ] {
            let (own, length) = (Duration::from_secs(own), Duration::from_secs(length));
            assert_eq!(lease_of(engine, own), length);
        }
    }
}
