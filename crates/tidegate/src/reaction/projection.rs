//! Projections: folds a batch of events and acks it in one transaction of the store's own database.

use std::{panic::AssertUnwindSafe, time::Duration};

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    reaction::{Reacted, ReactionRefusal, Then},
    stream::GUARD,
};
use tidegate_store::{Database, SeededCommand, StepRecord, StoreError, TransactionError};

use super::{
    Folds,
    delivery::Delivery,
    lease::{Halt, pause},
};
use crate::{
    step_error::{Result, StepError},
    stream::StreamEvent,
    telemetry,
};

/// Time limit for a fold. On SQLite all other writers wait meanwhile.
const LIMIT: Duration = Duration::from_secs(5);

type Transacted = Result<StepRecord<()>, TransactionError<StepError>>;

impl Delivery {
    /// Folds the whole batch at once. If that fails, folds one event after another, so that the
    /// events before the failing one are recorded.
    pub(super) async fn fold(
        &mut self,
        folds: &Folds,
        events: Vec<StreamEvent>,
    ) -> Result<(), Halt> {
        let several = events.len() > 1;
        match self.fold_batch(folds, &events, Then::Free).await? {
            Ok(()) => return Ok(()),
            Err(fault) if !several => return self.fail(&fault).await,
            Err(_) => {}
        }
        let last = events.last().map(|event| event.version);
        for event in events {
            let then = if Some(event.version) == last { Then::Free } else { Then::Keep };
            if let Err(fault) = self.fold_batch(folds, &[event], then).await? {
                return self.fail(&fault).await;
            }
        }
        Ok(())
    }

    async fn fold_batch(
        &mut self,
        folds: &Folds,
        events: &[StreamEvent],
        then: Then,
    ) -> Result<Result<()>, Halt> {
        let Some(upto) = events.last().map(|event| event.version) else { return Ok(Ok(())) };
        let kept: Vec<StreamEvent> = events.iter().filter(|it| it.name != GUARD).cloned().collect();
        let react = StreamCommand::React(self.done_upto(upto, Vec::new(), then));
        let command = Command::Stream { ws: self.leased.lease.ws.clone(), command: react };
        let salted = (command, self.keeper.shared.entropy.number());
        loop {
            let asked = self.keeper.shared.timer.elapsed();
            let shared = self.keeper.shared.clone();
            let work = async {
                let _underway = shared.tasks.underway();
                transact(shared.store.database(), folds, kept.clone(), salted.clone()).await
            };
            match self.keeper.during(work).await? {
                Ok(done) => {
                    for answer in done.answers {
                        if let Answer::Stream(StreamAnswer::Reacted(reacted)) = answer {
                            self.reacted(&reacted, asked);
                        }
                    }
                    // The committer has not seen this transaction, so the runner is told here that
                    // there may be more work.
                    let of = (self.leased.lease.ws.clone(), self.leased.lease.reaction.clone());
                    shared.reactions.has_work(&of, asked, &*shared.timer);
                    telemetry::reaction_folded(&self.served.definition.name, kept.len());
                    return Ok(Ok(()));
                }
                // An earlier attempt was committed, although its answer was lost. It also renewed
                // the lease.
                Err(TransactionError::Recorded) => {
                    let until = (then == Then::Keep).then(|| shared.clock.now());
                    let effects = Vec::new();
                    self.reacted(&Reacted { at: upto, until, already: true, effects }, asked);
                    return Ok(Ok(()));
                }
                Err(TransactionError::Refused(Refusal::Reaction(ReactionRefusal::Lost {
                    ..
                }))) => return Err(self.keeper.lost()),
                Err(TransactionError::Store(error)) if !matches!(error, StoreError::Data(_)) => {
                    tracing::warn!(%error, "fold failed, retrying");
                    pause(&shared).await;
                }
                Err(TransactionError::Step(fault)) => return Ok(Err(fault)),
                Err(other) => {
                    return Ok(Err(StepError::coded("TransactionFailed", other.to_string())));
                }
            }
        }
    }
}

/// Executes the fold and the ack in one transaction.
async fn transact(
    database: Database<'_>,
    folds: &Folds,
    events: Vec<StreamEvent>,
    ack: SeededCommand,
) -> Transacted {
    match database {
        #[cfg(feature = "sqlite")]
        Database::Sqlite(store) => {
            let Some(fold) = folds.sqlite.clone() else { return Err(no_fold("SQLite")) };
            let work = move |tx: &tidegate_store::SqliteTransaction<'_>| {
                let folded = std::panic::catch_unwind(AssertUnwindSafe(|| fold(tx, &events)));
                folded.unwrap_or_else(|payload| Err(StepError::panicked(payload.as_ref())))
            };
            store.transact_with(LIMIT, work, move |()| vec![ack]).await
        }
        #[cfg(feature = "postgres")]
        Database::Postgres(store) => {
            let Some(fold) = folds.postgres.clone() else { return Err(no_fold("PostgreSQL")) };
            let work = |tx| async move {
                let mut future = fold(tx, events);
                std::future::poll_fn(move |cx| {
                    let poll = AssertUnwindSafe(|| future.as_mut().poll(cx));
                    std::panic::catch_unwind(poll).unwrap_or_else(|payload| {
                        std::task::Poll::Ready(Err(StepError::panicked(payload.as_ref())))
                    })
                })
                .await
            };
            store.transact_with(LIMIT, work, move |()| vec![ack]).await
        }
        _ => Err(no_fold("in memory")),
    }
}

fn no_fold(store: &str) -> TransactionError<StepError> {
    let message = format!("this reaction has no fold for a store that is {store}");
    TransactionError::Step(StepError::coded("NoDatabase", message).fatal())
}
