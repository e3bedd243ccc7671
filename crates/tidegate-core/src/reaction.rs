//! Reactions: code that follows streams under lease, with a cursor in each.
//!
//! A [`Subscription`](crate::row::Subscription) is the cursor of one reaction in one stream.
//! [`claim`] leases subscriptions that have work; the engine passes the events to the handler, in
//! order, and ends the lease by [`react`], [`ack`], [`fail`], [`block`] or [`defer`]. A lease is
//! lost when it expires, whether or not another worker has taken the subscription since: its
//! validity must not depend on who looked in between. Whatever a worker reports under a lost lease
//! has no effect, and the answer says so.
//!
//! **Two counters.** `failures` counts failures that handlers report; progress resets it, and more
//! than `maxRetries` consecutive ones block the subscription. `claims` counts claims without
//! progress; an expired lease counts here only. A reported failure ends the series of lost leases,
//! since it has its own budget and may be retried for ever where `blockOnError` is off.
//!
//! **Fairness.** The subscription that has waited longest is claimed first. A claim sends the
//! subscriptions that it takes to the back of the queue, and so does every end of a lease that
//! leaves work. So a stream that can be claimed is claimed after at most ⌈n / limit⌉ claims, where
//! n streams of the reaction have work, however busy the others are. (The clock has to move for a
//! stream that gains work to be behind those that wait; at one point in time streams take turns.)

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

/// Reason why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReactionRefusal {
    /// The worker reports versions that were never committed.
    #[error(
        "reaction `{reaction}`, stream `{stream}`: events up to version {want} are committed, \
         got {upto} as handled"
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
    /// The lease no longer belongs to the worker: nothing that it requested has happened.
    #[error("reaction `{reaction}`, stream `{stream}`: the lease is lost, nothing was kept")]
    Lost {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
    },
    /// A reset without any filter.
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
