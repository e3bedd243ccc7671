//! Stored rows: the input and output of every decision.
//!
//! A store moves rows; it never looks inside a gate's state or a run's body. The order of
//! [`RowKey`]'s variants is the order in which rows are locked.

mod api;
mod chore;
mod def;
mod event;
mod gate;
mod list;
mod meter;
mod run;
mod session;
mod stream;
mod trail;

use std::sync::Arc;

pub use api::{ApiKey, Reply};
pub use chore::{Bulk, BulkCounts, BulkFilter, BulkWhat, Chore, LiveState, WaitPlace, Work};
pub use def::{Def, Engine, Epoch, LogHead, Occurred, Schedule};
pub use event::{Event, Item, Kind, Receipt, Signal, WaitPath, WaitRow};
pub use gate::{Claim, Class, Fold, Gate, GateKey, GateState, Hold, Order, Part, Scope, Slots};
pub use list::{Row, RowKey, RowKind};
pub use meter::{BatchCosts, Costs, Meter, Meters, Turn, Turns};
pub use run::{
    Begun, Chunk, Ended, Ending, Parent, Phase, Place, PlannedGate, Progress, Purpose, Rank, Run,
    RunError, Source, Span, Step, StepKind, Wait, WaitOn,
};
pub use session::{Session, SessionOp, SessionRef, Staged};
pub use stream::{Stream, StreamEventRow, StreamSnapshot, Subscription};
pub use trail::{At, Awaited, Mark, Trail};

/// Name of a tenant.
pub type Workspace = Arc<str>;

/// Id of one engine process: new at every start, so that a restarted process is never mistaken for
/// its predecessor.
pub type EngineId = u128;
