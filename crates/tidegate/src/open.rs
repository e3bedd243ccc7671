//! Constructors of engines on each kind of store, with default options.

use std::sync::Arc;
#[cfg(feature = "sqlite")]
use std::time::Duration;

use tidegate_store::{MemoryStore, SystemClock};

#[cfg(feature = "sqlite")]
use crate::timer::{SystemTimer, Timer};
use crate::{api::Engine, builder::EngineBuilder};

/// Maximum number of attempts to open a file that is in use.
#[cfg(feature = "sqlite")]
const OPEN_ATTEMPTS: u32 = 20;

/// Pause between two attempts to open the file.
#[cfg(feature = "sqlite")]
const OPEN_PAUSE: Duration = Duration::from_millis(25);

impl Engine {
    /// Returns a builder for an engine in memory. Its data is lost when the program ends.
    pub fn in_memory() -> EngineBuilder {
        Self::builder(Arc::new(MemoryStore::new(Arc::new(SystemClock))))
    }

    /// Returns a builder for an engine on a SQLite file, which is created if it is missing.
    ///
    /// One process owns a file. If the file is in use, opening it is retried for half a second,
    /// because an engine that was just dropped, or a process that is just ending, soon releases it.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(
        path: impl AsRef<std::path::Path>,
    ) -> Result<EngineBuilder, crate::error::Error> {
        use tidegate_store::{SqliteStore, StoreError};

        let mut attempts = 1;
        loop {
            match SqliteStore::open(path.as_ref(), Arc::new(SystemClock)).await {
                Ok(store) => return Ok(Self::builder(Arc::new(store))),
                Err(StoreError::InUse { .. }) if attempts < OPEN_ATTEMPTS => {
                    attempts += 1;
                    let timer = SystemTimer::new();
                    timer.sleep_until(timer.elapsed() + OPEN_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns a builder for an engine on a PostgreSQL database, in the schema `tidegate`, which is
    /// created if it is missing.
    ///
    /// Any number of processes share one database.
    #[cfg(feature = "postgres")]
    pub async fn postgres(url: &str) -> Result<EngineBuilder, crate::error::Error> {
        let options = tidegate_store::PostgresOptions::default();
        let store = tidegate_store::PostgresStore::open(url, options).await?;
        Ok(Self::builder(Arc::new(store)))
    }
}
