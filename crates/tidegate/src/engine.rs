//! State shared by the tasks of an engine: identity, workers and driven runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tidegate_core::{
    command::Command,
    explain::Workers,
    id::{RunId, Seq},
    row::{EngineId, Event, Run, Workspace},
    turn::{Claim, Turn},
};
use tidegate_store::{Clock, CommitEffects, Store};
use tokio::sync::{Notify, watch};

use crate::{
    alarm::Alarm,
    committer::{Committer, Reply},
    cron::Cron,
    drive::{Driver, StopReason},
    dynamic::DynamicHandlers,
    endings::Endings,
    entropy::Entropy,
    health::Notes,
    load::{Loaded, Loader, at_hand},
    reaction::Reactions,
    registry::{Registry, ServedVersion},
    retention::Retention,
    schedule::ScheduleKey,
    shared_state::SharedState,
    stream::WriterCache,
    sweep::until_look,
    tasks::{Busy, Tasks},
    telemetry,
    timer::Timer,
    turns::{Lease, PerKind, WorkerKind},
};

/// Settings of an engine, each with a default.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Maximum number of runs that are driven at once by handlers of this program.
    pub(crate) workers: usize,
    /// Maximum number of runs that are driven at once by calls to URLs.
    pub(crate) call_workers: usize,
    /// Duration of a lease without renewal.
    pub(crate) lease_ttl: Duration,
    /// Number of consecutive engine deaths, each while the run's handler was executing, after which
    /// the run is paused; 0 for never.
    pub(crate) max_deaths: u32,
    /// Interval at which the store is polled when no wake-up arrives.
    pub(crate) poll: Duration,
    /// Number of stream states that are cached after actions on their streams.
    pub(crate) stream_state_cache: usize,
    /// Retention of ended runs and other finished rows.
    pub(crate) retention: Retention,
}

impl Options {
    /// Returns the lease duration that other engines read, in milliseconds. It is rounded up,
    /// because other engines must not take over too early.
    pub(crate) fn lease_ms(&self) -> u32 {
        u32::try_from(self.lease_ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
    }
}

/// State shared by the tasks of an engine.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) entropy: Entropy,
    pub(crate) options: Options,
    pub(crate) committer: Committer,
    pub(crate) loader: Loader,
    pub(crate) registry: Mutex<Registry>,
    /// Values that the program gives to its handlers
    /// ([`EngineBuilder::state`](crate::EngineBuilder::state)).
    pub(crate) state: SharedState,
    pub(crate) stored: DynamicHandlers,
    /// Time at which the sweep has to run next.
    pub(crate) alarm: Alarm,
    pub(crate) tasks: Tasks,
    pub(crate) reactions: Reactions,
    /// Writers of the streams on which actions are being executed.
    pub(crate) lines: Arc<WriterCache>,
    /// Notified when the set of served versions changes.
    pub(crate) served: Notify,
    /// Notified when another engine may have cancelled runs that this engine drives.
    pub(crate) own: Notify,
    /// Notified when a run was released, and when a lease found no run.
    pub(crate) idle: Notify,
    /// Whether the engine is shutting down: runs that it still leases are handed over at once.
    leaving: AtomicBool,
    identity: Mutex<Identity>,
    /// Outcomes of the last heartbeats and commits.
    pub(crate) health: Notes,
    driven: Mutex<BTreeMap<Seq, Driven>>,
    /// Callers of this process that wait for runs to end.
    pub(crate) endings: Endings,
}

/// The output leaves out the store, which may contain many rows.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, driven) = (self.id(), self.driven());
        f.debug_struct("Shared").field("id", &id).field("driven", &driven).finish_non_exhaustive()
    }
}

/// Identity under which this engine leases runs.
#[derive(Debug)]
struct Identity {
    /// Engine id. It is replaced by a new one after the lease was lost.
    id: EngineId,
    /// Whether the store has a heartbeat of this id. Before that no run may be leased, because
    /// other engines could not detect the death of this one.
    known: bool,
}

/// Minimum time between two polls that are caused by wake-ups.
const NEWS: Duration = Duration::from_secs(1);

/// A run that is driven by this engine, or is being loaded for it.
#[derive(Debug)]
struct Driven {
    fence: i64,
    stop: watch::Sender<Option<StopReason>>,
    /// Number of the run's waits that have ended since its lease.
    answers: watch::Sender<usize>,
    /// The run as it was leased, if its handler has shared its lease.
    leased: Option<Arc<Run>>,
    /// Held by the task that drives the run, so that only one task at a time drives it, even if the
    /// store leases the run again.
    mutex: Arc<tokio::sync::Mutex<()>>,
}

/// Entry of a leased run among the driven runs, until its task starts.
#[derive(Debug)]
pub(crate) struct Seat {
    stop: watch::Receiver<Option<StopReason>>,
    mutex: Arc<tokio::sync::Mutex<()>>,
    leased: Duration,
    kind: WorkerKind,
}

/// On drop, removes a run from the driven runs and frees its worker, also if a destructor of the
/// handler panics.
struct Leave {
    shared: Arc<Shared>,
    seq: Seq,
    of: (Workspace, Seq),
    fence: i64,
    kind: WorkerKind,
    /// Whether a report has already freed the worker.
    freed: bool,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut driven = lock(&self.shared.driven);
        if driven.get(&self.seq).is_some_and(|driven| driven.fence == self.fence) {
            driven.remove(&self.seq);
        }
        telemetry::driven(driven.len());
        drop(driven);
        lock(&self.shared.registry).left(self.kind, self.of.clone());
        if !self.freed {
            self.shared.committer.release(self.kind);
        }
        self.shared.idle.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        timer: Arc<dyn Timer>,
        entropy: Entropy,
        options: Options,
        busy: Option<Arc<Busy>>,
    ) -> Self {
        let id = entropy.engine_id();
        let lines = Arc::new(WriterCache::new(options.stream_state_cache));
        Self {
            store,
            clock,
            timer,
            entropy,
            committer: Committer::new(PerKind::new(options.workers, options.call_workers)),
            options,
            loader: Loader::default(),
            registry: Mutex::default(),
            state: SharedState::default(),
            stored: DynamicHandlers::default(),
            alarm: Alarm::default(),
            tasks: Tasks::tracked(busy),
            reactions: Reactions::default(),
            lines,
            served: Notify::new(),
            own: Notify::new(),
            idle: Notify::new(),
            leaving: AtomicBool::new(false),
            identity: Mutex::new(Identity { id, known: false }),
            health: Notes::default(),
            driven: Mutex::default(),
            endings: Endings::default(),
        }
    }

    /// Returns the id of this engine.
    pub(crate) fn id(&self) -> EngineId {
        lock(&self.identity).id
    }

    /// Records that the store has a heartbeat of this id: from now on the engine can lease runs.
    pub(crate) fn beaten(&self, engine: EngineId) {
        let mut identity = lock(&self.identity);
        if identity.id == engine && !identity.known {
            identity.known = true;
            drop(identity);
            self.say_what_is_served();
        }
    }

    /// Writes the served versions to the store, where `why` and releases read them, and looks for
    /// runs of these versions.
    pub(crate) fn say_what_is_served(&self) {
        let Identity { id, known } = *lock(&self.identity);
        if known {
            // The answer is not needed.
            drop(self.ask(Command::Serve { engine: id, lanes: self.lanes() }));
            self.committer.look();
        }
    }

    /// Starts to serve a version: its runs can be driven here from now on.
    pub(crate) fn serve(&self, ws: &Workspace, turn: Turn, version: ServedVersion) {
        lock(&self.registry).serve(ws, turn, version);
    }

    /// Stops serving a version: from now on only other engines drive its runs.
    pub(crate) fn withdraw(&self, ws: &Workspace, turn: Turn) {
        lock(&self.registry).withdraw(ws, turn);
    }

    /// Returns the lanes (one for each version) whose runs this engine can drive.
    pub(crate) fn lanes(&self) -> Vec<Seq> {
        lock(&self.registry).lanes()
    }

    /// Returns whether this engine can drive runs of this lane.
    pub(crate) fn serves(&self, lane: Seq) -> bool {
        lock(&self.registry).version(lane).is_some()
    }

    /// Submits a command to the committer, which decides it together with others. The command is
    /// sent at once, before the reply is awaited.
    pub(crate) fn ask(&self, command: Command) -> Reply {
        self.committer.send((command, self.entropy.number()), None)
    }

    /// Returns the schedules of the workflows served by this engine.
    pub(crate) fn schedules(&self) -> BTreeMap<ScheduleKey, Cron> {
        lock(&self.registry).schedules()
    }

    /// Returns the leases to request in the next transaction, for these free workers.
    pub(crate) fn leases(&self, free: PerKind) -> Vec<Lease> {
        let Identity { id, known } = *lock(&self.identity);
        if known { lock(&self.registry).leases(id, free) } else { Vec::new() }
    }

    /// Returns the claims with which this engine leases runs, by workspace and kind of worker.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        lock(&self.registry).claims()
    }

    /// Records that these workspaces have ready runs.
    pub(crate) fn have_work<'a>(&self, workspaces: impl IntoIterator<Item = &'a Workspace>) {
        lock(&self.registry).have_work(workspaces);
    }

    /// Records the result of a lease. Returns whether there may be more runs for the workers that
    /// are still free.
    pub(crate) fn leased(&self, lease: &Lease, runs: &[Run]) -> bool {
        lock(&self.registry).leased(lease, runs)
    }

    /// Returns the number of workers of one kind, without details of other workspaces.
    pub(crate) fn workers(&self, kind: WorkerKind, ws: &Workspace) -> Workers {
        lock(&self.registry).workers(kind, ws)
    }

    /// Returns the kind of worker that drives runs of this lane on this engine.
    pub(crate) fn kind_of(&self, lane: Seq) -> Option<WorkerKind> {
        lock(&self.registry).version(lane).map(|version| version.kind)
    }

    /// Returns the runs that a transaction left ready but for which this engine has no worker, if
    /// these workers are free.
    pub(crate) fn without_worker(&self, seen: &CommitEffects, free: PerKind) -> BTreeSet<RunId> {
        let registry = lock(&self.registry);
        let ready = seen.ready.iter().filter(|(_, (_, turn))| registry.is_out(turn.lane, free));
        ready.map(|(run, _)| *run).collect()
    }

    /// Returns the runs that a transaction would leave ready but for which this engine would have
    /// no worker.
    pub(crate) fn would_wait(&self, seen: &CommitEffects) -> BTreeSet<RunId> {
        let registry = lock(&self.registry);
        let ready = seen.ready.iter().filter(|(_, (ws, turn))| registry.is_out_for(ws, *turn));
        ready.map(|(run, _)| *run).collect()
    }

    /// Requests a check of the runs that this engine drives: another engine may have cancelled
    /// some.
    pub(crate) fn look_at_own(&self) {
        if self.driven() > 0 {
            self.own.notify_one();
        }
    }

    /// Waits until `next`, at most for the poll interval. A wake-up from another engine ends the
    /// wait, but not within the first second, because a busy store sends many. Returns `true` after
    /// a wake-up.
    pub(crate) async fn rest(
        &self,
        wakes: &mut watch::Receiver<u64>,
        next: Option<Duration>,
    ) -> bool {
        let (timer, poll) = (&*self.timer, self.options.poll);
        let began = timer.elapsed();
        let end = began + next.map_or(poll, |next| next.min(poll));
        tokio::select! {
            biased;
            () = timer.sleep_until(end) => false,
            changed = wakes.changed() => {
                let soon = if changed.is_ok() { end.min(began + NEWS) } else { end };
                timer.sleep_until(soon).await;
                true
            }
        }
    }

    /// Waits a short time after an error.
    pub(crate) async fn pause(&self) {
        self.timer.sleep_until(self.timer.elapsed() + self.retry_pause()).await;
    }

    /// Returns the delay before a failed operation is retried.
    pub(crate) fn retry_pause(&self) -> Duration {
        self.options.lease_ttl / 60
    }

    /// Starts leased runs: loads them, and drives each in a task.
    pub(crate) fn hand_over(
        self: &Arc<Self>,
        runs: Vec<(WorkerKind, Run)>,
        events: &BTreeMap<Seq, Event>,
    ) {
        for (kind, run) in runs {
            let seat = self.seat(&run, kind);
            match at_hand(&run, events) {
                Some(loaded) => self.start(run, seat, loaded),
                None => self.loader.push(run, seat),
            }
        }
    }

    /// Enters a leased run into the driven runs, so that it can be stopped while it is being
    /// loaded.
    fn seat(&self, run: &Run, kind: WorkerKind) -> Seat {
        let mut driven = lock(&self.driven);
        let mutex = driven.remove(&run.id.seq).map_or_else(Arc::default, |before| {
            // An older task drove this run and lost it, but may not have noticed. It must stop.
            let _ = before.stop.send(Some(StopReason::Lost));
            before.mutex
        });
        let lost = run.owner != Some(self.id());
        let leaves = self.leaving.load(Ordering::SeqCst);
        let stop = if lost { Some(StopReason::Lost) } else { leaves.then_some(StopReason::Yield) };
        let (stop, stopped) = watch::channel(stop);
        let (answers, fence, leased) = (watch::Sender::new(0), run.fence, None);
        let entry = Driven { fence, stop, answers, leased, mutex: mutex.clone() };
        driven.insert(run.id.seq, entry);
        telemetry::driven(driven.len());
        drop(driven);
        Seat { stop: stopped, mutex, leased: self.timer.elapsed(), kind }
    }

    /// Drives a loaded run in a task of its own.
    pub(crate) fn start(self: &Arc<Self>, run: Run, seat: Seat, loaded: Loaded) {
        let (seq, of, fence) = (run.id.seq, (run.ws.clone(), run.turn()), run.fence);
        let (shared, Seat { stop, mutex, leased, kind }) = (self.clone(), seat);
        self.tasks.spawn(async move {
            let _alone = mutex.lock().await;
            telemetry::handed_over(shared.timer.elapsed().saturating_sub(leased));
            let mut leave = Leave { shared, seq, of, fence, kind, freed: false };
            leave.freed = leave.shared.drive(run, loaded, (stop, kind)).await;
        });
    }

    async fn drive(
        self: &Arc<Self>,
        run: Run,
        loaded: Loaded,
        stop: (watch::Receiver<Option<StopReason>>, WorkerKind),
    ) -> bool {
        let version = lock(&self.registry).version(run.lane);
        let Some(version) = version.filter(|_| !loaded.events.is_empty()) else {
            tracing::error!(run = %run.id, lane = %run.lane, "leased run cannot be driven here");
            return false;
        };
        let span = telemetry::run_span(&run, version.definition.flow.is_some());
        let driver = Driver::new(self.clone(), &version, run, loaded, stop);
        tracing::Instrument::instrument(driver.drive(), span).await
    }

    /// Applies the effects of a transaction to this engine: stops runs, sets the alarm, wakes other
    /// engines, and notifies callers.
    pub(crate) fn saw(&self, seen: CommitEffects) {
        let mut elsewhere = false;
        for run in &seen.stopping {
            elsewhere |= !self.stop(*run, StopReason::Cancelled);
        }
        for (run, (fence, count)) in &seen.answered {
            elsewhere |= !self.answered(*run, *fence, *count);
        }
        if let Some(due) = seen.due {
            let delay = due.micros().saturating_sub(seen.now.micros()).max(0);
            let delay = Duration::from_micros(delay.unsigned_abs());
            self.alarm.set(self.timer.elapsed() + until_look(delay));
        }
        for (reaction, moments) in &seen.places {
            for moment in moments {
                let delay = moment.micros().saturating_sub(seen.now.micros()).max(0);
                let at = self.timer.elapsed() + Duration::from_micros(delay.unsigned_abs());
                elsewhere |= !self.reactions.has_work(reaction, at, &*self.timer);
            }
        }
        self.have_work(seen.ready.values().map(|(ws, _)| ws).collect::<BTreeSet<_>>());
        if !seen.ready.is_empty() || elsewhere {
            self.store.wake();
        }
        self.endings.tell(seen.ended);
    }

    /// Stops a run. Returns `false` if this engine does not drive it.
    pub(crate) fn stop(&self, run: Seq, stop: StopReason) -> bool {
        let driven = lock(&self.driven);
        let Some(driven) = driven.get(&run) else { return false };
        driven.stop.send_if_modified(|now| {
            let first = now.is_none();
            now.get_or_insert(stop);
            first
        });
        true
    }

    /// Tells the handler of a run how many of its waits have ended since its lease. Returns `false`
    /// if this engine does not drive the run under this fence.
    pub(crate) fn answered(&self, run: Seq, fence: i64, count: usize) -> bool {
        let driven = lock(&self.driven);
        let Some(driven) = driven.get(&run).filter(|it| it.fence == fence) else { return false };
        driven.answers.send_if_modified(|known| {
            let before = std::mem::replace(known, count.max(*known));
            before < count
        });
        true
    }

    /// Returns the number of a driven run's waits that have ended since its lease.
    pub(crate) fn answers(&self, run: Seq) -> Option<watch::Receiver<usize>> {
        Some(lock(&self.driven).get(&run)?.answers.subscribe())
    }

    /// Keeps a driven run as it was leased: its handler has shared its lease, so that others will
    /// record steps of the run.
    pub(crate) fn share(&self, run: &Run) {
        if let Some(driven) = lock(&self.driven).get_mut(&run.id.seq)
            && driven.fence == run.fence
        {
            driven.leased = Some(Arc::new(run.clone()));
        }
    }

    /// Returns a run as it was leased, if this engine drives it under this fence and its handler has
    /// shared its lease.
    pub(crate) fn shared_run(&self, run: Seq, fence: i64) -> Option<Arc<Run>> {
        let driven = lock(&self.driven);
        driven.get(&run).filter(|driven| driven.fence == fence)?.leased.clone()
    }

    /// Stops all runs that this engine drives.
    pub(crate) fn stop_all(&self, stop: StopReason) {
        let runs: Vec<Seq> = lock(&self.driven).keys().copied().collect();
        for run in runs {
            self.stop(run, stop);
        }
    }

    /// Hands over all runs that this engine drives, and runs that it is about to lease.
    pub(crate) fn hand_back(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.stop_all(StopReason::Yield);
        self.reactions.stop();
    }

    /// Stops all tasks at their current await, and refuses further commands.
    pub(crate) fn stop_tasks(&self) {
        self.tasks.abort();
        self.committer.shut();
    }

    /// Returns whether this engine drives no run, and is not about to lease one.
    pub(crate) fn is_idle(&self) -> bool {
        !self.committer.is_leasing() && self.driven() == 0 && self.reactions.is_idle()
    }

    /// Returns the number of runs that this engine drives.
    pub(crate) fn driven(&self) -> usize {
        lock(&self.driven).len()
    }

    /// Returns whether this engine drives this run under this fence.
    pub(crate) fn drives(&self, run: Seq, fence: i64) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.fence == fence)
    }

    /// Handles the loss of this id's lease: stops all runs and continues under a new id.
    pub(crate) fn lose(&self, engine: EngineId) {
        {
            let mut identity = lock(&self.identity);
            if identity.id != engine {
                return;
            }
            *identity = Identity { id: self.entropy.engine_id(), known: false };
        }
        tracing::error!("this engine lost its lease, stopping its runs");
        telemetry::lease_lost();
        self.stop_all(StopReason::Lost);
    }

    /// Returns whether this engine drives this run under any fence.
    pub(crate) fn drives_any(&self, run: Seq) -> bool {
        lock(&self.driven).contains_key(&run)
    }
}
