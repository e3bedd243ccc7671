//! Transaction tokens: they show whether a transaction was committed if the answer to its COMMIT
//! was lost (spec R10).
//!
//! A transaction writes a random token into a row of `tx_token` in the flight that commits it. If
//! the answer is lost, another transaction closes the row and reads it. It waits for a server
//! process that is still committing, and a closed row makes a later commit fail. If the row has the
//! token, the transaction was committed; otherwise it was rolled back. Other ways are not reliable:
//! an xid is reused after a crash, and a transaction that a snapshot does not show may still be
//! running.
//!
//! Each transaction uses a row of its own, so that transactions do not wait for each other. Rows
//! do not belong to connections, because a pooler changes the server connection.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Shared, call,
    call::{Call, Param},
    connection::Connection,
    error::Trouble,
    pause,
    pool::{Pool, jittered},
    sql,
};
use crate::StoreError;

/// The token rows of a store that no transaction is using.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    idle: Mutex<Vec<TokenRow>>,
}

/// Row of `tx_token`. It is durable before any transaction uses it.
#[derive(Debug)]
pub(super) struct TokenRow {
    id: i64,
    /// A time shortly before the row was last written.
    used: Instant,
}

/// How long a row may be used after it was last written: much shorter than the hour after which
/// `tx_token_open` deletes it.
const FRESH: Duration = Duration::from_mins(15);

impl Tokens {
    /// Returns a row for one transaction: an unused row, or a new one that is inserted by a
    /// connection of the pool.
    pub(super) async fn take(&self, pool: &Pool) -> Result<TokenRow, StoreError> {
        while let Some(row) = self.take_idle() {
            if row.used.elapsed() < FRESH {
                return Ok(row);
            }
        }
        let mut tries = pool.tries();
        loop {
            let lent = tries.lend().await?;
            let result = open(pool, &lent.connection).await;
            if let Some(row) = tries.settle(lent, result).await? {
                return Ok(row);
            }
        }
    }

    fn take_idle(&self) -> Option<TokenRow> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes back a row. Its transaction must have ended for certain.
    pub(super) fn give_back(&self, row: TokenRow) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }
}

impl TokenRow {
    /// Draws a token for one attempt. Returns the token and the statement that writes it.
    pub(super) fn name(&self) -> (i64, Call) {
        let token = random();
        let params = vec![Param::Int(self.id), Param::Int(token)];
        (token, Call::new(sql::own().tx_token_write, params))
    }

    /// Records that a transaction has written the row, which began to commit at `begun`.
    pub(super) fn written_since(&mut self, begun: Instant) {
        self.used = begun;
    }
}

/// Inserts a row. If the answer is lost, the row stays unused and is deleted later.
async fn open(pool: &Pool, connection: &Connection) -> Result<TokenRow, Trouble> {
    let row = TokenRow { id: random(), used: Instant::now() };
    let insert = Call::new(sql::own().tx_token_open, vec![Param::Int(row.id)]);
    pool.write_alone(connection, insert).await?;
    Ok(row)
}

/// Returns 64 random bits. The keys of the hasher are random numbers of the operating system.
fn random() -> i64 {
    i64::from_ne_bytes(RandomState::new().hash_one(0).to_ne_bytes())
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Aborted,
}

/// Returns the outcome of a transaction whose COMMIT was not answered (spec R10), and makes sure
/// that this outcome cannot change. The token row is not used again.
pub(super) async fn outcome(
    shared: &Shared,
    row: TokenRow,
    token: i64,
    reason: &str,
) -> Result<Outcome, StoreError> {
    let until = Instant::now() + shared.settings.options.outcome_timeout;
    let mut last = "the outcome could not be queried".to_owned();
    while Instant::now() < until {
        match close(&shared.committers, &row).await {
            Ok(Some(seen)) if seen == token => return Ok(Outcome::Committed),
            Ok(Some(_)) => return Ok(Outcome::Aborted),
            Ok(None) => {
                // The row was deleted, or this server was promoted from a standby without the row.
                last = format!("token row {} does not exist", row.id);
                break;
            }
            // Every error is retried, even a refusal, because a standby may soon be promoted.
            Err(trouble) => last = trouble.into_error().to_string(),
        }
        pause(jittered(POLL)).await;
    }
    Err(StoreError::Unknown(format!("{reason}; {last}").into()))
}

/// Wait between two queries for an outcome.
const POLL: Duration = Duration::from_millis(50);

/// Closes a row and returns its last token, or `None` if the row does not exist. After an error the
/// outcome is still unknown, and a retry is safe.
async fn close(pool: &Pool, row: &TokenRow) -> Result<Option<i64>, Trouble> {
    let lent = pool.lend().await?;
    let close = Call::new(sql::own().tx_token_close, vec![Param::Int(row.id)]);
    match pool.write_alone(&lent.connection, close).await {
        Ok(rows) => {
            pool.give_back(lent);
            Ok(rows.first().map(|row| call::int(row, 0)).transpose()?)
        }
        Err(trouble) => {
            pool.give_back_after(lent, &trouble).await;
            Err(trouble)
        }
    }
}
