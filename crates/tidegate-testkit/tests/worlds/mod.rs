//! Random worlds: what is defined, what is done, and how the two sides are compared.

mod compare;
mod draw;

pub(crate) use compare::check;
pub(crate) use draw::case;

use serde_json::Value;

/// One world and what happens in it.
#[derive(Clone)]
pub(crate) struct Case {
    /// The definitions, registered in order; a higher version is a release.
    pub(crate) definitions: Vec<Value>,
    /// Definitions that are released on the way.
    pub(crate) later: Vec<Value>,
    /// What happens.
    pub(crate) ops: Vec<Op>,
}

/// One thing that happens. Numbers pick one of those that it can happen to.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// An event.
    Post { name: &'static str, a: Field, b: Field },
    /// A request.
    Call { action: &'static str, session: Option<&'static str>, a: Field },
    /// An event that comes after so many milliseconds in which nobody has swept.
    Late { ms: u64, name: &'static str, a: Field },
    /// So many ready runs are leased.
    Lease(u32),
    /// A driven run completes.
    Complete(usize),
    /// A driven run fails.
    Fail(usize),
    /// A driven run sleeps.
    Sleep(usize, u64),
    /// A run is cancelled.
    Cancel(usize),
    /// A worker confirms that it stopped.
    Stopped(usize),
    /// The engine dies and its runs are taken from it.
    Lose,
    /// Time passes; what is due happens when it is due.
    Tick(u64),
    /// The next definition is released.
    Release,
}

/// What an event has in a field that keys are read from.
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
