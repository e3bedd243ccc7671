//! Named leases in SQLite, on the connection that writes.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Params, Row, Transaction};
use tidegate_core::time::Timestamp;

use super::{SqliteStore, error::refused, statements as sql, writer::Writer};
use crate::{
    StoreError,
    lease::{Acquire, Lease, LeaseRequest, Leases, Renew},
};

#[async_trait]
impl Leases for SqliteStore {
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Acquire, StoreError> {
        let request = LeaseRequest::new(name, holder, ttl)?;
        self.writer.call(move |writer| writer.acquire(request)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
        let (request, fence) = (LeaseRequest::renewal(lease, ttl)?, lease.fence);
        self.writer.call(move |writer| writer.renew(request, fence)).await
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        LeaseRequest::check(lease)?;
        let lease = lease.clone();
        self.writer.call(move |writer| writer.release(&lease)).await
    }
}

impl Writer {
    fn acquire(&mut self, request: LeaseRequest) -> Result<Acquire, StoreError> {
        let now = self.rules.clock.now();
        self.lease_transaction(|tx| {
            let by_name = (&request.name, now.micros());
            let held: Option<(String, i64)> =
                one(tx, sql::shared().lease_read, by_name, |row| Ok((row.get(0)?, row.get(3)?)))?;
            if let Some((by, left)) = held
                && by != request.holder
                && left > 0
            {
                let left = Duration::from_micros(left.unsigned_abs());
                return Ok(Acquire::Held { by, left });
            }
            let fence = one(tx, sql::own().fence_next, (), |row| row.get(0))?;
            let fence = fence.expect("the statement returns the new fence");
            let until = now.plus_ms(request.ttl);
            let row = (&request.name, &request.holder, fence, until.micros(), now.micros());
            let written = tx.prepare_cached(sql::shared().lease_acquire)?.execute(row)?;
            assert_eq!(written, 1, "a free lease was not acquired, although there is one writer");
            Ok(Acquire::Acquired(request.granted(fence, until)))
        })
    }

    fn renew(&mut self, request: LeaseRequest, fence: i64) -> Result<Renew, StoreError> {
        let now = self.rules.clock.now();
        let until = now.plus_ms(request.ttl).micros();
        self.lease_transaction(|tx| {
            let row = (&request.name, &request.holder, fence, until, now.micros());
            Ok(match one(tx, sql::shared().lease_renew, row, |row| row.get(0))? {
                Some(until) => {
                    Renew::Renewed(request.granted(fence, Timestamp::from_micros(until)))
                }
                None => Renew::Lost,
            })
        })
    }

    fn release(&mut self, lease: &Lease) -> Result<bool, StoreError> {
        let now = self.rules.clock.now().micros();
        self.lease_transaction(|tx| {
            let row = (&lease.name, &lease.holder, lease.fence, now);
            Ok(one(tx, sql::shared().lease_release, row, |row| row.get(0))?.unwrap_or(false))
        })
    }

    fn lease_transaction<A>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<A, StoreError> {
        self.commit(|tx, _| act(tx).map_err(refused))
    }
}

/// Returns the first row of a statement's answer, if any.
fn one<A>(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<A>,
) -> rusqlite::Result<Option<A>> {
    tx.prepare_cached(sql)?.query_row(params, read).optional()
}
