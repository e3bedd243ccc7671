//! Redis for tests: the server that the environment names, or a temporary one.
//!
//! As [`crate::postgres`], with `TIDEGATE_TEST_REDIS` and `scripts/redis`.

use std::{env, sync::OnceLock, time::Duration};

use crate::server::Server;

/// Returns the URL of the Redis of this process's tests; `None`, with a loud message, if there is
/// none.
pub fn url() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Shared>> = OnceLock::new();
    match SHARED.get_or_init(Shared::find) {
        Some(Shared::Named(url)) => Some(url),
        Some(Shared::Own(server)) => Some(server.url()),
        None => None,
    }
}

/// Starts a separate server; `None` if the machine has no Redis.
pub fn start() -> Option<Server> {
    Server::start("redis")
}

/// Advances the time of all keys with a prefix: the server's clock cannot be moved, and so the
/// expiry of each key is moved earlier.
pub async fn pass(url: &str, prefix: &str, time: Duration) {
    let script = redis::Script::new(
        "for _, key in ipairs(redis.call('KEYS', '{' .. ARGV[1] .. '}*')) do
           local left = redis.call('PTTL', key)
           if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[2]) end
         end",
    );
    let ms = u64::try_from(time.as_millis()).expect("no test lasts that long");
    let mut connection = connect(url).await;
    let passed = script.arg(prefix).arg(ms).invoke_async(&mut connection).await;
    let () = passed.expect("the script is right");
}

/// Opens a plain connection, to inspect the keys that a client left.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("the address of a Redis");
    client.get_multiplexed_async_connection().await.expect("it listens")
}

/// The server that all tests of one process use.
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
        assert!(env::var_os("CI").is_none(), "no Redis, and in CI a skip is a failure");
        say_skipped();
        None
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen, and has no other voice")]
fn say_skipped() {
    eprintln!("!!! NO REDIS: its tests are skipped; set TIDEGATE_TEST_REDIS or install it");
}
