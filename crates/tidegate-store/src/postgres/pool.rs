//! A handful of connections, each made when it is needed.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Settings, connection::Connection, pause, sql, trouble::Trouble};
use crate::StoreError;

/// Connections that are used by one at a time.
#[derive(Debug)]
pub(super) struct Pool {
    settings: Settings,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// A connection, until it is given back.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    pub(super) connection: Connection,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(settings: Settings, size: usize) -> Self {
        Self { settings, permits: Semaphore::new(size), idle: Mutex::default() }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection that is not known to be broken; waits while all are in use.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let permit = self.permits.acquire().await.map_err(|_| Trouble::lost("shutting down"))?;
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

    /// Takes back a connection that is between two transactions.
    pub(super) fn give_back(&self, lent: Lent<'_>) {
        if !lent.connection.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lent.connection);
        }
    }

    /// Takes back a connection after something went wrong in a transaction on it.
    ///
    /// A connection that cannot even roll back is closed.
    pub(super) async fn give_back_after(&self, lent: Lent<'_>, trouble: &Trouble) {
        let usable = match trouble {
            Trouble::Contended(_) | Trouble::Clash(..) | Trouble::Refused(_) => true,
            Trouble::Lost(_) | Trouble::InDoubt(_) => false,
        };
        if usable && lent.connection.control(sql::ROLLBACK).await.is_ok() {
            self.give_back(lent);
        }
    }

    /// Begins a series of attempts.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries { pool: self, retries: Retries::new(self.settings.options.patience) }
    }
}

/// Attempts at one thing, until it succeeds, cannot, or has taken too long.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    pool: &'a Pool,
    retries: Retries,
}

impl<'a> Tries<'a> {
    /// A connection for the next attempt.
    pub(super) async fn lend(&mut self) -> Result<Lent<'a>, StoreError> {
        loop {
            match self.pool.lend().await {
                Ok(lent) => return Ok(lent),
                Err(trouble) => self.retries.after(trouble).await?,
            }
        }
    }

    /// Takes the connection back; none means that there is to be another attempt.
    pub(super) async fn settle<T>(
        &mut self,
        lent: Lent<'a>,
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

/// The first wait between two attempts; doubled up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Bounds how often and how long something is tried.
#[derive(Debug)]
pub(super) struct Retries {
    until: Instant,
    wait: Duration,
}

impl Retries {
    pub(super) fn new(patience: Duration) -> Self {
        Self { until: Instant::now() + patience, wait: FIRST_WAIT }
    }

    /// Waits a little before the next attempt; an error says that there is none.
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

/// Between a half and the whole, so that those who met once do not meet again.
pub(super) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 512;
    wait * (512 + u32::try_from(random).unwrap_or_default()) / 1024
}
