//! Simulated handlers: the steps of a run, as data that is drawn from the seed.

use tidegate_core::flow::close::GateToClose;

use crate::workload::Chance;

/// One operation of a handler. Its index in the script is the id of its step.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Runs a closure, whose first attempts may fail.
    Step {
        /// Duration in milliseconds.
        ms: u64,
        /// Number of attempts that fail.
        fails: u32,
    },
    /// Sleeps for this time, in milliseconds.
    Sleep(u64),
    /// Waits for an event.
    Event {
        /// The name of the event.
        name: &'static str,
        /// Whether the field `k` of the event must equal that of the run's input.
        own: bool,
        /// Timeout of the wait.
        timeout: Option<u64>,
    },
    /// Waits for a signal, with this timeout in milliseconds.
    Signal(Option<u64>),
    /// Calls the workflow with this name.
    Invoke(String),
    /// Sends the event with this name.
    Send(String),
    /// Waits for a time and a signal together.
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
    /// Backoff before a retry, in milliseconds.
    pub backoff_ms: u64,
    /// The gate that the first failures of a step close, and for how long, in milliseconds.
    pub closes: Option<(GateToClose, u64)>,
}

impl Script {
    /// Draws the handler of workflow number `n` of `of`.
    pub fn draw(n: usize, of: usize, chance: &mut Chance) -> Self {
        let length = chance.one(&[0, 1, 1, 2, 3, 4]);
        let ops = (0..length).map(|_| op(n, of, chance)).collect();
        let (fails, attempts) = (chance.percent(10), chance.one(&[1, 2, 3]));
        Self { ops, fails, attempts, backoff_ms: chance.one(&[1, 20]), closes: None }
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
        // A workflow calls only itself and later ones: two that call each other could wait for each
        // other for ever.
        15..17 => Op::Invoke(format!("w{}", n + chance.index(of - n))),
        17..19 => Op::Send(if chance.percent(50) {
            chance.one(&Op::TOPICS).to_owned()
        } else {
            other(chance)
        }),
        _ => Op::Both(chance.one(&[1, 30])),
    }
}
