//! The simulator: many engines on one store, one seeded scheduler, virtual time, and faults.
//!
//! A seed decides everything: which controls are on and how tight they are, what arrives, what
//! handlers do, whose turn it is and what goes wrong. After every commit the judge checks what
//! must always hold (`docs/invariants.md`); at the end the faults stop and everything must finish.
//! The same seed gives the same trace, to the last bit.
//!
//! Actors do one thing a turn, at most one commit, so that anything can come between any two
//! commits. [`CommandEngine`] does what an engine does on the level of commands; whatever else
//! can be driven turn by turn is plugged in as an [`Actor`].

pub mod check;
pub mod controls;
pub mod engine;
pub mod faults;
pub mod people;
pub mod schedule;
pub mod script;
pub mod state;
pub mod task;
pub mod trace;
pub mod workload;
pub mod world;

use std::{fmt, sync::Arc};

use tidegate_core::row::Workspace;
use tidegate_store::{ManualClock, MemoryStore, SqliteStore, Store};

use self::{
    check::Violation,
    engine::{CommandEngine, Serves},
    people::{Client, Meddler, register},
    schedule::{Concern, Turns},
    workload::Plan,
    world::{World, block_on},
};
use crate::workload::Chance;

/// For how long there are faults, at the least, in microseconds.
const STORM: u64 = 300_000;

/// How many turns may pass without any run coming to its end, once the faults have stopped.
const PATIENCE: u64 = 10_000;

/// And how much time, in microseconds: the clock may have stepped back.
const LONGEST: u64 = 60_000_000;

/// Something that acts in turns.
pub trait Actor: fmt::Debug {
    /// Does one thing, and says after how many microseconds it wants the next turn;
    /// `u64::MAX` for never.
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64;

    /// There may be work: says whether it wants a turn now.
    fn poke(&mut self, _world: &World) -> bool {
        false
    }

    /// Whether it is a process that can be stopped for a while.
    fn is_process(&self) -> bool {
        false
    }

    /// Whether it has nothing more to bring.
    fn is_done(&self) -> bool {
        true
    }

    /// The faults are over: everything has to finish now.
    fn settle(&mut self) {}
}

/// Where the rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In memory.
    Memory,
    /// In SQLite.
    Sqlite,
}

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trace as one number.
    pub hash: u64,
    /// How many commits were checked.
    pub commits: u64,
    /// How many turns there were.
    pub turns: u64,
    /// What did not hold.
    pub violation: Option<Violation>,
    /// The trace as text, as far as it was asked for.
    pub trace: Vec<String>,
}

/// Plays one seed.
pub fn simulate(seed: u64, backend: Backend, text: bool) -> Outcome {
    let clock = Arc::new(ManualClock::default());
    let store: Arc<dyn Store> = match backend {
        Backend::Memory => Arc::new(MemoryStore::new(clock.clone())),
        Backend::Sqlite => {
            Arc::new(block_on(SqliteStore::in_memory(clock.clone())).expect("SQLite opens"))
        }
    };
    let faults = Chance::stream(seed, Concern::Faults);
    let mut world = World::new(Plan::of(seed), faults, store, clock);
    world.trace.all = text;
    let mut sim = Sim::new(world, Chance::stream(seed, Concern::Schedule));
    sim.run();
    let world = sim.world;
    Outcome {
        hash: world.trace.hash(),
        commits: world.commits,
        turns: sim.turns,
        violation: world.violation().cloned(),
        trace: world.trace.lines().cloned().collect(),
    }
}

#[derive(Debug)]
struct Sim {
    world: World,
    chance: Chance,
    actors: Vec<Box<dyn Actor>>,
    /// When each actor's next turn is.
    next: Vec<u64>,
    /// Until when each actor stands still.
    still: Vec<u64>,
    queue: Turns,
    turns: u64,
}

impl Sim {
    fn new(mut world: World, chance: Chance) -> Self {
        let plan = world.plan.clone();
        for ws in &plan.workspaces {
            for spec in &plan.specs {
                let command = register(Workspace::from(*ws), spec.definition(1));
                let salt = world.salt();
                world.submit("people", &[(command, salt)]).expect("nothing fails before the start");
            }
        }
        world.calm = false;
        let mut actors: Vec<Box<dyn Actor>> =
            vec![Box::new(Client::new(&plan)), Box::new(Meddler::default())];
        for number in 0..u32::try_from(plan.engines).expect("a few") {
            // The first serves all, so that nothing is stranded for good.
            let serves = match number % 4 {
                2 => Serves::First,
                3 => Serves::Later,
                _ => Serves::All,
            };
            actors.push(Box::new(CommandEngine::new(number + 1, serves)));
        }
        let (next, still) = (vec![u64::MAX; actors.len()], vec![0; actors.len()]);
        let queue = Turns::default();
        let mut sim = Self { world, chance, actors, next, still, queue, turns: 0 };
        for actor in 0..sim.actors.len() {
            sim.wants(actor, 0);
        }
        sim
    }

    fn wants(&mut self, actor: usize, at: u64) {
        self.next[actor] = at;
        if at < u64::MAX {
            self.queue.add(at, actor, &mut self.chance);
        }
    }

    /// The storm, then the calm in which all must finish.
    fn run(&mut self) {
        while self.world.now < STORM || !self.actors.iter().all(|actor| actor.is_done()) {
            if !self.turn() {
                return;
            }
        }
        self.world.calm = true;
        self.actors.iter_mut().for_each(|actor| actor.settle());
        let (mut ended, mut turn, mut time) = (0, self.turns, self.world.now);
        while !self.world.judge.state.is_at_rest() {
            if self.world.judge.ended > ended {
                (ended, turn, time) = (self.world.judge.ended, self.turns, self.world.now);
            }
            if self.turns - turn > PATIENCE && self.world.now - time > LONGEST {
                self.world.judge.report_unsettled();
            }
            if !self.turn() {
                return;
            }
        }
        self.world.judge.settled();
        self.world.compare();
    }

    /// One turn of one actor; `false` when something does not hold.
    fn turn(&mut self) -> bool {
        let Some((at, actor)) = self.queue.pop() else { return false };
        if self.next[actor] != at {
            return true;
        }
        self.turns += 1;
        let now = self.world.now.max(at);
        self.world.set_time(now);
        if self.actors[actor].is_process() && self.world.strikes(self.world.plan.mix.pause) {
            let ttl = self.world.plan.ttl_ms * 1000;
            let pause = self.world.faults.between(ttl / 4, ttl * 3);
            self.world.trace.note(now, || format!("actor {actor} stands still"), pause);
            self.still[actor] = now + pause;
            self.wants(actor, now + pause);
            return true;
        }
        let wait = self.actors[actor].turn(&mut self.world, &mut self.chance);
        self.wants(actor, now.saturating_add(wait));
        if std::mem::take(&mut self.world.woken)
            && !self.world.strikes(self.world.plan.mix.lost_wake)
        {
            self.poke();
        }
        self.world.violation().is_none()
    }

    fn poke(&mut self) {
        let now = self.world.now;
        for actor in 0..self.actors.len() {
            // One that stands still notices nothing.
            let awake = self.still[actor] <= now && self.next[actor] > now;
            if awake && self.actors[actor].poke(&self.world) {
                let at = now + self.chance.between(50, 600);
                if at < self.next[actor] {
                    self.wants(actor, at);
                }
            }
        }
    }
}
