//! The engine: what it shares among its tasks, and what programs ask of it.

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
    stream::WriterCache,
    sweep::until_look,
    tasks::{Busy, Tasks},
    telemetry,
    timer::Timer,
    turns::{Lease, PerKind, WorkerKind},
};

/// What can be set when an engine is built; all have defaults.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How many runs are driven at once by handlers at the most.
    pub(crate) workers: usize,
    /// How many are driven at once by calls of URLs at the most.
    pub(crate) call_workers: usize,
    /// How long a lease lasts without renewal.
    pub(crate) lease_ttl: Duration,
    /// How many deaths of engines in a row pause a run whose handler was under way; 0 for none.
    pub(crate) max_deaths: u32,
    /// How often the store is looked at when nobody says that there is something.
    pub(crate) poll: Duration,
    /// How many streams' states are kept at hand after actions on them.
    pub(crate) stream_state_cache: usize,
    /// How long what is over is kept.
    pub(crate) retention: Retention,
}

impl Options {
    /// The length of the lease as others are told it, in whole milliseconds and never too short.
    pub(crate) fn lease_ms(&self) -> u32 {
        u32::try_from(self.lease_ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
    }
}

/// What an engine's tasks share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) entropy: Entropy,
    pub(crate) options: Options,
    pub(crate) committer: Committer,
    pub(crate) loader: Loader,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) stored: DynamicHandlers,
    /// When the sweep has to look next.
    pub(crate) alarm: Alarm,
    pub(crate) tasks: Tasks,
    pub(crate) reactions: Reactions,
    /// Who acts on streams right now.
    pub(crate) lines: Arc<WriterCache>,
    /// Rings when other versions are served from now on.
    pub(crate) served: Notify,
    /// Rings when runs of this engine may have been cancelled by others.
    pub(crate) own: Notify,
    /// Rings when a run has been let go, and when there was none to lease.
    pub(crate) idle: Notify,
    /// Runs that are leased from now on are handed over at once.
    leaving: AtomicBool,
    identity: Mutex<Identity>,
    /// How the last writes went.
    pub(crate) health: Notes,
    driven: Mutex<BTreeMap<Seq, Driven>>,
    /// Callers that wait for ends of runs.
    pub(crate) endings: Endings,
}

/// Without the store, which may hold a great deal.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, driven) = (self.id(), self.driven());
        f.debug_struct("Shared").field("id", &id).field("driven", &driven).finish_non_exhaustive()
    }
}

/// Under which name this engine leases runs.
#[derive(Debug)]
struct Identity {
    /// Another one after a lease was lost.
    id: EngineId,
    /// The store knows it: before its first beat nobody could tell when it is dead.
    known: bool,
}

/// The shortest time between two looks that wake-ups ask for.
const NEWS: Duration = Duration::from_secs(1);

/// A run that is driven here, or is being loaded for it.
#[derive(Debug)]
struct Driven {
    fence: i64,
    stop: watch::Sender<Option<StopReason>>,
    /// Held while it is driven: a run is driven by one task at a time, whatever the store says.
    mutex: Arc<tokio::sync::Mutex<()>>,
}

/// A leased run's place among those that are driven.
#[derive(Debug)]
pub(crate) struct Seat {
    stop: watch::Receiver<Option<StopReason>>,
    mutex: Arc<tokio::sync::Mutex<()>>,
    leased: Duration,
    kind: WorkerKind,
}

/// Gives a run's place and its worker back, also where a destructor of its handler panics.
struct Leave {
    shared: Arc<Shared>,
    seq: Seq,
    of: (Workspace, Seq),
    fence: i64,
    kind: WorkerKind,
    /// A report has freed the worker.
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

    /// This engine's name.
    pub(crate) fn id(&self) -> EngineId {
        lock(&self.identity).id
    }

    /// The store has seen this name's beat: runs can be leased under it.
    pub(crate) fn beaten(&self, engine: EngineId) {
        let mut identity = lock(&self.identity);
        if identity.id == engine && !identity.known {
            identity.known = true;
            drop(identity);
            self.say_what_is_served();
        }
    }

    /// Tells the store, for `why` and for whoever releases a version, and looks for such runs.
    pub(crate) fn say_what_is_served(&self) {
        let Identity { id, known } = *lock(&self.identity);
        if known {
            // Nobody waits for it.
            drop(self.ask(Command::Serve { engine: id, lanes: self.lanes() }));
            self.committer.look();
        }
    }

    /// Runs of this version can be driven from now on.
    pub(crate) fn serve(&self, ws: &Workspace, turn: Turn, version: ServedVersion) {
        lock(&self.registry).serve(ws, turn, version);
    }

    /// Runs of this version are left to others from now on.
    pub(crate) fn withdraw(&self, ws: &Workspace, turn: Turn) {
        lock(&self.registry).withdraw(ws, turn);
    }

    /// The lanes whose runs can be driven here.
    pub(crate) fn lanes(&self) -> Vec<Seq> {
        lock(&self.registry).lanes()
    }

    /// Whether runs of this lane can be driven here.
    pub(crate) fn serves(&self, lane: Seq) -> bool {
        lock(&self.registry).version(lane).is_some()
    }

    /// Has a command decided, together with others. It is on its way at once.
    pub(crate) fn ask(&self, command: Command) -> Reply {
        self.committer.send((command, self.entropy.number()), None)
    }

    /// The schedules of what is served here.
    pub(crate) fn schedules(&self) -> BTreeMap<ScheduleKey, Cron> {
        lock(&self.registry).schedules()
    }

    /// The leases that go with the next transaction.
    pub(crate) fn leases(&self, free: PerKind) -> Vec<Lease> {
        let Identity { id, known } = *lock(&self.identity);
        if known { lock(&self.registry).leases(id, free) } else { Vec::new() }
    }

    /// What it takes runs of, by workspace and kind of worker.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        lock(&self.registry).claims()
    }

    /// There are ready runs in these workspaces.
    pub(crate) fn have_work<'a>(&self, workspaces: impl IntoIterator<Item = &'a Workspace>) {
        lock(&self.registry).have_work(workspaces);
    }

    /// Takes down what a lease came to. Whether there may be more for the workers that are left.
    pub(crate) fn leased(&self, lease: &Lease, runs: &[Run]) -> bool {
        lock(&self.registry).leased(lease, runs)
    }

    /// The workers of one kind, as a workspace may see them.
    pub(crate) fn workers(&self, kind: WorkerKind, ws: &Workspace) -> Workers {
        lock(&self.registry).workers(kind, ws)
    }

    /// What drives the runs of a lane here.
    pub(crate) fn kind_of(&self, lane: Seq) -> Option<WorkerKind> {
        lock(&self.registry).version(lane).map(|version| version.kind)
    }

    /// Which of the runs that a transaction left ready find no worker here, with so many free.
    pub(crate) fn without_worker(&self, seen: &CommitEffects, free: PerKind) -> BTreeSet<RunId> {
        let registry = lock(&self.registry);
        let ready = seen.ready.iter().filter(|(_, (_, turn))| registry.is_out(turn.lane, free));
        ready.map(|(run, _)| *run).collect()
    }

    /// Which of the runs that a transaction would leave ready would find no worker here.
    pub(crate) fn would_wait(&self, seen: &CommitEffects) -> BTreeSet<RunId> {
        let registry = lock(&self.registry);
        let ready = seen.ready.iter().filter(|(_, (ws, turn))| registry.is_out_for(ws, *turn));
        ready.map(|(run, _)| *run).collect()
    }

    /// Has the runs that are driven here looked through: some may have been cancelled elsewhere.
    pub(crate) fn look_at_own(&self) {
        if self.driven() > 0 {
            self.own.notify_one();
        }
    }

    /// Waits for `next` or for the poll interval, whichever is shorter. Wake-ups of others end it, a
    /// second after its beginning at the earliest: a busy store sends many. `true` after one.
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

    /// A short wait after an error.
    pub(crate) async fn pause(&self) {
        self.timer.sleep_until(self.timer.elapsed() + self.retry_pause()).await;
    }

    /// How long what has failed waits for its next attempt.
    pub(crate) fn retry_pause(&self) -> Duration {
        self.options.lease_ttl / 60
    }

    /// Leased runs begin.
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

    /// Counts a leased run as driven from now on, so that it can be stopped while it is loaded.
    fn seat(&self, run: &Run, kind: WorkerKind) -> Seat {
        let mut driven = lock(&self.driven);
        let mutex = driven.remove(&run.id.seq).map_or_else(Arc::default, |before| {
            // It was taken from the old task, which may not know yet.
            let _ = before.stop.send(Some(StopReason::Lost));
            before.mutex
        });
        let lost = run.owner != Some(self.id());
        let leaves = self.leaving.load(Ordering::SeqCst);
        let stop = if lost { Some(StopReason::Lost) } else { leaves.then_some(StopReason::Yield) };
        let (stop, stopped) = watch::channel(stop);
        driven.insert(run.id.seq, Driven { fence: run.fence, stop, mutex: mutex.clone() });
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
            tracing::error!(run = %run.id, lane = %run.lane, "a leased run cannot be driven here");
            return false;
        };
        let span = telemetry::run_span(&run, version.definition.flow.is_some());
        let driver = Driver::new(self.clone(), &version, run, loaded, stop);
        tracing::Instrument::instrument(driver.drive(), span).await
    }

    /// Acts on what a transaction changed.
    pub(crate) fn saw(&self, seen: CommitEffects) {
        let mut elsewhere = false;
        for run in &seen.stopping {
            elsewhere |= !self.stop(*run, StopReason::Cancelled);
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

    /// Stops a run that is driven here; `false` if it is not.
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

    /// Stops all runs that are driven here.
    pub(crate) fn stop_all(&self, stop: StopReason) {
        let runs: Vec<Seq> = lock(&self.driven).keys().copied().collect();
        for run in runs {
            self.stop(run, stop);
        }
    }

    /// Hands over all runs that are driven here, and those that are just being leased.
    pub(crate) fn hand_back(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.stop_all(StopReason::Yield);
        self.reactions.stop();
    }

    /// Whether no run is driven here, or is about to be.
    pub(crate) fn is_idle(&self) -> bool {
        !self.committer.is_leasing() && self.driven() == 0 && self.reactions.is_idle()
    }

    /// How many runs are driven here.
    pub(crate) fn driven(&self) -> usize {
        lock(&self.driven).len()
    }

    /// Whether this run is driven here under this fence.
    pub(crate) fn drives(&self, run: Seq, fence: i64) -> bool {
        lock(&self.driven).get(&run).is_some_and(|driven| driven.fence == fence)
    }

    /// The lease under this name is gone: everything stops, and goes on under another.
    pub(crate) fn lose(&self, engine: EngineId) {
        {
            let mut identity = lock(&self.identity);
            if identity.id != engine {
                return;
            }
            *identity = Identity { id: self.entropy.engine_id(), known: false };
        }
        tracing::error!("the lease of this engine was lost; its runs are stopped here");
        telemetry::lease_lost();
        self.stop_all(StopReason::Lost);
    }

    /// Whether this run is driven here.
    pub(crate) fn drives_any(&self, run: Seq) -> bool {
        lock(&self.driven).contains_key(&run)
    }
}
