//! Options of a PostgreSQL store, and the settings derived from them.

use std::{sync::Arc, time::Duration};

use tokio_postgres::{Client, Row, config::SslMode};

use super::{
    address::Address,
    call::{self, Call, Param},
    door::{self, Driven},
    error::Trouble,
    flight::Flight,
    sql,
    tls::{self, TlsConnector},
};
use crate::{Clock, StoreError};

/// Options of a PostgreSQL store.
///
/// `lock_timeout`, `statement_timeout` and `idle_timeout` limit how long a suspended process can
/// hold a gate. So each is much shorter than a quarter of an engine's lease (7.5 of 30 seconds).
#[derive(Clone, Debug)]
pub struct Options {
    /// Schema that contains all tables. It is created if it is missing.
    pub schema: String,
    /// Number of connections that commit. With more than a few, they only wait for each other's
    /// locks.
    pub committers: usize,
    /// Number of connections that read.
    pub readers: usize,
    /// Number of connections for transactional steps, which is also how many such steps can run at
    /// once.
    pub steps: usize,
    /// Whether the address is that of a pooler in transaction mode. The store then prepares no
    /// statements, makes its settings in every transaction, and does not listen for wake-ups on
    /// this address.
    pub pooler: bool,
    /// Address of the server itself, on which to listen for wake-ups if `pooler` is set.
    pub listen_url: Option<String>,
    /// Maximum time to wait for one lock.
    pub lock_timeout: Duration,
    /// Maximum duration of one statement.
    pub statement_timeout: Duration,
    /// Maximum idle time inside a transaction, after which the server ends it.
    pub idle_timeout: Duration,
    /// Maximum duration of the statement of a heartbeat.
    pub beat_timeout: Duration,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for a server's answers, after which the connection is considered lost.
    pub round_trip_timeout: Duration,
    /// How long a transaction is retried after contention or a lost connection.
    pub patience: Duration,
    /// How long the store tries to find out the outcome of a COMMIT without an answer.
    pub outcome_timeout: Duration,
    /// Whether to accept a server that may lose committed transactions: for tests, and for data
    /// that may be lost.
    pub allow_unsafe_durability: bool,
    /// Whether to accept a server whose `version()` is not that of PostgreSQL. Tidegate is not
    /// tested on such servers.
    pub allow_other_servers: bool,
    /// Clock to use instead of the server's clock. Only for tests in one process, because other
    /// processes do not have this clock.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "tidegate".to_owned(),
            committers: 2,
            readers: 2,
            steps: 4,
            pooler: false,
            listen_url: None,
            lock_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(5),
            beat_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
            round_trip_timeout: Duration::from_secs(20),
            patience: Duration::from_secs(15),
            outcome_timeout: Duration::from_secs(30),
            allow_unsafe_durability: false,
            allow_other_servers: false,
            clock: None,
        }
    }
}

/// Maximum length of an identifier; PostgreSQL truncates longer ones.
const LONGEST_IDENTIFIER: usize = 63;

/// Oldest accepted version: 13, which has all features that the store uses. The oldest tested
/// version is 15.
const OLDEST_SERVER: i64 = 130_000;

/// Number of parameters of `tx_settings` that `session_settings` has, too: all but the clock.
const SESSION_PARAMS: usize = 4;

/// Validated options with parsed addresses.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) options: Options,
    address: Address,
    /// `None` without encryption.
    connector: Option<TlsConnector>,
    listen: Option<Box<Settings>>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Omits the address: it may contain a password.
        f.debug_struct("Settings").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Settings {
    pub(super) fn new(url: &str, mut options: Options) -> Result<Self, StoreError> {
        check_schema(&options.schema)?;
        let sizes = [
            ("committers", options.committers),
            ("readers", options.readers),
            ("steps", options.steps),
        ];
        for (name, value) in sizes {
            if value == 0 {
                return Err(StoreError::Config(format!("{name} must be at least 1, got 0").into()));
            }
        }
        let mut address = Address::parse(url, options.connect_timeout)?;
        let connector = tls::connector(&address)?;
        if connector.is_none() {
            address.config.ssl_mode(SslMode::Disable);
        }
        let listen = match options.listen_url.take() {
            Some(url) => {
                let direct = Options { pooler: false, ..options.clone() };
                Some(Box::new(Self::new(&url, direct)?))
            }
            None => None,
        };
        Ok(Self { options, address, connector, listen })
    }

    /// Returns the settings for heartbeats. They have short timeouts, so that an engine notices in
    /// time that it cannot renew its lease.
    pub(super) fn for_beats(&self) -> Self {
        let mut settings = self.clone();
        let beat = self.options.beat_timeout;
        settings.options.lock_timeout = beat;
        settings.options.statement_timeout = beat;
        settings.options.idle_timeout = beat;
        settings.options.round_trip_timeout = beat * 2;
        settings.options.patience = beat * 2;
        settings
    }

    /// Returns the settings for transactional steps. The store sets and prepares nothing on their
    /// sessions, because user code runs there.
    pub(super) fn for_steps(&self) -> Self {
        let mut settings = self.clone();
        settings.options.pooler = true;
        settings
    }

    /// Returns the settings for listening; `None` behind a pooler without a `listen_url`.
    pub(super) fn for_listening(&self) -> Option<Self> {
        match &self.listen {
            Some(direct) => Some(Self::clone(direct)),
            None => (!self.options.pooler).then(|| self.clone()),
        }
    }

    pub(super) async fn connect(&self, flight: Arc<Flight>) -> Result<(Client, Driven), Trouble> {
        // For each host, the timeout may pass once each for name lookup, address, connection and
        // handshake.
        let hosts = u32::try_from(self.address.config.get_hosts().len()).unwrap_or(u32::MAX);
        let each = self.address.config.get_connect_timeout().copied();
        let limit = each.unwrap_or(self.options.connect_timeout) * 4 * hosts.max(1);
        let connecting = door::connect(&self.address, self.connector.clone(), flight);
        match tokio::time::timeout(limit, connecting).await {
            Ok(connected) => Ok(connected?),
            Err(_) => Err(Trouble::lost("no connection in time")),
        }
    }

    /// Returns the `search_path` with which unqualified names refer to the store's schema.
    pub(super) fn search_path(&self) -> String {
        format!("\"{}\"", self.options.schema)
    }

    /// Returns the statement that makes the store's settings for a whole session; `None` if every
    /// transaction must make them.
    pub(super) fn for_session(&self) -> Option<Call> {
        let mut params = self.transaction_params();
        (!self.options.pooler).then(|| {
            params.truncate(SESSION_PARAMS);
            Call::new(sql::own().session_settings, params)
        })
    }

    /// Returns the first statement of a transaction, which makes the store's settings; `None` if
    /// the session has them already.
    pub(super) fn for_transaction(&self) -> Option<Call> {
        (self.options.pooler || self.options.clock.is_some())
            .then(|| Call::new(sql::own().tx_settings, self.transaction_params()))
    }

    /// Returns the statement that makes the settings of a dump or a migration: without timeouts.
    pub(super) fn for_long_transaction(&self) -> Call {
        let mut long = self.clone();
        long.options.lock_timeout = Duration::from_mins(1);
        long.options.statement_timeout = Duration::ZERO;
        Call::new(sql::own().tx_settings, long.transaction_params())
    }

    fn transaction_params(&self) -> Vec<Param> {
        let ms = |time: Duration| Param::Text(time.as_millis().to_string());
        let options = &self.options;
        let clock = options.clock.as_ref().map(|clock| clock.now().micros().to_string());
        vec![
            Param::Text(self.search_path()),
            ms(options.lock_timeout),
            ms(options.statement_timeout),
            ms(options.idle_timeout),
            Param::Text(clock.unwrap_or_default()),
        ]
    }

    /// Refuses a server that is unsuitable: not PostgreSQL, a standby, too old, or one that may
    /// lose committed transactions.
    pub(super) fn check_server(&self, answer: &Row) -> Result<(), Trouble> {
        let standby: bool = answer.try_get(0)?;
        let synchronous = call::text(answer, 1)?;
        let fsync = call::text(answer, 2)?;
        let version = call::int(answer, 3)?;
        let product = call::text(answer, 4)?;
        let refused = |reason: String| Err(Trouble::Refused(StoreError::Config(reason.into())));
        if !self.options.allow_other_servers && !is_postgres(&product) {
            return refused(format!(
                "the server is not PostgreSQL but `{product}`, whose locks and commits Tidegate \
                 cannot rely on; use PostgreSQL, or set the option `allow_other_servers` \
                 (`postgres.allowOtherServers`) to try it"
            ));
        }
        if standby {
            // An error that is retried, because the standby may soon be promoted to primary.
            return Err(Trouble::lost(
                "the server is a standby and cannot be written to; give the address of the \
                 primary, or all addresses with target_session_attrs=read-write",
            ));
        }
        if version < OLDEST_SERVER {
            return refused(format!(
                "PostgreSQL {} is too old: Tidegate needs 13 or later",
                version / 10_000
            ));
        }
        if self.options.allow_unsafe_durability {
            return Ok(());
        }
        for (name, value) in [("synchronous_commit", synchronous), ("fsync", fsync)] {
            if value == "off" {
                return refused(format!(
                    "the server has {name}=off and may lose committed transactions; turn it on, \
                     or set the option `allow_unsafe_durability` for data that may be lost"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether the result of `version()` is from PostgreSQL itself. Other servers with the same
/// protocol give their own name, some of them after the name `PostgreSQL` and a version.
fn is_postgres(product: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "-yb-",
        "redshift",
        "greenplum",
        "cloudberry",
        "cockroach",
        "materialize",
        "questdb",
        "risingwave",
        "opengauss",
        "cratedb",
    ];
    let product = product.to_lowercase();
    product.starts_with("postgresql ") && !OTHERS.iter().any(|other| product.contains(other))
}

/// Checks the name of a schema: only characters that need no quotes are allowed, although
/// `search_path` has the name in quotes.
fn check_schema(name: &str) -> Result<(), StoreError> {
    let first = name.bytes().next().is_some_and(|it| it.is_ascii_lowercase() || it == b'_');
    let rest = name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_');
    if first && rest && name.len() <= LONGEST_IDENTIFIER && !name.starts_with("pg_") {
        return Ok(());
    }
    Err(StoreError::Config(
        format!(
            "schema must be at most {LONGEST_IDENTIFIER} lower-case letters, digits and `_`, must \
         not begin with a digit or `pg_`, got `{name}`"
        )
        .into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_plain_identifier() {
        for good in ["tidegate", "_t", "a1_b"] {
            assert!(check_schema(good).is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "1a", "Tidegate", "a-b", "a\"b", "a b", "pg_x", "ä", &long] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn servers_that_only_speak_the_protocol_are_recognized() {
        for (product, postgres) in [
            ("PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, 64-bit", true),
            ("PostgreSQL 17.2 on aarch64-unknown-linux-gnu, compiled by gcc, 64-bit", true),
            ("PostgreSQL 15.2 (EnterpriseDB Advanced Server 15.2.0) on x86_64", true),
            ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, go1.19.10)", false),
            ("PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, 64-bit", false),
            ("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu, 64-bit", false),
            ("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103", false),
            ("PostgreSQL 9.4.26 (Greenplum Database 6.20.0 build x) on x86_64", false),
            ("PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB", false),
            ("PostgreSQL 13.14.0-RisingWave-2.1.0 (abc)", false),
            ("(openGauss 3.0.0 build 02c14696) compiled at 2022", false),
            ("", false),
        ] {
            assert_eq!(is_postgres(product), postgres, "{product}");
        }
    }

    #[test]
    fn settings_do_not_print_a_password() {
        let settings = Settings::new("postgres://u:hunter2@h/db", Options::default()).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
