//! The `Store` trait, which every store implements.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use tidegate_core::{
    catalog::{Catalog, CatalogError},
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tokio::sync::watch;

use crate::Database;

/// Decision function: returns the changes to make, given the rows read. Pure; a store may call it
/// more than once.
pub type Decide = Box<dyn FnMut(Snapshot) -> Decision + Send>;

/// Callback for each row of a walk.
pub type Visit = Box<dyn FnMut(&Row) + Send>;

/// Result of a decision.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a round of a transaction")]
pub enum Decision {
    /// Make these changes, at most one per row, and commit.
    Apply(Vec<Change>),
    /// Read these rows too, then decide again. The snapshot is returned, so that a store may
    /// continue reading in the same transaction where the lock order allows it.
    Need(ReadSet, Snapshot),
}

/// Maximum rounds of reading in one transaction. A decision that needs more fails with
/// [`StoreError::TooManyRounds`].
pub const MAX_ROUNDS: usize = 16;

/// Row storage; decisions change rows in transactions.
///
/// No implementation knows a control by name: a store moves rows without interpreting them.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Reads under lock, calls `decide` and applies its changes: one transaction, durable when this
    /// returns `Ok`. After an error nothing was changed, except where the error says so.
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError>;

    /// Reads without taking any lock. The rows may be out of date by the time this returns.
    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError>;

    /// Renews an engine's lease, independently of all other work. The first heartbeat creates the
    /// lease and records its length, which other engines use to detect a dead engine. `false` means
    /// that the engine was declared dead and must stop.
    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError>;

    /// Definitions as last seen by this process. Only good for guessing what to read.
    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>>;

    /// Watch channel that changes on every call of [`Store::wake`], in this or another process. A
    /// wake-up from another process may be late or lost: polling alone must be enough.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// Whether this store receives the wake-ups of other processes. If not, changes made by other
    /// processes are found by polling only.
    fn hears(&self) -> bool {
        true
    }

    /// Notifies all processes that share the store that there may be work. Never blocks.
    fn wake(&self);

    /// Returns all rows, in key order: for tests, `doctor` and backups.
    async fn dump(&self) -> Result<Vec<Row>, StoreError>;

    /// Visits all rows in key order, from one consistent snapshot, without keeping them: there may
    /// be more than fit in memory. After an error some rows have been visited.
    async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        for row in self.dump().await? {
            visit(&row);
        }
        Ok(())
    }

    /// The database behind the store, for steps that write to it in the transaction of their
    /// record.
    fn database(&self) -> Database<'_> {
        Database::None
    }
}

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or refuses to work; a retry may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Other transactions held the locks until the timeout; nothing was changed.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// Out of space; writes work again once there is space.
    #[error("the store is full: {0}")]
    Full(String),
    /// The database can be read but not written; writes work again once it is writable.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// A file of the store was removed or replaced while the store is open. Nothing was changed,
    /// and no later write will succeed.
    #[error("the store's file is gone: {0}")]
    FileGone(String),
    /// A row cannot be written, or does not have the required form.
    #[error("the store refused a row: {0}")]
    Data(String),
    /// A stored row cannot be read.
    #[error("the store holds a row that cannot be read: {0}")]
    Corrupt(String),
    /// The connection was lost during the commit, and its outcome could not be determined.
    #[error("it is not known whether the commit took place: {0}")]
    Unknown(String),
    /// The file is already open, in another process or in this one.
    #[error("{path} is in use by {holder}")]
    InUse {
        /// Path of the file.
        path: String,
        /// Process that has the file open, and what to do about it.
        holder: String,
    },
    /// The schema belongs to a newer Tidegate, or was changed by hand.
    #[error("{0}")]
    Schema(String),
    /// The address or an option is invalid.
    #[error("{0}")]
    Config(String),
    /// A decision asked for more rows too many times.
    #[error("a decision asked for more rows {MAX_ROUNDS} times in a row")]
    TooManyRounds,
    /// A stored definition cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl StoreError {
    /// Returns the stable code: a row of the reference, and the same as over HTTP.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::Busy(_) => "store_unavailable",
            Self::Full(_) => "store_full",
            Self::ReadOnly(_) => "store_read_only",
            Self::FileGone(_) => "store_file_gone",
            Self::Data(_) | Self::TooManyRounds => "too_much_at_once",
            Self::Unknown(_) => "outcome_unknown",
            Self::Corrupt(_)
            | Self::InUse { .. }
            | Self::Schema(_)
            | Self::Config(_)
            | Self::Catalog(_) => "store_error",
        }
    }
}
