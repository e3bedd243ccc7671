//! The stores that every story is told on, each empty.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use tidegate::{
    store::{Clock, MemoryStore, PostgresOptions, PostgresStore, SqliteStore, Store},
    testing::{Lab, VirtualClock},
};

use crate::faults::Faults;

macro_rules! labs {
    ($($store:ident: $open:ident,)*) => {
        $(/// A lab on this store.
        pub(crate) async fn $store() -> Option<Lab> {
            let clock = Arc::new(VirtualClock::default());
            Some(Lab::on($open(clock.clone()).await?, clock))
        })*

        /// The same, with something in between that can go wrong.
        pub(crate) mod faulty {
            use super::{Arc, Faults, Lab, VirtualClock};

            $(pub(crate) async fn $store() -> Option<(Lab, Arc<Faults>)> {
                let clock = Arc::new(VirtualClock::default());
                let faults = Arc::new(Faults::new(super::$open(clock.clone()).await?));
                Some((Lab::on(faults.clone(), clock), faults))
            })*
        }
    };
}

labs! {
    memory: open_memory,
    sqlite: open_sqlite,
    postgres: open_postgres,
}

pub(crate) async fn open_memory(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    Some(Arc::new(MemoryStore::new(clock)))
}

pub(crate) async fn open_sqlite(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    Some(Arc::new(SqliteStore::in_memory(clock).await.expect("SQLite opens")))
}

pub(crate) async fn open_postgres(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    postgres_with(clock, 1).await
}

/// With transactions at the same time.
pub(crate) async fn open_postgres_wide(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    postgres_with(clock, 3).await
}

async fn postgres_with(clock: Arc<dyn Clock>, committers: usize) -> Option<Arc<dyn Store>> {
    let Ok(url) = std::env::var("TIDEGATE_TEST_POSTGRES") else {
        assert!(std::env::var_os("CI").is_none(), "no PostgreSQL, and in CI a skip is a failure");
        eprintln!("!!! NO POSTGRESQL: set TIDEGATE_TEST_POSTGRES, or use scripts/test");
        return None;
    };
    let options = PostgresOptions {
        schema: format!("story_{:016x}", RandomState::new().hash_one(0)),
        clock: Some(clock),
        committers,
        readers: 1,
        ..PostgresOptions::default()
    };
    Some(Arc::new(PostgresStore::open(&url, options).await.expect("PostgreSQL opens")))
}
