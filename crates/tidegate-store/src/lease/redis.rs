//! Leases in Redis: one Lua script per operation, with the time of the Redis server.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{
    Client, ErrorKind, FromRedisValue, RedisError, Script, ScriptInvocation,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tidegate_core::time::Timestamp;

use super::{Acquire, Lease, LeaseRequest, Leases, Renew, check_name};
use crate::{Reason, StoreError};

/// Timeout for a connection or an answer: much shorter than a third of a usual time to live, so
/// that a renewal can be retried in time.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of connection attempts before a caller gets an error. More attempts would take longer
/// than short leases last.
const CONNECT_RETRIES: usize = 2;

/// Leases in one Redis server.
///
/// Redis answers before it has replicated a lease or stored it on disk. After a failover or restart
/// that lost a lease, two holders may have it at once. Then only resources that check the fence are
/// safe.
pub struct RedisLeases {
    connection: ConnectionManager,
    prefix: String,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl fmt::Debug for RedisLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the connection: its address may contain a password.
        f.debug_struct("RedisLeases").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RedisLeases {
    /// Connects to `redis://user:password@host:port/database`.
    ///
    /// Every key begins with `prefix`: processes that share leases must use the same prefix.
    pub async fn open(url: &str, prefix: &str) -> Result<Self, StoreError> {
        check_name("prefix", prefix)?;
        if prefix.contains(['{', '}']) {
            return Err(StoreError::Config(
                format!(
                    "a lease's prefix must not contain braces, because keys have it in braces; got \
                     `{prefix}`"
                )
                .into(),
            ));
        }
        let client = Client::open(url).map_err(trouble)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT))
            .set_number_of_retries(CONNECT_RETRIES);
        let connection = ConnectionManager::new_with_config(client, config).await;
        Ok(Self {
            connection: connection.map_err(trouble)?,
            prefix: prefix.to_owned(),
            acquire: Script::new(include_str!("../../lua/lease_acquire.lua")),
            renew: Script::new(include_str!("../../lua/lease_renew.lua")),
            release: Script::new(include_str!("../../lua/lease_release.lua")),
        })
    }

    /// Returns the Redis key of a lease. The prefix is in braces, so that a Redis cluster stores
    /// all leases and the fence counter in one hash slot, as a script requires.
    fn key(&self, name: &str) -> String {
        format!("{{{}}}:lease:{name}", self.prefix)
    }

    async fn run<A: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<A, StoreError> {
        let mut connection = self.connection.clone();
        let mut answer = script.invoke_async(&mut connection).await;
        // A connection that was closed while idle is detected only by the next request. That
        // request is retried here, because every operation may be retried.
        if answer.as_ref().is_err_and(RedisError::is_connection_dropped) {
            answer = script.invoke_async(&mut connection).await;
        }
        answer.map_err(trouble)
    }
}

#[async_trait]
impl Leases for RedisLeases {
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Acquire, StoreError> {
        let request = LeaseRequest::new(name, holder, ttl)?;
        let mut script = self.acquire.key(self.key(name));
        script.key(format!("{{{}}}:fence", self.prefix)).arg(holder).arg(request.ttl);
        let (fence, time, by): (i64, i64, String) = self.run(&script).await?;
        if fence > 0 {
            return Ok(Acquire::Acquired(request.granted(fence, Timestamp::from_micros(time))));
        }
        let left = Duration::from_millis(u64::try_from(time).unwrap_or(0));
        Ok(Acquire::Held { by, left })
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Renew, StoreError> {
        let request = LeaseRequest::renewal(lease, ttl)?;
        let mut script = self.renew.key(self.key(&lease.name));
        script.arg(value(lease)).arg(request.ttl);
        Ok(match self.run(&script).await? {
            0 => Renew::Lost,
            until => Renew::Renewed(request.granted(lease.fence, Timestamp::from_micros(until))),
        })
    }

    async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        LeaseRequest::check(lease)?;
        let mut script = self.release.key(self.key(&lease.name));
        script.arg(value(lease));
        self.run(&script).await
    }
}

/// Returns the value that the acquire script stores under a lease's key.
fn value(lease: &Lease) -> String {
    format!("{}:{}", lease.fence, lease.holder)
}

fn trouble(error: RedisError) -> StoreError {
    let kind = error.kind();
    let text = Reason::new(format!("Redis: {error}"), Arc::new(error));
    if matches!(kind, ErrorKind::InvalidClientConfig | ErrorKind::AuthenticationFailed) {
        StoreError::Config(text)
    } else if matches!(kind, ErrorKind::Parse | ErrorKind::UnexpectedReturnType) {
        StoreError::Corrupt(text)
    } else {
        StoreError::Unavailable(text)
    }
}
