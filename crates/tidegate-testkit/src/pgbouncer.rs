//! PgBouncer for tests: a temporary one in transaction mode in front of the tests' PostgreSQL.
//!
//! There is one per process. It ends with the process, by a pipe between both, like a temporary
//! cluster; see `scripts/pgbouncer`.

use std::{env, sync::OnceLock};

use crate::{postgres, server::Server};

/// Returns the URL of the PgBouncer of this process's tests. If there is none, prints a message and
/// returns `None`.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(start).as_ref().map(Server::url)
}

fn start() -> Option<Server> {
    let database = postgres::url()?;
    let pooler = Server::start_for("pgbouncer", &[("TIDEGATE_TEST_POSTGRES", database)]);
    if pooler.is_none() {
        assert!(
            env::var_os("CI").is_none(),
            "PgBouncer is missing: in CI its tests must not be skipped"
        );
        say_skipped();
    }
    pooler
}

#[expect(clippy::print_stderr, reason = "a skipped test must print a message")]
fn say_skipped() {
    eprintln!("!!! NO PGBOUNCER: its tests are skipped; install the package `pgbouncer`");
}
