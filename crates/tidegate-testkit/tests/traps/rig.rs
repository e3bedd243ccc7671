//! Shared parts of these tests: stores with names, transactions, and a separate connection.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use tidegate_core::{
    reads::{Change, ReadSet, Snapshot},
    row::Row,
};
use tidegate_store::{Decide, Decision, PostgresOptions, PostgresStore, Store, StoreError};
use tidegate_testkit::postgres::{fresh_schema, url};
use tokio_postgres::{Client, NoTls};

/// Time after which a test fails because it waits for too long.
pub(crate) const STUCK: Duration = Duration::from_secs(20);

/// A schema for one test, and a connection that is not one of the store's.
pub(crate) struct Rig {
    pub(crate) schema: String,
    pub(crate) url: String,
    outside: Client,
}

impl Rig {
    /// Creates a rig on the test server. Returns `None` if there is no PostgreSQL; the harness has
    /// then printed a message.
    pub(crate) async fn new() -> Option<Self> {
        Some(Self::on(url()?).await)
    }

    /// Creates a rig on the server at `url`.
    pub(crate) async fn on(url: &str) -> Self {
        let schema = fresh_schema("trap");
        let (outside, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { schema, url: url.to_owned(), outside }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions { schema: self.schema.clone(), ..PostgresOptions::default() }
    }

    /// Opens a store with a name, by which its connections are recognized on the server.
    pub(crate) async fn store(&self, name: &str) -> Arc<PostgresStore> {
        self.store_with(name, self.options()).await
    }

    pub(crate) async fn store_with(
        &self,
        name: &str,
        options: PostgresOptions,
    ) -> Arc<PostgresStore> {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{mark}application_name={}", self.url, self.label(name));
        Arc::new(PostgresStore::open(&url, options).await.unwrap())
    }

    /// Repeats a query until it returns a row. Returns the first column of that row.
    pub(crate) async fn until<T>(&self, sql: &str) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let begun = Instant::now();
        loop {
            if let Some(row) = self.outside.query_opt(sql, &[]).await.unwrap() {
                return row.get(0);
            }
            assert!(begun.elapsed() < STUCK, "the query never returned a row: {sql}");
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn label(&self, name: &str) -> String {
        format!("{name}_{}", self.schema)
    }

    /// Returns whether a connection of this store waits for a lock.
    pub(crate) async fn waits(&self, name: &str) -> bool {
        let sql = "select count(*) from pg_stat_activity
                   where application_name = left($1, 63) and wait_event_type = 'Lock'";
        let row = self.outside.query_one(sql, &[&self.label(name)]).await.unwrap();
        row.get::<_, i64>(0) > 0
    }

    /// Waits until a connection of this store waits for a lock.
    pub(crate) async fn until_it_waits(&self, name: &str) {
        let begun = Instant::now();
        while !self.waits(name).await {
            assert!(begun.elapsed() < STUCK, "the store `{name}` never waited for a lock");
            tokio::task::yield_now().await;
        }
    }

    /// Waits until all connections of this store are closed.
    pub(crate) async fn until_gone(&self, name: &str) {
        let sql = "select count(*) from pg_stat_activity where application_name = left($1, 63)";
        let begun = Instant::now();
        loop {
            let row = self.outside.query_one(sql, &[&self.label(name)]).await.unwrap();
            if row.get::<_, i64>(0) == 0 {
                return;
            }
            assert!(begun.elapsed() < STUCK, "the store `{name}` is still connected");
            tokio::task::yield_now().await;
        }
    }

    /// Executes statements.
    pub(crate) async fn execute(&self, statements: &str) {
        self.outside.batch_execute(statements).await.unwrap();
    }

    /// Counts the rows of a table.
    pub(crate) async fn count(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {table}");
        self.outside.query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Returns the server's clock, in microseconds.
    pub(crate) async fn clock(&self) -> i64 {
        let sql = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
        self.outside.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Returns the number of deadlocks that the server has counted.
    pub(crate) async fn deadlocks(&self) -> i64 {
        let sql = "select deadlocks from pg_stat_database where datname = current_database()";
        self.outside.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// Runs a transaction that applies the changes of `decide`.
pub(crate) async fn apply(
    store: &Arc<PostgresStore>,
    reads: ReadSet,
    mut decide: impl FnMut(Snapshot) -> Vec<Change> + Send + 'static,
) -> Result<(), StoreError> {
    let decide: Decide = Box::new(move |snapshot| Decision::Apply(decide(snapshot)));
    let transacted = tokio::time::timeout(STUCK, store.transact(reads, decide)).await;
    transacted.expect("the transaction ends in time")
}

/// Inserts rows.
pub(crate) async fn insert(store: &Arc<PostgresStore>, rows: Vec<Row>) {
    let changes: Vec<Change> = rows.into_iter().map(Change::Insert).collect();
    apply(store, ReadSet::default(), move |_| changes.clone()).await.unwrap();
}

/// Blocks a decision, while its transaction holds locks, until it is resumed.
pub(crate) struct Pause {
    reached: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Pause {
    /// Creates the pause, and the function that the decision calls to block. Only its first call
    /// blocks.
    pub(crate) fn new() -> (Self, impl FnMut() + Send + 'static) {
        let (reach, reached) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let mut first = true;
        let stand_still = move || {
            if std::mem::take(&mut first) {
                reach.send(()).unwrap();
                // Gives the other tasks of this worker thread to another one: one of them may be
                // the connection of the other store.
                let resumed = tokio::task::block_in_place(|| gone.recv_timeout(STUCK));
                resumed.expect("the test resumes the decision");
            }
        };
        (Self { reached, go }, stand_still)
    }

    /// Waits until the decision blocks.
    pub(crate) async fn reached(self) -> Going {
        let wait = move || self.reached.recv_timeout(STUCK).map(|()| Going(self.go));
        tokio::task::spawn_blocking(wait).await.unwrap().expect("the decision was called")
    }
}

/// Handle by which a blocked decision is resumed.
pub(crate) struct Going(mpsc::Sender<()>);

impl Going {
    pub(crate) fn go_on(self) {
        self.0.send(()).unwrap();
    }
}
