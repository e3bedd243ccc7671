//! Stored rows: the input and output of every decision.
//!
//! A store moves rows; it never looks inside a gate's state or a run's body. The order of
//! [`RowKey`]'s variants is the order in which rows are locked.

mod api;
mod chore;
mod def;
mod event;
mod gate;
mod into;
mod run;
mod session;
mod stream;
mod trail;

use std::sync::Arc;

pub use api::{ApiKey, Reply};
pub use chore::{Bulk, BulkCounts, BulkFilter, BulkWhat, Chore, LiveState, WaitPlace, Work};
pub use def::{Def, Engine, Epoch, LogHead, Occurred, Schedule};
pub use event::{Event, Item, Kind, Receipt, Signal, WaitPath, WaitRow};
pub use gate::{
    Claim, Class, Fold, Gate, GateKey, GateState, Hold, Meter, Part, Scope, Slots, Turns,
};
pub use run::{
    Begun, Chunk, Ended, Ending, Parent, Phase, Place, PlannedGate, Progress, Purpose, Rank, Run,
    RunError, Source, Span, Step, StepKind, Wait, WaitOn,
};
pub use session::{Session, SessionOp, SessionRef, Staged};
pub use stream::{Stream, StreamEventRow, StreamSnapshot, Subscription};
pub use trail::{At, Awaited, Mark, Trail};

use crate::id::Seq;

/// Name of a tenant.
pub type Workspace = Arc<str>;

/// Id of one engine process: new at every start, so that a restarted process is never mistaken for
/// its predecessor.
pub type EngineId = u128;

/// Any row.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// The stored answer of a request with an idempotency key.
    Reply(Reply),
    /// An API key.
    ApiKey(ApiKey),
    /// Work left for later transactions, done in chunks.
    Chore(Chore),
    /// A schedule, with its next planned occurrence.
    Schedule(Schedule),
    /// The state of a control for one key.
    Gate(Gate),
    /// A run that has not ended.
    Run(Box<Run>),
    /// The state of a session.
    Session(Session),
    /// A process that drives runs.
    Engine(Engine),
    /// A stream's head.
    Stream(Stream),
    /// A reaction's cursor in one stream.
    Subscription(Subscription),
    /// The last global position of a workspace.
    LogHead(LogHead),
    /// A counter that grows with every change of a workspace's definitions.
    Epoch(Epoch),
    /// One version of a definition.
    Def(Def),
    /// An event, request or other input.
    Event(Event),
    /// A run that has ended.
    Ended(Ended),
    /// A recorded step.
    Step(Step),
    /// An event in a batch.
    Item(Item),
    /// A run that waits for an event.
    Wait(WaitRow),
    /// A path that some wait for an event of this name matches on.
    WaitPath(WaitPath),
    /// A signal that has not been taken yet.
    Signal(Signal),
    /// A verdict other than a plain start.
    Receipt(Receipt),
    /// An event of a stream.
    StreamEventRow(StreamEventRow),
    /// A chunk of output that a run has emitted.
    Chunk(Chunk),
    /// A session operation that a run has staged.
    Staged(Box<Staged>),
    /// The folded state of a stream at a version.
    StreamSnapshot(StreamSnapshot),
}

/// Primary key of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// By workspace and id; locked. First, because it decides whether any other row is read.
    Reply(Workspace, String),
    /// By id; locked.
    ApiKey(String),
    /// By number; locked. Early, because the rows that a chore touches are only found while it is
    /// done.
    Chore(Seq),
    /// By workspace, app, workflow and id; locked.
    Schedule(Workspace, String, String, String),
    /// By its key; locked.
    Gate(GateKey),
    /// By its run's number; locked.
    Run(Seq),
    /// By workspace, app, flow and session; locked. After runs: a report locks its run first and
    /// learns from it which sessions its end will write. Nothing in a session leads to a run.
    Session(Workspace, String, String, String),
    /// By the engine's id; locked.
    Engine(EngineId),
    /// By workspace and name; locked.
    Stream(Workspace, String),
    /// By workspace, reaction and stream; locked.
    Subscription(Workspace, String, String),
    /// By workspace; locked.
    LogHead(Workspace),
    /// By workspace.
    Epoch(Workspace),
    /// By the definition's number (its lane).
    Def(Seq),
    /// By number.
    Event(Seq),
    /// By its run's number.
    Ended(Seq),
    /// By run and step id.
    Step(Seq, String),
    /// By run and position.
    Item(Seq, u32),
    /// By workspace, event name, path, value, run and step.
    Wait(Workspace, String, String, Vec<u8>, Seq, String),
    /// By workspace, event name and path.
    WaitPath(Workspace, String, String),
    /// By run, name and number.
    Signal(Seq, String, Seq),
    /// By number.
    Receipt(Seq),
    /// By the stream's number and the version.
    StreamEventRow(Seq, i64),
    /// By run, step, attempt and position in the attempt.
    Chunk(Seq, String, u32, u32),
    /// By run and position.
    Staged(Seq, u32),
    /// By the stream's number and the kind of the fold.
    StreamSnapshot(Seq, String),
}

impl RowKey {
    /// Whether a transaction locks this row before it reads it.
    ///
    /// All others are written once, or only under the lock of a row that owns them.
    pub fn is_locked(&self) -> bool {
        match self {
            Self::Reply(..)
            | Self::ApiKey(_)
            | Self::Chore(_)
            | Self::Schedule(..)
            | Self::Gate(_)
            | Self::Run(_)
            | Self::Session(..)
            | Self::Engine(_)
            | Self::Stream(..)
            | Self::Subscription(..)
            | Self::LogHead(_) => true,
            Self::Epoch(_)
            | Self::Def(_)
            | Self::Event(_)
            | Self::Ended(_)
            | Self::Step(..)
            | Self::Item(..)
            | Self::Wait(..)
            | Self::WaitPath(..)
            | Self::Signal(..)
            | Self::Receipt(_)
            | Self::StreamEventRow(..)
            | Self::Chunk(..)
            | Self::Staged(..)
            | Self::StreamSnapshot(..) => false,
        }
    }
}

impl Row {
    /// Returns the row's primary key.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Reply(row) => RowKey::Reply(row.ws.clone(), row.id.clone()),
            Self::ApiKey(row) => RowKey::ApiKey(row.id.clone()),
            Self::Chore(row) => RowKey::Chore(row.id.seq),
            Self::Schedule(row) => RowKey::Schedule(
                row.ws.clone(),
                row.app.clone(),
                row.workflow.clone(),
                row.id.clone(),
            ),
            Self::Gate(row) => RowKey::Gate(row.key.clone()),
            Self::Run(row) => RowKey::Run(row.id.seq),
            Self::Session(row) => {
                RowKey::Session(row.ws.clone(), row.app.clone(), row.flow.clone(), row.id.clone())
            }
            Self::Engine(row) => RowKey::Engine(row.id),
            Self::Stream(row) => RowKey::Stream(row.ws.clone(), row.name.clone()),
            Self::Subscription(row) => {
                RowKey::Subscription(row.ws.clone(), row.reaction.clone(), row.stream.clone())
            }
            Self::LogHead(row) => RowKey::LogHead(row.ws.clone()),
            Self::Epoch(row) => RowKey::Epoch(row.ws.clone()),
            Self::Def(row) => RowKey::Def(row.lane),
            Self::Event(row) => RowKey::Event(row.id.seq),
            Self::Ended(row) => RowKey::Ended(row.id.seq),
            Self::Step(row) => RowKey::Step(row.run, row.id.clone()),
            Self::Item(row) => RowKey::Item(row.run, row.n),
            Self::Wait(row) => RowKey::Wait(
                row.ws.clone(),
                row.name.clone(),
                row.path.clone(),
                row.value.clone(),
                row.run,
                row.step.clone(),
            ),
            Self::WaitPath(row) => {
                RowKey::WaitPath(row.ws.clone(), row.name.clone(), row.path.clone())
            }
            Self::Signal(row) => RowKey::Signal(row.run, row.name.clone(), row.seq),
            Self::Receipt(row) => RowKey::Receipt(row.seq),
            Self::StreamEventRow(row) => RowKey::StreamEventRow(row.stream, row.version),
            Self::Chunk(row) => RowKey::Chunk(row.run, row.step.clone(), row.attempt, row.n),
            Self::Staged(row) => RowKey::Staged(row.run, row.n),
            Self::StreamSnapshot(row) => RowKey::StreamSnapshot(row.stream, row.kind.clone()),
        }
    }
}
