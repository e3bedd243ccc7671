//! Named leases, on the connection that writes.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Params, Row, Transaction};
use tidegate_core::time::Timestamp;

use super::{SqliteStore, error::refused, statements as sql, writer::Writer};
use crate::{
    StoreError,
    lease::{Acquire, Asked, Lease, Leases, Renew},
};

#[async_trait]
impl Leases for SqliteStore {
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Acquire, StoreError> {
        let asked = Asked::new(name, holder, ttl)?;
        self.writer.call(move |writer| writer.acquire(asked)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
        let (asked, fence) = (Asked::again(lease, ttl)?, lease.fence);
        self.writer.call(move |writer| writer.renew(asked, fence)).await
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        Asked::check(lease)?;
        let lease = lease.clone();
        self.writer.call(move |writer| writer.release(&lease)).await
    }
}

impl Writer {
    fn acquire(&mut self, asked: Asked) -> Result<Acquire, StoreError> {
        let now = self.rules.clock.now();
        self.lease_transaction(|tx| {
            let by_name = (&asked.name, now.micros());
            let held: Option<(String, i64)> =
                one(tx, sql::LEASE_READ, by_name, |row| Ok((row.get(0)?, row.get(3)?)))?;
            if let Some((by, left)) = held
                && by != asked.holder
                && left > 0
            {
                let left = Duration::from_micros(left.unsigned_abs());
                return Ok(Acquire::Held { by, left });
            }
            let fence = one(tx, sql::FENCE_NEXT, (), |row| row.get(0))?;
            let fence = fence.expect("a counter answers with its number");
            let until = now.plus_ms(asked.ttl);
            let row = (&asked.name, &asked.holder, fence, until.micros(), now.micros());
            let written = tx.prepare_cached(sql::LEASE_ACQUIRE)?.execute(row)?;
            assert_eq!(written, 1, "a name that was free is free: there is one writer");
            Ok(Acquire::Acquired(asked.granted(fence, until)))
        })
    }

    fn renew(&mut self, asked: Asked, fence: i64) -> Result<Renew, StoreError> {
        let now = self.rules.clock.now();
        let until = now.plus_ms(asked.ttl).micros();
        self.lease_transaction(|tx| {
            let row = (&asked.name, &asked.holder, fence, until, now.micros());
            Ok(match one(tx, sql::LEASE_RENEW, row, |row| row.get(0))? {
                Some(until) => Renew::Renewed(asked.granted(fence, Timestamp::from_micros(until))),
                None => Renew::Lost,
            })
        })
    }

    fn release(&mut self, lease: &Lease) -> Result<bool, StoreError> {
        let now = self.rules.clock.now().micros();
        self.lease_transaction(|tx| {
            let row = (&lease.name, &lease.holder, lease.fence, now);
            Ok(one(tx, sql::LEASE_RELEASE, row, |row| row.get(0))?.unwrap_or(false))
        })
    }

    fn lease_transaction<A>(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<A, StoreError> {
        self.commit(|tx, _| act(tx).map_err(refused))
    }
}

/// Returns the only row of a statement's answer, if any.
fn one<A>(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<A>,
) -> rusqlite::Result<Option<A>> {
    tx.prepare_cached(sql)?.query_row(params, read).optional()
}
