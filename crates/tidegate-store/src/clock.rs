//! Clocks: the clock of the system, and a clock for tests.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_core::time::Timestamp;

/// Source of time. All crates but core take the time from a clock.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current time, which may go backwards. Gates handle that. A store does not hold
    /// its time back until the clock has caught up, because nothing would become due until then.
    fn now(&self) -> Timestamp;
}

/// Clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system's clock is read")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Clock for tests, whose time changes only by `set` and `advance_ms`.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows the given time.
    pub fn new(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.micros()))
    }

    /// Sets the time, backwards or forwards.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.micros(), Ordering::SeqCst);
    }

    /// Advances the time.
    pub fn advance_ms(&self, ms: u64) {
        self.set(self.now().plus_ms(ms));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
