//! Handlers as data: the steps of a run, drawn from the seed.

use crate::workload::Chance;

/// One operation of a handler. Its index in the script is its step's id.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Runs a closure; the first attempts fail.
    Step {
        /// Duration in milliseconds.
        ms: u64,
        /// Number of attempts that fail.
        fails: u32,
    },
    /// Sleeps.
    Sleep(u64),
    /// Waits for an event.
    Event {
        /// Its name.
        name: &'static str,
        /// Whether its `k` must equal the run's own.
        own: bool,
        /// Timeout of the wait.
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
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Whether the handler fails at its end.
    pub fails: bool,
    /// Maximum number of attempts of a step.
    pub attempts: u32,
    /// Backoff before a retry.
    pub backoff_ms: u64,
}

impl Script {
    /// Draws the handler of workflow `n` out of `of`.
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
        // Only later workflows or itself: two that call each other's kind could wait for each
        // other.
        15..17 => Op::Invoke(format!("w{}", n + chance.index(of - n))),
        17..19 => Op::Send(if chance.percent(50) {
            chance.one(&Op::TOPICS).to_owned()
        } else {
            other(chance)
        }),
        _ => Op::Both(chance.one(&[1, 30])),
    }
}
