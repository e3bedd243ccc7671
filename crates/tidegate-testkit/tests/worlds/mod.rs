//! Random cases (definitions and operations), and the comparison of the core with the reference.

mod compare;
mod draw;
mod overrides;

pub(crate) use compare::check;
pub(crate) use draw::case;

use serde_json::Value;

/// One test case.
#[derive(Clone)]
pub(crate) struct Case {
    /// Definitions that are registered at the start, in this order.
    pub(crate) definitions: Vec<Value>,
    /// Newer versions, which the operation `Release` releases one after another.
    pub(crate) later: Vec<Value>,
    /// The operations.
    pub(crate) ops: Vec<Op>,
    /// Whether the pools are fair.
    pub(crate) fair: bool,
}

/// One operation. A `usize` selects one of the runs to which the operation can be applied.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Posts an event.
    Post { name: &'static str, a: Field, b: Field },
    /// Posts an event that is delivered after `ms` milliseconds.
    Defer { ms: u64, name: &'static str, a: Field },
    /// Sends a request.
    Call { action: &'static str, session: Option<&'static str>, a: Field },
    /// Posts an event after `ms` milliseconds, at the end of which a due fold is not swept.
    Late { ms: u64, name: &'static str, a: Field },
    /// Leases up to this many ready runs.
    Lease(u32),
    /// Completes a driven run.
    Complete(usize),
    /// Fails a driven run.
    Fail(usize),
    /// Records a successful step of a driven run.
    Succeed(usize),
    /// Lets a step of a driven run meet an overload; it is tried again after some milliseconds.
    Overload(usize, u64),
    /// Lets a driven run sleep for some milliseconds.
    Sleep(usize, u64),
    /// Lets a driven run wait for an event, which must have this value in the field `a`, for some
    /// milliseconds or without end.
    Wait { at: usize, name: &'static str, a: Option<Field>, ms: Option<u64> },
    /// Lets a driven run close gates for some milliseconds, but not longer than [`MAX_CLOSE_MS`].
    CloseGate { at: usize, gate: &'static str, ms: u64 },
    /// Lets a step of a driven run ask for the pool `px`, with this key, value of `fair` and cost.
    /// If it has to wait, the run parks, or goes on without it.
    Enter { at: usize, key: Field, value: Field, cost: u32, parks: bool },
    /// Changes an override: its target, the key of it, the change, and when it ends.
    Override { goal: usize, key: Option<Field>, change: Change, ends: Option<u64> },
    /// Ends the place of a step.
    Leave(usize),
    /// Cancels a run.
    Cancel(usize),
    /// Confirms that a worker stopped.
    Stopped(usize),
    /// Marks the engine dead and reaps its runs.
    Lose,
    /// Advances the time by some milliseconds, with sweeps at all due times.
    Tick(u64),
    /// Releases the next definition.
    Release,
}

/// Longest time for which a run closes a gate, in milliseconds.
pub(crate) const MAX_CLOSE_MS: u64 = 25;

/// Change of an override.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Another limit of a `concurrency`.
    Limit(u32),
    /// Another burst of a throttle.
    Burst(u32),
    /// A pause, or the end of one for some of its keys.
    Pause(bool),
    /// A closing for some milliseconds.
    Close(u64),
    /// The end of the override.
    Remove,
}

/// Value of an event's field from which keys are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Missing,
    One,
    OnePointZero,
    TextOne,
    TextOneTwo,
    True,
    /// The texts with a prefix, for an override. No event has it.
    Prefix(&'static str),
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, values) in [("definitions", &self.definitions), ("later", &self.later)] {
            write!(f, "\n{name}:")?;
            values.iter().try_for_each(|value| write!(f, "\n  {value}"))?;
        }
        write!(f, "\nfair pools: {}\nops:", self.fair)?;
        self.ops.iter().try_for_each(|op| write!(f, "\n  {op:?}"))
    }
}
