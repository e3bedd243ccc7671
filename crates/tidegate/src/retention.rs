//! Retention: deletes the old rows of finished work, in small batches.

use std::{sync::Arc, time::Duration};

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    idempotency_key::KEPT_MS,
    reads::ReadSet,
    retention::{CLOCK_GRACE_MS, Past, number},
    time::Timestamp,
};
use tidegate_store::StoreError;

use crate::{engine::Shared, error::Error};

/// Retention periods: how long finished data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Period of ended runs, with their steps and output.
    pub runs: Duration,
    /// Period of events and other inputs.
    pub events: Duration,
    /// Period of receipts.
    pub receipts: Duration,
    /// Period of the audit log. Changes of overrides can be undone for as long.
    pub audit: Duration,
}

impl Default for Retention {
    /// Thirty days: long enough to investigate last month's incidents. A year for the audit log,
    /// which is small.
    fn default() -> Self {
        let month = Duration::from_hours(30 * 24);
        Self { runs: month, events: month, receipts: month, audit: Duration::from_hours(365 * 24) }
    }
}

impl Retention {
    /// Returns the time since which no ended run has been deleted, if the clocks of all engines
    /// differ by less than a minute.
    pub fn runs_kept_since(&self, now: Timestamp) -> Timestamp {
        let kept = self.runs.saturating_sub(Duration::from_millis(CLOCK_GRACE_MS));
        before(now, kept)
    }
}

/// Maximum number of rows of one kind that a transaction checks.
const PART: u32 = 500;

/// Maximum time between two passes. A retention period below an hour makes the passes more
/// frequent.
const PAUSE: Duration = Duration::from_hours(1);

/// Deletes old rows until the engine stops.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let Retention { runs, events, receipts, audit } = shared.options.retention;
    let pause = PAUSE.min(runs).min(events).min(receipts).min(audit).max(Duration::from_secs(1));
    loop {
        shared.timer.sleep_until(shared.timer.elapsed() + pause).await;
        // Runs come first, because inputs can be deleted only after the runs that use them.
        let replies = Duration::from_millis(KEPT_MS);
        let kinds = [
            (Past::Runs, runs),
            (Past::Receipts, receipts),
            (Past::Events, events),
            (Past::Replies, replies),
            (Past::Audit, audit),
        ];
        for (past, kept) in kinds {
            if let Err(error) = pass(shared, past, kept).await {
                tracing::warn!(%error, ?past, "deleting old rows failed");
            }
        }
    }
}

/// Makes one pass over one kind of rows, in batches. If the store refuses a batch, it is halved
/// until only the refused row is left. That row is skipped, and the others are deleted.
async fn pass(shared: &Arc<Shared>, past: Past, kept: Duration) -> Result<(), Error> {
    let now = shared.store.read(ReadSet::default()).await?.now;
    let before = before(now, kept);
    let (mut after, mut most, mut rows) = (Seq(i64::MIN), PART, 0);
    loop {
        let command = Command::Forget { past, before, after, most };
        let next = match shared.ask(command).await {
            Ok(Answer::Forgotten(forgotten)) => {
                rows += forgotten.rows;
                forgotten.next
            }
            Ok(_) => return Ok(()),
            Err(error) if !is_refused(&error) => return Err(error),
            Err(_) if most > 1 => {
                most /= 2;
                continue;
            }
            Err(error) => {
                let next = next_number(shared, past, after).await?;
                tracing::warn!(%error, ?past, row = ?next, "deleting old row failed");
                most = PART;
                next
            }
        };
        let Some(next) = next else { break };
        after = next;
    }
    if rows > 0 {
        tracing::debug!(rows, ?past, "deleted old rows");
    }
    Ok(())
}

/// Returns whether the command was refused, so that it would fail again.
fn is_refused(error: &Error) -> bool {
    let of_rows = |error: &StoreError| matches!(error, StoreError::Data(_));
    matches!(error, Error::Refused(_)) || matches!(error, Error::Store(error) if of_rows(error))
}

/// Returns the sequence number of the first row after `after`.
async fn next_number(shared: &Shared, past: Past, after: Seq) -> Result<Option<Seq>, Error> {
    let scan = past.scan(after);
    let snapshot = shared.store.read(ReadSet::default().scan(scan.clone(), 1)).await?;
    Ok(snapshot.found(&scan).first().and_then(|row| number(row)))
}

fn before(now: Timestamp, kept: Duration) -> Timestamp {
    let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.micros().saturating_sub(kept))
}
