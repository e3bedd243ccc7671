//! Conversion of rows to cells: the tables and columns that both SQL stores share.
//!
//! Times are integer microseconds, numbers are 64 bits wide, a salt is stored as the same bits with
//! a sign, an engine's id is 32 hex digits, payloads are text. Free text (a blocked reason, a
//! receipt's key) is stored as a JSON string, because PostgreSQL's text cannot hold a NUL. Text
//! must compare by bytes (`collate "C"`, `collate binary`): scans promise Rust's order.

mod read;
mod write;

use tidegate_core::row::{EngineId, Row, RowKey};

pub use read::row;
pub use write::{cells, key_cells};

use crate::StoreError;

/// Table: one for each kind of row, in the order of [`RowKey`], which is the lock order. Replies
/// are the exception: PostgreSQL locks them last (`postgres/reading.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Rows of [`Row::Reply`].
    Reply,
    /// Rows of [`Row::ApiKey`].
    ApiKey,
    /// Rows of [`Row::Chore`].
    Chore,
    /// Rows of [`Row::Schedule`].
    Schedule,
    /// Rows of [`Row::Gate`].
    Gate,
    /// Rows of [`Row::Run`].
    Run,
    /// Rows of [`Row::Session`].
    Session,
    /// Rows of [`Row::Engine`].
    Engine,
    /// Rows of [`Row::Stream`].
    Stream,
    /// Rows of [`Row::Subscription`].
    Subscription,
    /// Rows of [`Row::LogHead`].
    LogHead,
    /// Rows of [`Row::Epoch`].
    Epoch,
    /// Rows of [`Row::Def`].
    Def,
    /// Rows of [`Row::Event`].
    Event,
    /// Rows of [`Row::Ended`].
    Ended,
    /// Rows of [`Row::Step`].
    Step,
    /// Rows of [`Row::Item`].
    Item,
    /// Rows of [`Row::Wait`].
    Wait,
    /// Rows of [`Row::WaitPath`].
    WaitPath,
    /// Rows of [`Row::Signal`].
    Signal,
    /// Rows of [`Row::Receipt`].
    Receipt,
    /// Rows of [`Row::StreamEventRow`].
    Log,
    /// Rows of [`Row::Chunk`].
    Chunk,
    /// Rows of [`Row::Staged`].
    Staged,
    /// Rows of [`Row::StreamSnapshot`].
    Snapshot,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed 64-bit integer.
    Int,
    /// UTF-8 without NUL.
    Text,
    /// Bytes.
    Bytes,
}

/// Value of one column of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Value of an [`ColumnType::Int`] column.
    Int(Option<i64>),
    /// Value of a [`ColumnType::Text`] column.
    Text(Option<String>),
    /// Value of a [`ColumnType::Bytes`] column.
    Bytes(Option<Vec<u8>>),
}

/// Name and type of a column.
pub type Column = (&'static str, ColumnType);

impl Table {
    /// All tables, in lock order.
    pub const ALL: [Self; 25] = [
        Self::Reply,
        Self::ApiKey,
        Self::Chore,
        Self::Schedule,
        Self::Gate,
        Self::Run,
        Self::Session,
        Self::Engine,
        Self::Stream,
        Self::Subscription,
        Self::LogHead,
        Self::Epoch,
        Self::Def,
        Self::Event,
        Self::Ended,
        Self::Step,
        Self::Item,
        Self::Wait,
        Self::WaitPath,
        Self::Signal,
        Self::Receipt,
        Self::Log,
        Self::Chunk,
        Self::Staged,
        Self::Snapshot,
    ];

    /// Returns the table that a key belongs to.
    pub fn of(key: &RowKey) -> Self {
        match key {
            RowKey::Reply(..) => Self::Reply,
            RowKey::ApiKey(_) => Self::ApiKey,
            RowKey::Chore(_) => Self::Chore,
            RowKey::Schedule(..) => Self::Schedule,
            RowKey::Gate(_) => Self::Gate,
            RowKey::Run(_) => Self::Run,
            RowKey::Session(..) => Self::Session,
            RowKey::Engine(_) => Self::Engine,
            RowKey::Stream(..) => Self::Stream,
            RowKey::Subscription(..) => Self::Subscription,
            RowKey::LogHead(_) => Self::LogHead,
            RowKey::Epoch(_) => Self::Epoch,
            RowKey::Def(_) => Self::Def,
            RowKey::Event(_) => Self::Event,
            RowKey::Ended(_) => Self::Ended,
            RowKey::Step(..) => Self::Step,
            RowKey::Item(..) => Self::Item,
            RowKey::Wait(..) => Self::Wait,
            RowKey::WaitPath(..) => Self::WaitPath,
            RowKey::Signal(..) => Self::Signal,
            RowKey::Receipt(_) => Self::Receipt,
            RowKey::StreamEventRow(..) => Self::Log,
            RowKey::Chunk(..) => Self::Chunk,
            RowKey::Staged(..) => Self::Staged,
            RowKey::StreamSnapshot(..) => Self::Snapshot,
        }
    }

    /// Returns the table that a row belongs to.
    pub fn of_row(row: &Row) -> Self {
        match row {
            Row::Reply(_) => Self::Reply,
            Row::ApiKey(_) => Self::ApiKey,
            Row::Chore(_) => Self::Chore,
            Row::Schedule(_) => Self::Schedule,
            Row::Gate(_) => Self::Gate,
            Row::Run(_) => Self::Run,
            Row::Session(_) => Self::Session,
            Row::Engine(_) => Self::Engine,
            Row::Stream(_) => Self::Stream,
            Row::Subscription(_) => Self::Subscription,
            Row::LogHead(_) => Self::LogHead,
            Row::Epoch(_) => Self::Epoch,
            Row::Def(_) => Self::Def,
            Row::Event(_) => Self::Event,
            Row::Ended(_) => Self::Ended,
            Row::Step(_) => Self::Step,
            Row::Item(_) => Self::Item,
            Row::Wait(_) => Self::Wait,
            Row::WaitPath(_) => Self::WaitPath,
            Row::Signal(_) => Self::Signal,
            Row::Receipt(_) => Self::Receipt,
            Row::StreamEventRow(_) => Self::Log,
            Row::Chunk(_) => Self::Chunk,
            Row::Staged(_) => Self::Staged,
            Row::StreamSnapshot(_) => Self::Snapshot,
        }
    }

    /// Returns the table's name in both dialects, which is also the prefix of its statements'
    /// names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::ApiKey => "api_key",
            Self::Chore => "chore",
            Self::Schedule => "schedule",
            Self::Gate => "gate",
            Self::Run => "run",
            Self::Session => "session",
            Self::Engine => "engine",
            Self::Stream => "stream",
            Self::Subscription => "sub",
            Self::LogHead => "log_head",
            Self::Epoch => "epoch",
            Self::Def => "def",
            Self::Event => "event",
            Self::Ended => "ended",
            Self::Step => "step",
            Self::Item => "item",
            Self::Wait => "wait",
            Self::WaitPath => "wait_path",
            Self::Signal => "signal",
            Self::Receipt => "receipt",
            Self::Log => "log",
            Self::Chunk => "chunk",
            Self::Staged => "staged",
            Self::Snapshot => "snapshot",
        }
    }

    /// Returns the columns in order, those of the primary key first.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Reply => columns::REPLY,
            Self::ApiKey => columns::API_KEY,
            Self::Chore => columns::CHORE,
            Self::Schedule => columns::SCHEDULE,
            Self::Gate => columns::GATE,
            Self::Run => columns::RUN,
            Self::Session => columns::SESSION,
            Self::Engine => columns::ENGINE,
            Self::Stream => columns::STREAM,
            Self::Subscription => columns::SUB,
            Self::LogHead => columns::LOG_HEAD,
            Self::Epoch => columns::EPOCH,
            Self::Def => columns::DEF,
            Self::Event => columns::EVENT,
            Self::Ended => columns::ENDED,
            Self::Step => columns::STEP,
            Self::Item => columns::ITEM,
            Self::Wait => columns::WAIT,
            Self::WaitPath => columns::WAIT_PATH,
            Self::Signal => columns::SIGNAL,
            Self::Receipt => columns::RECEIPT,
            Self::Log => columns::LOG,
            Self::Chunk => columns::CHUNK,
            Self::Staged => columns::STAGED,
            Self::Snapshot => columns::SNAPSHOT,
        }
    }

    /// Returns the number of columns of the primary key.
    pub fn key_len(self) -> usize {
        match self {
            Self::ApiKey
            | Self::Chore
            | Self::Gate
            | Self::Run
            | Self::Engine
            | Self::LogHead
            | Self::Epoch
            | Self::Def
            | Self::Event
            | Self::Ended
            | Self::Receipt => 1,
            Self::Reply
            | Self::Stream
            | Self::Step
            | Self::Item
            | Self::Log
            | Self::Staged
            | Self::Snapshot => 2,
            Self::Subscription | Self::WaitPath | Self::Signal => 3,
            Self::Schedule | Self::Session | Self::Chunk => 4,
            Self::Wait => 6,
        }
    }
}

mod columns {
    use super::{
        Column,
        ColumnType::{Bytes, Int, Text},
    };

    pub(super) const REPLY: &[Column] = &[
        ("ws", Text),
        ("id", Text),
        ("seq", Int),
        ("at", Int),
        ("hash", Text),
        ("answer", Text),
        ("response", Text),
    ];
    pub(super) const API_KEY: &[Column] = &[
        ("id", Text),
        ("ws", Text),
        ("name", Text),
        ("hash", Text),
        ("read_only", Int),
        ("made_at", Int),
        ("expires_at", Int),
        ("used_at", Int),
        ("revoked_at", Int),
    ];
    pub(super) const CHORE: &[Column] =
        &[("seq", Int), ("salt", Int), ("ws", Text), ("topic", Text), ("due", Int), ("work", Text)];
    pub(super) const SCHEDULE: &[Column] = &[
        ("ws", Text),
        ("app", Text),
        ("workflow", Text),
        ("id", Text),
        ("next", Int),
        ("last", Int),
        ("outcome", Text),
        ("paused_at", Int),
    ];
    pub(super) const GATE: &[Column] =
        &[("key", Bytes), ("id", Int), ("at", Int), ("due", Int), ("state", Text), ("event", Int)];
    /// All columns but `body` exist for the indexes: a run is read from its body.
    pub(super) const RUN: &[Column] = &[
        ("seq", Int),
        ("salt", Int),
        ("ws", Text),
        ("lane", Int),
        ("ready", Int),
        ("line", Int),
        ("tier", Int),
        ("order_at", Int),
        ("order_seq", Int),
        ("due", Int),
        ("owner", Text),
        ("fence", Int),
        ("body", Text),
        ("event_seq", Int),
        ("past", Int),
        ("parked", Text),
    ];
    pub(super) const SESSION: &[Column] = &[
        ("ws", Text),
        ("app", Text),
        ("flow", Text),
        ("id", Text),
        ("version", Int),
        ("body", Text),
    ];
    pub(super) const ENGINE: &[Column] =
        &[("id", Text), ("beat", Int), ("dead", Int), ("serves", Text), ("lease_ms", Int)];
    pub(super) const STREAM: &[Column] =
        &[("ws", Text), ("name", Text), ("id", Int), ("head", Int), ("closed", Int)];
    pub(super) const SUB: &[Column] = &[
        ("ws", Text),
        ("reaction", Text),
        ("stream", Text),
        ("work", Int),
        ("at", Int),
        ("want", Int),
        ("owner", Text),
        ("fence", Int),
        ("until", Int),
        ("due", Int),
        ("since", Int),
        ("failures", Int),
        ("claims", Int),
        ("blocked", Text),
        ("log", Int),
        ("error", Text),
    ];
    pub(super) const LOG_HEAD: &[Column] = &[("ws", Text), ("pos", Int)];
    pub(super) const EPOCH: &[Column] = &[("ws", Text), ("n", Int)];
    pub(super) const DEF: &[Column] = &[
        ("lane", Int),
        ("ws", Text),
        ("app", Text),
        ("name", Text),
        ("version", Int),
        ("body", Text),
        ("released", Int),
        ("assigned", Int),
        ("deployed", Int),
    ];
    pub(super) const EVENT: &[Column] = &[
        ("seq", Int),
        ("salt", Int),
        ("ws", Text),
        ("kind", Text),
        ("name", Text),
        ("at", Int),
        ("ts", Int),
        ("data", Text),
    ];
    pub(super) const ENDED: &[Column] = &[
        ("seq", Int),
        ("salt", Int),
        ("ws", Text),
        ("app", Text),
        ("workflow", Text),
        ("version", Int),
        ("state", Text),
        ("queued_at", Int),
        ("ended_at", Int),
        ("event_seq", Int),
        ("body", Text),
        ("lane", Int),
    ];
    pub(super) const STEP: &[Column] = &[
        ("run", Int),
        ("id", Text),
        ("kind", Text),
        ("fence", Int),
        ("at", Int),
        ("ok", Int),
        ("out", Text),
        ("seq", Int),
    ];
    pub(super) const ITEM: &[Column] =
        &[("run", Int), ("n", Int), ("event_seq", Int), ("event_salt", Int)];
    pub(super) const WAIT: &[Column] = &[
        ("ws", Text),
        ("name", Text),
        ("path", Text),
        ("value", Bytes),
        ("run", Int),
        ("step", Text),
    ];
    pub(super) const WAIT_PATH: &[Column] = &[("ws", Text), ("name", Text), ("path", Text)];
    pub(super) const SIGNAL: &[Column] =
        &[("run", Int), ("name", Text), ("seq", Int), ("data", Text)];
    pub(super) const RECEIPT: &[Column] = &[
        ("seq", Int),
        ("ws", Text),
        ("app", Text),
        ("workflow", Text),
        ("key", Text),
        ("event", Int),
        ("at", Int),
        ("verdict", Text),
    ];
    pub(super) const LOG: &[Column] = &[
        ("stream", Int),
        ("version", Int),
        ("ws", Text),
        ("pos", Int),
        ("seq", Int),
        ("salt", Int),
        ("name", Text),
        ("at", Int),
        ("data", Text),
        ("meta", Text),
    ];
    pub(super) const CHUNK: &[Column] =
        &[("run", Int), ("step", Text), ("attempt", Int), ("n", Int), ("seq", Int), ("data", Text)];
    pub(super) const STAGED: &[Column] = &[
        ("run", Int),
        ("n", Int),
        ("app", Text),
        ("flow", Text),
        ("id", Text),
        ("op", Text),
        ("version", Int),
        ("seen", Text),
    ];
    pub(super) const SNAPSHOT: &[Column] =
        &[("stream", Int), ("kind", Text), ("version", Int), ("body", Text)];
}

/// Value of `run.parked` for a run that waits for something other than a gate.
pub const WAITING: &str = "waiting";

/// Value of `run.parked` for a run that was paused by hand.
pub const PAUSED: &str = "paused";

/// Returns an engine's id as it is stored: 32 hex digits, which sort like the number.
pub fn engine_text(id: EngineId) -> String {
    format!("{id:032x}")
}

/// Returns the first key after all keys that begin with `prefix`, as the end of a range.
///
/// If every byte is 255, the end is beyond any gate's key: a gate's key begins with the length of
/// its workspace's name, and no name is 65,535 bytes long.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|byte| *byte != u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![u8::MAX; prefix.len().max(8)],
    }
}

/// Rejects text that one of the databases could not store, so that all stores reject it alike.
pub fn check(row: &Row, cells: &[Cell]) -> Result<(), StoreError> {
    let table = Table::of_row(row);
    for (cell, (column, _)) in cells.iter().zip(table.columns()) {
        if let Cell::Text(Some(text)) = cell
            && text.contains('\0')
        {
            let table = table.name();
            return Err(StoreError::Data(format!("{table}.{column} must not contain NUL").into()));
        }
    }
    Ok(())
}
