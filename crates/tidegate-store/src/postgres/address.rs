//! Database address, in libpq's syntax.
//!
//! `tokio_postgres` parses most of an address. The settings that it does not support,
//! `sslmode=verify-ca`, `sslmode=verify-full` and `sslrootcert`, are read and removed first.

use std::{path::PathBuf, time::Duration};

use tokio_postgres::config::{Config, SslMode};

use crate::StoreError;

/// How the server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// No encryption.
    Off,
    /// Encryption without verification of the server's certificate.
    Anyone,
    /// The server's certificate must be signed by a root certificate in this file.
    Chain(PathBuf),
    /// Like [`Self::Chain`], and the certificate must be for the host of the address.
    ChainAndName(PathBuf),
}

/// Parsed and validated database address.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) trust: Trust,
}

/// Idle time after which the kernel sends TCP keepalive probes. The interval of the probes and the
/// TCP user timeout are computed from it.
const KEEPALIVE: Duration = Duration::from_secs(10);

impl Address {
    /// Parses `postgres://…` or `host=… dbname=…`.
    pub(super) fn parse(text: &str, connect_timeout: Duration) -> Result<Self, StoreError> {
        let (rest, taken) = if text.starts_with("postgres://") || text.starts_with("postgresql://")
        {
            split_url(text)
        } else {
            split_words(text)?
        };
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            config_error(&cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(config_error("it names no host"));
        }
        let (mode, trust) = taken.trust()?;
        config.ssl_mode(mode);
        config.keepalives(true);
        config.keepalives_idle(KEEPALIVE);
        config.keepalives_interval(KEEPALIVE / 5);
        config.keepalives_retries(3);
        config.tcp_user_timeout(KEEPALIVE * 2);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(connect_timeout);
        }
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        Ok(Self { config, trust })
    }
}

/// Settings that are not passed to `tokio_postgres`.
#[derive(Debug, Default)]
struct Taken {
    mode: Option<String>,
    root: Option<String>,
}

impl Taken {
    /// Stores a setting if it is one of these; returns `false` if it is for `tokio_postgres`.
    fn take(&mut self, name: &str, value: &str) -> bool {
        match name {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    fn trust(self) -> Result<(SslMode, Trust), StoreError> {
        let mode = self.mode.as_deref().unwrap_or("prefer");
        let root = |root: Option<String>| match root {
            Some(path) if path == "system" => {
                Err(config_error("sslrootcert=system is not supported: give a file"))
            }
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(config_error(&format!("sslmode={mode} needs sslrootcert=<file>"))),
        };
        match mode {
            "disable" => Ok((SslMode::Disable, Trust::Off)),
            "allow" | "prefer" => Ok((SslMode::Prefer, Trust::Anyone)),
            // As in libpq: with `sslrootcert`, `require` verifies the certificate.
            "require" if self.root.is_some() => {
                Ok((SslMode::Require, Trust::Chain(root(self.root)?)))
            }
            "require" => Ok((SslMode::Require, Trust::Anyone)),
            "verify-ca" => Ok((SslMode::Require, Trust::Chain(root(self.root)?))),
            "verify-full" => Ok((SslMode::Require, Trust::ChainAndName(root(self.root)?))),
            other => Err(config_error(&format!(
                "sslmode must be disable, prefer, require, verify-ca or verify-full, got `{other}`"
            ))),
        }
    }
}

fn split_url(text: &str) -> (String, Taken) {
    let mut taken = Taken::default();
    let Some((base, query)) = text.split_once('?') else { return (text.to_owned(), taken) };
    let for_driver: Vec<&str> = query
        .split('&')
        .filter(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            !taken.take(name, &unescape(value))
        })
        .collect();
    let mark = if for_driver.is_empty() { "" } else { "?" };
    (format!("{base}{mark}{}", for_driver.join("&")), taken)
}

/// Decodes percent-encoding, such as `%2F`, which a path may contain.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses `name=value` words; values may be in single quotes with backslash escapes.
fn split_words(text: &str) -> Result<(String, Taken), StoreError> {
    let mut taken = Taken::default();
    let mut for_driver = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or_else(|| config_error("it is neither a postgres:// URL nor name=value words"))?;
        let (raw, value, after) = take_value(after.trim_start());
        if !taken.take(name.trim(), &value) {
            for_driver.push_str(name.trim());
            for_driver.push('=');
            for_driver.push_str(raw);
            for_driver.push(' ');
        }
        rest = after.trim_start();
    }
    Ok((for_driver, taken))
}

/// Parses one value. Returns the value as written, the decoded value, and the text after it.
fn take_value(text: &str) -> (&str, String, &str) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(usize::from(quoted)) {
        match letter {
            _ if escaped => {
                value.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            '\'' if quoted => return (&text[..=at], value, &text[at + 1..]),
            _ if !quoted && letter.is_whitespace() => return (&text[..at], value, &text[at..]),
            _ => value.push(letter),
        }
    }
    (text, value, "")
}

fn config_error(reason: &str) -> StoreError {
    StoreError::Config(format!("the database address is invalid: {reason}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, StoreError> {
        Address::parse(text, Duration::from_secs(5))
    }

    #[test]
    fn sslmode_is_spelt_as_in_libpq() {
        let root = || PathBuf::from("/etc/my ca.pem");
        for (text, trust) in [
            ("postgres://u:p@h/db", Trust::Anyone),
            ("postgres://u@h/db?sslmode=disable", Trust::Off),
            ("postgres://u@h/db?sslmode=require&connect_timeout=3", Trust::Anyone),
            (
                "postgres://u@h/db?sslmode=verify-ca&sslrootcert=%2Fetc%2Fmy%20ca.pem",
                Trust::Chain(root()),
            ),
            (
                "postgresql://u@h/db?sslrootcert=/etc/my ca.pem&sslmode=require",
                Trust::Chain(root()),
            ),
            (
                "host=h dbname=db sslmode=verify-full sslrootcert='/etc/my ca.pem' user=u",
                Trust::ChainAndName(root()),
            ),
        ] {
            let address = parse(text).unwrap();
            assert_eq!(address.trust, trust, "{text}");
            assert_eq!(address.config.get_dbname(), Some("db"), "{text}");
            assert_eq!(address.config.get_user(), Some("u"), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (text, reason) in [
            ("postgres://u@h/db?sslmode=verify-full", "sslmode=verify-full needs sslrootcert"),
            ("postgres://u@h/db?sslmode=maybe", "got `maybe`"),
            ("postgres://u@h/db?sslrootcert=system&sslmode=verify-ca", "give a file"),
            ("nonsense", "name=value"),
            ("user=u", "names no host"),
            ("postgres://u@h/db?colour=red", "unknown option"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn quoted_words_survive() {
        let address = parse(r"host=h password='it\'s a \\ secret' user=u sslmode=disable").unwrap();
        assert_eq!(address.config.get_password(), Some(br"it's a \ secret".as_slice()));
    }
}
