//! Stored rows: the input and output of every decision.
//!
//! A store reads and writes rows; it never interprets the state of a gate or the body of a run. The
//! order of the variants of [`RowKey`] is the order in which rows are locked.

mod adapted;
mod api;
mod audit;
mod chore;
mod closed;
mod def;
mod ending;
mod event;
mod gate;
mod given;
mod hex;
mod list;
mod meter;
mod planned;
mod run;
mod session;
mod share;
mod stream;
mod trail;
mod wait;

use std::sync::Arc;

pub use adapted::{Adapted, Calls, RowNumbers};
pub use api::{ApiKey, Reply};
pub use audit::Audit;
pub use chore::{
    Bulk, BulkCounts, BulkFilter, BulkWhat, Chore, Deferred, DeferredRequest, LanePlace, LiveState,
    WaitPlace, Work,
};
pub use closed::Closed;
pub use def::{Def, Engine, Epoch, LogHead, Occurred, Schedule};
pub use ending::Ending;
pub use event::{Delivery, DeliveryEnd, Event, Item, Kind, Receipt, Signal, WaitPath, WaitRow};
pub use gate::{
    Claim, Class, FairGate, Fold, Gate, GateKey, GateState, Hold, Order, Part, Scope, Slots,
};
pub(crate) use given::Number;
pub use given::{Given, GivenLimit, Numbers};
pub use list::{Row, RowKey, RowKind};
pub use meter::{BatchCosts, Costs, Meter, Meters, Turn, Turns};
pub use planned::PlannedGate;
pub use run::{
    Begun, Chunk, Ended, Parent, Phase, Place, Progress, Purpose, Rank, Run, RunError, Source,
    Span, Step, StepKind,
};
pub use session::{Session, SessionOp, SessionRef, Staged};
pub use share::{Share, ShareOf, Tag};
pub use stream::{Stream, StreamEventRow, StreamSnapshot, Subscription};
pub use trail::{At, Awaited, Mark, Trail};
pub use wait::{Listener, ListenerEffect, Wait, WaitFilter, WaitOn};

/// Name of a workspace, which separates tenants.
pub type Workspace = Arc<str>;

/// Id of one engine process. It is new at every start, so that a restarted process has another id
/// than before.
pub type EngineId = u128;
