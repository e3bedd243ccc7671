//! Ends of leases other than expiry: done, failed, blocked or deferred.

use super::{
    Reaction, ReactionRefusal,
    lease::{Lease, Outcome, held, lock},
};
use crate::{
    draft::{Decided, Draft, Stop},
    row::Subscription,
    stream::to_back,
    time::Timestamp,
};

/// Maximum length of an error message that is stored.
pub const MAX_ERROR_BYTES: usize = 4096;

/// Acknowledgement of all events up to a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The lease under which they were processed.
    pub lease: Lease,
    /// The last event that was fully processed.
    pub upto: i64,
}

/// Failure that a handler reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The last event that was fully processed before the failing one.
    pub done_upto: i64,
    /// The error message.
    pub error: String,
    /// Whether a retry may help.
    pub retryable: bool,
    /// A random number, for the jitter of the backoff.
    pub chance: u32,
    /// The delay that the handler requests, instead of the backoff.
    pub wait_ms: Option<u64>,
}

/// Result of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The events after `at` are delivered again.
    Retry {
        /// The last processed event.
        at: i64,
        /// Consecutive failures.
        failures: u32,
        /// The earliest time of the retry.
        due: Option<Timestamp>,
    },
    /// Nothing is delivered until the stream is unblocked.
    Blocked {
        /// The last processed event.
        at: i64,
        /// The reason.
        reason: String,
    },
}

/// Advances cursors and releases their leases: all entries together, or none.
///
/// Returns the cursor for each entry, in their order. Entries whose lease is lost change nothing
/// and are reported as such; they do not affect the others. Progress resets both counters; an ack
/// without progress releases the lease and leaves them as they are.
pub fn ack(draft: &mut Draft, acks: &[Ack]) -> Decided<Vec<Outcome<i64>>, ReactionRefusal> {
    lock(draft, acks.iter().map(|ack| &ack.lease))?;
    acks.iter().map(|ack| end(draft, &ack.lease, ack.upto, |_, _| ())).map(at).collect()
}

/// Counts one failure, releases the lease, and delivers the rest again, or blocks the stream.
///
/// Progress before the failing event resets `failures` first, so the failure just reported is
/// always counted: it is the first of the event that the cursor is now before. Counted the other
/// way round, each event of a stream whose batches all fail somewhere would have one attempt more
/// than `maxRetries` says, and the failure would not be recorded.
pub fn fail(
    draft: &mut Draft,
    reaction: &Reaction,
    lease: &Lease,
    failure: &Failure,
) -> Decided<Outcome<Failed>, ReactionRefusal> {
    let outcome = end(draft, lease, failure.done_upto, |sub, now| {
        sub.failures = sub.failures.saturating_add(1);
        sub.claims = 0;
        let error = readable(&failure.error);
        sub.blocked = verdict(reaction, sub.failures, failure.retryable, &error);
        sub.error = Some(error);
        let backoff = reaction.backoff.as_ref();
        let backoff = backoff.map(|backoff| backoff.wait_ms(sub.failures, failure.chance));
        let wait_ms = failure.wait_ms.or(backoff).filter(|_| sub.blocked.is_none());
        sub.due = wait_ms.map(|wait_ms| now.plus_ms(wait_ms));
    })?;
    let Outcome::Done(sub) = outcome else { return Ok(Outcome::Lost) };
    let (at, failures, due) = (sub.at, sub.failures, sub.due);
    Ok(Outcome::Done(match sub.blocked {
        Some(reason) => Failed::Blocked { at, reason },
        None => Failed::Retry { at, failures, due },
    }))
}

/// Blocks a stream at the request of its lease holder, after the events that it has processed.
///
/// Cursor and block change together, so a worker that processed half of a batch keeps that half.
/// Blocking again is [`Outcome::Lost`]: the first one has released the lease.
pub fn block(
    draft: &mut Draft,
    lease: &Lease,
    done_upto: i64,
    reason: &str,
) -> Decided<Outcome<i64>, ReactionRefusal> {
    at(end(draft, lease, done_upto, |sub, _| {
        let reason = readable(reason);
        sub.claims = 0;
        sub.error = Some(reason.clone());
        sub.blocked = Some(reason);
    }))
}

/// Defers a stream until a time, after the events that its holder has processed. Not a failure.
///
/// Also used by a worker to return streams that it will not get to: deferred until now, and nothing
/// is counted.
pub fn defer(
    draft: &mut Draft,
    lease: &Lease,
    done_upto: i64,
    until: Timestamp,
) -> Decided<Outcome<i64>, ReactionRefusal> {
    at(end(draft, lease, done_upto, |sub, _| {
        sub.claims = 0;
        sub.due = Some(until);
    }))
}

/// Ends a lease that is still held: advances the cursor, releases the lease, then calls the rest.
fn end(
    draft: &mut Draft,
    lease: &Lease,
    upto: i64,
    rest: impl FnOnce(&mut Subscription, Timestamp),
) -> Decided<Outcome<Subscription>, ReactionRefusal> {
    let Some(mut sub) = held(draft, lease)? else { return Ok(Outcome::Lost) };
    within(&sub, upto).map_err(Stop::Refused)?;
    move_to(&mut sub, upto);
    (sub.owner, sub.until) = (None, None);
    if sub.has_work() {
        to_back(&mut sub, draft.now());
    }
    rest(&mut sub, draft.now());
    draft.put(sub.clone());
    Ok(Outcome::Done(sub))
}

/// Refuses versions that were never committed: they cannot have been processed.
pub(super) fn within(sub: &Subscription, upto: i64) -> Result<(), ReactionRefusal> {
    if upto <= sub.want {
        return Ok(());
    }
    let (reaction, stream, want) = (sub.reaction.clone(), sub.stream.clone(), sub.want);
    Err(ReactionRefusal::Beyond { reaction, stream, upto, want })
}

/// Advances a cursor, never back; progress resets the counters.
pub(super) fn move_to(sub: &mut Subscription, upto: i64) {
    if upto > sub.at {
        sub.at = upto;
        sub.failures = 0;
        sub.claims = 0;
        sub.error = None;
    }
}

fn at(
    outcome: Decided<Outcome<Subscription>, ReactionRefusal>,
) -> Decided<Outcome<i64>, ReactionRefusal> {
    Ok(match outcome? {
        Outcome::Done(sub) => Outcome::Done(sub.at),
        Outcome::Lost => Outcome::Lost,
    })
}

/// Returns the reason to block the stream, if it has to be blocked.
fn verdict(reaction: &Reaction, failures: u32, retryable: bool, error: &str) -> Option<String> {
    if !reaction.block_on_error {
        return None;
    }
    if !retryable {
        return Some(format!("failed with an error that is not retryable: {error}"));
    }
    let max = reaction.max_retries;
    (failures > max).then(|| format!("failed {failures} times, maxRetries is {max}: {error}"))
}

/// Cleans an error message so that every store can keep it.
fn readable(error: &str) -> String {
    error[..error.floor_char_boundary(MAX_ERROR_BYTES)].replace('\0', "\u{fffd}")
}
