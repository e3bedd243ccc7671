//! The stores on which every story runs. Each one is empty at the start.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tidegate::{
    Ctx, Engine, Workflow,
    testing::{TestHarness, VirtualClock},
};
use tidegate_store::{
    Clock, Database, MemoryStore, PostgresOptions, PostgresStore, SqliteStore, Store,
};

use crate::faults::Faults;

macro_rules! labs {
    ($($store:ident: $open:ident,)*) => {
        $(/// A harness on this store.
        pub(crate) async fn $store() -> Option<TestHarness> {
            let clock = Arc::new(VirtualClock::default());
            Some(TestHarness::on($open(clock.clone()).await?, clock))
        })*

        /// The same stores inside a wrapper that injects failures.
        pub(crate) mod faulty {
            use super::{Arc, Faults, TestHarness, VirtualClock};

            $(pub(crate) async fn $store() -> Option<(TestHarness, Arc<Faults>)> {
                let clock = Arc::new(VirtualClock::default());
                let faults = Arc::new(Faults::new(super::$open(clock.clone()).await?));
                Some((TestHarness::on(faults.clone(), clock), faults))
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

/// Opens a PostgreSQL store that runs transactions concurrently.
pub(crate) async fn open_postgres_wide(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    postgres_with(clock, 3).await
}

async fn postgres_with(clock: Arc<dyn Clock>, committers: usize) -> Option<Arc<dyn Store>> {
    let Ok(url) = std::env::var("TIDEGATE_TEST_POSTGRES") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "PostgreSQL is not available, and in CI its tests must not be skipped"
        );
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

/// A SQLite file has one owner. Opening it twice in one process is an error. The file is released
/// when its engine has been shut down and dropped, whatever the engine's tasks were doing.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_free_after_a_shutdown() {
    async fn nap(ctx: Ctx, (): ()) -> tidegate::Result<()> {
        ctx.step("look", || async { Ok(()) }).await?;
        ctx.sleep("nap", Duration::from_secs(3600)).await
    }
    let name = format!("tidegate-free-{:016x}", RandomState::new().hash_one(0));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tidegate.db");
    for n in 0..20 {
        let engine = Engine::sqlite(&path).await.unwrap_or_else(|error| panic!("{n}: {error}"));
        let engine = engine.workflow(Workflow::new("a", nap)).start().await.unwrap();
        for _ in 0..10 {
            engine.send("a", ()).await.unwrap();
        }
        let error = Engine::sqlite(&path).await.map(drop).unwrap_err().to_string();
        let said = "is in use by this process; use the store that is open, or shut its engine down";
        assert!(error.contains(said), "{error}");
        engine.shutdown().await;
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A transactional step for another kind of database is refused with an error of one line, which
/// contains no rows of the store.
pub(crate) async fn a_step_of_another_database_is_refused(harness: &TestHarness) {
    async fn wrong(ctx: Ctx, sqlite: bool) -> tidegate::Result<()> {
        if sqlite {
            ctx.sqlite_step("wrong", |_| Ok(())).await
        } else {
            ctx.postgres_step("wrong", async |_| Ok(())).await
        }
    }
    let kind = match harness.store().database() {
        Database::Sqlite(_) => "a SQLite file",
        Database::Postgres(_) => "a PostgreSQL database",
        _ => "in memory",
    };
    let engine = harness.engine().workflow(Workflow::new("wrong", wrong)).start().await.unwrap();
    engine.send("other", "canary").await.unwrap();
    for (sqlite, wanted) in [(true, "SQLite file"), (false, "PostgreSQL database")] {
        if kind == format!("a {wanted}") {
            continue;
        }
        let run = engine.send("wrong", sqlite).await.unwrap().run().unwrap();
        let error = engine.output::<()>(run).await.unwrap().unwrap_err().to_string();
        let sentence = format!("this step needs a store that is a {wanted}; this one is {kind}");
        assert!(error.contains(&sentence) && error.len() < 200, "{error}");
    }
}

/// An engine that is dropped without a shutdown releases its file, and the next engine continues
/// its run.
#[tokio::test]
async fn a_dropped_engine_frees_its_file() {
    let dir = std::env::temp_dir().join(format!("tidegate-dropped-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let serve = || async {
        let hold = Workflow::new("hold", async |ctx: Ctx, n: u32| {
            // The first engine is dropped while this step is executing.
            ctx.step("hold", || async {
                if n == 1 { Ok(()) } else { std::future::pending().await }
            })
            .await
        });
        let engine = Engine::sqlite(dir.join("a.db")).await.unwrap();
        engine.workflow(hold).start().await.unwrap()
    };
    for _ in 0..3 {
        let engine = serve().await;
        let (other, run) = (engine.clone(), engine.start::<_, ()>("hold", 2).await.unwrap());
        engine.start::<_, ()>("hold", 1).await.unwrap().output().await.unwrap();
        drop(engine);
        assert_eq!(other.start::<_, ()>("hold", 1).await.unwrap().output().await.unwrap(), ());
        drop((other, run));
    }
    drop(serve().await);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The database's error is the source of the store's error and of the engine's error.
#[tokio::test]
async fn the_error_of_the_database_is_the_source() {
    let path = std::env::temp_dir().join(format!("tidegate-garbage-{}", std::process::id()));
    std::fs::write(&path, "no database ".repeat(1000)).unwrap();
    let error = Engine::sqlite(&path).await.unwrap_err();
    let source = std::error::Error::source(&error).expect("the error of SQLite is the source");
    assert!(source.is::<rusqlite::Error>(), "{source:?}");
    std::fs::remove_file(&path).unwrap();

    let patience = Duration::from_millis(10);
    let options = PostgresOptions { patience, ..PostgresOptions::default() };
    let refused = PostgresStore::open("postgres://user@127.0.0.1:1/none", options).await;
    let error = tidegate::Error::from(refused.unwrap_err());
    assert_eq!(error.code(), "store_unavailable");
    let source = std::error::Error::source(&error).expect("the error of the driver is the source");
    assert!(source.is::<tokio_postgres::Error>(), "{source:?}");
}
