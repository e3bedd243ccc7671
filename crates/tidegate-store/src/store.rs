//! The `Store` trait, which every store implements.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    reads::{Change, ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tokio::sync::watch;

use crate::{Database, StoreError};

/// Decision function: returns the changes to make, for the rows that were read. It must be pure,
/// because a store may call it more than once.
pub type Decide = Box<dyn FnMut(Snapshot) -> Decision + Send>;

/// Callback for each row of a walk.
pub type Visit = Box<dyn FnMut(&Row) + Send>;

/// Result of a decision.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "only one exists per round of a transaction")]
pub enum Decision {
    /// Make these changes, at most one per row, and commit.
    Apply(Vec<Change>),
    /// Read these rows, too, and decide again. The decision returns the snapshot, so that the store
    /// can add rows to it in the same transaction if the lock order allows it.
    Need(ReadSet, Snapshot),
}

/// Maximum number of rounds of reading in one transaction. A decision that needs more fails with
/// [`StoreError::TooManyRounds`].
pub const MAX_ROUNDS: usize = 16;

/// Storage of rows, which decisions change in transactions.
///
/// No implementation knows a control by name: a store reads and writes rows without interpreting
/// them.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Reads rows under lock, calls `decide` and applies its changes, in one transaction. The
    /// transaction is durable when this returns `Ok`. After an error no row was changed, except for
    /// [`StoreError::Unknown`], where this is not known.
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError>;

    /// Reads rows without locks. The rows may already be outdated when this returns.
    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError>;

    /// Renews an engine's lease, independently of all other work. The first heartbeat creates the
    /// lease and records its length, which other engines use to detect a dead engine. Returns
    /// `false` if the engine was declared dead: it must stop.
    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError>;

    /// Returns the definitions as this process has last read them. They may be outdated, so they
    /// are used only to predict what to read.
    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>>;

    /// Returns a watch channel that changes on every call of [`Store::wake`], in this or another
    /// process. A wake-up from another process may be late or lost, so callers must also poll.
    fn wakes(&self) -> watch::Receiver<u64>;

    /// Returns whether this store receives the wake-ups of other processes. If not, changes by
    /// other processes are found only by polling.
    fn hears(&self) -> bool {
        true
    }

    /// Notifies all processes that share the store that there may be work. Never blocks.
    fn wake(&self);

    /// Returns all rows, in key order: for tests, `doctor` and backups.
    async fn dump(&self) -> Result<Vec<Row>, StoreError>;

    /// Calls `visit` for all rows of one consistent snapshot, in key order, without loading all of
    /// them into memory. If it fails, some rows have already been visited.
    async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        for row in self.dump().await? {
            visit(&row);
        }
        Ok(())
    }

    /// Returns the database of the store, for transactional steps, which write to it in the
    /// transaction that records them.
    fn database(&self) -> Database<'_> {
        Database::None
    }
}
