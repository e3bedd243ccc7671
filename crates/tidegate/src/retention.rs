//! Retention: deletes what is over and old, in small parts, when nothing else is to do.

use std::{sync::Arc, time::Duration};

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    reads::ReadSet,
    reply::KEPT_MS,
    retention::Past,
    time::Timestamp,
};

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
        let kept = self.runs.saturating_sub(Duration::from_mins(1));
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

/// One pass over one kind of rows, part by part.
async fn pass(shared: &Arc<Shared>, past: Past, kept: Duration) -> Result<(), Error> {
    let now = shared.store.read(ReadSet::default()).await?.now;
    let before = before(now, kept);
    let (mut after, mut rows) = (Seq(i64::MIN), 0);
    loop {
        let command = Command::Forget { past, before, after, most: PART };
        let Answer::Forgotten(forgotten) = shared.ask(command).await? else { return Ok(()) };
        rows += forgotten.rows;
        let Some(next) = forgotten.next else { break };
        after = next;
    }
    if rows > 0 {
        tracing::debug!(rows, ?past, "old rows were deleted");
    }
    Ok(())
}

fn before(now: Timestamp, kept: Duration) -> Timestamp {
    let kept = i64::try_from(kept.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.micros().saturating_sub(kept))
}
