//! Alarm of the sweep: the time at which the sweep has to run next.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::timer::Timer;

/// Wakes its one listener at the earliest time that was set.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    at: Mutex<Option<Duration>>,
    bell: Notify,
}

impl Alarm {
    /// Sets the alarm to `at`, unless it is already set to an earlier time.
    pub(crate) fn set(&self, at: Duration) {
        let mut set = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if set.is_none_or(|set| at < set) {
            *set = Some(at);
            self.bell.notify_one();
        }
    }

    /// Waits until the alarm's time, then clears the alarm.
    pub(crate) async fn ring(&self, timer: &dyn Timer) {
        loop {
            let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
            let due = async {
                match at {
                    Some(at) => timer.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => break,
                () = self.bell.notified() => {}
            }
        }
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
