//! State that all processes share: the store, the time, the faults, and the judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tidegate::{Engine, RunId, Timer, testing::VirtualClock};
use tidegate_core::{
    doctor::Checkup,
    flow::step_pool::PoolAsk,
    id::Seq,
    reads::Change,
    row::{self, EngineId, GateKey, GateState, Phase, Row, Run},
    time::Timestamp,
};
use tidegate_store::Clock;
use tidegate_testkit::{
    sim::{
        check::Judge,
        faults::Fate,
        schedule::Concern,
        trace::{Effect, Trace},
        workload::Plan,
        world::block_on,
    },
    workload::Chance,
};
use tokio::{
    sync::{mpsc, watch},
    task::unconstrained,
};

use crate::{
    code::{Edit, builds},
    disk::{Backend, Shared, Stop},
    history::{self, Asked, Drive, Drives},
    sessions,
};

/// Clock of the store, which may step independently of the processes' clock.
#[derive(Debug)]
pub(crate) struct Skewed {
    clock: Arc<VirtualClock>,
    micros: AtomicI64,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let micros = self.clock.now().micros() + self.micros.load(Ordering::SeqCst);
        Timestamp::from_micros(micros)
    }
}

/// State that all processes share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    /// Edits of each build; only the first build if the code does not change.
    pub(crate) builds: Vec<Vec<Edit>>,
    pub(crate) store: Shared,
    pub(crate) timer: Arc<dyn Timer>,
    /// Engines of the live processes, by process number.
    pub(crate) engines: Mutex<BTreeMap<usize, Engine>>,
    /// Channel for processes that have to die at a commit.
    doom: mpsc::UnboundedSender<Doom>,
    clock: Arc<Skewed>,
    inner: Mutex<Inner>,
}

/// What dies at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    Process(usize),
    /// All processes and the store.
    Machine,
}

/// Settings of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) backend: Backend,
    /// Whether the code of handlers changes from one process to the next.
    pub(crate) changes: bool,
    /// Whether the trace is recorded as text.
    pub(crate) text: bool,
}

/// State behind the lock.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    pub(crate) faults: Chance,
    /// Whether the phase with faults is over.
    pub(crate) calm: bool,
    /// Time of each engine's last heartbeat, in microseconds, and the process of the engine.
    beats: BTreeMap<EngineId, (u64, usize)>,
    /// Engine id and fence of each process's last lease of a run.
    leases: BTreeMap<(usize, Seq), (EngineId, i64)>,
    /// Processes that are shutting down.
    leaving: BTreeSet<usize>,
    /// Closures that are executing, with the gates of their runs.
    running: Vec<(Effect, Vec<GateKey>)>,
    drives: Drives,
    /// How often each of the things happened that must happen in some seed.
    pub(crate) met: BTreeMap<String, u64>,
    /// Senders of wake-ups, one channel for each receiver: the receivers of a shared channel would
    /// be woken in an order that the seed does not determine.
    wakes: Vec<watch::Sender<u64>>,
}

impl World {
    pub(crate) fn new(
        Setting { seed, backend, changes, text }: Setting,
        plan: Plan,
        clock: Arc<VirtualClock>,
        timer: Arc<dyn Timer>,
    ) -> (Self, mpsc::UnboundedReceiver<Doom>) {
        let plan = Arc::new(plan);
        let clock = Arc::new(Skewed { clock, micros: AtomicI64::new(0) });
        let mut trace = Trace::default();
        trace.all = text;
        let builds = if changes { builds(&mut Chance::new(!seed)) } else { vec![Vec::new()] };
        let inner = Inner {
            judge: Judge::new(plan.clone()),
            trace,
            faults: Chance::stream(seed, Concern::Faults),
            calm: true,
            beats: BTreeMap::new(),
            leases: BTreeMap::new(),
            leaving: BTreeSet::new(),
            running: Vec::new(),
            drives: Drives::new(),
            met: BTreeMap::new(),
            wakes: Vec::new(),
        };
        let store = Shared::new(backend, clock.clone());
        let (doom, doomed) = mpsc::unbounded_channel();
        let (engines, inner) = (Mutex::default(), Mutex::new(inner));
        (Self { plan, builds, store, timer, engines, doom, clock, inner }, doomed)
    }

    /// Returns the engines of live processes.
    pub(crate) fn engines(&self) -> MutexGuard<'_, BTreeMap<usize, Engine>> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_alive(&self, process: usize) -> bool {
        self.engines().contains_key(&process)
    }

    /// Marks a process, or its whole machine, to die now. Returns `false` if the process has not
    /// started yet.
    pub(crate) fn doom(&self, process: usize) -> bool {
        if !self.is_alive(process) {
            return false;
        }
        let machine = self.store.is_file() && self.lock().faults.percent(60);
        let doom = if machine { Doom::Machine } else { Doom::Process(process) };
        self.note(|| format!("process {process} dies at a commit: {doom:?}"));
        self.meets(if machine { "machine dies at a commit" } else { "process dies at a commit" });
        self.doom.send(doom).is_ok()
    }

    /// Restarts the machine, after all its processes have died. Opening the file declares all
    /// engines dead. Then its content is compared with what was committed.
    pub(crate) fn reopen(&self, stop: Stop) {
        self.note(|| format!("the file is opened again: {stop:?}"));
        self.meets(format!("file {stop:?}"));
        self.store.reopen(stop);
        let (now, at) = (self.now(), self.clock.now());
        let mut inner = self.lock();
        let void = inner.judge.state.rows().filter_map(|row| match row {
            Row::Engine(engine) if !engine.dead => {
                Some(Change::Update(row::Engine { dead: true, ..engine.clone() }.into()))
            }
            _ => None,
        });
        let void: Vec<Change> = void.collect();
        inner.trace.commit(&void);
        inner.judge.rows(now, at, void);
        drop(inner);
        self.compare();
    }

    /// Checks that no row is left over when all runs have finished.
    pub(crate) fn settled(&self) {
        let mut inner = self.lock();
        inner.judge.settled();
        if let Err(text) = sessions::settled(&self.plan, &inner.judge.state) {
            inner.judge.report("I47", text);
        }
    }

    /// Checks that the store contains what was committed, and that `doctor` finds no problem.
    pub(crate) fn compare(&self) {
        let store = self.store.get(self.store.generation()).expect("it is open");
        let rows = block_on(unconstrained(store.dump())).expect("the store can be read");
        let mut checkup = Checkup::default();
        for row in &rows {
            checkup.see(row);
        }
        let mut inner = self.lock();
        if let Some(finding) = checkup.conclude().findings.into_iter().next() {
            inner.judge.report(finding.rule.number(), format!("doctor: {}", finding.text));
        }
        if !rows.iter().eq(inner.judge.state.rows()) {
            let differs = rows.iter().zip(inner.judge.state.rows()).find(|(a, b)| a != b);
            let text = format!("the rows of the store differ from what was committed: {differs:?}");
            inner.judge.report("I42", text);
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the microseconds since the start of the simulation.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.timer.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let text = what();
        let now = self.now();
        self.lock().trace.note(now, || text.clone(), &text);
    }

    /// Counts one of the things that must happen in some seed.
    pub(crate) fn meets(&self, what: impl Into<String>) {
        *self.lock().met.entry(what.into()).or_default() += 1;
    }

    /// Steps the store's clock back or forward.
    pub(crate) fn step_clock(&self, micros: i64) {
        self.clock.micros.fetch_add(micros, Ordering::SeqCst);
        self.lock().judge.clock_stepped();
        self.note(|| format!("the store's clock steps by {micros}"));
    }

    /// Returns whether a fault happens, with this probability in permille.
    pub(crate) fn strikes(&self, permille: u64) -> bool {
        let mut inner = self.lock();
        !inner.calm && inner.faults.permille(permille)
    }

    /// Returns what happens to a transaction: committed, rolled back, answer lost, or crash.
    pub(crate) fn fate(&self) -> Fate {
        let mut inner = self.lock();
        if inner.calm { Fate::Told } else { Fate::draw(&self.plan.mix, &mut inner.faults) }
    }

    /// Returns the number of turns for which other tasks run before a call continues.
    pub(crate) fn delay(&self) -> u64 {
        self.lock().faults.one(&[0, 0, 0, 1, 2, 5, 20])
    }

    /// Subscribes to wake-ups.
    pub(crate) fn wakes(&self) -> watch::Receiver<u64> {
        let (wake, woken) = watch::channel(0);
        self.lock().wakes.push(wake);
        woken
    }

    /// Sends a wake-up.
    pub(crate) fn wake(&self) {
        self.lock().wakes.retain(|wake| {
            wake.send_modify(|count| *count += 1);
            !wake.is_closed()
        });
    }

    /// Records that a process shuts down: it may declare its own engine dead.
    pub(crate) fn leaves(&self, process: usize) {
        self.lock().leaving.insert(process);
    }

    /// Checks the changes that a process has committed, and adds them to the judge's state.
    pub(crate) fn commit(&self, process: usize, at: Timestamp, changes: Vec<Change>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.trace.note(now, || format!("process {process} commits"), process);
        inner.trace.commit(&changes);
        for change in &changes {
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            inner.see(&self.plan, process, row, now);
            let Row::Ended(ended) = row else { continue };
            let drive = inner.drives.get(&(process, ended.id.seq));
            let judged = history::changed(&self.plan, &inner.judge.state, drive, ended, &changes);
            match judged {
                Ok(true) => *inner.met.entry("changed code".to_owned()).or_default() += 1,
                Ok(false) => {}
                Err(text) => inner.judge.report("I24", text),
            }
        }
        inner.judge.rows(now, at, changes);
        // After a violation nothing more is recorded, so that it is at the end of the trace.
        inner.trace.all &= inner.judge.violation.is_none();
    }

    /// Checks a heartbeat.
    pub(crate) fn heartbeat(&self, process: usize, engine: (EngineId, u32), alive: bool) {
        let now = self.now();
        let mut inner = self.lock();
        let id = engine.0;
        inner.trace.note(now, || format!("process {process} beats as {id}: {alive}"), id);
        if alive {
            inner.beats.insert(id, (now, process));
        }
        inner.judge.heartbeat(now, engine, alive);
    }

    /// Records that a process calls a handler.
    pub(crate) fn drives(&self, process: usize, run: RunId, drive: Drive) {
        let mut inner = self.lock();
        if let Err(text) = history::serves(&inner.judge.state, run, drive.code.version) {
            inner.judge.report("I31", text);
        }
        inner.drives.insert((process, run.seq), drive);
    }

    /// Records that a step closure starts. It ends when the guard is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        (process, run): (usize, RunId),
        (step, pools): (&str, &[PoolAsk]),
        asked: &Asked,
    ) -> Inside {
        let now = self.now();
        let mut inner = self.lock();
        let (engine, fence) = inner.leases.get(&(process, run.seq)).copied().unwrap_or_default();
        let effect = Effect { engine, run, fence, step: step.to_owned() };
        inner.trace.note(now, || format!("process {process} starts {effect:?}"), &effect);
        inner.judge.start(&effect, pools);
        if let Err(text) = history::replayed(&inner.judge.state, &effect, asked) {
            inner.judge.report("I24", text);
        }
        inner.enter(&effect, &self.plan);
        drop(inner);
        Inside { world: self.clone(), effect }
    }
}

impl Inner {
    fn see(&mut self, plan: &Plan, process: usize, row: &Row, now: u64) {
        match row {
            Row::Run(run) => self.see_run(process, run),
            Row::Engine(engine) if engine.dead => {
                let (last, of) = self.beats.get(&engine.id).copied().unwrap_or_default();
                let itself = of == process && self.leaving.contains(&process);
                if !itself && now - last < u64::from(plan.lease_ms(of)) * 1000 {
                    let text = format!(
                        "engine {} was marked dead {} µs after its heartbeat",
                        engine.id,
                        now - last
                    );
                    self.judge.report("I27", text);
                }
            }
            Row::Step(step) => {
                // Answers are recorded by others, and copied records have no fence.
                let own = step.kind.is_effect() && step.fence != 0;
                let run = self.judge.state.run(step.run).filter(|_| own);
                if let Some(run) = run.filter(|run| run.fence != step.fence) {
                    let text = format!(
                        "{step:?} was recorded under an old fence, the run's is {}",
                        run.fence
                    );
                    self.judge.report("I25", text);
                }
            }
            Row::Session(session) => {
                if let Err(text) = sessions::whole(plan, session) {
                    self.judge.report("I47", text);
                }
            }
            _ => {}
        }
    }

    /// Checks that no run is taken from a live engine.
    fn see_run(&mut self, process: usize, run: &Run) {
        let before = self.judge.state.run(run.id.seq);
        let owner = before.and_then(|run| run.owner).filter(|owner| run.owner != Some(*owner));
        if let Some(owner) = owner {
            let own = self.beats.get(&owner).is_some_and(|(_, of)| *of == process);
            let alive = self.judge.state.engine(owner).is_some_and(|row| !row.dead);
            if !own && alive {
                let text =
                    format!("run {} was taken from engine {owner}, which is not dead", run.id);
                self.judge.report("I27", text);
            }
        }
        let fresh = self.judge.state.run(run.id.seq).is_none_or(|old| old.fence < run.fence);
        if let Some(owner) = run.owner.filter(|_| fresh && run.phase == Phase::Driven) {
            self.leases.insert((process, run.id.seq), (owner, run.fence));
        }
    }

    /// Checks the limit of each gate by counting the executing handlers themselves. An engine that
    /// loses its lease stops before others can take over its runs, so the number of handlers never
    /// exceeds the limit.
    fn enter(&mut self, effect: &Effect, plan: &Plan) {
        let state = &self.judge.state;
        let gates: Vec<GateKey> = state
            .run(effect.run.seq)
            .map(|run| run.plan.iter().map(|need| need.gate.clone()).collect())
            .unwrap_or_default();
        let mut broken = None;
        for gate in gates.iter().filter(|_| plan.releases == 0) {
            let slots = |row: &row::Gate| matches!(row.state, GateState::Slots(_));
            let Some(scope) = gate.scope().filter(|_| state.gate(gate).is_some_and(slots)) else {
                continue;
            };
            let pool = plan.pools.iter().find(|pool| scope.pool() == Some(pool.name));
            let limit = match plan.spec(&scope.name) {
                // An adaptive limit, or one from data, may have been lowered after the run entered.
                _ if pool.is_some() => {
                    pool.map(|pool| pool.adaptive.map_or(pool.limit, |range| range.max))
                }
                Some(spec) => {
                    let controls = &spec.version(1).0;
                    let adaptive = controls.adaptive(scope.class, &scope.slot);
                    let limit = controls.limit(scope.class, &scope.slot, Some(u32::MAX));
                    adaptive.map(|range| range.max).or(limit)
                }
                None => Some(1),
            };
            let inside = self.running.iter().filter(|(_, gates)| gates.contains(gate)).count();
            if limit.is_some_and(|limit| inside as u64 >= limit) {
                let text =
                    format!("{inside} closures execute at gate {scope:?}, and {effect:?} starts");
                broken = Some(("I2", text));
            }
        }
        if let Some(other) = self.running.iter().find(|(other, _)| other.run == effect.run) {
            broken = Some(("I26", format!("{other:?} and {effect:?} of one run execute at once")));
        }
        if let Some((number, text)) = broken {
            self.judge.report(number, text);
        }
        self.running.push((effect.clone(), gates));
    }
}

/// Guard of a closure that is executing.
#[derive(Debug)]
pub(crate) struct Inside {
    world: Arc<World>,
    effect: Effect,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let now = self.world.now();
        let mut inner = self.world.lock();
        inner.trace.note(now, || format!("ends {:?}", self.effect), &self.effect);
        inner.judge.end(&self.effect);
        let effect = &self.effect;
        inner.running.retain(|(other, _)| other != effect);
    }
}
