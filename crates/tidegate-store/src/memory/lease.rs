//! Leases in memory: the reference for the leases of all other stores.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tidegate_core::time::Timestamp;

use super::MemoryStore;
use crate::{
    StoreError,
    lease::{Acquire, Lease, LeaseRequest, Leases, Renew, left},
};

/// All leases, by name.
#[derive(Debug, Default)]
pub(super) struct Held {
    leases: BTreeMap<String, Lease>,
    /// The last fence. All names share this counter, so that a name without a holder needs no
    /// entry, and its next fence is still greater than its last one.
    fence: i64,
}

impl Held {
    /// Returns the current lease of the same name, if it is this lease and has not expired.
    fn good(&mut self, lease: &Lease, now: Timestamp) -> Option<&mut Lease> {
        let held = self.leases.get_mut(&lease.name)?;
        let same = (&held.holder, held.fence) == (&lease.holder, lease.fence);
        (same && held.until > now).then_some(held)
    }
}

impl MemoryStore {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Leases for MemoryStore {
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Acquire, StoreError> {
        let request = LeaseRequest::new(name, holder, ttl)?;
        let mut held = self.held();
        let now = self.clock.now();
        if let Some(other) = held.leases.get(name)
            && other.holder != holder
            && other.until > now
        {
            return Ok(Acquire::Held { by: other.holder.clone(), left: left(other.until, now) });
        }
        held.fence += 1;
        let until = now.plus_ms(request.ttl);
        let lease = request.granted(held.fence, until);
        held.leases.insert(name.to_owned(), lease.clone());
        Ok(Acquire::Acquired(lease))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
        let request = LeaseRequest::renewal(lease, ttl)?;
        let mut held = self.held();
        let now = self.clock.now();
        let Some(lease) = held.good(lease, now) else { return Ok(Renew::Lost) };
        lease.until = now.plus_ms(request.ttl);
        Ok(Renew::Renewed(lease.clone()))
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        LeaseRequest::check(lease)?;
        let mut held = self.held();
        let good = held.good(lease, self.clock.now()).is_some();
        if good {
            held.leases.remove(&lease.name);
        }
        Ok(good)
    }
}
