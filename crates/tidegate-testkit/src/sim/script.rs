//! Simulated handlers: the steps of a run, as data that is drawn from the seed.

use serde_json::Value;
use tidegate_core::flow::{
    close::GateToClose,
    step_pool::{PoolAsk, key_of},
};

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
        /// The pools that each attempt passes.
        pools: Vec<StepUse>,
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

/// A use of a pool by a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepUse {
    /// The name of the pool.
    pub pool: &'static str,
    /// Whether the key is the field `k` of the run's input.
    pub keyed: bool,
    /// The units that the step takes.
    pub cost: u32,
    /// The field of the run's input with the value that takes turns, at a fair pool.
    pub fair_by: Option<&'static str>,
}

impl StepUse {
    /// Draws the uses of a step.
    pub fn draw(names: &[&'static str], chance: &mut Chance) -> Vec<Self> {
        // Two uses may be of one pool, and of one gate.
        let uses = 0..chance.one(&[0, 1, 1, 2]);
        let one = |_| {
            let (pool, keyed) = (chance.one(names), chance.percent(50));
            let (cost, fair_by) =
                (chance.one(&[1, 1, 1, 2]), chance.one(&[None, Some("k"), Some("j")]));
            Self { pool, keyed, cost, fair_by }
        };
        uses.map(one).collect()
    }

    /// Returns the value that takes turns, in a run with this input.
    pub fn value<'a>(&self, data: &'a Value) -> Option<&'a Value> {
        data.get(self.fair_by?)
    }

    /// Returns what the step asks for in a run with this input.
    pub fn ask(&self, data: &Value) -> PoolAsk {
        let key = data.get("k").filter(|_| self.keyed).and_then(key_of);
        let fair_by = self.value(data).and_then(key_of);
        PoolAsk { pool: self.pool.to_owned(), key, cost: self.cost, fair_by }
    }
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
    /// Whether the failures of its steps are overloads of the service.
    pub overloads: bool,
}

impl Script {
    /// Draws the handler of workflow number `n` of `of`.
    pub fn draw(n: usize, of: usize, chance: &mut Chance) -> Self {
        let length = chance.one(&[0, 1, 1, 2, 3, 4]);
        let ops = (0..length).map(|_| op(n, of, chance)).collect();
        let (fails, attempts) = (chance.percent(10), chance.one(&[1, 2, 3]));
        Self {
            ops,
            fails,
            attempts,
            backoff_ms: chance.one(&[1, 20]),
            closes: None,
            overloads: false,
        }
    }

    /// Draws the pools that its steps pass.
    pub fn draw_pools(&mut self, names: &[&'static str], chance: &mut Chance) {
        for op in &mut self.ops {
            if let Op::Step { pools, .. } = op {
                *pools = StepUse::draw(names, chance);
            }
        }
    }
}

fn op(n: usize, of: usize, chance: &mut Chance) -> Op {
    let other = |chance: &mut Chance| format!("w{}", chance.index(of));
    match chance.below(20) {
        0..8 => {
            let (ms, fails) = (chance.one(&[0, 1, 5, 40, 150]), chance.one(&[0, 0, 0, 1, 5]));
            Op::Step { ms, fails, pools: Vec::new() }
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
