//! Databases that an earlier build has made are opened by this build, and all runs in them end as
//! they should (ADR 23). See the README in this folder.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks at the rows it is about")]
#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

mod code;
mod content;
mod finish;
mod inputs;
mod limits;
mod make;
mod stores;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use expect_test::expect_file;
use tidegate::testing::VirtualClock;
use tidegate_core::time::Timestamp;

use self::{
    finish::{finish, finish_late},
    make::{BEGINS, TAKES, fill},
    stores::{Opened, folder, schema_of},
};

/// Builds whose databases are stored, each in a folder beside this file.
const BUILDS: [&str; 3] = ["before_0023", "before_delivery", "before_listeners"];

/// Environment variable that makes the generator write the databases of a build.
const MAKE: &str = "TIDEGATE_MAKE_OLD_DATABASES";

fn begins() -> VirtualClock {
    VirtualClock::new(Timestamp::parse_rfc3339(BEGINS).unwrap())
}

/// Returns a clock that is set to this long after the databases were made.
fn later(since: Duration) -> VirtualClock {
    let since = u64::try_from((TAKES + since).as_millis()).unwrap();
    VirtualClock::new(Timestamp::parse_rfc3339(BEGINS).unwrap().plus_ms(since))
}

const MINUTE: Duration = Duration::from_secs(60);

/// Longer than any wait in the databases, but shorter than the retention of ended runs.
const DAYS: Duration = Duration::from_secs(20 * 24 * 60 * 60);

/// Returns the path of a file of the newest databases. The generator must still make the same
/// content.
fn newest(file: &str) -> PathBuf {
    folder(BUILDS[BUILDS.len() - 1]).join(file)
}

#[tokio::test]
async fn an_old_sqlite_file_is_finished() {
    for build in BUILDS {
        let old = folder(build).join("sqlite.db");
        finish(&Opened::sqlite(Some(&old), later(MINUTE)).await, build).await;
    }
}

/// All due times in the database are long past.
#[tokio::test]
async fn an_old_sqlite_file_is_finished_after_weeks() {
    for build in BUILDS {
        let old = folder(build).join("sqlite.db");
        finish_late(&Opened::sqlite(Some(&old), later(DAYS)).await).await;
    }
}

#[tokio::test]
async fn an_old_postgres_schema_is_finished() {
    for build in BUILDS {
        let old = folder(build).join("postgres.dump");
        let Some(opened) = Opened::postgres(Some(&old), later(MINUTE)).await else { return };
        finish(&opened, build).await;
    }
}

/// The generator still makes the content of the stored databases.
#[tokio::test]
async fn the_generator_fills_a_sqlite_file() {
    generate(Opened::sqlite(None, begins()).await).await;
}

/// The same on PostgreSQL.
#[tokio::test]
async fn the_generator_fills_a_postgres_schema() {
    if let Some(opened) = Opened::postgres(None, begins()).await {
        generate(opened).await;
    }
}

/// Every migration since the oldest database has a database of the build before it.
#[test]
fn every_migration_has_a_database_of_the_build_before_it() {
    let schemas: BTreeSet<u32> = BUILDS.iter().map(|build| schema_of(build)).collect();
    let oldest = *schemas.first().unwrap();
    let files =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidegate-store/sql/sqlite/migrations");
    let files = fs::read_dir(files).unwrap().map(|file| file.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let number = |name: &String| name.split('_').next().unwrap().parse::<u32>().unwrap();
    let missing: BTreeSet<String> = names
        .filter(|name| number(name) > oldest && !schemas.contains(&(number(name) - 1)))
        .collect();
    assert!(
        missing.is_empty(),
        "no folder holds a database of the build before {missing:?}: make one with the last commit \
         without the migration, as README.md of this folder says, and add it to BUILDS"
    );
}

async fn generate(opened: Opened) {
    fill(&opened.harness, &*opened.leases).await;
    let rows = opened.harness.store().dump().await.unwrap();
    if let Ok(build) = env::var(MAKE) {
        fs::create_dir_all(folder(&build)).unwrap();
        expect_file![folder(&build).join("content.txt")].assert_eq(&content::describe(&rows));
        opened.write(&build);
    } else {
        expect_file![newest("content.txt")].assert_eq(&content::describe(&rows));
    }
}
