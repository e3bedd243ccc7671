//! Handlers as data: what a run does, step by step, drawn from the seed.

use crate::workload::Chance;

/// What a handler does next. Its place in the script is its step's id.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Runs a closure for so many milliseconds; the first attempts fail.
    Step {
        /// How long it takes.
        ms: u64,
        /// How many attempts fail.
        fails: u32,
    },
    /// Sleeps.
    Sleep(u64),
    /// Waits for an event.
    Event {
        /// Its name.
        name: &'static str,
        /// Whether its `k` must be the run's own.
        own: bool,
        /// For how long at the most.
        timeout: Option<u64>,
    },
    /// Waits for a signal.
    Signal(Option<u64>),
    /// Calls another workflow.
    Invoke(String),
    /// Sends an event.
    Send(String),
    /// Sleeps and waits for a signal at the same time.
    Both(u64),
}

impl Op {
    /// The events that handlers wait for.
    pub const TOPICS: [&'static str; 2] = ["ping", "pong"];
}

/// A handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// What it does.
    pub ops: Vec<Op>,
    /// Whether it fails at its end.
    pub fails: bool,
    /// How many attempts a step has.
    pub attempts: u32,
    /// How long a retry waits.
    pub backoff_ms: u64,
}

impl Script {
    /// The handler of the n-th workflow of so many.
    pub fn draw(n: usize, of: usize, chance: &mut Chance) -> Self {
        let length = chance.one(&[0, 1, 1, 2, 3, 4]);
        let ops = (0..length).map(|_| op(n, of, chance)).collect();
        let (fails, attempts) = (chance.percent(10), chance.one(&[1, 2, 3]));
        Self { ops, fails, attempts, backoff_ms: chance.one(&[1, 20]) }
    }
}

fn op(n: usize, of: usize, chance: &mut Chance) -> Op {
    let other = |chance: &mut Chance| format!("w{}", chance.index(of));
    match chance.below(20) {
        0..8 => {
            Op::Step { ms: chance.one(&[0, 1, 5, 40, 150]), fails: chance.one(&[0, 0, 0, 1, 5]) }
        }
        8..11 => Op::Sleep(chance.one(&[1, 10, 100])),
        11..13 => Op::Event {
            name: chance.one(&Op::TOPICS),
            own: chance.percent(50),
            timeout: chance.percent(50).then(|| chance.one(&[1, 50])),
        },
        13..15 => Op::Signal(chance.percent(40).then(|| chance.one(&[1, 50]))),
        // Only later ones or itself: two that call each other's kind could wait for each other.
        15..17 => Op::Invoke(format!("w{}", n + chance.index(of - n))),
        17..19 => Op::Send(if chance.percent(50) {
            chance.one(&Op::TOPICS).to_owned()
        } else {
            other(chance)
        }),
        _ => Op::Both(chance.one(&[1, 30])),
    }
}
