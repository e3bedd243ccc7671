//! The one trait that stores implement.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use tidegate_core::{
    catalog::{Catalog, CatalogError},
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tokio::sync::watch;

use crate::Database;

/// Asks for the changes to make, given what was read. Pure, and may be asked again.
pub type Decide = Box<dyn FnMut(Snapshot) -> Decision + Send>;

/// What is done with each row of a walk.
pub type Visit = Box<dyn FnMut(&Row) + Send>;

/// What a decision answers.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a round of a transaction")]
pub enum Decision {
    /// Make these changes, at most one for a row, and commit.
    Apply(Vec<Change>),
    /// Read these too and ask again. The snapshot comes back, so that a store may read on in the
    /// same transaction where the order of locks allows it.
    Need(ReadSet, Snapshot),
}

/// How often a decision may ask for more before its transaction is given up.
pub const MAX_ROUNDS: usize = 16;

/// Keeps rows, and lets decisions change them in transactions.
///
/// No implementation knows a control by name: it moves rows and looks into none.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Reads under lock, asks `decide`, applies its answer: one transaction, durable when this
    /// returns `Ok`. After an error nothing was changed, except where the error says so.
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError>;

    /// Reads without taking any lock. What it finds may have changed already.
    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError>;

    /// Renews an engine's lease apart from all other work; the first beat creates it and writes
    /// down its length, by which others judge the engine.
    /// `false` means that the engine was declared dead and must stop.
    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError>;

    /// Definitions as last seen by this process: good for guessing what to read, no more.
    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>>;

    /// Changes whenever somebody called [`Store::wake`], here or in another process. May be late
    /// or lost between processes: polling alone must be enough.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// Whether wake-ups of other processes come here at all. Where they do not, only polling tells
    /// what others have done.
    fn hears(&self) -> bool {
        true
    }

    /// Tells everyone who shares the store that there may be work. Never blocks.
    fn wake(&self);

    /// Every row there is, in key order: for tests, `doctor` and backups.
    async fn dump(&self) -> Result<Vec<Row>, StoreError>;

    /// Shows every row there is, in key order, all as of one moment, and keeps none of them:
    /// there may be more than fit. After an error some rows were shown.
    async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        for row in self.dump().await? {
            visit(&row);
        }
        Ok(())
    }

    /// The database behind it, for steps that write to it in the transaction of their record.
    fn database(&self) -> Database<'_> {
        Database::None
    }
}

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or refuses to work; trying again may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Others were in the way until the time was up; nothing was changed.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// There is no room for more; it goes on when there is.
    #[error("the store is full: {0}")]
    Full(String),
    /// The database may be read and not be written; it goes on when it may.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// A file of the store was removed or replaced while the store is open; nothing was changed,
    /// and nothing will be.
    #[error("the store's file is gone: {0}")]
    FileGone(String),
    /// A row cannot be written or does not have the form that it should have.
    #[error("the store refused a row: {0}")]
    Data(String),
    /// A row that is there cannot be read.
    #[error("the store holds a row that cannot be read: {0}")]
    Corrupt(String),
    /// The connection was lost at the commit, and its outcome could not be found out.
    #[error("it is not known whether the commit took place: {0}")]
    Unknown(String),
    /// The file has an owner already.
    #[error("{path} is in use by {holder}")]
    InUse {
        /// The file.
        path: String,
        /// By whom, and what to do about it.
        holder: String,
    },
    /// The schema is of a newer Tidegate, or has been changed by hand.
    #[error("{0}")]
    Schema(String),
    /// The address or an option does not make sense.
    #[error("{0}")]
    Config(String),
    /// A decision kept asking for more rows.
    #[error("a decision asked for more rows {MAX_ROUNDS} times in a row")]
    TooManyRounds,
    /// A stored definition cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}
