//! The list of all kinds of rows, each with its key and whether it is locked.
//!
//! [`Row`], [`RowKey`] and [`RowKind`] are generated from this list. Its order is the order in
//! which rows are locked. `crates/tidegate-store/src/schema.rs` has a table for each kind.

use super::{
    ApiKey, Audit, Chore, Chunk, Def, Ended, Engine, EngineId, Epoch, Event, Gate, GateKey, Item,
    LogHead, Receipt, Reply, Run, Schedule, Session, Signal, Staged, Step, Stream, StreamEventRow,
    StreamSnapshot, Subscription, WaitPath, WaitRow, Workspace,
};
use crate::id::Seq;

/// Generates the three enums from entries of this form:
///
/// ```text
/// /// Meaning of the row.
/// Kind(Struct), or Kind(Struct boxed) for a large one
///     /// Parts of the key, and why the row is at this place in the lock order.
///     locked, or unlocked, (field of the struct: type in the key, ...);
/// ```
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $kind:ident($row:ident $($boxed:ident)?)
            $(#[$key_doc:meta])*
            $lock:ident ($($($field:ident).+: $type:ty),+);
    )+) => {
        /// Any row.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Row {
            $($(#[$doc])* $kind(rows!(@content $row $($boxed)?)),)+
        }

        /// Primary key of a row.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RowKey {
            $($(#[$key_doc])* $kind($($type),+),)+
        }

        /// Kind of a row, in lock order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RowKind {
            $($(#[$doc])* $kind,)+
        }

        impl Row {
            /// Returns the kind of the row.
            pub fn kind(&self) -> RowKind {
                match self {
                    $(Self::$kind(_) => RowKind::$kind,)+
                }
            }

            /// Returns the row's primary key.
            pub fn key(&self) -> RowKey {
                match self {
                    $(Self::$kind(row) => RowKey::$kind($(Clone::clone(&row.$($field).+)),+),)+
                }
            }
        }

        impl RowKey {
            /// Returns the kind of the row.
            pub fn kind(&self) -> RowKind {
                match self {
                    $(Self::$kind(..) => RowKind::$kind,)+
                }
            }
        }

        impl RowKind {
            /// All kinds, in lock order.
            pub const ALL: [Self; [$(Self::$kind),+].len()] = [$(Self::$kind),+];

            const LOCKED: [bool; Self::ALL.len()] = [$(rows!(@$lock)),+];
        }

        $(impl From<$row> for Row {
            fn from(row: $row) -> Self {
                Self::$kind(row.into())
            }
        })+
    };
    (@content $row:ident) => { $row };
    (@content $row:ident boxed) => { Box<$row> };
    (@locked) => { true };
    (@unlocked) => { false };
}

rows! {
    /// The stored answer of a request with an idempotency key.
    Reply(Reply)
        /// Key: workspace and id. First, because it decides whether other rows are read.
        locked (ws: Workspace, id: String);
    /// An API key.
    ApiKey(ApiKey)
        /// Key: id.
        locked (id: String);
    /// A chore: work that is done in chunks in later transactions.
    Chore(Chore)
        /// Key: number. Early, because only while a chore is processed is it known which
        /// other rows it changes.
        locked (id.seq: Seq);
    /// A schedule, with its next planned occurrence.
    Schedule(Schedule)
        /// Key: workspace, app, workflow and id.
        locked (ws: Workspace, app: String, workflow: String, id: String);
    /// A gate: the state of a control for one key.
    Gate(Gate)
        /// Key: its key.
        locked (key: GateKey);
    /// A run that has not ended.
    Run(Run boxed)
        /// Key: the run's number.
        locked (id.seq: Seq);
    /// The state of a session.
    Session(Session)
        /// Key: workspace, app, flow and session. After runs: a report locks its run first,
        /// because the run says which sessions its end will write. A session does not refer to
        /// runs.
        locked (ws: Workspace, app: String, flow: String, id: String);
    /// An engine: a process that drives runs.
    Engine(Engine)
        /// Key: the engine's id.
        locked (id: EngineId);
    /// A stream's head.
    Stream(Stream)
        /// Key: workspace and name.
        locked (ws: Workspace, name: String);
    /// A subscription: the cursor of a reaction in one stream.
    Subscription(Subscription)
        /// Key: workspace, reaction and stream.
        locked (ws: Workspace, reaction: String, stream: String);
    /// The last global position of a workspace.
    LogHead(LogHead)
        /// Key: workspace.
        locked (ws: Workspace);
    /// A counter that grows with every change of a workspace's definitions.
    Epoch(Epoch)
        /// Key: workspace.
        unlocked (ws: Workspace);
    /// One version of a definition.
    Def(Def)
        /// Key: the definition's number (its lane).
        unlocked (lane: Seq);
    /// An event, request or other input.
    Event(Event)
        /// Key: number.
        unlocked (id.seq: Seq);
    /// A run that has ended.
    Ended(Ended)
        /// Key: the run's number.
        unlocked (id.seq: Seq);
    /// A recorded step.
    Step(Step)
        /// Key: run and step id.
        unlocked (run: Seq, id: String);
    /// An event in a batch.
    Item(Item)
        /// Key: run and position.
        unlocked (run: Seq, n: u32);
    /// A run that waits for an event.
    Wait(WaitRow)
        /// Key: workspace, event name, path, value, run and step.
        unlocked (
            ws: Workspace, name: String, path: String, value: Vec<u8>, run: Seq, step: String
        );
    /// A path on which some wait for events of this name matches.
    WaitPath(WaitPath)
        /// Key: workspace, event name and path.
        unlocked (ws: Workspace, name: String, path: String);
    /// A signal that its run has not received yet.
    Signal(Signal)
        /// Key: run, name and number.
        unlocked (run: Seq, name: String, seq: Seq);
    /// A receipt: a verdict other than a plain start.
    Receipt(Receipt)
        /// Key: number.
        unlocked (seq: Seq);
    /// An event of a stream.
    StreamEventRow(StreamEventRow)
        /// Key: the stream's number and the event's version, which is its position in the stream.
        unlocked (stream: Seq, version: i64);
    /// A chunk of output that a run has emitted.
    Chunk(Chunk)
        /// Key: run, step, attempt and position in the attempt.
        unlocked (run: Seq, step: String, attempt: u32, n: u32);
    /// A session operation that a run has staged.
    Staged(Staged boxed)
        /// Key: run and position.
        unlocked (run: Seq, n: u32);
    /// A snapshot: the state of a stream at a version.
    StreamSnapshot(StreamSnapshot)
        /// Key: the stream's number and the kind of the snapshot.
        unlocked (stream: Seq, kind: String);
    /// A row of the audit log.
    Audit(Audit)
        /// Key: number.
        unlocked (seq: Seq);
}

impl RowKind {
    /// Whether a transaction locks rows of this kind before it reads them.
    ///
    /// Rows of all other kinds are written once, or only under the lock of the row that they belong
    /// to.
    pub fn is_locked(self) -> bool {
        Self::LOCKED[self as usize]
    }
}

impl RowKey {
    /// Whether a transaction locks this row before it reads it.
    pub fn is_locked(&self) -> bool {
        self.kind().is_locked()
    }
}

/// Access to the struct of a row; `None` for a row of another kind.
impl Row {
    /// Returns the gate.
    pub fn as_gate(&self) -> Option<&Gate> {
        if let Self::Gate(row) = self { Some(row) } else { None }
    }

    /// Returns the batch item.
    pub fn as_item(&self) -> Option<&Item> {
        if let Self::Item(row) = self { Some(row) } else { None }
    }

    /// Returns the live run.
    pub fn as_run(&self) -> Option<&Run> {
        if let Self::Run(row) = self { Some(row) } else { None }
    }
}
