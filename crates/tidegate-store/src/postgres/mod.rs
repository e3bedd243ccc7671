//! PostgreSQL store.
//!
//! A transaction takes two round trips. The first locks and reads: latches, then the tables that
//! are locked (such as gates, runs, engines, streams), in the same order in all transactions, then
//! all rows that are not locked, then the clock. The second writes and commits. Each round trip is
//! one *flight*: its statements are pipelined, that is, sent together without waiting for answers.
//!
//! This module does not interpret gates or runs: the codec converts rows to columns and back.

mod address;
mod call;
mod connection;
mod door;
mod error;
mod flight;
mod latch;
mod lease;
mod migrate;
#[cfg(not(feature = "postgres-tls"))]
mod no_tls;
mod options;
mod pool;
mod reading;
mod scans;
mod shared;
pub(crate) mod sql;
mod step;
#[cfg(feature = "postgres-tls")]
mod tls;
mod token;
mod transact;
mod wake;
mod writing;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    reads::{ReadSet, Snapshot},
    row::{EngineId, Row, Workspace},
};
use tokio::sync::watch;

pub use options::Options;
pub use step::{PostgresTransaction, SqlError};

#[cfg(not(feature = "postgres-tls"))]
use self::no_tls as tls;
use self::{options::Settings, shared::Shared};
use crate::{Database, Decide, Store, StoreError, Visit, migrate::Migration};

/// Store in PostgreSQL, shared by all processes that open the same schema.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    wake: wake::Wake,
}

impl PostgresStore {
    /// Connects, migrates the schema and starts to listen for wake-ups.
    ///
    /// Fails on a standby server, and on a server that may lose committed transactions.
    pub async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        let settings = Settings::new(url, options)?;
        migrate::migrate(&settings, migrate::Then::Commit).await?;
        let wake = wake::Wake::start(&settings);
        let shared = Arc::new(Shared::new(settings));
        Ok(Self { shared, wake })
    }

    /// Returns the pending migrations of the schema, without applying them.
    pub async fn pending(url: &str, options: Options) -> Result<&'static [Migration], StoreError> {
        migrate::migrate(&Settings::new(url, options)?, migrate::Then::RollBack).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn transact(&self, reads: ReadSet, decide: Decide) -> Result<(), StoreError> {
        // Runs in its own task, because the caller's future may be dropped at any moment, and an
        // unfinished transaction would hold its locks until the server ends it.
        let shared = self.shared.clone();
        run_to_the_end(async move { transact::transact(&shared, reads, decide).await }).await
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.read(&reads).await }).await
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.heartbeat(engine, lease_ms).await }).await
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.shared.catalogs.all()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    fn hears(&self) -> bool {
        self.shared.settings.for_listening().is_some()
    }

    fn wake(&self) {
        self.wake.send();
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.dump().await }).await
    }

    async fn walk(&self, visit: Visit) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.walk(visit).await }).await
    }

    fn database(&self) -> Database<'_> {
        Database::Postgres(self)
    }
}

async fn run_to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable("the program is shutting down".into())),
        },
    }
}

/// Sleeps in real time, because the server that it waits for runs in real time.
#[expect(clippy::disallowed_methods, reason = "a database runs in real time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
