//! Timers of an engine: the clock of the machine, or of a test.

use std::{fmt, future::Future, pin::Pin, time::Duration};

/// A boxed future.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Measures durations and waits for them.
///
/// A timer never steps back. It does not know the date; that comes from the store's clock.
pub trait Timer: Send + Sync + fmt::Debug {
    /// Returns the time since a fixed start, which does not change while the program runs.
    fn elapsed(&self) -> Duration;

    /// Waits until [`elapsed`](Self::elapsed) has reached this value.
    fn sleep_until(&self, elapsed: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Timer on the monotonic clock of the machine.
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
