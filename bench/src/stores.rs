//! The measured stores: SQLite in a file of a temporary folder, PostgreSQL in a schema of its own.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use tidegate_store::{PostgresOptions, PostgresStore, SqliteStore, Store, SystemClock};
use tidegate_testkit::postgres::{self, Cluster};

use crate::raw::{self, Transaction};

/// The kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SQLite with `synchronous=full`.
    Sqlite,
    /// PostgreSQL with its defaults: fsync and `synchronous_commit` on.
    Postgres,
}

impl Kind {
    /// Parses the command line argument `--store`: a name, or `all`.
    pub(crate) fn named(name: &str) -> anyhow::Result<Vec<Self>> {
        Ok(match name {
            "sqlite" => vec![Self::Sqlite],
            "postgres" => vec![Self::Postgres],
            "all" => vec![Self::Sqlite, Self::Postgres],
            other => anyhow::bail!("--store is sqlite, postgres or all, got `{other}`"),
        })
    }

    /// Returns the name that the results use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "tidegate-sqlite",
            Self::Postgres => "tidegate-pg",
        }
    }
}

/// An open store with a file or schema of its own. `close` removes the file or schema.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Folder(PathBuf),
    Schema(String),
}

/// A file or schema that has the tables and is not open as a store.
#[derive(Debug)]
pub(crate) struct Raw(Place);

/// A database connection without a store.
#[derive(Debug)]
pub(crate) enum Bare {
    /// Connection to a file that no other connection has open, with `synchronous=full`.
    Sqlite(Box<rusqlite::Connection>),
    /// Connection whose `search_path` is the schema.
    Postgres(tokio_postgres::Client),
}

impl Opened {
    /// Opens an empty store.
    pub(crate) async fn new(kind: Kind) -> anyhow::Result<Self> {
        let name = postgres::fresh_schema("bench");
        match kind {
            Kind::Sqlite => {
                let folder = std::env::temp_dir().join(name);
                std::fs::create_dir_all(&folder)?;
                let clock = Arc::new(SystemClock);
                let store = SqliteStore::open(folder.join("bench.db"), clock).await?;
                Ok(Self { store: Arc::new(store), place: Place::Folder(folder) })
            }
            Kind::Postgres => {
                let options =
                    PostgresOptions { schema: name.clone(), ..PostgresOptions::default() };
                let store = PostgresStore::open(url()?, options).await?;
                Ok(Self { store: Arc::new(store), place: Place::Schema(name) })
            }
        }
    }

    /// Opens a SQLite store without a file.
    pub(crate) async fn in_memory() -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).await?))
    }

    /// Drops the store, and returns its file or schema with the tables.
    pub(crate) fn into_raw(self) -> Raw {
        drop(self.store);
        Raw(self.place)
    }

    /// Removes the file or schema.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.into_raw().close().await
    }
}

impl Raw {
    /// Opens a database connection to the file or schema.
    pub(crate) async fn connect(&self) -> anyhow::Result<Bare> {
        match &self.0 {
            Place::Folder(folder) => {
                let connection = rusqlite::Connection::open(folder.join("bench.db"))?;
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
                connection.set_prepared_statement_cache_capacity(64);
                Ok(Bare::Sqlite(Box::new(connection)))
            }
            Place::Schema(schema) => {
                let client = connect().await?;
                // `fresh_schema` makes names of letters and digits only, so no quoting is needed.
                client.batch_execute(&format!("set search_path to {schema}")).await?;
                Ok(Bare::Postgres(client))
            }
        }
    }

    /// Writes transactions without an engine. Returns the time it took.
    pub(crate) async fn write(&self, all: &[Transaction]) -> anyhow::Result<Duration> {
        match self.connect().await? {
            Bare::Sqlite(connection) => Ok(raw::sqlite(&connection, all)?),
            Bare::Postgres(client) => Ok(raw::postgres(&client, all).await?),
        }
    }

    /// Removes the file or schema.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.0 {
            Place::Folder(folder) => Ok(std::fs::remove_dir_all(folder)?),
            Place::Schema(schema) => {
                let drop = format!("drop schema {schema} cascade");
                Ok(connect().await?.batch_execute(&drop).await?)
            }
        }
    }
}

/// Required free memory for a cluster in memory, in megabytes: more than any machine has. The
/// cluster is therefore always on disk, because a sync in memory would take no time.
const NEVER_IN_MEMORY: u64 = 1 << 50;

/// Returns the URL in `TIDEGATE_TEST_POSTGRES`, or that of a temporary cluster on disk.
pub(crate) fn url() -> anyhow::Result<&'static str> {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    static OWN: OnceLock<Option<Cluster>> = OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var("TIDEGATE_TEST_POSTGRES").ok()).as_deref();
    let own = || OWN.get_or_init(|| Cluster::start_with_room(NEVER_IN_MEMORY)).as_ref();
    named
        .or_else(|| own().map(Cluster::url))
        .context("no PostgreSQL: set TIDEGATE_TEST_POSTGRES or install the package")
}

async fn connect() -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url()?, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
