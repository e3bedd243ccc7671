//! Build without TLS: connections are not encrypted, and an address that requires encryption is
//! refused.

use tokio_postgres::{NoTls, config::SslMode};

use super::address::{Address, Trust};
use crate::StoreError;

/// Type of the TLS connector, which this build never has: `connector` returns `None`.
pub(super) type TlsConnector = NoTls;

/// Returns `None`, or an error if the address requires encryption.
pub(super) fn connector(address: &Address) -> Result<Option<TlsConnector>, StoreError> {
    let plain = [SslMode::Disable, SslMode::Prefer].contains(&address.config.get_ssl_mode());
    if address.trust == Trust::Off || (address.trust == Trust::Anyone && plain) {
        return Ok(None);
    }
    let fix = "enable the feature `postgres-tls`, or set sslmode=disable";
    Err(StoreError::Config(
        format!("the database address requires TLS, but this program is built without TLS: {fix}")
            .into(),
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_that_asks_for_tls_is_refused() {
        let connector = |query: &str| {
            let address = format!("postgres://u@h/db{query}");
            connector(&Address::parse(&address, Duration::from_secs(1)).unwrap())
        };
        for query in ["", "?sslmode=prefer", "?sslmode=disable"] {
            assert!(connector(query).is_ok(), "{query}");
        }
        for query in ["?sslmode=require", "?sslmode=verify-full&sslrootcert=/a.pem"] {
            let error = connector(query).map(drop).unwrap_err().to_string();
            assert!(error.contains("postgres-tls"), "{query}: {error}");
        }
    }
}
