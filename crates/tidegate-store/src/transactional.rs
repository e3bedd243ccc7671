//! Transactional steps: a step's writes to the store's own database are committed in one
//! transaction with the step's record.
//!
//! The step's statements run first, while the store holds no locks. Then the store does the same as
//! in any transaction, in the step's transaction: lock, read, decide, write, commit. How a step is
//! kept from ending the transaction itself is different in each store; this module has what they
//! share.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod recording;

use std::time::Duration;

use tidegate_core::command::{Answer, Refusal};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
#[cfg(feature = "sqlite")]
use crate::SqliteStore;
use crate::StoreError;

/// The database of a store, for transactional steps that write to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Database<'a> {
    /// The store has no database.
    None,
    /// The store is SQLite.
    #[cfg(feature = "sqlite")]
    Sqlite(&'a SqliteStore),
    /// The store is PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'a PostgresStore),
    /// Never constructed: it uses the lifetime if the program is built without a database.
    #[doc(hidden)]
    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    Never(std::convert::Infallible, &'a ()),
}

/// Committed transactional step.
#[derive(Debug)]
pub struct StepRecord<T> {
    /// Return value of the step.
    pub value: T,
    /// Answers to the commands that recorded the step, in order.
    pub answers: Vec<Answer>,
}

/// Failure of a transactional step: neither its writes nor its record were committed. Only for
/// [`StoreError::Unknown`] this is not known.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E> {
    /// The step's own error.
    #[error("{0}")]
    Step(E),
    /// The step took longer than its timeout.
    #[error(
        "the step's part of the transaction took longer than {} ms and was undone; do less in \
         one step, or allow it more",
        .0.as_millis()
    )]
    TimedOut(Duration),
    /// The step has left the transaction in a state in which it cannot be committed.
    #[error("the step's transaction cannot be committed and was undone: {0}")]
    Spoiled(String),
    /// The record was refused, for example because the worker has lost its lease.
    #[error("the step's record was refused, and the step's writes were undone: {0}")]
    Refused(Refusal),
    /// The step was recorded before, with the writes of that attempt.
    #[error("the step is recorded already, and the writes of this attempt were undone")]
    Recorded,
    /// Error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}
