//! Transactional steps: effect and record in one transaction of the store's own database.

use std::{
    future::{pending, poll_fn},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    command::Command,
    json::Payload,
    row::StepKind,
    run::record::{NewStep, Record},
};
use tidegate_store::{Database, SeededCommand, TransactionError};
use tracing::Instrument;

use super::{
    Ctx, Outcome,
    step::{Executing, read, write_back},
};
use crate::{
    step_error::{Result, StepError},
    telemetry,
};

/// Time limit for a step's work inside a transaction. On SQLite all other writers wait meanwhile.
const LIMIT: Duration = Duration::from_secs(5);

impl Ctx {
    /// Executes a step in a transaction of the store's own SQLite file, exactly once.
    ///
    /// The step's writes and its record are committed together or not at all.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite_step<T, F>(&self, id: impl Into<String>, run: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(&tidegate_store::SqliteTransaction<'_>) -> Result<T> + Send + 'static,
    {
        let id = id.into();
        let recorder = match self.begin_transaction(&id).await? {
            Begin::Recorded(outcome) => return self.read_record(&id, outcome),
            Begin::New(recorder) => recorder,
        };
        let executing = (Executing::begin(self), self.0.shared.tasks.underway());
        let Database::Sqlite(store) = self.store().database() else {
            return Err(self.no_database("SQLite file"));
        };
        let step = id.clone();
        let work = move |tx: &tidegate_store::SqliteTransaction<'_>| {
            write_back(&step, &run(tx)?).map(|(payload, _)| payload)
        };
        let done = store.transact_with(LIMIT, work, move |value| recorder.record(value));
        let done = done.instrument(telemetry::step_span(&id, self.attempt(&id))).await;
        drop(executing);
        self.end_transaction(&id, done.map(|kept| kept.value)).await
    }

    /// Executes a step in a transaction of the store's own PostgreSQL database, exactly once.
    ///
    /// The step's writes and its record are committed together or not at all.
    #[cfg(feature = "postgres")]
    pub async fn postgres_step<T, F, Fut>(&self, id: impl Into<String>, run: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce(tidegate_store::PostgresTransaction) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
    {
        let id = id.into();
        let recorder = match self.begin_transaction(&id).await? {
            Begin::Recorded(outcome) => return self.read_record(&id, outcome),
            Begin::New(recorder) => recorder,
        };
        let executing = (Executing::begin(self), self.0.shared.tasks.underway());
        let Database::Postgres(store) = self.store().database() else {
            return Err(self.no_database("PostgreSQL database"));
        };
        let work = async |tx| write_back(&id, &run(tx).await?).map(|(payload, _)| payload);
        let done = store.transact_with(LIMIT, work, |value| recorder.record(value));
        let done = done.instrument(telemetry::step_span(&id, self.attempt(&id))).await;
        drop(executing);
        self.end_transaction(&id, done.map(|kept| kept.value)).await
    }

    /// Waits for the step's turn: returns its record, or what is needed to execute it.
    async fn begin_transaction(&self, id: &str) -> Result<Begin> {
        if let Some(outcome) = self.turn(id, StepKind::Run).await? {
            return Ok(Begin::Recorded(outcome));
        }
        self.resume_backoff(id).await;
        poll_fn(|cx| self.activation_state().poll_durable(cx)).await;
        let salt = self.0.shared.entropy.number();
        Ok(Begin::New(Recorder { ctx: self.clone(), id: id.to_owned(), salt }))
    }

    async fn end_transaction<T: DeserializeOwned>(
        &self,
        id: &str,
        done: std::result::Result<Payload, TransactionError<StepError>>,
    ) -> Result<T> {
        let fault = match done {
            Ok(value) => {
                self.activation_state().progressed(id);
                return read(id, value);
            }
            Err(TransactionError::Step(fault)) => fault,
            // The fence was refused: another engine drives the run now, and this activation must
            // stop.
            Err(TransactionError::Refused(_)) => return pending().await,
            // An earlier attempt was committed, although its answer was lost.
            Err(TransactionError::Recorded) => {
                let outcome = self.outcome_of(id).await?;
                return read(id, outcome.map_err(|fault| StepError::recorded(&fault))?);
            }
            Err(other) => StepError::coded("TransactionFailed", other.to_string()),
        };
        match self.next_attempt(id, None, &fault) {
            Some(wait) => {
                self.activation_state().wait(wait);
                pending().await
            }
            None => {
                let (kind, result) = (StepKind::Run, Err(fault.to_row()));
                self.activation_state().finish(NewStep { id: id.to_owned(), kind, result });
                Err(fault.after_record())
            }
        }
    }

    fn no_database(&self, wanted: &str) -> StepError {
        // The message names only the kind of store: its text could contain rows of other runs.
        let kind = match self.store().database() {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => "a SQLite file",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "a PostgreSQL database",
            _ => "in memory",
        };
        let message = format!("this step needs a store that is a {wanted}; this one is {kind}");
        StepError::coded("NoDatabase", message).fatal()
    }
}

/// A transactional step when its turn has come.
enum Begin {
    Recorded(Outcome),
    New(Recorder),
}

/// Creates the command that records a step, after its work in the transaction.
struct Recorder {
    ctx: Ctx,
    id: String,
    salt: u64,
}

impl Recorder {
    fn record(self, value: &Payload) -> Vec<SeededCommand> {
        let known = Box::new(self.ctx.activation().run.clone());
        let steps = vec![NewStep { id: self.id, kind: StepKind::Run, result: Ok(value.clone()) }];
        let engine = known.owner.unwrap_or_default();
        let (run, fence) = (known.id.seq, known.fence);
        let report = Record { run, engine, fence, steps, ..Record::default() };
        vec![(Command::Record { known, report }, self.salt)]
    }
}
