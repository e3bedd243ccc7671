//! PgBouncer for tests: a temporary one in transaction mode in front of the tests' PostgreSQL.
//!
//! One per process, tied to it by a pipe like a temporary cluster; see `scripts/pgbouncer`.

use std::{env, sync::OnceLock};

use crate::{postgres, server::Server};

/// Returns the URL of the pooler of this process's tests; `None`, with a loud message, if there is
/// none.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(start).as_ref().map(Server::url)
}

fn start() -> Option<Server> {
    let database = postgres::url()?;
    let pooler = Server::start_for("pgbouncer", &[("TIDEGATE_TEST_POSTGRES", database)]);
    if pooler.is_none() {
        assert!(env::var_os("CI").is_none(), "no PgBouncer, and in CI a skip is a failure");
        say_skipped();
    }
    pooler
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen, and has no other voice")]
fn say_skipped() {
    eprintln!("!!! NO PGBOUNCER: its tests are skipped; install the package `pgbouncer`");
}
