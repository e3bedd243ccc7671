//! The store of a test, and access to its rows.

use std::{
    env,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tidegate_core::row::Row;
use tidegate_store::{
    PostgresOptions, PostgresStore, SqliteStore, Store, SystemClock, rusqlite, tokio_postgres,
};

/// A store that processes open, one after another or at the same time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    Postgres { url: String, schema: String },
}

/// Time after which the database ends a transaction of a process that is stopped, with its locks.
const STANDS_STILL: Duration = Duration::from_secs(1);

impl Place {
    /// Creates an empty schema. Returns `None` and prints a notice if there is no PostgreSQL.
    pub(crate) fn postgres() -> Option<Self> {
        let Ok(url) = env::var("TIDEGATE_TEST_POSTGRES") else {
            assert!(
                env::var_os("CI").is_none(),
                "PostgreSQL is not available, and in CI its tests must not be skipped"
            );
            eprintln!("!!! NO POSTGRESQL: set TIDEGATE_TEST_POSTGRES, or use scripts/test");
            return None;
        };
        let schema = format!("processes_{:016x}", RandomState::new().hash_one(0));
        Some(Self::Postgres { url, schema })
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(path) => {
                Arc::new(SqliteStore::open(path, Arc::new(SystemClock)).await.unwrap())
            }
            Self::Postgres { url, schema } => {
                let options = PostgresOptions {
                    schema: schema.clone(),
                    readers: 1,
                    steps: 1,
                    idle_timeout: STANDS_STILL,
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresStore::open(url, options).await.unwrap())
            }
        }
    }

    /// Returns the name of the table that transactional steps write to. It has no unique column, so
    /// an effect that happens twice has two rows.
    pub(crate) fn table(&self) -> String {
        match self {
            Self::Sqlite(_) => "shop_effect".to_owned(),
            Self::Postgres { schema, .. } => format!("{schema}_effect"),
        }
    }

    /// Creates the table for transactional steps.
    pub(crate) async fn make_table(&self) {
        let sql = format!("create table {} (key text, made_by text)", self.table());
        match self {
            // No process has opened the file yet.
            Self::Sqlite(path) => {
                drop(self.open().await);
                rusqlite::Connection::open(path).unwrap().execute_batch(&sql).unwrap();
            }
            Self::Postgres { .. } => self.client().await.batch_execute(&sql).await.unwrap(),
        }
    }

    /// Returns the effects of transactional steps: their keys, and the processes that made them.
    pub(crate) async fn effects(&self) -> Vec<(String, String)> {
        let sql = format!("select key, made_by from {} order by 1, 2", self.table());
        match self {
            Self::Sqlite(path) => {
                let db = rusqlite::Connection::open(path).unwrap();
                let mut select = db.prepare(&sql).unwrap();
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Self::Postgres { .. } => {
                let rows = self.client().await.query(&sql, &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        let Self::Postgres { url, .. } = self else { panic!("no PostgreSQL") };
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Returns the qualified name of one of the store's own tables.
    pub(crate) fn own(&self, table: &str) -> String {
        let Self::Postgres { schema, .. } = self else { panic!("no PostgreSQL") };
        format!("{schema}.{table}")
    }

    /// Returns all rows of the store.
    pub(crate) async fn rows(&self) -> Vec<Row> {
        self.open().await.dump().await.unwrap()
    }
}

/// Runs a future on a new runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
