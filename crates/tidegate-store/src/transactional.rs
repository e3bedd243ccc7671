//! Transactional steps: what a step writes to the store's own database and the step's record, in
//! one transaction.
//!
//! The step's part comes first and holds no lock of ours. Then the ordinary protocol runs in the
//! same transaction: lock, read, decide, write, commit. The stores differ in how they keep a step
//! from ending the transaction; here is what they share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_core::{
    catalog::Catalog,
    command::{Answer, Batch, Command, Refusal, decide, probe},
    reads::{Change, ReadSet},
    row::{RowKey, Workspace},
    time::Timestamp,
};

#[cfg(feature = "postgres")]
use crate::PostgresStore;
#[cfg(feature = "sqlite")]
use crate::SqliteStore;
use crate::{Answered, Decide, Decision, Salted, StoreError};

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
pub struct Kept<T> {
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

/// Why what was decided must not be kept.
#[derive(Debug)]
enum Undone {
    Refused(Refusal),
    Recorded,
    Store(StoreError),
}

impl<E> From<Undone> for TransactionError<E> {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Refused(refusal) => Self::Refused(refusal),
            Undone::Recorded => Self::Recorded,
            Undone::Store(error) => Self::Store(error),
        }
    }
}

/// What a decision about a step's record came to, once it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<Judged>>>);

type Judged = Result<Vec<Answer>, Undone>;

impl Verdict {
    /// The answers, or why nothing must be kept.
    pub(crate) fn take<E>(&self) -> Result<Vec<Answer>, TransactionError<E>> {
        let verdict = self.0.lock().expect("nothing panics under this lock").take();
        Ok(verdict.expect("a store asks before it answers")?)
    }
}

/// The commands that record a step, ready for a store: all of them or none.
///
/// Where nothing must be kept the decision changes nothing, and the verdict says why.
pub(crate) fn recording(
    commands: Vec<Salted>,
    catalogs: &BTreeMap<Workspace, Arc<Catalog>>,
) -> (ReadSet, Decide, Verdict) {
    let reads = probe(&commands, catalogs, Timestamp::from_micros(0));
    let verdict = Verdict::default();
    let told = verdict.clone();
    let decide = Box::new(move |snapshot| match decide(&commands, snapshot) {
        Batch::Decided(changes, answers) => {
            let judged = judge(&commands, &changes, answers);
            let kept = if judged.is_ok() { changes } else { Vec::new() };
            *told.0.lock().expect("nothing panics under this lock") = Some(judged);
            Decision::Apply(kept)
        }
        Batch::Need(reads, snapshot) => Decision::Need(reads, snapshot),
    });
    (reads, decide, verdict)
}

/// An effect is kept only with a record that is new: one that was there before is that of an
/// effect that was kept before.
fn judge(commands: &[Salted], changes: &[Change], answers: Vec<Option<Answered>>) -> Judged {
    let data = |reason: &str| Undone::Store(StoreError::Data(reason.to_owned()));
    let mut all = Vec::with_capacity(answers.len());
    for answer in answers {
        let answer = answer.ok_or_else(|| data("the record does not fit into a transaction"))?;
        all.push(answer.map_err(Undone::Refused)?);
    }
    let inserted = changes.iter().filter(|change| matches!(change, Change::Insert(_)));
    let new: BTreeSet<RowKey> = inserted.map(Change::key).collect();
    let mut steps = commands.iter().flat_map(|(command, _)| steps_of(command)).peekable();
    if steps.peek().is_none() {
        return Err(data("a transactional step must be recorded with its effect"));
    }
    if steps.all(|step| new.contains(&step)) { Ok(all) } else { Err(Undone::Recorded) }
}

/// The steps that a command records.
fn steps_of(command: &Command) -> Vec<RowKey> {
    let Command::Record { report, .. } = command else { return Vec::new() };
    report.steps.iter().map(|step| RowKey::Step(report.run, step.id.clone())).collect()
}
