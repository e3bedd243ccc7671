//! Health of the store from an engine's last writes, for readiness probes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_store::StoreError;
use tokio::sync::Notify;

/// Health of the store as an engine last observed it.
///
/// Read from memory: a probe never waits for the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Time since the last successful heartbeat was sent.
    pub heartbeat_age: Duration,
    /// Maximum heartbeat age of a store that answers: half of the lease.
    pub heartbeat_limit: Duration,
    /// Error of the last heartbeat, if it failed.
    pub heartbeat_error: Option<Arc<StoreError>>,
    /// Error of the last commit, if it failed and nothing was written since.
    pub commit_error: Option<Arc<StoreError>>,
}

impl Health {
    /// Returns the failure that keeps the engine from working, if there is one.
    pub fn error(&self) -> Option<&StoreError> {
        self.commit_error.as_deref().or(self.heartbeat_error.as_deref())
    }

    /// Returns whether no heartbeat was written for too long.
    pub fn is_overdue(&self) -> bool {
        self.heartbeat_age > self.heartbeat_limit
    }
}

/// Results of the last writes, recorded by the tasks of an engine.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: Mutex<Last>,
    /// Notified when a commit has failed: the next heartbeat, sent at once, shows whether the store
    /// is gone or only that transaction failed.
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

    /// Records a heartbeat that was sent at this time and written: earlier failures are over.
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
        assert!(code(&notes), "at once, not after the next heartbeat");
        notes.committed();
        assert!(!code(&notes));
        notes.commit_failed(gone());
        notes.heartbeat_failed(gone());
        notes.committed();
        assert!(code(&notes), "heartbeats still fail");
        notes.beaten(s(2));
        assert!(!code(&notes));
        notes.commit_failed(Arc::new(StoreError::Data("x".into())));
        assert!(!code(&notes), "a refused row is no trouble of the store");
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
