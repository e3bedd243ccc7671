//! Small pool of connections, each opened on demand.

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

/// Connections that are lent to one user at a time.
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

    /// Creates a pool that opens every connection anew, and leaves nothing prepared on the server.
    pub(super) fn without_reuse(settings: Settings, size: usize) -> Self {
        Self { reuses: false, ..Self::new(settings, size) }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Lends a connection that is not known to be broken; waits while all are in use.
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

    /// Takes back a connection after an error in a transaction on it.
    ///
    /// A connection that cannot even roll back is closed.
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

    /// Runs one statement in its own transaction, all in one flight, and returns its rows once the
    /// transaction is durable.
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

    /// Starts a series of attempts.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries { pool: self, retries: Retries::new(self.settings.options.patience) }
    }
}

/// Attempts at one operation, until it succeeds, cannot succeed, or has taken too long.
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

    /// Takes the connection back; `None` means that another attempt follows.
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

/// First backoff between two attempts; doubled up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Limit of the number and the duration of retries.
#[derive(Debug)]
pub(super) struct Retries {
    until: Instant,
    wait: Duration,
}

impl Retries {
    pub(super) fn new(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, wait: FIRST_WAIT }
    }

    /// Waits for the backoff before the next attempt; an error means that there is none.
    pub(super) async fn after(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        let hopeless = matches!(trouble, Trouble::Refused(_));
        if hopeless || Instant::now() >= self.until {
            return Err(trouble.into_error());
        }
        tracing::debug!(?trouble, "trying again");
        pause(jittered(self.wait)).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Ok(())
    }
}

/// Returns a random time between half of `wait` and all of it, so that transactions that collided
/// once do not collide again.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    wait * (512 + u32::try_from(random).unwrap_or_default()) / 1024
}
