//! Named leases: exclusive rights with an expiry and a fencing number.
//!
//! This is a service for applications. Runs and reactions do not use it: their leases are in the
//! rows that they protect, and change in the same transaction.
//!
//! `MemoryStore`, `SqliteStore` and `PostgresStore` store leases in addition to their rows;
//! `RedisLeases` stores only leases. One contract test checks that all four give the same answers.
//! `docs/concepts/leases.md` describes the guarantees of a lease and their limits.

mod guard;
#[cfg(feature = "redis")]
mod redis;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use tidegate_core::time::Timestamp;

use crate::StoreError;

#[cfg(feature = "redis")]
pub use self::redis::RedisLeases;
pub use guard::{LeaseGuard, keep};

/// Lease service: grants at most one lease at a time for a name.
///
/// Every operation may be retried. After an error the outcome of the operation is unknown; a retry
/// with the same holder is always safe.
#[async_trait]
pub trait Leases: Send + Sync + fmt::Debug {
    /// Acquires the lease of a name for `ttl`, unless another holder has it.
    ///
    /// `holder` identifies the caller and must be unique to it: a random text, or one that stays
    /// the same over restarts. A holder that already has the lease gets it again, with a new fence
    /// and the full `ttl`. This is for two cases: the previous answer was lost, or the program was
    /// restarted and its crashed process must no longer be able to write.
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration)
    -> Result<Acquire, StoreError>;

    /// Extends a lease to `ttl` from now, with the same fence.
    ///
    /// An expired lease is lost, whether or not another holder has acquired it.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError>;

    /// Releases a lease before it expires. If the lease was lost before, this has no effect and
    /// returns `false`.
    async fn release(&self, lease: &Lease) -> Result<bool, StoreError>;
}

/// Exclusive right to act under a name until it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Name of the lease.
    pub name: String,
    /// Holder of the lease.
    pub holder: String,
    /// Fencing number, greater than that of any earlier lease of this name. The protected resource
    /// must store the greatest fence it has seen and refuse requests with a smaller one: this stops
    /// a holder whose lease has expired, independent of clocks.
    pub fence: i64,
    /// Expiry by the store's clock, which may differ from the clock of this machine. A holder
    /// should measure the time to live itself, from before it sent the request.
    pub until: Timestamp,
}

/// Result of [`Leases::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only the holder of a lease may act"]
pub enum Acquire<L = Lease> {
    /// The caller holds the lease.
    Acquired(L),
    /// Another holder has the lease.
    Held {
        /// The holder of the lease.
        by: String,
        /// Time until the lease expires, unless it is renewed or released.
        left: Duration,
    },
}

impl<L> Acquire<L> {
    /// Returns the acquired lease, if any.
    pub fn acquired(self) -> Option<L> {
        match self {
            Self::Acquired(lease) => Some(lease),
            Self::Held { .. } => None,
        }
    }
}

/// Result of [`Leases::renew`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a holder that lost its lease must stop"]
pub enum Renew {
    /// The lease has a new expiry.
    Renewed(Lease),
    /// The lease expired, was released, or was acquired again.
    Lost,
}

/// Shortest time to live: one millisecond, because Redis counts milliseconds.
pub const SHORTEST_TTL: Duration = Duration::from_millis(1);

/// Longest time to live. A holder that crashes blocks all others for that long. A longer time is
/// probably a wrong unit; a lease that is needed for longer can be renewed.
pub const LONGEST_TTL: Duration = Duration::from_hours(24);

/// Maximum number of bytes of a name or a holder: long enough for a path or two identifiers, short
/// enough for the index of every database.
pub const LONGEST_NAME: usize = 255;

/// Validated request for a lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequest {
    pub(crate) name: String,
    pub(crate) holder: String,
    /// Time to live in milliseconds, rounded down.
    pub(crate) ttl: u64,
}

impl LeaseRequest {
    pub(crate) fn new(name: &str, holder: &str, ttl: Duration) -> Result<Self, StoreError> {
        check_name("name", name)?;
        check_name("holder", holder)?;
        if !(SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
            return Err(StoreError::Config(
                format!(
                    "lease `{name}`: its time must be from {SHORTEST_TTL:?} to {} h, got {ttl:?}",
                    LONGEST_TTL.as_secs() / 3600
                )
                .into(),
            ));
        }
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { name: name.to_owned(), holder: holder.to_owned(), ttl })
    }

    /// Creates a request for a renewal.
    pub(crate) fn renewal(lease: &Lease, ttl: Duration) -> Result<Self, StoreError> {
        Self::new(&lease.name, &lease.holder, ttl)
    }

    /// Validates a release, which has no `ttl`.
    pub(crate) fn check(lease: &Lease) -> Result<(), StoreError> {
        check_name("name", &lease.name)?;
        check_name("holder", &lease.holder)
    }

    /// Returns the lease that grants this request.
    pub(crate) fn granted(self, fence: i64, until: Timestamp) -> Lease {
        Lease { name: self.name, holder: self.holder, fence, until }
    }
}

/// Refuses names and holders that are empty, too long or contain control characters, in all stores
/// alike: PostgreSQL cannot store NUL, and names are written to logs.
fn check_name(what: &str, text: &str) -> Result<(), StoreError> {
    let problem = if text.is_empty() {
        "empty"
    } else if text.len() > LONGEST_NAME {
        "longer than 255 bytes"
    } else if text.chars().any(char::is_control) {
        "with a control character"
    } else {
        return Ok(());
    };
    let shown: String = text.chars().take(40).collect();
    Err(StoreError::Config(format!("a lease's {what} must not be {problem}, got {shown:?}").into()))
}

/// Returns the remaining time of a lease.
pub(crate) fn left(until: Timestamp, now: Timestamp) -> Duration {
    let micros = until.micros().saturating_sub(now.micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
