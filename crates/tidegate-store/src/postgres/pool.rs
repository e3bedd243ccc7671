//! Small pool of connections. A connection is opened when it is first needed.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Settings,
    call::Call,
    connection::{Connection, first_error},
    error::Trouble,
    pause, sql,
};
use crate::StoreError;

/// Pool that lends each connection to one user at a time.
#[derive(Debug)]
pub(super) struct Pool {
    settings: Settings,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    reuses: bool,
}

/// Connection on loan from the pool.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) connection: Connection,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(settings: Settings, size: usize) -> Self {
        let permits = Arc::new(Semaphore::new(size));
        Self { settings, permits, idle: Mutex::default(), reuses: true }
    }

    /// Creates a pool that opens a new connection for every use, and leaves no prepared statements
    /// on the server.
    pub(super) fn without_reuse(settings: Settings, size: usize) -> Self {
        Self { reuses: false, ..Self::new(settings, size) }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Lends an open connection. Waits while all are in use.
    pub(super) async fn lend(&self) -> Result<Lent, Trouble> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Trouble::lost("shutting down"))?;
        while let Some(connection) = self.take_idle() {
            if !connection.is_closed() {
                return Ok(Lent { connection, _permit: permit });
            }
        }
        let connection = Connection::open(&self.settings, || {}).await?;
        Ok(Lent { connection, _permit: permit })
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes back a connection that has no open transaction.
    pub(super) fn give_back(&self, lent: Lent) {
        if self.reuses && !lent.connection.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lent.connection);
        }
    }

    /// Takes back a connection whose transaction has failed with this error.
    ///
    /// Rolls the transaction back, and closes the connection if that fails.
    pub(super) async fn give_back_after(&self, lent: Lent, trouble: &Trouble) {
        let usable = match trouble {
            Trouble::Contended(_)
            | Trouble::Clash(..)
            | Trouble::Unnamed(_)
            | Trouble::Refused(_) => true,
            Trouble::Lost(_) | Trouble::InDoubt(_) => false,
        };
        if usable {
            self.undo(lent).await;
        }
    }

    /// Rolls back the open transaction of a connection and takes the connection back.
    pub(super) async fn undo(&self, lent: Lent) {
        let rollback = if self.reuses { sql::ROLLBACK } else { sql::ROLLBACK_AND_DEALLOCATE };
        if lent.connection.control(rollback).await.is_ok() {
            self.give_back(lent);
        }
    }

    /// Runs one statement in its own transaction, all in one flight. Returns the rows of the
    /// statement after the transaction is durable.
    pub(super) async fn write_alone(
        &self,
        connection: &Connection,
        call: Call,
    ) -> Result<Vec<tokio_postgres::Row>, Trouble> {
        let mut calls = vec![Call::new(sql::BEGIN, Vec::new())];
        calls.extend(self.settings.for_transaction());
        calls.extend([call, Call::new(sql::COMMIT, Vec::new())]);
        let mut answers = first_error(connection.run(&calls).await?)?;
        Ok(answers.swap_remove(calls.len() - 2))
    }

    /// Starts a series of attempts at one operation.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries { pool: self, retries: Retries::new(self.settings.options.patience) }
    }
}

/// Attempts at one operation. They end when it succeeds, when a retry cannot help, or after
/// `patience`.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    pool: &'a Pool,
    retries: Retries,
}

impl Tries<'_> {
    /// Lends a connection for the next attempt.
    pub(super) async fn lend(&mut self) -> Result<Lent, StoreError> {
        loop {
            match self.pool.lend().await {
                Ok(lent) => return Ok(lent),
                Err(trouble) => self.retries.after(trouble).await?,
            }
        }
    }

    /// Takes the connection back after an attempt. Returns `None` if the caller must try again.
    pub(super) async fn settle<T>(
        &mut self,
        lent: Lent,
        result: Result<T, Trouble>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(done) => {
                self.pool.give_back(lent);
                Ok(Some(done))
            }
            Err(trouble) => {
                self.pool.give_back_after(lent, &trouble).await;
                self.retries.after(trouble).await?;
                Ok(None)
            }
        }
    }
}

/// First and longest wait between two attempts. The wait is doubled after each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Limit of the duration of retries, and the wait before the next one.
#[derive(Debug)]
pub(super) struct Retries {
    until: Instant,
    wait: Duration,
}

impl Retries {
    pub(super) fn new(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, wait: FIRST_WAIT }
    }

    /// Waits before the next attempt. Returns the error if there must not be another attempt.
    pub(super) async fn after(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        let hopeless = matches!(trouble, Trouble::Refused(_));
        if hopeless || Instant::now() >= self.until {
            return Err(trouble.into_error());
        }
        tracing::debug!(?trouble, "a database operation failed, retrying");
        pause(jittered(self.wait)).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }
}

/// Returns a random time between half of `wait` and `wait`, so that transactions that collided do
/// not collide again.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    wait * (512 + u32::try_from(random).unwrap_or_default()) / 1024
}
