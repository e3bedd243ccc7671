//! The stores that every story is told on, each empty and on a virtual clock.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use tidegate::{
    store::{PostgresOptions, PostgresStore, SqliteStore},
    testing::{Lab, VirtualClock},
};

pub(crate) async fn memory() -> Option<Lab> {
    Some(Lab::new())
}

pub(crate) async fn sqlite() -> Option<Lab> {
    let clock = Arc::new(VirtualClock::default());
    let store = SqliteStore::in_memory(clock.clone()).await.expect("SQLite opens");
    Some(Lab::on(Arc::new(store), clock))
}

pub(crate) async fn postgres() -> Option<Lab> {
    let Ok(url) = std::env::var("TIDEGATE_TEST_POSTGRES") else {
        assert!(std::env::var_os("CI").is_none(), "no PostgreSQL, and in CI a skip is a failure");
        eprintln!("!!! NO POSTGRESQL: set TIDEGATE_TEST_POSTGRES, or use scripts/test");
        return None;
    };
    let clock = Arc::new(VirtualClock::default());
    let options = PostgresOptions {
        schema: format!("story_{:016x}", RandomState::new().hash_one(0)),
        clock: Some(clock.clone()),
        committers: 1,
        readers: 1,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::open(&url, options).await.expect("PostgreSQL opens");
    Some(Lab::on(Arc::new(store), clock))
}
