//! Simulated handlers: the steps of a run, as data that is drawn from the seed.

use serde_json::Value;
use tidegate_core::{
    flow::{
        close::GateToClose,
        step_pool::{PoolAsk, key_of},
    },
    row::WaitFilter,
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
        /// The condition on the event.
        when: Option<When>,
        /// Whether the wait begins while the handler goes on with the next step.
        early: bool,
    },
    /// Waits for a signal that is sent by its name.
    Named {
        /// The name.
        name: &'static str,
        /// Whether it ends the wait of another step for the name; it fails otherwise.
        replace: bool,
        /// Timeout of the wait, in milliseconds.
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

/// Condition on the data of an event, which is compared with another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Its cost is as high, or higher.
    Costly,
    /// Its field `j` is the same.
    Alike,
}

impl When {
    /// All conditions.
    pub const ALL: [Self; 2] = [Self::Costly, Self::Alike];

    /// Returns the field that is compared.
    pub fn field(self) -> &'static str {
        match self {
            Self::Costly => "c",
            Self::Alike => "j",
        }
    }

    /// Returns the text of the condition, given that of the other value.
    pub fn text(self, own: &str) -> String {
        match self {
            Self::Costly => format!("async.data.c >= {own}"),
            Self::Alike => format!("async.data.j == {own}"),
        }
    }

    /// Returns the value with which a wait compares.
    pub fn constant(self) -> i64 {
        match self {
            Self::Costly => 2,
            Self::Alike => 1,
        }
    }

    /// Returns the condition of a wait, as it is stored.
    pub fn of_wait(self) -> WaitFilter {
        WaitFilter { expr: self.text(&self.constant().to_string()), lenient: false }
    }

    /// Whether the condition holds for an event, given the other value.
    pub fn holds(self, event: &Value, own: &Value) -> bool {
        let theirs = event.get(self.field()).unwrap_or(&Value::Null);
        match self {
            Self::Costly => theirs.as_i64().zip(own.as_i64()).is_some_and(|(it, own)| it >= own),
            Self::Alike => theirs == own,
        }
    }
}

impl Op {
    /// The names of signals that handlers wait for.
    const NAMES: [&'static str; 2] = ["door", "gate"];

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

    /// Draws more about its waits.
    pub fn draw_waits(&mut self, chance: &mut Chance) {
        self.ops.iter_mut().for_each(|op| more_of(op, chance));
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

/// Draws more about the waits of a handler: conditions, waits that begin early, and signals by name.
fn more_of(op: &mut Op, chance: &mut Chance) {
    match op {
        Op::Event { when, early, .. } => {
            *when = chance.percent(50).then(|| chance.one(&When::ALL));
            *early = chance.percent(40);
        }
        Op::Signal(timeout) if chance.percent(60) => {
            let (name, replace) = (chance.one(&Op::NAMES), chance.percent(50));
            *op = Op::Named { name, replace, timeout: *timeout };
        }
        _ => {}
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
            when: None,
            early: false,
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
