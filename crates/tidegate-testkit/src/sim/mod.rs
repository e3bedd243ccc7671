//! The simulator: many engines on one store, one seeded scheduler, virtual time, and faults.
//!
//! A seed decides everything: the controls and their limits, the traffic, the handlers, the order
//! of turns and the faults. After every commit the judge checks the invariants
//! (`docs/spec/invariants.md`); at the end the faults stop and everything must finish. The same
//! seed gives the same trace, to the last bit.
//!
//! Actors do one thing per turn, at most one commit, so that anything can come between any two
//! commits. [`engine::CommandEngine`] does what an engine does on the level of commands; any other
//! code that can be driven turn by turn is plugged in as an [`Actor`].

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

/// An actor of the simulation, which acts in turns.
pub trait Actor: fmt::Debug {
    /// Performs one action; returns the delay until the next turn in microseconds, or `u64::MAX`
    /// for never.
    fn turn(&mut self, world: &mut World, chance: &mut Chance) -> u64;

    /// Notifies the actor of possible work; returns whether it needs a turn now.
    fn poke(&mut self, _world: &World) -> bool {
        false
    }

    /// Whether the actor is a process, which can be paused.
    fn is_process(&self) -> bool {
        false
    }

    /// Whether the actor has sent all its planned traffic.
    fn is_done(&self) -> bool {
        true
    }

    /// Tells the actor that the faults are over, so that everything must finish now.
    fn settle(&mut self) {}

    /// Whether the actor has finished after the end of the faults.
    fn is_settled(&self, _world: &World) -> bool {
        true
    }
}

/// The store that a simulation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In memory.
    Memory,
    /// In SQLite.
    Sqlite,
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Hash of the trace.
    pub hash: u64,
    /// Number of checked commits.
    pub commits: u64,
    /// Number of turns.
    pub turns: u64,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The trace as text: all of it if requested, otherwise its end.
    pub trace: Vec<String>,
}

/// Runs the simulation of one seed.
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
