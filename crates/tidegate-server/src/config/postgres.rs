//! The section `[postgres]`: options of a PostgreSQL store.

use std::{path::Path, time::Duration};

use anyhow::bail;
use tidegate_store::PostgresOptions;

use super::{Config, Setting};

/// Maximum number of connections of one kind. Each is a process of the database server, and
/// connections that commit wait for each other's locks.
const MAX_CONNECTIONS: u64 = 100;

/// Maximum of all timeouts. It is longer than any lease; a larger value is probably in a wrong
/// unit.
const MAX_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// The settings of the section. A test checks that the defaults are those of [`PostgresOptions`].
pub(super) const SETTINGS: [Setting; 15] = [
    Setting {
        name: "postgres.schema",
        default: "tidegate",
        what: "schema for all tables, created if it is missing",
    },
    Setting {
        name: "postgres.pooler",
        default: "false",
        what: "whether the store's URL is that of a pooler in transaction mode",
    },
    Setting {
        name: "postgres.listenUrl",
        default: "",
        what: "direct postgres:// URL to listen for wake-ups on, beside a pooler",
    },
    Setting {
        name: "postgres.committers",
        default: "2",
        what: "number of committing connections, 1 to 100",
    },
    Setting {
        name: "postgres.readers",
        default: "2",
        what: "number of reading connections, 1 to 100",
    },
    Setting { name: "postgres.lockTimeoutMs", default: "5000", what: "lock timeout" },
    Setting {
        name: "postgres.statementTimeoutMs",
        default: "5000",
        what: "statement timeout in transactions",
    },
    Setting {
        name: "postgres.idleTimeoutMs",
        default: "5000",
        what: "idle timeout inside a transaction, after which the database ends it",
    },
    Setting {
        name: "postgres.heartbeatTimeoutMs",
        default: "2000",
        what: "statement timeout of heartbeats",
    },
    Setting {
        name: "postgres.connectTimeoutMs",
        default: "5000",
        what: "connect timeout per host",
    },
    Setting {
        name: "postgres.roundTripTimeoutMs",
        default: "20000",
        what: "response timeout, after which a connection is closed",
    },
    Setting {
        name: "postgres.retryForMs",
        default: "15000",
        what: "time to retry contention and lost connections before a request fails",
    },
    Setting {
        name: "postgres.outcomeTimeoutMs",
        default: "30000",
        what: "time to look up the outcome of a COMMIT whose connection was lost",
    },
    Setting {
        name: "postgres.allowUnsafeDurability",
        default: "false",
        what: "whether to accept a server that may lose committed data",
    },
    Setting {
        name: "postgres.allowOtherServers",
        default: "false",
        what: "whether to accept a server that is not PostgreSQL by its version()",
    },
];

/// Address of a store, with options that are used if it is PostgreSQL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Location {
    pub(crate) address: String,
    pub(crate) postgres: PostgresOptions,
}

impl Location {
    /// Returns the address of a SQLite file.
    pub(crate) fn file(path: &Path) -> Self {
        Self { address: format!("sqlite:{}", path.display()), ..Self::default() }
    }
}

impl Config {
    /// Returns the address of the store, with its options.
    pub(crate) fn location(&self) -> anyhow::Result<Location> {
        Ok(Location { address: self.text("store").to_owned(), postgres: self.postgres()? })
    }

    /// Returns the options of the section `[postgres]`.
    fn postgres(&self) -> anyhow::Result<PostgresOptions> {
        let connections = |name| {
            let number = self.within(name, 1, MAX_CONNECTIONS)?;
            Ok::<_, anyhow::Error>(usize::try_from(number)?)
        };
        let time = |name| self.within(name, 1, MAX_TIMEOUT_MS).map(Duration::from_millis);
        let pooler = self.flag("postgres.pooler")?;
        let listen_url = Some(self.text("postgres.listenUrl")).filter(|url| !url.is_empty());
        if listen_url.is_some() && !pooler {
            bail!(
                "`postgres.listenUrl` is for a store behind a pooler: set `postgres.pooler` to \
                 true, or remove it"
            );
        }
        Ok(PostgresOptions {
            schema: self.text("postgres.schema").to_owned(),
            committers: connections("postgres.committers")?,
            readers: connections("postgres.readers")?,
            pooler,
            listen_url: listen_url.map(str::to_owned),
            lock_timeout: time("postgres.lockTimeoutMs")?,
            statement_timeout: time("postgres.statementTimeoutMs")?,
            idle_timeout: time("postgres.idleTimeoutMs")?,
            beat_timeout: time("postgres.heartbeatTimeoutMs")?,
            connect_timeout: time("postgres.connectTimeoutMs")?,
            round_trip_timeout: time("postgres.roundTripTimeoutMs")?,
            patience: time("postgres.retryForMs")?,
            outcome_timeout: time("postgres.outcomeTimeoutMs")?,
            allow_unsafe_durability: self.flag("postgres.allowUnsafeDurability")?,
            allow_other_servers: self.flag("postgres.allowOtherServers")?,
            ..PostgresOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_store::PostgresOptions;

    use super::super::tests::load;

    #[test]
    fn the_defaults_are_those_of_the_store() {
        let options = load("", &[]).unwrap().location().unwrap().postgres;
        assert_eq!(format!("{options:?}"), format!("{:?}", PostgresOptions::default()));
    }

    #[test]
    fn the_section_is_passed_on() {
        let file = "[postgres]\nschema = \"shop\"\npooler = true\nlistenUrl = \"postgres://h/db\"\n\
                    committers = 3\nreaders = 4\nlockTimeoutMs = 1\nstatementTimeoutMs = 2\n\
                    idleTimeoutMs = 3\nheartbeatTimeoutMs = 4\nconnectTimeoutMs = 5\n\
                    roundTripTimeoutMs = 6\nretryForMs = 7\noutcomeTimeoutMs = 8\n\
                    allowUnsafeDurability = true\nallowOtherServers = true";
        let it = load(file, &[]).unwrap().location().unwrap().postgres;
        let names = (it.schema.as_str(), it.listen_url.as_deref());
        assert_eq!(names, ("shop", Some("postgres://h/db")));
        assert_eq!((it.committers, it.readers), (3, 4));
        assert!(it.pooler && it.allow_unsafe_durability && it.allow_other_servers);
        let times = [
            it.lock_timeout,
            it.statement_timeout,
            it.idle_timeout,
            it.beat_timeout,
            it.connect_timeout,
            it.round_trip_timeout,
            it.patience,
            it.outcome_timeout,
        ];
        assert_eq!(times.map(|time| time.as_millis()), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn bad_names_and_values_are_refused_with_the_fix() {
        for (file, said) in [
            ("postgres = 1", "`postgres` must be a table, `[postgres]`, got 1"),
            (
                "[postgres]\npoolr = true",
                "`postgres.poolr` is not a setting; expected one of postgres.schema, ",
            ),
        ] {
            let error = load(file, &[]).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        let listen = "`postgres.listenUrl` is for a store behind a pooler: set `postgres.pooler` \
                      to true, or remove it";
        for (line, said) in [
            ("pooler = \"yes\"", "`postgres.pooler` must be true or false, got `yes` (from: file)"),
            (
                "readers = 0",
                "`postgres.readers` must be a whole number from 1 to 100, got `0` (from: file)",
            ),
            (
                "lockTimeoutMs = \"5s\"",
                "`postgres.lockTimeoutMs` must be a whole number from 1 to 600000, got `5s` \
                 (from: file)",
            ),
            ("listenUrl = \"postgres://h/db\"", listen),
        ] {
            let config = load(&format!("[postgres]\n{line}"), &[]).unwrap();
            assert_eq!(config.location().unwrap_err().to_string(), said);
        }
    }
}
