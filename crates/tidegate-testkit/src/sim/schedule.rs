//! The scheduler: one queue of turns in virtual time, and separate random numbers for each concern.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::workload::Chance;

/// The concern of a stream of random numbers. The streams are separate, so that a change in one
/// concern does not change the numbers of the others.
#[derive(Clone, Copy, Debug)]
pub enum Concern {
    /// Definitions, handlers and traffic.
    Workload,
    /// The order of turns, and their delays.
    Schedule,
    /// The frequency of each fault.
    Mix,
    /// The faults.
    Faults,
    /// The settings of each engine.
    Settings,
    /// The calls that become a message and its reply.
    Pairs,
    /// Streams, schedules and retention, with all actions of their actors.
    Side,
    /// Pools, their uses, and the changes of their limits.
    Pools,
    /// The events that cancel runs, and those that enter their inboxes.
    Listeners,
    /// The gates that runs close.
    Closings,
    /// The turns of values at fair limits.
    Fair,
    /// The limits that follow the outcomes of calls.
    Adaptive,
    /// Conditions on events, waits that begin early, and signals by name.
    Waits,
}

impl Chance {
    /// Returns the random numbers for one concern of a seed.
    pub fn stream(seed: u64, concern: Concern) -> Self {
        Self::new(Self::new(seed.wrapping_mul(8).wrapping_add(concern as u64)).draw())
    }

    /// Returns `true` with a probability of `times` per thousand.
    pub fn permille(&mut self, times: u64) -> bool {
        times > 0 && self.below(1000) < times
    }

    /// Returns `true` with a probability of `times` percent.
    pub fn percent(&mut self, times: u64) -> bool {
        self.permille(times * 10)
    }

    /// Returns a random number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns a random index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }
}

/// The turns to come, by time; turns at the same time are in random order.
#[derive(Debug, Default)]
pub struct Turns(BinaryHeap<Reverse<(u64, u64, usize)>>);

impl Turns {
    /// Adds an actor's next turn.
    pub fn add(&mut self, at: u64, actor: usize, chance: &mut Chance) {
        self.0.push(Reverse((at, chance.draw(), actor)));
    }

    /// Takes the next turn: its time and its actor.
    pub fn pop(&mut self) -> Option<(u64, usize)> {
        self.0.pop().map(|Reverse((at, _, actor))| (at, actor))
    }
}
