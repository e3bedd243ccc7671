//! Reactions: code that follows streams under lease, with a place in each.
//!
//! A place ([`Subscription`](crate::row::Subscription)) says how far one reaction is in one stream. [`claim`]
//! leases places that have work; the engine hands the events to the handler, in order, and ends
//! the lease by [`react`], [`ack`], [`fail`], [`block`] or [`defer`]. A lease is lost when its time is up,
//! whether or not somebody else has taken the place since: what counts must not depend on who
//! looked in between. Whatever a worker says under a lost lease has no effect, and it is told so.
//!
//! **Two counters.** `failures` counts what handlers report; progress resets it, and more than
//! `maxRetries` of them in a row block the place. `claims` counts claims without progress; a lease
//! that ran out counts here only. A reported failure ends the row of lost leases, since it has a
//! budget of its own and may be retried for ever where `blockOnError` is off.
//!
//! **Fairness.** The place that has waited longest is claimed first. A claim sends what it takes
//! to the back of the line, and so does every end of a lease that leaves work. So a stream that
//! can be claimed is claimed after at most ⌈n / limit⌉ claims, where n streams of the reaction
//! have work, however busy the others are. (The clock has to move for a stream that gains work
//! to be behind those that wait; in one and the same moment streams take turns.)

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

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReactionRefusal {
    /// The worker says that it has handled what was never committed.
    #[error(
        "reaction `{reaction}`, stream `{stream}`: events up to version {want} are committed, \
         got {upto} as handled"
    )]
    Beyond {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
        /// What the worker says.
        upto: i64,
        /// The last version there is.
        want: i64,
    },
    /// The lease is not the worker's any more: nothing that it asked for has happened.
    #[error("reaction `{reaction}`, stream `{stream}`: the lease is lost, nothing was kept")]
    Lost {
        /// The reaction.
        reaction: String,
        /// The stream.
        stream: String,
    },
    /// A reset without any restriction.
    #[error("reaction `{reaction}`: a reset of all streams needs all: true, or give a filter")]
    NeedsAll {
        /// The reaction.
        reaction: String,
    },
}

impl ReactionRefusal {
    /// The stable code of this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Beyond { .. } => "ack_beyond_stream",
            Self::Lost { .. } => "reaction_lease_lost",
            Self::NeedsAll { .. } => "reset_needs_all",
        }
    }
}
