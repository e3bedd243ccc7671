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
