//! The simulator: many engines on one store, one seeded scheduler, virtual time, and faults.
//!
//! A seed decides everything: which controls are on and how tight they are, what arrives, what
//! handlers do, whose turn it is and what goes wrong. After every commit the judge checks what
//! must always hold (`docs/spec/invariants.md`); at the end the faults stop and everything must
//! finish. The same seed gives the same trace, to the last bit.
//!
//! Actors do one thing a turn, at most one commit, so that anything can come between any two
//! commits. [`engine::CommandEngine`] does what an engine does on the level of commands; whatever
//! else can be driven turn by turn is plugged in as an [`Actor`].

pub mod check;
pub mod cleaner;
pub mod controls;
pub mod engine;
pub mod faults;
pub mod people;
pub mod planner;
mod play;
mod progress;
pub mod reactor;
pub mod schedule;
pub mod script;
pub mod state;
pub mod streams;
pub mod task;
pub mod trace;
pub mod workload;
pub mod world;

use std::{fmt, sync::Arc};

use tidegate_store::{ManualClock, MemoryStore, SqliteStore, Store};

pub use self::progress::Progress;
use self::{
    check::Violation,
    play::{Side, Sim},
    schedule::Concern,
    workload::Plan,
    world::{World, block_on},
};
use crate::workload::Chance;

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

    /// Whether it has finished, once the faults are over.
    fn is_settled(&self, _world: &World) -> bool {
        true
    }
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
    let side = Side::new(Chance::stream(seed, Concern::Side));
    let mut sim = Sim::new(world, Chance::stream(seed, Concern::Schedule), side);
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
