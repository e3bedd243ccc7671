//! Runner of a reaction: claims streams with events to handle, as many as the reaction may process
//! at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    reaction::Claimed,
    reads::Scan,
    row::Workspace,
};
use tokio::sync::{Notify, watch};

use super::{
    ServedReaction,
    delivery::Delivery,
    lease::{Keeper, pause},
};
use crate::{engine::Shared, error::Error, telemetry, timer::Timer};

/// Reactions that an engine runs.
#[derive(Debug, Default)]
pub(crate) struct Reactions {
    runners: OnceLock<BTreeMap<(Workspace, String), Arc<Runner>>>,
    /// Number of claims and turns in progress.
    busy: AtomicUsize,
    /// Whether claiming has stopped.
    closed: AtomicBool,
    /// Tells the deliveries to release their streams.
    stop: watch::Sender<bool>,
}

/// One reaction in one workspace.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(super) ws: Workspace,
    pub(super) served: Arc<ServedReaction>,
    /// Number of streams that are being processed.
    working: AtomicUsize,
    /// Whether there may be more streams to claim, because the last claim got as many as it
    /// requested.
    more: AtomicBool,
    bell: Notify,
    /// Times at which deferred streams can be claimed, by the engine's timer.
    moments: Mutex<BTreeSet<Duration>>,
}

/// Maximum number of these times that are kept. Streams with later times are found by polling.
const MOMENTS: usize = 4096;

impl Reactions {
    /// Sets the reactions that this engine runs. Called once.
    pub(crate) fn serve(&self, served: Vec<(Workspace, Arc<ServedReaction>)>) {
        let runners = served.into_iter().map(|(ws, served)| {
            let name = served.definition.name.clone();
            (
                (ws.clone(), name),
                Arc::new(Runner {
                    ws,
                    served,
                    working: AtomicUsize::new(0),
                    more: AtomicBool::new(false),
                    bell: Notify::new(),
                    moments: Mutex::default(),
                }),
            )
        });
        let _twice = self.runners.set(runners.collect());
    }

    /// Returns all runners.
    pub(crate) fn runners(&self) -> impl Iterator<Item = &Arc<Runner>> {
        self.runners.get().into_iter().flat_map(BTreeMap::values)
    }

    /// Wakes all runners: another engine may have committed events.
    pub(crate) fn look(&self) {
        self.runners().for_each(|runner| runner.bell.notify_one());
    }

    /// Records that streams of a reaction can be claimed at a time. Returns `false` if this engine
    /// has no runner of the reaction, or none with free capacity now.
    pub(crate) fn has_work(
        &self,
        of: &(Workspace, String),
        at: Duration,
        timer: &dyn Timer,
    ) -> bool {
        let runner = self.runners.get().and_then(|runners| runners.get(of));
        let Some(runner) = runner else { return false };
        if at > timer.elapsed() {
            runner.look_at(at);
            return true;
        }
        runner.more.store(true, Ordering::SeqCst);
        runner.bell.notify_one();
        runner.free() > 0
    }

    /// Stops claiming streams.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Stops claiming, and releases all streams that are being processed.
    pub(crate) fn stop(&self) {
        self.close();
        self.stop.send_replace(true);
    }

    /// Returns whether no stream is being processed or claimed.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0
    }
}

impl Runner {
    fn moments(&self) -> MutexGuard<'_, BTreeSet<Duration>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, at: Duration) {
        let mut moments = self.moments();
        let first = moments.first().is_none_or(|first| at < *first);
        moments.insert(at);
        if moments.len() > MOMENTS {
            moments.pop_last();
        }
        if first {
            self.bell.notify_one();
        }
    }

    /// Returns the scan for streams that can be claimed.
    pub(crate) fn scan(&self) -> Scan {
        Scan::Work(self.ws.clone(), self.served.definition.name.clone())
    }

    /// Returns the next time after `now` at which streams can be claimed.
    fn next_moment(&self, now: Duration) -> Option<Duration> {
        let mut moments = self.moments();
        // Streams of past times have just been claimed: drop these times.
        *moments = moments.split_off(&(now + Duration::from_nanos(1)));
        moments.first().copied()
    }

    fn free(&self) -> usize {
        self.served.parallel.saturating_sub(self.working.load(Ordering::SeqCst))
    }
}

/// Guard that counts a claim or a turn in progress.
struct Underway(Arc<Shared>);

impl Underway {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.reactions.busy.fetch_add(1, Ordering::SeqCst);
        Self(shared.clone())
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.reactions.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.idle.notify_waiters();
    }
}

/// Claims streams and processes them, until the engine stops.
pub(crate) async fn run(shared: &Arc<Shared>, runner: &Arc<Runner>) {
    loop {
        let free = runner.free();
        if free > 0 && !shared.reactions.closed.load(Ordering::SeqCst) {
            let underway = Underway::begin(shared);
            match claim(shared, runner, free).await {
                Ok(again) => {
                    drop(underway);
                    if again {
                        continue;
                    }
                }
                Err(error) => {
                    drop(underway);
                    let reaction = &runner.served.definition.name;
                    tracing::warn!(%error, reaction, "claiming streams failed");
                    pause(shared).await;
                    continue;
                }
            }
        }
        let next = runner.next_moment(shared.timer.elapsed());
        let due = async {
            match next {
                Some(at) => shared.timer.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = runner.bell.notified() => {}
            () = due => {}
        }
    }
}

/// Claims at most `free` streams. Returns `true` if there may be more to claim now.
async fn claim(shared: &Arc<Shared>, runner: &Arc<Runner>, free: usize) -> Result<bool, Error> {
    runner.more.store(false, Ordering::SeqCst);
    let definition = &runner.served.definition;
    let (engine, limit) = (shared.id(), u32::try_from(free).unwrap_or(u32::MAX));
    let command = StreamCommand::Claim { reaction: definition.name.clone(), engine, limit };
    let asked = shared.timer.elapsed();
    let claimed = match shared.ask(Command::Stream { ws: runner.ws.clone(), command }).await {
        Ok(Answer::Stream(StreamAnswer::Claimed(claimed))) => claimed,
        Ok(other) => return Err(crate::api::unexpected(&other)),
        // The reaction has not been defined in the store yet.
        Err(Error::Refused(Refusal::NoReaction(_))) => return Ok(false),
        Err(error) => return Err(error),
    };
    telemetry::reaction_claimed(&definition.name, claimed.leased.len());
    let Claimed { leased, blocked, capped_ms } = claimed;
    for blocked in &blocked {
        let (reaction, stream, reason) = (&definition.name, &blocked.stream, &blocked.reason);
        tracing::trace!(reaction, stream, reason, "blocked");
        telemetry::reaction_blocked(reaction);
    }
    let full = leased.len() + blocked.len() + capped_ms.len() >= free;
    for ms in capped_ms {
        runner.look_at(asked + Duration::from_millis(ms));
    }
    runner.more.fetch_or(full, Ordering::SeqCst);
    for leased in leased {
        let (lease, at, want) = (leased.lease.clone(), leased.at, leased.want);
        tracing::trace!(reaction = lease.reaction, stream = lease.stream, at, want, "claimed");
        let stop = shared.reactions.stop.subscribe();
        let keeper = Keeper::new(shared.clone(), lease, definition.lease_ms, asked, stop);
        let turn = Turn::begin(shared, runner);
        let delivery = Delivery::new(keeper, runner.served.clone(), leased, turn);
        shared.tasks.spawn(delivery.run());
    }
    Ok(full && runner.free() > 0)
}

/// Guard of the turn of one stream. It counts the stream as being processed.
pub(super) struct Turn {
    runner: Arc<Runner>,
    /// Whether the turn still handles events.
    handles: bool,
    _underway: Underway,
}

impl Turn {
    fn begin(shared: &Arc<Shared>, runner: &Arc<Runner>) -> Self {
        runner.working.fetch_add(1, Ordering::SeqCst);
        Self { runner: runner.clone(), handles: true, _underway: Underway::begin(shared) }
    }

    /// Ends the handling of events, but not the turn: another stream may be claimed in the
    /// transaction that acks these events.
    pub(super) fn handled(&mut self) {
        if std::mem::replace(&mut self.handles, false) {
            self.runner.working.fetch_sub(1, Ordering::SeqCst);
            if self.runner.more.load(Ordering::SeqCst) {
                self.runner.bell.notify_one();
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.handled();
    }
}
