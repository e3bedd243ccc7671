//! Transaction tokens, by which a COMMIT whose answer was lost is looked up (spec R10).
//!
//! A transaction writes a random token into a row of `tx_token` in the flight that commits it. In
//! doubt, another transaction closes and reads the row: it waits for a server process that is still
//! committing and fences one that has not begun to commit. The token found this way is the only
//! proof of either outcome: an xid is reused after a crash, and a snapshot that does not show a
//! transaction proves nothing about one that is still running.
//!
//! A row is used by one transaction at a time, so that none waits for another's. Rows are not tied
//! to connections, of which a pooler has many.

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

/// Token rows of a store that no transaction uses.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    idle: Mutex<Vec<TokenRow>>,
}

/// Row of `tx_token`. It is durable before any transaction uses it.
#[derive(Debug)]
pub(super) struct TokenRow {
    id: i64,
    /// A moment before it was last written.
    used: Instant,
}

/// How long a row is used after it was last written: well below the hour after which
/// `tx_token_open` sweeps it.
const FRESH: Duration = Duration::from_mins(15);

impl Tokens {
    /// Takes a row for one transaction; creates it over a connection of the pool if none is idle.
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

    /// Takes back a row whose transaction has certainly ended.
    pub(super) fn give_back(&self, row: TokenRow) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }
}

impl TokenRow {
    /// Draws a token for one attempt; returns it with the statement that writes it.
    pub(super) fn name(&self) -> (i64, Call) {
        let token = random();
        let params = vec![Param::Int(self.id), Param::Int(token)];
        (token, Call::new(sql::own().tx_token_write, params))
    }

    /// Records that a transaction that began after this moment has written the row.
    pub(super) fn written_since(&mut self, begun: Instant) {
        self.used = begun;
    }
}

/// Creates a row. If the answer is lost, the row stays unused and is swept.
async fn open(pool: &Pool, connection: &Connection) -> Result<TokenRow, Trouble> {
    let row = TokenRow { id: random(), used: Instant::now() };
    let insert = Call::new(sql::own().tx_token_open, vec![Param::Int(row.id)]);
    pool.write_alone(connection, insert).await?;
    Ok(row)
}

/// Returns 64 bits that no other process draws: a hasher's keys come from the operating system.
fn random() -> i64 {
    i64::from_ne_bytes(RandomState::new().hash_one(0).to_ne_bytes())
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    Aborted,
}

/// Determines the outcome of a transaction whose COMMIT was never answered (spec R10), and makes
/// sure that it cannot change. Its row is not used again.
pub(super) async fn outcome(
    shared: &Shared,
    row: TokenRow,
    token: i64,
    reason: &str,
) -> Result<Outcome, StoreError> {
    let until = Instant::now() + shared.settings.options.outcome_timeout;
    let mut last = "the database could not be asked".to_owned();
    while Instant::now() < until {
        match close(&shared.committers, &row).await {
            Ok(Some(seen)) if seen == token => return Ok(Outcome::Committed),
            Ok(Some(_)) => return Ok(Outcome::Aborted),
            Ok(None) => {
                // Swept, or missing on a server that was promoted without it.
                last = format!("token row {} does not exist", row.id);
                break;
            }
            // Retried even if the server refuses: a standby may be promoted in the meantime.
            Err(trouble) => last = trouble.into_error().to_string(),
        }
        pause(jittered(POLL)).await;
    }
    Err(StoreError::Unknown(format!("{reason}; {last}").into()))
}

/// Interval between queries of an outcome.
const POLL: Duration = Duration::from_millis(50);

/// Closes a row and returns its last token. An error proves nothing, and a retry is safe.
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
