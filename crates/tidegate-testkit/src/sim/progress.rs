//! Progress messages of simulations of many seeds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of seeds between two messages.
const EVERY: u64 = 5000;

/// Counts the simulated seeds, and prints the count to standard error if there are many.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    passed: AtomicU64,
}

impl Progress {
    /// Creates a counter for `total` seeds.
    pub fn new(total: u64) -> Self {
        Self { total, passed: AtomicU64::new(0) }
    }

    /// Counts a seed that was simulated without a violation.
    #[expect(clippy::print_stderr, reason = "the message is for the person who waits")]
    pub fn count(&self) {
        let passed = self.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if passed.is_multiple_of(EVERY) {
            eprintln!("{passed} of {} seeds passed", self.total);
        }
    }
}
