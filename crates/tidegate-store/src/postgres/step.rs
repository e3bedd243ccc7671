//! Transactional steps: one transaction has the statements of the step (the user's part), and then
//! those that record the step (the store's part).
//!
//! The user's part gets a connection from a separate pool, without the store's settings and locks.
//! Then the user's settings are reset, the store's settings are made, and a savepoint is set. After
//! the savepoint, the store locks rows, decides and writes the record. After contention, it rolls
//! back only to the savepoint and tries again.

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

/// Transaction that a step writes in. Tidegate commits it, together with the step's record.
///
/// Names without a schema are resolved by the `search_path` of the database user. Tidegate's own
/// tables are in another schema and must not be used. Statements after the end of the step are
/// refused.
#[derive(Debug)]
pub struct PostgresTransaction(Weak<RwLock<Option<Lent>>>);

impl PostgresTransaction {
    /// Runs a statement and returns the number of rows it affected.
    pub async fn execute(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().execute(sql, params).await?)
    }

    /// Runs a statement and returns all its rows.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().query(sql, params).await?)
    }

    /// Runs a statement and returns its row or `None`. More than one row is an error.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SqlError> {
        let turn = self.0.upgrade().ok_or_else(SqlError::over)?;
        let lent = enter(&turn, sql).await?;
        Ok(lent.connection.client().query_opt(sql, params).await?)
    }

    /// Runs a statement and returns its row. No row or more than one is an error.
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

/// Allows a statement until the step has ended; refuses statements that begin or end transactions.
/// The store's part waits for running statements.
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

/// Returns the keyword of a statement that would begin or end a transaction; `None` for any other
/// statement.
///
/// It is enough to check the first words: the protocol takes one statement at a time, and a
/// function or block cannot end a transaction that it did not begin.
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

/// Returns the words at the start of a statement, up to the first token that is neither a word nor
/// a comment.
fn words(mut sql: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        loop {
            // Empty statements may come before the first word.
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

/// Returns the text after a comment; comments may be nested.
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

/// Error of a step's statement, with the server's message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    message: String,
    #[source]
    cause: Option<tokio_postgres::Error>,
}

impl SqlError {
    /// Returns PostgreSQL's SQLSTATE code, or `None` if the error is not from the server.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.cause.as_ref().and_then(tokio_postgres::Error::code)
    }

    /// Returns whether a retry of the step may succeed: after contention or a lost connection.
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
    /// Default timeout of a transactional step. A step may run that long, because only transactions
    /// that need the same rows, and steps that need a connection, wait for it.
    pub const STEP_LIMIT: Duration = Duration::from_mins(1);

    /// Runs a transactional step: the writes of `step` and its `record` are committed together or
    /// not at all.
    ///
    /// `step` runs in this future, and is rolled back if it exceeds `limit`, fails, panics or is
    /// dropped. It holds none of Tidegate's locks, so it blocks no other transaction of Tidegate.
    /// `record` returns the commands that record the step: all of them are committed, or none.
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
        // The step gets only a weak reference, so that the transaction ends even if the step leaks
        // its handle.
        let turn = Arc::new(RwLock::new(Some(lent)));
        let part = async {
            let done = step(PostgresTransaction(Arc::downgrade(&turn))).await;
            (done, turn.write().await.take().expect("the connection is taken only here"))
        };
        let Ok((done, lent)) = tokio::time::timeout(limit, part).await else {
            // A statement may still be running. Dropping the connection closes it, and the server
            // then rolls back the transaction.
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
        // This part runs to its end even if the caller is dropped, because it holds the store's
        // locks.
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

/// Reason why the store's part cannot begin: an error caused by the step, or one of the store.
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
    // Timeout that the server enforces if this process is suspended. It is longer than `limit`, so
    // that a running process reports the timeout itself, with a better error text.
    let ms = limit.saturating_add(shared.settings.options.idle_timeout).as_millis();
    let ms = Param::Text(ms.min(LONGEST_MS).to_string());
    let calls = [Call::new(sql::BEGIN, Vec::new()), Call::new(sql::own().step_begin, vec![ms])];
    first_error(connection.run(&calls).await?).map(|_| ())
}

/// Longest timeout that the server accepts.
const LONGEST_MS: u128 = i32::MAX as u128;

/// Ends the step's part. Deferred constraints are checked now, before the store takes locks. The
/// step's settings are reset, so that they affect neither the store's part nor the next step.
async fn hand_over(shared: &Shared, connection: &Connection) -> Result<(), Spoilt> {
    let mut calls = vec![
        Call::new(sql::CONSTRAINTS_NOW, Vec::new()),
        Call::new(sql::SESSION_RESET, Vec::new()),
    ];
    if shared.settings.options.pooler {
        // Statements that the driver prepared would stay on the server connection, where another
        // process may prepare statements with the same names.
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
