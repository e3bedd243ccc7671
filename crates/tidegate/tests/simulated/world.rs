//! What all processes share: the store, the time, the faults, and the judge who watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tidegate::{
    RunId, Timer,
    core::{
        id::Seq,
        reads::Change,
        row::{EngineId, GateKey, GateState, Phase, Row, Run},
        time::Timestamp,
    },
    store::{Clock, MemoryStore},
    testing::VirtualClock,
};
use tidegate_testkit::{
    sim::{
        check::Judge,
        faults::Fate,
        schedule::Concern,
        trace::{Effect, Trace},
        workload::Plan,
    },
    workload::Chance,
};

use tokio::sync::watch;

use crate::sessions;

/// The store's clock, which may step while processes measure on.
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

/// What all processes share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) store: MemoryStore,
    pub(crate) timer: Arc<dyn Timer>,
    clock: Arc<Skewed>,
    inner: Mutex<Inner>,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    pub(crate) faults: Chance,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    /// When each name's last beat was written, in microseconds, and by which process.
    beats: BTreeMap<EngineId, (u64, usize)>,
    /// Under which name and fence a process has leased a run last.
    leases: BTreeMap<(usize, Seq), (EngineId, i64)>,
    /// Processes that say goodbye.
    leaving: BTreeSet<usize>,
    /// Closures that are running, with the gates that their runs need.
    running: Vec<(Effect, Vec<GateKey>)>,
    /// Who wants to know that there may be work. One channel each: those who share one are woken
    /// in an order that no seed decides.
    wakes: Vec<watch::Sender<u64>>,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        plan: Plan,
        clock: Arc<VirtualClock>,
        timer: Arc<dyn Timer>,
        text: bool,
    ) -> Self {
        let plan = Arc::new(plan);
        let clock = Arc::new(Skewed { clock, micros: AtomicI64::new(0) });
        let mut trace = Trace::default();
        trace.all = text;
        let inner = Inner {
            judge: Judge::new(plan.clone()),
            trace,
            faults: Chance::stream(seed, Concern::Faults),
            calm: true,
            beats: BTreeMap::new(),
            leases: BTreeMap::new(),
            leaving: BTreeSet::new(),
            running: Vec::new(),
            wakes: Vec::new(),
        };
        let store = MemoryStore::new(clock.clone());
        Self { plan, store, timer, clock, inner: Mutex::new(inner) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.timer.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        let text = what();
        let now = self.now();
        self.lock().trace.note(now, || text.clone(), &text);
    }

    /// The store's clock steps, back or forth.
    pub(crate) fn step_clock(&self, micros: i64) {
        self.clock.micros.fetch_add(micros, Ordering::SeqCst);
        self.lock().judge.clock_stepped();
        self.note(|| format!("the store's clock steps by {micros}"));
    }

    /// Whether something goes wrong that happens so many times in a thousand.
    pub(crate) fn strikes(&self, permille: u64) -> bool {
        let mut inner = self.lock();
        !inner.calm && inner.faults.permille(permille)
    }

    /// What becomes of a transaction. Crashes come from elsewhere.
    pub(crate) fn fate(&self) -> Fate {
        let mut inner = self.lock();
        let fate =
            if inner.calm { Fate::Told } else { Fate::draw(&self.plan.mix, &mut inner.faults) };
        match fate {
            Fate::CrashBefore => Fate::LostBefore,
            Fate::CrashAfter => Fate::LostAfter,
            fate => fate,
        }
    }

    /// How many turns others have before a call goes on.
    pub(crate) fn delay(&self) -> u64 {
        self.lock().faults.one(&[0, 0, 0, 1, 2, 5, 20])
    }

    /// Somebody wants to be woken.
    pub(crate) fn wakes(&self) -> watch::Receiver<u64> {
        let (wake, woken) = watch::channel(0);
        self.lock().wakes.push(wake);
        woken
    }

    /// There may be work.
    pub(crate) fn wake(&self) {
        self.lock().wakes.retain(|wake| {
            wake.send_modify(|count| *count += 1);
            !wake.is_closed()
        });
    }

    /// A process says goodbye: it may call itself dead.
    pub(crate) fn leaves(&self, process: usize) {
        self.lock().leaving.insert(process);
    }

    /// Sees what a process has committed.
    pub(crate) fn commit(&self, process: usize, at: Timestamp, changes: Vec<Change>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.trace.note(now, || format!("process {process} commits"), process);
        inner.trace.commit(&changes);
        for change in &changes {
            let (Change::Insert(row) | Change::Update(row)) = change else { continue };
            inner.see(&self.plan, process, row, now);
        }
        inner.judge.rows(now, at, changes);
        // What follows would only bury it.
        inner.trace.all &= inner.judge.violation.is_none();
    }

    /// Sees a beat.
    pub(crate) fn beat(&self, process: usize, engine: (EngineId, u32), alive: bool) {
        let now = self.now();
        let mut inner = self.lock();
        let id = engine.0;
        inner.trace.note(now, || format!("process {process} beats as {id}: {alive}"), id);
        if alive {
            inner.beats.insert(id, (now, process));
        }
        inner.judge.beat(now, engine, alive);
    }

    /// A step's closure begins; it ends when the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, process: usize, run: RunId, step: &str) -> Inside {
        let now = self.now();
        let mut inner = self.lock();
        let (engine, fence) = inner.leases.get(&(process, run.seq)).copied().unwrap_or_default();
        let effect = Effect { engine, run, fence, step: step.to_owned() };
        inner.trace.note(now, || format!("process {process} starts {effect:?}"), &effect);
        inner.judge.start(&effect);
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
                    let text = format!("{} is dead {} µs after its beat", engine.id, now - last);
                    self.judge.report("I27", text);
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

    /// A run is taken from nobody who is alive.
    fn see_run(&mut self, process: usize, run: &Run) {
        let before = self.judge.state.run(run.id.seq);
        let owner = before.and_then(|run| run.owner).filter(|owner| run.owner != Some(*owner));
        if let Some(owner) = owner {
            let own = self.beats.get(&owner).is_some_and(|(_, of)| *of == process);
            let alive = self.judge.state.engine(owner).is_some_and(|row| !row.dead);
            if !own && alive {
                let text = format!("{} was taken from {owner}, which is not dead", run.id);
                self.judge.report("I27", text);
            }
        }
        let fresh = self.judge.state.run(run.id.seq).is_none_or(|old| old.fence < run.fence);
        if let Some(owner) = run.owner.filter(|_| fresh && run.phase == Phase::Driven) {
            self.leases.insert((process, run.id.seq), (owner, run.fence));
        }
    }

    /// As many are inside of a gate as its limit allows, counted in the handlers themselves. An
    /// engine that loses its lease stops before others can take its runs over, so nobody is
    /// inside who should not be.
    fn enter(&mut self, effect: &Effect, plan: &Plan) {
        let state = &self.judge.state;
        let gates: Vec<GateKey> = state
            .run(effect.run.seq)
            .map(|run| run.needs.iter().map(|need| need.gate.clone()).collect())
            .unwrap_or_default();
        let mut broken = None;
        for gate in gates.iter().filter(|_| plan.releases == 0) {
            let slots = |row: &tidegate::core::row::Gate| matches!(row.state, GateState::Slots(_));
            let Some(scope) = gate.scope().filter(|_| state.gate(gate).is_some_and(slots)) else {
                continue;
            };
            let limit = match plan.spec(&scope.name) {
                Some(spec) => spec.version(1).0.limit(scope.class, &scope.slot),
                None => Some(1),
            };
            let inside = self.running.iter().filter(|(_, gates)| gates.contains(gate)).count();
            if limit.is_some_and(|limit| inside as u64 >= limit) {
                let text = format!("{inside} are inside of {scope:?}, and {effect:?} enters");
                broken = Some(("I2", text));
            }
        }
        if let Some(other) = self.running.iter().find(|(other, _)| other.run == effect.run) {
            broken = Some(("I26", format!("{other:?} is inside of the same run as {effect:?}")));
        }
        if let Some((number, text)) = broken {
            self.judge.report(number, text);
        }
        self.running.push((effect.clone(), gates));
    }
}

/// A closure that is running.
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
