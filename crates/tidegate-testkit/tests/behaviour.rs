//! Runs every behaviour of `src/behaviour` on every store.

use std::sync::Arc;

use tidegate_core::time::Timestamp;
use tidegate_store::{ManualClock, MemoryStore, PostgresOptions, PostgresStore, SqliteStore};
use tidegate_testkit::{postgres as server, world::World};

/// Returns a clock that starts on a Friday in the year 2027, far from the Unix epoch.
fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)))
}

mod memory {
    use super::*;

    #[expect(clippy::unused_async, reason = "the other stores open asynchronously")]
    async fn open() -> Option<World> {
        let clock = clock();
        Some(World::new(Arc::new(MemoryStore::new(clock.clone())), clock))
    }

    tidegate_testkit::behaviours!(super::open);
}

mod sqlite {
    use super::*;

    async fn open() -> Option<World> {
        let clock = clock();
        let store = SqliteStore::in_memory(clock.clone()).await.expect("SQLite opens");
        Some(World::new(Arc::new(store), clock))
    }

    tidegate_testkit::behaviours!(super::open);
}

mod postgres {
    use super::*;

    async fn open() -> Option<World> {
        let clock = clock();
        let options = PostgresOptions {
            schema: server::fresh_schema("behaviour"),
            clock: Some(clock.clone()),
            committers: 1,
            readers: 1,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(server::url()?, options).await.expect("PostgreSQL opens");
        Some(World::new(Arc::new(store), clock))
    }

    tidegate_testkit::behaviours!(super::open);
}
