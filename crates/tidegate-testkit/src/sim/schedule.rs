//! The scheduler: one queue of turns in virtual time, and one random stream for each concern.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::workload::Chance;

/// The concern of a random stream. Each has its own, so that one more fault does not shift the
/// rest.
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
    /// The calls that are doubled, one after the other.
    Pairs,
    /// Streams, schedules and retention, and all actions of their actors.
    Side,
}

impl Chance {
    /// Returns the random stream of one concern of a seed.
    pub fn stream(seed: u64, concern: Concern) -> Self {
        Self::new(Self::new(seed.wrapping_mul(8).wrapping_add(concern as u64)).draw())
    }

    /// Returns `true` `times` times in a thousand.
    pub fn permille(&mut self, times: u64) -> bool {
        times > 0 && self.below(1000) < times
    }

    /// Returns `true` `times` times in a hundred.
    pub fn percent(&mut self, times: u64) -> bool {
        self.permille(times * 10)
    }

    /// Returns a number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns an index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }
}

/// The turns to come, by time; those of one moment in random order.
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
