//! Transactional steps: what a step writes to the store's own database and the step's record, in
//! one transaction.
//!
//! The step's part comes first and holds no lock of ours. Then the ordinary protocol runs in the
//! same transaction: lock, read, decide, write, commit. The stores differ in how they keep a step
//! from ending the transaction; here is what they share.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod recording;

use std::time::Duration;

use tidegate_core::command::{Answer, Refusal};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
#[cfg(feature = "sqlite")]
use crate::SqliteStore;
use crate::StoreError;

/// The database that a store keeps its rows in, for steps that write to it too.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Database<'a> {
    /// There is none.
    None,
    /// A SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(&'a SqliteStore),
    /// PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'a PostgresStore),
    /// Keeps the lifetime where no database is built in.
    #[doc(hidden)]
    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    Never(std::convert::Infallible, &'a ()),
}

/// A transactional step that was kept, effect and record.
#[derive(Debug)]
pub struct StepRecord<T> {
    /// What the step gave.
    pub value: T,
    /// What its record's commands came to, in order.
    pub answers: Vec<Answer>,
}

/// Why a transactional step came to nothing: neither its effect nor its record was kept, except
/// where [`StoreError::Unknown`] says so.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E> {
    /// The step's own error.
    #[error("{0}")]
    Step(E),
    /// The step's part took too long.
    #[error(
        "the step's part of the transaction took longer than {} ms and was undone; do less in \
         one step, or allow it more",
        .0.as_millis()
    )]
    TimedOut(Duration),
    /// The step left a transaction that cannot be committed.
    #[error("the step's transaction cannot be committed and was undone: {0}")]
    Spoiled(String),
    /// The record was refused, as it is for a worker that has lost its lease.
    #[error("the step's record was refused, and its effect undone: {0}")]
    Refused(Refusal),
    /// The step has been recorded before, and so has its effect.
    #[error("the step is recorded already, and its second effect was undone")]
    Recorded,
    /// Trouble with the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}
