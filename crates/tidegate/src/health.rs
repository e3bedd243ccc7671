//! Health of the store, derived from an engine's last heartbeats and commits, for readiness probes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_store::StoreError;
use tokio::sync::Notify;

/// Health of the store as an engine last observed it.
///
/// This is kept in memory: a probe never waits for the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Time since the last successful heartbeat was sent.
    pub heartbeat_age: Duration,
    /// Heartbeat age above which the store counts as not answering: half of the lease.
    pub heartbeat_limit: Duration,
    /// Error of the last heartbeat, if it failed.
    pub heartbeat_error: Option<Arc<StoreError>>,
    /// Error of the last commit, if it failed and no later write succeeded.
    pub commit_error: Option<Arc<StoreError>>,
}

impl Health {
    /// Returns the error of the last write, if it failed.
    pub fn error(&self) -> Option<&StoreError> {
        self.commit_error.as_deref().or(self.heartbeat_error.as_deref())
    }

    /// Returns whether the last successful heartbeat is too old.
    pub fn is_overdue(&self) -> bool {
        self.heartbeat_age > self.heartbeat_limit
    }
}

/// Outcomes of the last heartbeats and commits, recorded by the tasks of an engine.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: Mutex<Last>,
    /// Notified when a commit has failed. The engine then sends a heartbeat at once, which shows
    /// whether the store is unavailable or only that transaction failed.
    pub(crate) doubt: Notify,
}

#[derive(Debug, Default)]
struct Last {
    heartbeat_at: Duration,
    heartbeat_error: Option<Arc<StoreError>>,
    commit_error: Option<Arc<StoreError>>,
}

impl Notes {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a heartbeat sent at this time was written. Clears earlier failures.
    pub(crate) fn beaten(&self, sent: Duration) {
        *self.last() = Last { heartbeat_at: sent, ..Last::default() };
    }

    pub(crate) fn heartbeat_failed(&self, error: Arc<StoreError>) {
        self.last().heartbeat_error = Some(error);
    }

    pub(crate) fn committed(&self) {
        self.last().commit_error = None;
    }

    /// Records a failed commit, unless the command caused the failure (a row that the store
    /// refuses, too many rounds of reading): that says nothing about the store's health.
    pub(crate) fn commit_failed(&self, error: Arc<StoreError>) {
        if !matches!(*error, StoreError::Data(_) | StoreError::TooManyRounds) {
            self.last().commit_error = Some(error);
            self.doubt.notify_one();
        }
    }

    pub(crate) fn health(&self, now: Duration, lease: Duration) -> Health {
        let last = self.last();
        Health {
            heartbeat_age: now.saturating_sub(last.heartbeat_at),
            heartbeat_limit: lease / 2,
            heartbeat_error: last.heartbeat_error.clone(),
            commit_error: last.commit_error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Arc, Notes, StoreError};

    #[test]
    fn the_last_write_tells_whether_the_store_works() {
        let (notes, s, lease) = (Notes::default(), Duration::from_secs, Duration::from_secs(30));
        let gone = || Arc::new(StoreError::FileGone("x".to_owned()));
        let code = |notes: &Notes| notes.health(s(3), lease).error().is_some();
        notes.beaten(s(1));
        assert!(!code(&notes));
        notes.commit_failed(gone());
        assert!(code(&notes), "a failed commit must count at once");
        notes.committed();
        assert!(!code(&notes));
        notes.commit_failed(gone());
        notes.heartbeat_failed(gone());
        notes.committed();
        assert!(code(&notes), "a failed heartbeat must count although a commit succeeded");
        notes.beaten(s(2));
        assert!(!code(&notes));
        notes.commit_failed(Arc::new(StoreError::Data("x".into())));
        assert!(!code(&notes), "a refused row must not count as a failure of the store");
    }

    #[test]
    fn a_heartbeat_that_is_not_answered_shows_by_its_age() {
        let (notes, s, lease) = (Notes::default(), Duration::from_secs, Duration::from_secs(30));
        notes.beaten(s(100));
        for (now, overdue) in [(100, false), (110, false), (115, false), (116, true)] {
            assert_eq!(notes.health(s(now), lease).is_overdue(), overdue, "{now}");
        }
    }
}
