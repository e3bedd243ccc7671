//! Timers of an engine: the machine's clock, or a test's.

use std::{fmt, future::Future, pin::Pin, time::Duration};

/// A boxed future.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Measures durations and waits for them.
///
/// A timer never steps back, and knows no dates: those are the store's.
pub trait Timer: Send + Sync + fmt::Debug {
    /// Returns the time since a fixed point in the past, which stays the same while the program
    /// runs.
    fn elapsed(&self) -> Duration;

    /// Waits until this much time has elapsed.
    fn sleep_until(&self, elapsed: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemTimer(tokio::time::Instant);

impl SystemTimer {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Timer for SystemTimer {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep_until(self.0 + elapsed))
    }
}
