//! Every story on every store, told to the real engine.

use std::sync::Arc;

use tidegate::testing::{Lab, VirtualClock};
use tidegate_store::{PostgresOptions, PostgresStore, SqliteStore};
use tidegate_testkit::postgres as server;

mod memory {
    use super::*;

    #[expect(clippy::unused_async, reason = "the other stores open asynchronously")]
    async fn open() -> Option<Lab> {
        Some(Lab::new())
    }

    tidegate_testkit::stories!(super::open);
}

mod sqlite {
    use super::*;

    async fn open() -> Option<Lab> {
        let clock = Arc::new(VirtualClock::default());
        let store = SqliteStore::in_memory(clock.clone()).await.expect("SQLite opens");
        Some(Lab::on(Arc::new(store), clock))
    }

    tidegate_testkit::stories!(super::open);
}

mod postgres {
    use super::*;

    async fn open() -> Option<Lab> {
        let clock = Arc::new(VirtualClock::default());
        let options = PostgresOptions {
            schema: server::fresh_schema("story"),
            clock: Some(clock.clone()),
            committers: 1,
            readers: 1,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(server::url()?, options).await.expect("PostgreSQL opens");
        Some(Lab::on(Arc::new(store), clock))
    }

    tidegate_testkit::stories!(super::open);
}
