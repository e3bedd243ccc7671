//! Conversions between typed rows and [`Row`].

use super::{
    ApiKey, Chore, Chunk, Def, Ended, Engine, Epoch, Event, Gate, Item, LogHead, Receipt, Reply,
    Row, Run, Schedule, Session, Signal, Staged, Step, Stream, StreamEventRow, StreamSnapshot,
    Subscription, WaitPath, WaitRow,
};

/// Typed access; `None` for a row of another kind.
impl Row {
    /// Returns the gate.
    pub fn as_gate(&self) -> Option<&Gate> {
        if let Self::Gate(row) = self { Some(row) } else { None }
    }

    /// Returns the batch item.
    pub fn as_item(&self) -> Option<&Item> {
        if let Self::Item(row) = self { Some(row) } else { None }
    }

    /// Returns the run that has not ended.
    pub fn as_run(&self) -> Option<&Run> {
        if let Self::Run(row) = self { Some(row) } else { None }
    }
}

macro_rules! into_row {
    ($($name:ident => $variant:ident),*) => {
        $(impl From<$name> for Row {
            fn from(row: $name) -> Self {
                Self::$variant(row.into())
            }
        })*
    };
}
into_row!(
    Chore => Chore, Gate => Gate, Run => Run, Engine => Engine, Stream => Stream, Subscription => Subscription, LogHead => LogHead,
    Epoch => Epoch, Def => Def, Event => Event, Ended => Ended, Step => Step, Item => Item,
    WaitRow => Wait, WaitPath => WaitPath, Signal => Signal, Receipt => Receipt, StreamEventRow => StreamEventRow,
    Schedule => Schedule, Chunk => Chunk, Session => Session, Staged => Staged,
    StreamSnapshot => StreamSnapshot, Reply => Reply, ApiKey => ApiKey
);
