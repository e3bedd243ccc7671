//! Where moments come from.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_core::time::Timestamp;

/// Tells the time. Everyone but core asks one of these.
pub trait Clock: Send + Sync + fmt::Debug {
    /// This moment. May step back: gates look after themselves, and a store that held its time
    /// still until the clock caught up would stop everything for as long as the step.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system's clock is read")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at a moment.
    pub fn new(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.micros()))
    }

    /// Moves to a moment, back or forth.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.micros(), Ordering::SeqCst);
    }

    /// Moves on.
    pub fn advance_ms(&self, ms: u64) {
        self.set(self.now().plus_ms(ms));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
