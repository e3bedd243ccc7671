//! Transactional steps: a step's writes to the store's own database are committed in one
//! transaction with the step's record.
//!
//! The step's part comes first and holds none of the store's locks. Then the ordinary protocol runs
//! in the same transaction: lock, read, decide, write, commit. The stores differ in how they keep a
//! step from ending the transaction; this module holds the parts they share.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod recording;

use std::time::Duration;

use tidegate_core::command::{Answer, Refusal};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
#[cfg(feature = "sqlite")]
use crate::SqliteStore;
use crate::StoreError;

/// The database behind a store, for transactional steps that write to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Database<'a> {
    /// No database.
    None,
    /// A SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(&'a SqliteStore),
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'a PostgresStore),
    /// Uses the lifetime when no database is built in.
    #[doc(hidden)]
    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    Never(std::convert::Infallible, &'a ()),
}

/// Committed transactional step: effect and record.
#[derive(Debug)]
pub struct StepRecord<T> {
    /// Return value of the step.
    pub value: T,
    /// Answers to the commands of its record, in order.
    pub answers: Vec<Answer>,
}

/// Failure of a transactional step: neither its effect nor its record was committed, except where
/// [`StoreError::Unknown`] says so.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E> {
    /// The step's own error.
    #[error("{0}")]
    Step(E),
    /// The step's part exceeded its timeout.
    #[error(
        "the step's part of the transaction took longer than {} ms and was undone; do less in \
         one step, or allow it more",
        .0.as_millis()
    )]
    TimedOut(Duration),
    /// The step left a transaction that cannot be committed.
    #[error("the step's transaction cannot be committed and was undone: {0}")]
    Spoiled(String),
    /// The record was refused, for example because the worker has lost its lease.
    #[error("the step's record was refused, and its effect undone: {0}")]
    Refused(Refusal),
    /// The step and its effect were recorded before.
    #[error("the step is recorded already, and its second effect was undone")]
    Recorded,
    /// Error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}
