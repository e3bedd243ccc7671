//! Named leases, each operation in one flight.
//!
//! All operations on a name take its latch, so that each reads the clock and draws a fence after
//! the previous one has ended. An operation whose answer is lost is retried: the same holder
//! acquires or renews the lease again, or finds that it is already released.

use std::time::Duration;

use async_trait::async_trait;
use tidegate_core::time::Timestamp;
use tokio_postgres::Row;

use super::{
    PostgresStore, Shared,
    call::{self, Call, Param},
    connection::{Connection, first_error, only},
    error::Trouble,
    latch, run_to_the_end, sql,
};
use crate::{
    StoreError,
    lease::{Acquire, Lease, LeaseRequest, Leases, Renew},
};

#[async_trait]
impl Leases for PostgresStore {
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Acquire, StoreError> {
        let request = LeaseRequest::new(name, holder, ttl)?;
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.acquire(request).await }).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
        let (request, fence) = (LeaseRequest::renewal(lease, ttl)?, lease.fence);
        let shared = self.shared.clone();
        run_to_the_end(async move { shared.renew(request, fence).await }).await
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        LeaseRequest::check(lease)?;
        let (shared, lease) = (self.shared.clone(), lease.clone());
        run_to_the_end(async move { shared.release(&lease).await }).await
    }
}

impl Shared {
    async fn acquire(&self, request: LeaseRequest) -> Result<Acquire, StoreError> {
        let name = Param::Text(request.name.clone());
        let holder = Param::Text(request.holder.clone());
        let acquire = vec![name.clone(), holder, Param::Int(micros(request.ttl))];
        let calls = || {
            [
                Call::new(sql::shared().lease_acquire, acquire.clone()),
                Call::new(sql::shared().lease_read, vec![name.clone()]),
            ]
        };
        let rows = self.under_latch(&request.name, calls).await?;
        let row = only(&rows)?;
        let by = call::text(row, 0)?;
        if by == request.holder {
            return Ok(Acquire::Acquired(request.granted(call::int(row, 1)?, moment(row, 2)?)));
        }
        let left = u64::try_from(call::int(row, 3)?).unwrap_or(0);
        Ok(Acquire::Held { by, left: Duration::from_micros(left) })
    }

    async fn renew(&self, request: LeaseRequest, fence: i64) -> Result<Renew, StoreError> {
        let mut params = owned(&request.name, &request.holder, fence);
        params.push(Param::Int(micros(request.ttl)));
        let calls = || [Call::new(sql::shared().lease_renew, params.clone())];
        match self.under_latch(&request.name, calls).await?.first() {
            Some(row) => Ok(Renew::Renewed(request.granted(fence, moment(row, 0)?))),
            None => Ok(Renew::Lost),
        }
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        let params = owned(&lease.name, &lease.holder, lease.fence);
        let calls = || [Call::new(sql::shared().lease_release, params.clone())];
        match self.under_latch(&lease.name, calls).await?.first() {
            Some(row) => Ok(call::int(row, 0)? == 1),
            None => Ok(false),
        }
    }

    /// Runs statements in their own transaction under the latch of a name, and returns the rows of
    /// the last statement.
    async fn under_latch<const N: usize>(
        &self,
        name: &str,
        calls: impl Fn() -> [Call; N],
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = self.leases.tries();
        loop {
            let lent = tries.lend().await?;
            let result = self.try_under_latch(&lent.connection, name, calls()).await;
            if let Some(rows) = tries.settle(lent, result).await? {
                return Ok(rows);
            }
        }
    }

    async fn try_under_latch<const N: usize>(
        &self,
        connection: &Connection,
        name: &str,
        calls: [Call; N],
    ) -> Result<Vec<Row>, Trouble> {
        let settings = self.leases.settings();
        let mut flight = vec![Call::new(sql::BEGIN, Vec::new())];
        flight.extend(settings.for_transaction());
        flight.push(latch::lease(&settings.options.schema, name));
        flight.extend(calls);
        flight.push(Call::new(sql::COMMIT, Vec::new()));
        // Every answer is checked, not only that to COMMIT: the COMMIT of a failed transaction
        // succeeds, too (spec R11).
        let mut answers = first_error(connection.run(&flight).await?)?;
        Ok(answers.swap_remove(flight.len() - 2))
    }
}

/// Returns the parameters that identify one lease.
fn owned(name: &str, holder: &str, fence: i64) -> Vec<Param> {
    vec![Param::Text(name.to_owned()), Param::Text(holder.to_owned()), Param::Int(fence)]
}

/// Converts milliseconds to microseconds. The caller has checked that they are within the limit.
fn micros(ms: u64) -> i64 {
    i64::try_from(ms.saturating_mul(1000)).unwrap_or(i64::MAX)
}

fn moment(row: &Row, at: usize) -> Result<Timestamp, StoreError> {
    call::int(row, at).map(Timestamp::from_micros)
}
