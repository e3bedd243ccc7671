//! Runs the contract of named leases on all stores that have leases.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tidegate_core::time::Timestamp;
use tidegate_store::{
    ManualClock, MemoryStore, PostgresOptions, PostgresStore, SqliteStore, lease::Leases,
};
use tidegate_testkit::{
    contract::lease::Place,
    postgres::{self, fresh_schema},
};

/// Returns a clock that starts in the year 2027, far from the Unix epoch.
fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)))
}

fn advance(clock: &ManualClock, time: Duration) {
    clock.advance_ms(u64::try_from(time.as_millis()).expect("the time fits into 64 bits"));
}

mod memory {
    use super::*;

    struct Memory(Arc<ManualClock>, Arc<MemoryStore>);

    impl Place for Memory {
        async fn open(&self) -> Arc<dyn Leases> {
            self.1.clone()
        }

        async fn pass(&self, time: Duration) {
            advance(&self.0, time);
        }
    }

    async fn memory() -> Option<Memory> {
        let clock = clock();
        Some(Memory(clock.clone(), Arc::new(MemoryStore::new(clock))))
    }

    tidegate_testkit::lease_contract!(memory);
}

mod sqlite {
    use super::*;

    struct File(Arc<ManualClock>, PathBuf);

    impl Place for File {
        async fn open(&self) -> Arc<dyn Leases> {
            let file = self.1.join("tidegate.db");
            Arc::new(SqliteStore::open(file, self.0.clone()).await.expect("SQLite opens"))
        }

        async fn pass(&self, time: Duration) {
            advance(&self.0, time);
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.1));
        }
    }

    async fn file() -> Option<File> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(fresh_schema("lease"));
        std::fs::create_dir_all(&folder).expect("the target directory can be written");
        Some(File(clock(), folder))
    }

    tidegate_testkit::lease_contract!(file);
    tidegate_testkit::durable_lease_contract!(file);
}

mod on_postgres {
    use super::*;

    /// A schema of PostgreSQL, with a manual clock for tests in which time passes; with `None` the
    /// server's clock is used.
    struct Schema(Option<Arc<ManualClock>>, String);

    impl Place for Schema {
        async fn open(&self) -> Arc<dyn Leases> {
            let url = postgres::url().expect("PostgreSQL is still available");
            let clock = self.0.clone().map(|clock| -> Arc<dyn tidegate_store::Clock> { clock });
            let options =
                PostgresOptions { schema: self.1.clone(), clock, ..PostgresOptions::default() };
            Arc::new(PostgresStore::open(url, options).await.expect("PostgreSQL opens"))
        }

        async fn pass(&self, time: Duration) {
            advance(self.0.as_ref().expect("the schema has a manual clock"), time);
        }
    }

    async fn by_our_clock() -> Option<Schema> {
        postgres::url().map(|_| Schema(Some(clock()), fresh_schema("lease")))
    }

    async fn by_the_servers_clock() -> Option<Schema> {
        postgres::url().map(|_| Schema(None, fresh_schema("lease")))
    }

    tidegate_testkit::lease_contract!(by_our_clock);
    tidegate_testkit::durable_lease_contract!(by_our_clock);
    tidegate_testkit::shared_lease_contract!(by_the_servers_clock);
}

#[cfg(feature = "redis")]
mod on_redis {
    use tidegate_store::{StoreError, lease::RedisLeases};
    use tidegate_testkit::redis;

    use super::*;

    struct Prefix(String);

    impl Prefix {
        fn url() -> &'static str {
            redis::url().expect("Redis is still available")
        }
    }

    impl Place for Prefix {
        async fn open(&self) -> Arc<dyn Leases> {
            Arc::new(RedisLeases::open(Self::url(), &self.0).await.expect("Redis answers"))
        }

        async fn pass(&self, time: Duration) {
            redis::pass(Self::url(), &self.0, time).await;
        }
    }

    async fn prefix() -> Option<Prefix> {
        redis::url().map(|_| Prefix(fresh_schema("lease")))
    }

    tidegate_testkit::lease_contract!(prefix);
    tidegate_testkit::durable_lease_contract!(prefix);
    tidegate_testkit::shared_lease_contract!(prefix);

    const TTL: Duration = Duration::from_mins(1);

    /// Redis may lose all keys, for example in a failover; here by FLUSHALL.
    #[tokio::test]
    async fn fences_grow_though_the_server_forgot_everything() {
        let Some(server) = redis::start() else { return };
        let leases = RedisLeases::open(server.url(), "tidegate").await.unwrap();
        let before = leases.acquire("a", "one", TTL).await.unwrap().acquired().unwrap();
        let mut connection = redis::connect(server.url()).await;
        let () = ::redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
        let after = leases.acquire("a", "two", TTL).await.unwrap();
        let after = after.acquired().expect("Redis has lost the lease, so it can be acquired");
        assert!(after.fence > before.fence, "the fence did not grow: {before:?}, then {after:?}");
    }

    #[tokio::test]
    async fn nothing_is_left_but_a_counter_that_never_expires() {
        let Some(server) = redis::start() else { return };
        let leases = RedisLeases::open(server.url(), "shop").await.unwrap();
        for name in ["a", "b"] {
            let lease = leases.acquire(name, "one", TTL).await.unwrap().acquired().unwrap();
            assert!(leases.release(&lease).await.unwrap());
        }
        let mut connection = redis::connect(server.url()).await;
        let mut ask = async |name: &str, key: &str| -> ::redis::Value {
            ::redis::cmd(name).arg(key).query_async(&mut connection).await.unwrap()
        };
        let keys: Vec<String> = ::redis::from_redis_value(ask("KEYS", "*").await).unwrap();
        assert_eq!(keys, ["{shop}:fence"]);
        assert_eq!(ask("PTTL", "{shop}:fence").await, ::redis::Value::Int(-1));
    }

    #[tokio::test]
    async fn a_connection_that_was_cut_is_made_again() {
        let Some(server) = redis::start() else { return };
        let leases = RedisLeases::open(server.url(), "tidegate").await.unwrap();
        let lease = leases.acquire("a", "one", TTL).await.unwrap().acquired().unwrap();
        let mut connection = redis::connect(server.url()).await;
        for _ in 0..3 {
            let kill = ::redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("NORMAL").to_owned();
            let killed: i64 = kill.query_async(&mut connection).await.unwrap();
            assert_eq!(killed, 1, "the leases must have exactly one connection to kill");
            assert!(leases.release(&lease).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_server_that_is_gone_is_unavailable() {
        let Some(server) = redis::start() else { return };
        let leases = RedisLeases::open(server.url(), "tidegate").await.unwrap();
        let url = server.url().to_owned();
        drop(server);
        let error = leases.acquire("a", "one", TTL).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        let error = RedisLeases::open(&url, "tidegate").await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }

    #[tokio::test]
    async fn an_address_or_prefix_that_makes_no_sense_is_refused() {
        let Some(server) = redis::start() else { return };
        let other = server.url().replace("redis://:", "redis://:not-");
        let encrypted = server.url().replace("redis://", "rediss://");
        for (url, prefix) in [
            ("http://localhost", "tidegate"),
            (&other, "tidegate"),
            (&encrypted, "tidegate"),
            (server.url(), ""),
            (server.url(), "a{b}"),
        ] {
            let error = RedisLeases::open(url, prefix).await.unwrap_err();
            assert!(matches!(error, StoreError::Config(_)), "{url} {prefix}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_password_is_not_printed() {
        let Some(server) = redis::start() else { return };
        let leases = RedisLeases::open(server.url(), "tidegate").await.unwrap();
        assert_eq!(format!("{leases:?}"), r#"RedisLeases { prefix: "tidegate", .. }"#);
    }
}
