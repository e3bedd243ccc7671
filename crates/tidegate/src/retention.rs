//! Retention: deletes what is over and old, in small parts, when nothing else is to do.

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

/// How long what is over is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Runs that have ended, with their steps and output.
    pub runs: Duration,
    /// Events and other inputs.
    pub events: Duration,
    /// Receipts of verdicts.
    pub receipts: Duration,
}

impl Default for Retention {
    /// Thirty days each: long enough to look into last month's trouble.
    fn default() -> Self {
        let month = Duration::from_hours(30 * 24);
        Self { runs: month, events: month, receipts: month }
    }
}

impl Retention {
    /// The moment since which no ended run has been deleted, for clocks that are less than a
    /// minute apart.
    pub fn runs_kept_since(&self, now: Timestamp) -> Timestamp {
        let kept = self.runs.saturating_sub(Duration::from_millis(CLOCK_GRACE_MS));
        before(now, kept)
    }
}

/// How many rows of one kind a transaction looks at.
const PART: u32 = 500;

/// How often there is a pass at the most. What is kept for less is looked at as often as that.
const PAUSE: Duration = Duration::from_hours(1);

/// Deletes what is old, for as long as the engine lives.
pub(crate) async fn run(shared: &Arc<Shared>) {
    let Retention { runs, events, receipts } = shared.options.retention;
    let pause = PAUSE.min(runs).min(events).min(receipts).max(Duration::from_secs(1));
    loop {
        shared.timer.sleep_until(shared.timer.elapsed() + pause).await;
        // Runs first: what they keep alive can go after them.
        let replies = Duration::from_millis(KEPT_MS);
        let kinds = [
            (Past::Runs, runs),
            (Past::Receipts, receipts),
            (Past::Events, events),
            (Past::Replies, replies),
        ];
        for (past, kept) in kinds {
            if let Err(error) = pass(shared, past, kept).await {
                tracing::warn!(%error, ?past, "old rows could not be deleted");
            }
        }
    }
}

/// One pass over one kind of rows, part by part. A part that the store refuses is tried in smaller
/// ones, down to the row that it refuses, which is passed over: the rest goes all the same.
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
                tracing::warn!(%error, ?past, row = ?next, "old row could not be deleted");
                most = PART;
                next
            }
        };
        let Some(next) = next else { break };
        after = next;
    }
    if rows > 0 {
        tracing::debug!(rows, ?past, "old rows were deleted");
    }
    Ok(())
}

/// Whether the same command would fail again.
fn is_refused(error: &Error) -> bool {
    let of_rows = |error: &StoreError| matches!(error, StoreError::Data(_));
    matches!(error, Error::Refused(_)) || matches!(error, Error::Store(error) if of_rows(error))
}

/// The number of the first row after a number.
async fn next_number(shared: &Shared, past: Past, after: Seq) -> Result<Option<Seq>, Error> {
    let scan = past.scan(after);
    let snapshot = shared.store.read(ReadSet::default().scan(scan.clone(), 1)).await?;
    Ok(snapshot.found(&scan).first().and_then(|row| number(row)))
}

fn before(now: Timestamp, kept: Duration) -> Timestamp {
    let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.micros().saturating_sub(kept))
}
