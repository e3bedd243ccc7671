//! Where an engine's waiting comes from: the machine's own clock, or a test's.

use std::{fmt, future::Future, pin::Pin, time::Duration};

/// A future on the heap.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Measures spans and waits for them. It never steps back, and says nothing about dates: those
/// are the store's.
pub trait Timer: Send + Sync + fmt::Debug {
    /// The time since some moment in the past, the same for as long as the program runs.
    fn elapsed(&self) -> Duration;

    /// Waits until so much has elapsed.
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
