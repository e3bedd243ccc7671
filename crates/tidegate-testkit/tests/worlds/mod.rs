//! Random worlds: definitions, operations, and the comparison of the two sides.

mod compare;
mod draw;

pub(crate) use compare::check;
pub(crate) use draw::case;

use serde_json::Value;

/// One world and its operations.
#[derive(Clone)]
pub(crate) struct Case {
    /// The definitions, registered in order; a higher version is a release.
    pub(crate) definitions: Vec<Value>,
    /// Definitions that are released on the way.
    pub(crate) later: Vec<Value>,
    /// The operations.
    pub(crate) ops: Vec<Op>,
}

/// One operation. Numbers pick one of its possible targets.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Posts an event.
    Post { name: &'static str, a: Field, b: Field },
    /// Sends a request.
    Call { action: &'static str, session: Option<&'static str>, a: Field },
    /// Posts an event after `ms` milliseconds without a sweep.
    Late { ms: u64, name: &'static str, a: Field },
    /// Leases up to this many ready runs.
    Lease(u32),
    /// Completes a driven run.
    Complete(usize),
    /// Fails a driven run.
    Fail(usize),
    /// Puts a driven run to sleep.
    Sleep(usize, u64),
    /// Cancels a run.
    Cancel(usize),
    /// Confirms that a worker stopped.
    Stopped(usize),
    /// Lets the engine die; its runs are reaped.
    Lose,
    /// Advances the time; due actions happen when they are due.
    Tick(u64),
    /// Releases the next definition.
    Release,
}

/// The value of an event's field that keys are read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Missing,
    One,
    OnePointZero,
    TextOne,
    True,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, values) in [("definitions", &self.definitions), ("later", &self.later)] {
            write!(f, "\n{name}:")?;
            values.iter().try_for_each(|value| write!(f, "\n  {value}"))?;
        }
        write!(f, "\nops:")?;
        self.ops.iter().try_for_each(|op| write!(f, "\n  {op:?}"))
    }
}
