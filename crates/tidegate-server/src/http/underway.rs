//! Registry of requests in progress, by operation. The log uses it for diagnostics.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// Maximum number of requests that are listed by name.
const NAMED: usize = 8;

/// All requests in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Underway(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: AtomicU64,
    requests: Mutex<BTreeMap<u64, (&'static str, Instant)>>,
}

/// A request in progress. It is removed from the registry on drop.
#[derive(Debug)]
pub(crate) struct Entry(Underway, u64);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.requests().remove(&self.1);
    }
}

impl Underway {
    fn requests(&self) -> MutexGuard<'_, BTreeMap<u64, (&'static str, Instant)>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request of an operation.
    pub(crate) fn begin(&self, operation: &'static str) -> Entry {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.requests().insert(number, (operation, Instant::now()));
        Entry(self.clone(), number)
    }

    /// Returns the number of requests in progress, and the oldest ones with their ages.
    pub(crate) fn oldest(&self) -> String {
        let requests = self.requests();
        let mut text = requests.len().to_string();
        for (n, (operation, since)) in requests.values().take(NAMED).enumerate() {
            let between = if n == 0 { ": " } else { ", " };
            // The result is ignored: writing to a string does not fail.
            let _ = write!(text, "{between}{operation} {} ms", since.elapsed().as_millis());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Underway;

    #[test]
    fn requests_are_named_until_they_are_answered() {
        let all = Underway::default();
        assert_eq!(all.oldest(), "0");
        let first = all.begin("sendEvents");
        let _second = all.begin("listRuns");
        let text = all.oldest();
        assert!(text.starts_with("2: sendEvents ") && text.contains(", listRuns "), "{text}");
        drop(first);
        assert!(all.oldest().starts_with("1: listRuns "));
    }
}
