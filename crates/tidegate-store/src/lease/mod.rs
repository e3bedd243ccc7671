//! Leases by name: who may act, for how long, and the number that proves it.
//!
//! A building block for programs of their own. Runs and reactions do not use it: their leases
//! are rows that change together with what they protect.
//!
//! `MemoryStore`, `SqliteStore` and `PostgresStore` keep leases beside everything else;
//! `RedisLeases` keeps nothing but leases. One contract test holds all four to the same answers.
//! What a lease promises, and what it cannot, is in the book: `docs/concepts/leases.md`.

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

/// Gives out leases: at most one at a time for a name.
///
/// Every verb may be repeated. After an error it is not known whether it took place, and asking
/// again with the same holder is always right.
#[async_trait]
pub trait Leases: Send + Sync + fmt::Debug {
    /// Takes the lease of a name for `ttl`, unless somebody else has it.
    ///
    /// `holder` is whoever asks, and nobody else: a random text, or one that stays the same over
    /// restarts. A holder that has the lease already gets it anew, with a new fence and its whole
    /// time: its answer may have been lost, or it may be a new life of a program that crashed,
    /// whose old one must not be able to write any more.
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration)
    -> Result<Acquire, StoreError>;

    /// Lets a lease last for `ttl` from now, with the same fence.
    ///
    /// Once its time is up it is lost, whether or not somebody has taken it.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError>;

    /// Gives a lease back before its time; `false`, and no effect, if it was lost before.
    async fn release(&self, lease: &Lease) -> Result<bool, StoreError>;
}

/// The right to act under a name until a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it is for.
    pub name: String,
    /// Who has it.
    pub holder: String,
    /// Greater than that of any lease of this name before. Whatever the lease protects keeps the
    /// greatest it has seen and refuses smaller ones: this, and no clock, stops a late holder.
    pub fence: i64,
    /// When it ends by the store's clock, which need not be this machine's. Those who act count
    /// their own time from before they asked.
    pub until: Timestamp,
}

/// What [`Leases::acquire`] answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "only whoever acquired a lease may act"]
pub enum Acquire<L = Lease> {
    /// It is the caller's.
    Acquired(L),
    /// Somebody else has it.
    Held {
        /// Who.
        by: String,
        /// For how long, unless it is renewed or released.
        left: Duration,
    },
}

impl<L> Acquire<L> {
    /// What was acquired, if it was.
    pub fn acquired(self) -> Option<L> {
        match self {
            Self::Acquired(lease) => Some(lease),
            Self::Held { .. } => None,
        }
    }
}

/// What [`Leases::renew`] answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "whoever lost a lease must stop"]
pub enum Renew {
    /// It lasts until a new moment.
    Renewed(Lease),
    /// Its time was up, it was released, or it was acquired anew.
    Lost,
}

/// The shortest lease: Redis counts milliseconds, and so does everyone here.
pub const SHORTEST_TTL: Duration = Duration::from_millis(1);

/// The longest lease. A holder that dies keeps everyone else out for as long; a day of that is
/// a mistake in the unit, and whoever needs a lease for longer renews it.
pub const LONGEST_TTL: Duration = Duration::from_hours(24);

/// The most bytes of a name or a holder: long enough for a path or two identifiers, short enough
/// to be a key in every index.
pub const LONGEST_NAME: usize = 255;

/// What was asked for, once it makes sense.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) holder: String,
    /// In milliseconds, rounded down: nobody thinks that a lease lasts longer than it does.
    pub(crate) ttl: u64,
}

impl Asked {
    pub(crate) fn new(name: &str, holder: &str, ttl: Duration) -> Result<Self, StoreError> {
        check_name("name", name)?;
        check_name("holder", holder)?;
        if !(SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
            return Err(StoreError::Config(format!(
                "lease `{name}`: its time must be from {SHORTEST_TTL:?} to {} h, got {ttl:?}",
                LONGEST_TTL.as_secs() / 3600
            )));
        }
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { name: name.to_owned(), holder: holder.to_owned(), ttl })
    }

    /// For a renewal.
    pub(crate) fn again(lease: &Lease, ttl: Duration) -> Result<Self, StoreError> {
        Self::new(&lease.name, &lease.holder, ttl)
    }

    /// For a release, which asks for no time.
    pub(crate) fn check(lease: &Lease) -> Result<(), StoreError> {
        check_name("name", &lease.name)?;
        check_name("holder", &lease.holder)
    }

    /// What was asked for, granted.
    pub(crate) fn granted(self, fence: i64, until: Timestamp) -> Lease {
        Lease { name: self.name, holder: self.holder, fence, until }
    }
}

/// The same characters everywhere: PostgreSQL takes no NUL, and no control belongs in a log.
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
    Err(StoreError::Config(format!("a lease's {what} must not be {problem}, got {shown:?}")))
}

/// How long a lease lasts from a moment.
pub(crate) fn left(until: Timestamp, now: Timestamp) -> Duration {
    let micros = until.micros().saturating_sub(now.micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
