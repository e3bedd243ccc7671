//! Constructors of engines on the usual stores with default options.

use std::sync::Arc;

use tidegate_store::{MemoryStore, SystemClock};

use crate::{api::Engine, builder::EngineBuilder};

impl Engine {
    /// Returns a builder for an engine in memory: nothing outlives the program.
    pub fn in_memory() -> EngineBuilder {
        Self::builder(Arc::new(MemoryStore::new(Arc::new(SystemClock))))
    }

    /// Returns a builder for an engine on a SQLite file, which is created if it is missing.
    ///
    /// One process owns a file.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(
        path: impl AsRef<std::path::Path>,
    ) -> Result<EngineBuilder, crate::error::Error> {
        let store = tidegate_store::SqliteStore::open(path, Arc::new(SystemClock)).await?;
        Ok(Self::builder(Arc::new(store)))
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
