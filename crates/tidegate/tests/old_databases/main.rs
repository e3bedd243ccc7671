//! Databases that an earlier build has made are opened by this one, and everything in them ends as
//! it should (ADR 23). See the README beside this file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks at the rows it is about")]
#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

mod code;
mod content;
mod finish;
mod make;
mod stores;

use std::{env, fs, path::PathBuf, time::Duration};

use expect_test::expect_file;
use tidegate::testing::VirtualClock;
use tidegate_core::time::Timestamp;

use self::{
    finish::{finish, finish_late},
    make::{BEGINS, TAKES, fill},
    stores::{Opened, folder},
};

/// The builds whose databases are kept, each a folder beside this file.
const BUILDS: [&str; 1] = ["before_0023"];

/// The variable that has the generator write the databases of a build.
const MAKE: &str = "TIDEGATE_MAKE_OLD_DATABASES";

fn begins() -> VirtualClock {
    VirtualClock::new(Timestamp::parse_rfc3339(BEGINS).unwrap())
}

/// The time so long after the databases were left.
fn later(since: Duration) -> VirtualClock {
    let since = u64::try_from((TAKES + since).as_millis()).unwrap();
    VirtualClock::new(Timestamp::parse_rfc3339(BEGINS).unwrap().plus_ms(since))
}

const MINUTE: Duration = Duration::from_secs(60);

/// Longer than anything in the databases lasts, and less than what is over is kept.
const DAYS: Duration = Duration::from_secs(20 * 24 * 60 * 60);

/// The names of the newest databases' content: the generator must still make the same.
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

/// Every moment in the file is long past.
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

/// The generator of the databases makes what is in them.
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
