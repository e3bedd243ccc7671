//! Redis for tests: the server that the environment names, or a temporary one.
//!
//! Works like [`crate::postgres`], with `TIDEGATE_TEST_REDIS` and `scripts/redis`.

use std::{env, sync::OnceLock, time::Duration};

use crate::server::Server;

/// Returns the URL of the Redis of this process's tests. If there is none, prints a message and
/// returns `None`.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
    match SHARED.get_or_init(Shared::find) {
        Some(Shared::Named(url)) => Some(url),
        Some(Shared::Own(server)) => Some(server.url()),
        None => None,
    }
}

/// Starts a separate server. Returns `None` if the machine has no Redis.
pub fn start() -> Option<Server> {
    Server::start("redis")
}

/// Simulates that time has passed for all keys with a prefix: the clock of the server cannot be
/// set, so each key gets an earlier expiry.
pub async fn pass(url: &str, prefix: &str, time: Duration) {
    let script = redis::Script::new(
        "for _, key in ipairs(redis.call('KEYS', '{' .. ARGV[1] .. '}*')) do
           local left = redis.call('PTTL', key)
           if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[2]) end
         end",
    );
    let ms = u64::try_from(time.as_millis()).expect("the time fits into milliseconds");
    let mut connection = connect(url).await;
    let passed = script.arg(prefix).arg(ms).invoke_async(&mut connection).await;
    let () = passed.expect("the script runs without an error");
}

/// Opens a plain connection, to inspect the keys that a client left.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("the URL of a Redis");
    client.get_multiplexed_async_connection().await.expect("it listens")
}

/// The server for all tests of one process.
#[derive(Debug)]
enum Shared {
    Named(String),
    Own(Server),
}

impl Shared {
    fn find() -> Option<Self> {
        if let Ok(url) = env::var("TIDEGATE_TEST_REDIS") {
            return Some(Self::Named(url));
        }
        if let Some(server) = start() {
            return Some(Self::Own(server));
        }
        assert!(
            env::var_os("CI").is_none(),
            "Redis is missing: in CI its tests must not be skipped"
        );
        say_skipped();
        None
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test must print a message")]
fn say_skipped() {
    eprintln!("!!! NO REDIS: its tests are skipped; set TIDEGATE_TEST_REDIS or install it");
}
