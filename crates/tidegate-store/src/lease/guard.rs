//! `LeaseGuard`: a lease that is renewed in the background.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout_at},
};

use super::{Acquire, Lease, Leases, Renew};
use crate::StoreError;

/// Lease that is renewed whenever a third of its time to live has passed, until it is lost,
/// released or dropped.
#[derive(Debug)]
pub struct LeaseGuard {
    lease: Lease,
    lost: watch::Receiver<bool>,
    /// Dropping the sender ends the renewals and releases the lease.
    release: oneshot::Sender<oneshot::Sender<bool>>,
}

/// Acquires a lease and renews it in the background. Must be called inside a tokio runtime.
pub async fn keep(
    leases: Arc<dyn Leases>,
    name: &str,
    holder: &str,
    ttl: Duration,
) -> Result<Acquire<LeaseGuard>, StoreError> {
    let sent_at = Instant::now();
    let lease = match leases.acquire(name, holder, ttl).await? {
        Acquire::Acquired(lease) => lease,
        Acquire::Held { by, left } => return Ok(Acquire::Held { by, left }),
    };
    let (tell, lost) = watch::channel(false);
    let (release, mut released) = oneshot::channel::<oneshot::Sender<bool>>();
    let own = lease.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = renew(&*leases, &own, ttl, sent_at) => drop(tell.send(true)),
            answer = &mut released => {
                // If the guard was dropped, no caller gets an error of the release. The lease then
                // expires.
                let done = leases.release(&own).await.unwrap_or(false);
                drop(answer.map(|answer| answer.send(done)));
            }
        }
    });
    Ok(Acquire::Acquired(LeaseGuard { lease, lost, release }))
}

impl LeaseGuard {
    /// Returns the lease as it was acquired. Renewals do not change its fence, but the real expiry
    /// is later than the one returned here.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns whether the lease is lost: the holder must stop at once.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Waits until the holder must stop: the lease is lost, or no renewal was confirmed for half of
    /// its time to live. In the other half, the holder has time to stop before another one can
    /// acquire it.
    pub async fn lost(&self) {
        // An error would mean that the renewal task has ended, but that task always sends `true`
        // before it ends.
        drop(self.lost.clone().wait_for(|lost| *lost).await);
    }

    /// Releases the lease. Returns `false` if it was lost before.
    pub async fn release(self) -> bool {
        let (answer, answered) = oneshot::channel();
        drop(self.release.send(answer));
        answered.await.unwrap_or(false)
    }
}

/// Renews the lease until it is lost. Measures its time by the monotonic clock of this machine,
/// from before each request is sent: the store's clock may differ, and an answer may be late.
async fn renew(leases: &dyn Leases, lease: &Lease, ttl: Duration, mut confirmed: Instant) {
    let mut next = confirmed + ttl / 3;
    loop {
        let give_up = confirmed + ttl / 2;
        sleep_until(next.min(give_up)).await;
        let sent_at = Instant::now();
        match timeout_at(give_up, leases.renew(lease, ttl)).await {
            Ok(Ok(Renew::Renewed(_))) => {
                confirmed = sent_at;
                next = sent_at + ttl / 3;
            }
            Ok(Err(error)) if sent_at < give_up => {
                tracing::debug!(%error, name = lease.name, "renewing a lease failed, retrying");
                next = sent_at + ttl / 24;
            }
            Ok(Ok(Renew::Lost) | Err(_)) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::{ManualClock, MemoryStore};

    const TTL: Duration = Duration::from_secs(24);

    /// Leases whose clock advances together with tokio's paused time.
    struct Rig {
        clock: Arc<ManualClock>,
        leases: Arc<MemoryStore>,
    }

    impl Rig {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::default());
            Self { clock: clock.clone(), leases: Arc::new(MemoryStore::new(clock)) }
        }

        /// Advances both clocks in steps of one second, so that no timer fires more than a second
        /// late.
        async fn pass(&self, time: Duration) {
            for _ in 0..time.as_secs() {
                self.clock.advance_ms(1000);
                tokio::time::advance(Duration::from_secs(1)).await;
                tokio::task::yield_now().await;
            }
        }

        async fn keep(&self, leases: Arc<dyn Leases>) -> LeaseGuard {
            keep(leases, "a", "one", TTL).await.unwrap().acquired().expect("the lease is free")
        }

        fn troubled(&self, trouble: Trouble) -> Arc<dyn Leases> {
            Arc::new(Troubled(self.leases.clone(), trouble, AtomicU32::new(0)))
        }

        async fn is_free(&self) -> bool {
            self.leases.acquire("a", "two", TTL).await.unwrap().acquired().is_some()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_lease_outlasts_its_time_and_goes_when_it_is_dropped() {
        let rig = Rig::new();
        let guard = rig.keep(rig.leases.clone()).await;
        rig.pass(TTL * 4).await;
        assert!(!rig.is_free().await && !guard.is_lost());
        drop(guard);
        // No time passes here, so the lease cannot expire: only a release makes it free.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(rig.is_free().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_lease_can_be_given_back_and_waited_for() {
        let rig = Rig::new();
        let guard = rig.keep(rig.leases.clone()).await;
        assert!(guard.release().await);
        assert!(rig.is_free().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_holder_gets_no_lease() {
        let rig = Rig::new();
        let guard = rig.keep(rig.leases.clone()).await;
        let second = keep(rig.leases.clone(), "a", "two", TTL).await.unwrap();
        assert!(matches!(second, Acquire::Held { by, .. } if by == guard.lease().holder));
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_whose_lease_was_taken_learns_it_at_the_next_renewal() {
        let rig = Rig::new();
        let guard = rig.keep(rig.leases.clone()).await;
        assert!(rig.leases.release(guard.lease()).await.unwrap());
        assert!(rig.is_free().await);
        rig.pass(TTL / 3).await;
        assert!(guard.is_lost());
        guard.lost().await;
        assert!(!guard.release().await, "a lease of another holder was released");
        let third = rig.leases.acquire("a", "three", TTL).await.unwrap();
        assert!(matches!(third, Acquire::Held { by, .. } if by == "two"));
    }

    /// How renewals fail.
    #[derive(Clone, Copy, Debug)]
    enum Trouble {
        Always,
        TwoOfThree,
        Silence,
    }

    /// Lease service whose renewals fail in the given way.
    #[derive(Debug)]
    struct Troubled(Arc<MemoryStore>, Trouble, AtomicU32);

    #[async_trait]
    impl Leases for Troubled {
        async fn acquire(
            &self,
            name: &str,
            holder: &str,
            ttl: Duration,
        ) -> Result<Acquire, StoreError> {
            self.0.acquire(name, holder, ttl).await
        }

        async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
            let attempt = self.2.fetch_add(1, Ordering::Relaxed);
            match self.1 {
                Trouble::Silence => std::future::pending().await,
                Trouble::TwoOfThree if attempt % 3 == 2 => self.0.renew(lease, ttl).await,
                Trouble::TwoOfThree | Trouble::Always => {
                    Err(StoreError::Unavailable("down".into()))
                }
            }
        }

        async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
            self.0.release(lease).await
        }
    }

    /// spec N36: the holder stops before another holder can acquire the lease.
    #[tokio::test(start_paused = true)]
    async fn a_holder_that_cannot_renew_must_stop_at_half_of_its_time() {
        let rig = Rig::new();
        for trouble in [Trouble::Always, Trouble::Silence] {
            let said = format!("{trouble:?}");
            let guard = rig.keep(rig.troubled(trouble)).await;
            rig.pass(Duration::from_secs(TTL.as_secs() / 2 - 1)).await;
            assert!(!guard.is_lost(), "{said}");
            rig.pass(Duration::from_secs(1)).await;
            assert!(guard.is_lost(), "{said}");
            assert!(!rig.is_free().await, "{said}: the lease is free before it has expired");
            rig.pass(TTL / 2).await;
            let next = rig.leases.acquire("a", "two", TTL).await.unwrap();
            let next = next.acquired().expect("the lease has expired and can be acquired");
            assert!(rig.leases.release(&next).await.unwrap());
        }
    }

    /// The lease is not lost if a renewal fails and a later one succeeds in time.
    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_tried_again() {
        let rig = Rig::new();
        let guard = rig.keep(rig.troubled(Trouble::TwoOfThree)).await;
        rig.pass(TTL * 4).await;
        assert!(!guard.is_lost() && !rig.is_free().await);
    }
}
