//! The ways in which a worker ends its lease on a stream: ack, fail, block or defer.

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

/// Maximum length of a stored error message.
pub const MAX_ERROR_BYTES: usize = 4096;

/// Acknowledgement: all events up to a version are processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The lease under which the events were processed.
    pub lease: Lease,
    /// The version of the last event that was processed completely.
    pub upto: i64,
}

/// Failure that a handler reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The version of the last event that was processed before the failing one.
    pub done_upto: i64,
    /// The error message.
    pub error: String,
    /// Whether a retry may succeed.
    pub retryable: bool,
    /// A random number, for the jitter of the backoff.
    pub chance: u32,
    /// The delay that the handler requests instead of the backoff.
    pub wait_ms: Option<u64>,
}

/// Result of a reported failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The events after `at` are delivered again.
    Retry {
        /// The version of the last processed event.
        at: i64,
        /// The number of consecutive failures.
        failures: u32,
        /// The earliest time of the retry.
        due: Option<Timestamp>,
    },
    /// The stream is blocked: no events are delivered until it is unblocked.
    Blocked {
        /// The version of the last processed event.
        at: i64,
        /// The reason.
        reason: String,
    },
}

/// Advances cursors and releases their leases. If one entry is refused, all are.
///
/// Returns the cursor of each entry, in order. An entry whose lease is lost has no effect and is
/// reported as lost; the other entries take effect. Progress resets both counters; an ack without
/// progress only releases the lease.
pub fn ack(draft: &mut Draft, acks: &[Ack]) -> Decided<Vec<Outcome<i64>>, ReactionRefusal> {
    lock(draft, acks.iter().map(|ack| &ack.lease))?;
    acks.iter().map(|ack| end(draft, &ack.lease, ack.upto, |_, _| ())).map(at).collect()
}

/// Counts one failure and releases the lease. The remaining events are delivered again, or the
/// stream is blocked.
///
/// Progress before the failing event resets `failures` first; then the failure is counted as the
/// first one of this event. In the other order the failure would not be recorded, and each event
/// would get one attempt more than `maxRetries` allows.
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
/// The cursor advances in the same transaction, so that the processed part of a batch is not
/// processed again. A second block returns [`Outcome::Lost`], because the first one has released
/// the lease.
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

/// Defers a stream until a time, after the events that the lease holder has processed. This does
/// not count as a failure.
///
/// A worker also uses it to return streams that it will not process: with the current time as
/// `until`.
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

/// Ends a lease that is still valid: advances the cursor, releases the lease, then calls `rest`.
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

/// Refuses a version that was never committed, because it cannot have been processed.
pub(super) fn within(sub: &Subscription, upto: i64) -> Result<(), ReactionRefusal> {
    if upto <= sub.want {
        return Ok(());
    }
    let (reaction, stream, want) = (sub.reaction.clone(), sub.stream.clone(), sub.want);
    Err(ReactionRefusal::Beyond { reaction, stream, upto, want })
}

/// Advances a cursor. It never moves back. Progress resets the counters.
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

/// Returns the reason why the stream must be blocked; none if it must not.
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

/// Shortens an error message and replaces NUL characters, so that every store can store it.
fn readable(error: &str) -> String {
    error[..error.floor_char_boundary(MAX_ERROR_BYTES)].replace('\0', "\u{fffd}")
}
