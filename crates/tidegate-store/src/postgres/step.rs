//! Transactional steps: the user's part of a transaction, and how it is handed over to ours.
//!
//! The user's part has a connection from a pool of its own, as it comes from the server: no
//! setting of ours is on it, and no lock of ours is held. Then the settings are reset, ours are
//! made, and the record is locked, decided and written behind a savepoint, so that contention is
//! met by going back to it and not behind it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::{RwLock, RwLockReadGuard};
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    PostgresStore, Shared,
    call::{Call, Param},
    connection::{Connection, first_error},
    error::{Trouble, is_contention, say},
    pool::Lent,
    run_to_the_end, sql, transact,
};
use crate::{
    SeededCommand, StepRecord, Store, StoreError, TransactionError,
    transactional::recording::recording,
};

/// A transaction that a step writes in. Tidegate commits it, together with the step's record.
///
/// Names mean what they mean to this user of the database; Tidegate's own tables are in another
/// schema and must not be touched. Once the step's part is over, every statement is refused.
#[derive(Debug)]
pub struct PostgresTransaction(Weak<RwLock<Option<Lent>>>);

impl PostgresTransaction {
    /// Runs a statement, and says how many rows it touched.
    pub async fn execute(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().execute(sql, params).await?)
    }

    /// Runs a statement, and gives all its rows.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().query(sql, params).await?)
    }

    /// Runs a statement, and gives its row; more than one is an error.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().query_opt(sql, params).await?)
    }

    /// Runs a statement, and gives its row; none or more than one is an error.
    pub async fn query_one(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().query_one(sql, params).await?)
    }
}

/// Lets a statement in, as long as the step's part lasts. Our part waits for those inside.
async fn enter<'a>(
    turn: &'a RwLock<Option<Lent>>,
    sql: &str,
) -> Result<RwLockReadGuard<'a, Lent>, SqlError> {
    if let Some(word) = ends_transaction(sql) {
        return Err(SqlError::refused(format!(
            "a step may not `{word}`: its transaction is committed with its record, and undone by \
             an error; use a savepoint to undo a part"
        )));
    }
    let inside = turn.read().await;
    RwLockReadGuard::try_map(inside, Option::as_ref).map_err(|_| SqlError::over())
}

/// The word by which a statement would begin or end a transaction.
///
/// The protocol takes one statement at a time, and no function or block can end a transaction
/// that it did not begin, so that the first word tells.
fn ends_transaction(sql: &str) -> Option<&'static str> {
    const WORDS: [&str; 7] = ["begin", "start", "commit", "end", "rollback", "abort", "prepare"];
    let mut words = words(sql);
    let first = words.next()?;
    let word = WORDS.into_iter().find(|word| first.eq_ignore_ascii_case(word))?;
    let noise =
        |word: &&str| ["work", "transaction"].iter().any(|it| word.eq_ignore_ascii_case(it));
    let back_to_savepoint = word == "rollback"
        && words.find(|word| !noise(word)).is_some_and(|it| it.eq_ignore_ascii_case("to"));
    (!back_to_savepoint).then_some(word)
}

/// A statement's words, as long as it has only words and comments.
fn words(mut sql: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        loop {
            // An empty statement may come before the one that counts.
            sql = sql.trim_start_matches(|it: char| it.is_whitespace() || it == ';');
            if let Some(comment) = sql.strip_prefix("--") {
                sql = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if sql.starts_with("/*") {
                sql = after_comment(sql);
            } else {
                break;
            }
        }
        let end = sql.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(sql.len());
        let (word, rest) = sql.split_at(end);
        sql = rest;
        (!word.is_empty()).then_some(word)
    })
}

/// What follows a comment, which may hold others.
fn after_comment(sql: &str) -> &str {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(two) = sql.as_bytes().get(at..at + 2) {
        match two {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return &sql[at..];
        }
    }
    ""
}

/// Why a statement of a step failed, in the server's words.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    message: String,
    #[source]
    cause: Option<tokio_postgres::Error>,
}

impl SqlError {
    /// The code that PostgreSQL gives every kind of error; none where it was not the server's.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.cause.as_ref().and_then(tokio_postgres::Error::code)
    }

    /// Whether the same step may succeed when it is tried again: others were in the way, or the
    /// connection was lost.
    pub fn is_retryable(&self) -> bool {
        let lost = self.cause.as_ref().is_some_and(tokio_postgres::Error::is_closed);
        lost || self.sqlstate().is_some_and(is_contention)
    }

    fn over() -> Self {
        Self::refused("the step's part of the transaction is over".to_owned())
    }

    fn refused(message: String) -> Self {
        Self { message, cause: None }
    }
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self { message: say(&error), cause: Some(error) }
    }
}

impl PostgresStore {
    /// How long a transactional step may take where nobody says otherwise: nobody waits for it but
    /// those who want its own rows and its connection.
    pub const STEP_LIMIT: Duration = Duration::from_mins(1);

    /// A transactional step: what `step` writes and what `record` says of it, kept together or not
    /// at all.
    ///
    /// `step` runs in this future, and is undone if it takes longer than `limit`, fails, panics or
    /// is dropped. It holds no lock of Tidegate's, so that nobody else waits for it. `record`
    /// gives the commands that record it: all of them are carried out, or none.
    pub async fn transact_with<T, E, Work>(
        &self,
        limit: Duration,
        step: impl FnOnce(PostgresTransaction) -> Work,
        record: impl FnOnce(&T) -> Vec<SeededCommand>,
    ) -> Result<StepRecord<T>, TransactionError<E>>
    where
        Work: Future<Output = Result<T, E>>,
    {
        let lent = begin(&self.shared, limit).await?;
        // The only strong reference: whoever keeps the step's end of it keeps nothing open.
        let turn = Arc::new(RwLock::new(Some(lent)));
        let part = async {
            let done = step(PostgresTransaction(Arc::downgrade(&turn))).await;
            (done, turn.write().await.take().expect("it is taken here only"))
        };
        let Ok((done, lent)) = tokio::time::timeout(limit, part).await else {
            // A statement may still be under way: the connection is closed, and the server ends
            // the transaction.
            return Err(TransactionError::TimedOut(limit));
        };
        let value = match done {
            Ok(value) => value,
            Err(error) => {
                self.shared.steps.undo(lent).await;
                return Err(TransactionError::Step(error));
            }
        };
        let (reads, decide, verdict) = recording(record(&value), &self.catalogs());
        // From here on it goes to its end, whoever waits for it: locks of ours are at stake.
        let shared = self.shared.clone();
        let recorded = async move {
            if let Err(spoilt) = hand_over(&shared, &lent.connection).await {
                shared.steps.undo(lent).await;
                return Ok(Err(spoilt));
            }
            transact::transact_in_step(&shared, lent, reads, decide).await.map(Ok)
        };
        match run_to_the_end(recorded).await? {
            Ok(()) => Ok(StepRecord { value, answers: verdict.take()? }),
            Err(Spoilt::ByStep(reason)) => Err(TransactionError::Spoiled(reason)),
            Err(Spoilt::ByStore(error)) => Err(error.into()),
        }
    }
}

/// Why the step's part cannot be followed by ours.
enum Spoilt {
    ByStep(String),
    ByStore(StoreError),
}

/// Opens a transaction for a step.
async fn begin(shared: &Shared, limit: Duration) -> Result<Lent, StoreError> {
    let mut tries = shared.steps.tries();
    loop {
        let lent = tries.lend().await?;
        match try_begin(shared, &lent.connection, limit).await {
            Ok(()) => return Ok(lent),
            Err(trouble) => {
                tries.settle::<()>(lent, Err(trouble)).await?;
            }
        }
    }
}

async fn try_begin(
    shared: &Shared,
    connection: &Connection,
    limit: Duration,
) -> Result<(), Trouble> {
    // Later than our own limit, which has better words: this one is for those who cannot speak.
    let ms = limit.saturating_add(shared.settings.options.idle_timeout).as_millis();
    let ms = Param::Text(ms.min(LONGEST_MS).to_string());
    let calls = [Call::new(sql::BEGIN, Vec::new()), Call::new(sql::STEP_BEGIN, vec![ms])];
    first_error(connection.run(&calls).await?).map(|_| ())
}

/// The longest time-out that the server takes.
const LONGEST_MS: u128 = i32::MAX as u128;

/// Ends the step's part: what it deferred is checked while no lock of ours is held, and what it
/// set is reset, so that neither our part nor the next step sees it.
async fn hand_over(shared: &Shared, connection: &Connection) -> Result<(), Spoilt> {
    let mut calls = vec![
        Call::new(sql::CONSTRAINTS_NOW, Vec::new()),
        Call::new(sql::SESSION_RESET, Vec::new()),
    ];
    if shared.settings.options.pooler {
        // What the driver prepared would stay with the server's connection, under a name that
        // another process may choose too.
        calls.push(Call::new(sql::DEALLOCATE, Vec::new()));
    }
    calls.push(Call::new(sql::SAVEPOINT, Vec::new()));
    let lost = |trouble: Trouble| Spoilt::ByStore(trouble.into_error());
    for answer in connection.run(&calls).await.map_err(lost)? {
        answer.map_err(|error| spoilt_by(&error))?;
    }
    Ok(())
}

fn spoilt_by(error: &tokio_postgres::Error) -> Spoilt {
    if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) {
        let reason = "one of its statements failed, and the step went on; return its error, or \
                      set a savepoint before it";
        return Spoilt::ByStep(reason.to_owned());
    }
    Spoilt::ByStep(say(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_tells_who_would_end_a_transaction() {
        for (sql, word) in [
            ("commit", Some("commit")),
            ("COMMIT;", Some("commit")),
            ("  ; End", Some("end")),
            ("-- a\n/* b /* c */ */ begin", Some("begin")),
            ("/**/start transaction", Some("start")),
            ("abort", Some("abort")),
            ("prepare transaction 'x'", Some("prepare")),
            ("rollback", Some("rollback")),
            ("rollback work", Some("rollback")),
            ("rollback and chain", Some("rollback")),
            ("rollback prepared 'to'", Some("rollback")),
            ("rollback to a", None),
            ("ROLLBACK WORK TO SAVEPOINT a", None),
            ("rollback/* */transaction -- x\n to a", None),
            ("savepoint a", None),
            ("release a", None),
            ("insert into commit values (1)", None),
            ("select 'commit'", None),
            ("ending", None),
            ("/* commit", None),
            ("", None),
        ] {
            assert_eq!(ends_transaction(sql), word, "{sql}");
        }
    }
}
