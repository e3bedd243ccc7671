//! Progress of long runs over many seeds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds between two lines of progress.
const EVERY: u64 = 5000;

/// A count of the seeds that have passed, printed to standard error in long runs.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    passed: AtomicU64,
}

impl Progress {
    /// A count of `total` seeds, none of which has been played.
    pub fn new(total: u64) -> Self {
        Self { total, passed: AtomicU64::new(0) }
    }

    /// Counts a seed that has passed.
    #[expect(clippy::print_stderr, reason = "a person waits for this line")]
    pub fn count(&self) {
        let passed = self.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if passed.is_multiple_of(EVERY) {
            eprintln!("{passed} of {} seeds passed", self.total);
        }
    }
}
