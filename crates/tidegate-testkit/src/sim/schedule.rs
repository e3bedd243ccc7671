//! Whose turn it is: one queue of turns in virtual time, and one random stream for each concern.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::workload::Chance;

/// What a random stream decides. Each has its own, so that one more fault does not shift the rest.
#[derive(Clone, Copy, Debug)]
pub enum Concern {
    /// Definitions, handlers and traffic.
    Workload,
    /// Who goes next, and after how long.
    Schedule,
    /// How often what goes wrong.
    Mix,
    /// What goes wrong.
    Faults,
    /// The settings of each engine.
    Settings,
    /// Which calls are two, one after the other.
    Pairs,
    /// Streams, schedules and retention, and all that their actors do.
    Side,
}

impl Chance {
    /// The stream of one concern of a seed.
    pub fn stream(seed: u64, concern: Concern) -> Self {
        Self::new(Self::new(seed.wrapping_mul(8).wrapping_add(concern as u64)).draw())
    }

    /// Comes true so many times in a thousand.
    pub fn permille(&mut self, times: u64) -> bool {
        times > 0 && self.below(1000) < times
    }

    /// Comes true so many times in a hundred.
    pub fn percent(&mut self, times: u64) -> bool {
        self.permille(times * 10)
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// A place in a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }
}

/// The turns to come, by time; those of one moment in an order that chance gives.
#[derive(Debug, Default)]
pub struct Turns(BinaryHeap<Reverse<(u64, u64, usize)>>);

impl Turns {
    /// Gives an actor its next turn.
    pub fn add(&mut self, at: u64, actor: usize, chance: &mut Chance) {
        self.0.push(Reverse((at, chance.draw(), actor)));
    }

    /// The next turn: when, and whose.
    pub fn pop(&mut self) -> Option<(u64, usize)> {
        self.0.pop().map(|Reverse((at, _, actor))| (at, actor))
    }
}
