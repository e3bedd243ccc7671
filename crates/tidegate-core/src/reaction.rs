//! Reactions: handlers that process the events of streams, each stream under a lease.
//!
//! A [`Subscription`](crate::row::Subscription) is the cursor of one reaction in one stream.
//! [`claim`] leases subscriptions that have events to process. The engine passes the events to the
//! handler, in order, and ends the lease with [`react`], [`ack`], [`fail`], [`block`] or [`defer`].
//! A lease is lost when it expires, even if no other worker has claimed the subscription since. A
//! report under a lost lease has no effect, and the answer says so.
//!
//! **Two counters.** `failures` counts the consecutive failures that handlers report; more than
//! `maxRetries` block the subscription. `claims` counts consecutive claims without progress, that
//! is, leases that expired. Progress resets both. A reported failure resets `claims`, because
//! failures have their own limit; without `blockOnError` they are retried without end.
//!
//! **Fairness.** The subscription that has waited longest is claimed first. A claimed subscription
//! goes to the back of the queue, and again when its lease ends and it still has events. So if n
//! streams of a reaction have events, each of them is claimed after at most ⌈n / limit⌉ claims.
//! (A stream that gets its first events is behind the waiting streams only if the clock has moved.)

mod define;
mod end;
mod lease;
mod react;
mod repair;
#[cfg(test)]
mod tests;

pub use define::{
    Backoff, BackoffKind, DEFAULT_MAX_LOST_LEASES, Follower, Reaction, ReactionErrors,
    ReactionProblem, Source,
};
pub use end::{Ack, Failed, Failure, MAX_ERROR_BYTES, ack, block, defer, fail};
pub use lease::{Blocked, Claimed, Lease, Leased, Outcome, claim, renew};
pub use react::{Effect, Effected, React, Reacted, Then, react};
pub use repair::{Filter, Pattern, PatternError, Remedy, Repair, StreamSelection, reset, unblock};

/// Reason why a command on reactions was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReactionRefusal {
    /// The worker reports versions that were never committed.
    #[error(
        "reaction `{reaction}`, stream `{stream}`: cannot acknowledge version {upto}: only \
         versions up to {want} are committed"
    )]
    Beyond {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
        /// The version that the worker reports.
        upto: i64,
        /// The last committed version.
        want: i64,
    },
    /// The worker no longer has the lease: its report had no effect.
    #[error("reaction `{reaction}`, stream `{stream}`: lease lost, the report had no effect")]
    Lost {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
    },
    /// A reset with an empty filter.
    #[error("reaction `{reaction}`: a reset of all streams needs all: true, or give a filter")]
    NeedsAll {
        /// The reaction.
        reaction: String,
    },
}

impl ReactionRefusal {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Beyond { .. } => "ack_beyond_stream",
            Self::Lost { .. } => "reaction_lease_lost",
            Self::NeedsAll { .. } => "reset_needs_all",
        }
    }
}
