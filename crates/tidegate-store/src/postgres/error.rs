//! Errors of an attempt to run a transaction, classified by whether a retry may help.

use std::sync::Arc;

use tidegate_core::row::RowKind;
use tokio_postgres::error::{DbError, SqlState};

use crate::{Reason, StoreError, codec::Table};

/// Error of an attempt. The attempt has changed no row; only for [`Trouble::InDoubt`] this is
/// unknown.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Contention with other transactions: a retry may succeed.
    Contended(Reason),
    /// Another transaction has inserted a row that did not exist when it was read. The next
    /// attempt reads it.
    Clash(RowKind, Reason),
    /// The connection was lost before COMMIT was sent.
    Lost(Reason),
    /// The connection was lost after COMMIT was sent: the outcome is unknown.
    InDoubt(Reason),
    /// The transaction's token row was deleted. The next attempt needs another token row.
    Unnamed(Reason),
    /// A retry would not help.
    Refused(StoreError),
}

/// Error code of `expect_rows`.
const WRONG_COUNT: &str = "TG002";
const TOKEN_TABLE: &str = "tx_token";

impl Trouble {
    pub(super) fn lost(reason: &str) -> Self {
        Self::Lost(reason.into())
    }

    /// Returns the error for the caller of the store when there are no more retries.
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Contended(reason) | Self::Clash(_, reason) => StoreError::Busy(reason),
            Self::Lost(reason) | Self::Unnamed(reason) => StoreError::Unavailable(reason),
            Self::InDoubt(reason) => StoreError::Unknown(reason),
            Self::Refused(error) => error,
        }
    }

    fn from_server(error: &DbError, message: Reason) -> Self {
        let code = error.code();
        if CONTENDED.contains(code) {
            return Self::Contended(message);
        }
        if *code == SqlState::UNIQUE_VIOLATION {
            let tables = RowKind::ALL.into_iter().map(Table::of);
            let mut contested = tables.filter(|table| table.contested);
            return match contested.find(|table| error.table() == Some(table.name)) {
                Some(table) => Self::Clash(table.kind, message),
                None => Self::Refused(StoreError::Data(message)),
            };
        }
        if *code == SqlState::INVALID_SQL_STATEMENT_NAME || *code == SqlState::DUPLICATE_PSTATEMENT
        {
            return Self::Refused(StoreError::Config(message.reword(|text| {
                format!(
                    "a prepared statement was lost ({text}): the address leads to a pooler in \
                     transaction mode; set the option `pooler`"
                )
            })));
        }
        if code.code() == WRONG_COUNT && error.table() == Some(TOKEN_TABLE) {
            return Self::Unnamed(message);
        }
        if *code == SqlState::DISK_FULL {
            return Self::Refused(StoreError::Full(message));
        }
        match &code.code()[..2] {
            // Classes of SQLSTATE: connection (08), resources (53), operator intervention (57),
            // system error (58), a server that has become a standby (25), a plan that is outdated
            // after a migration (0A).
            "08" | "53" | "57" | "58" | "25" | "0A" => Self::Lost(message),
            "28" | "3D" => Self::Refused(StoreError::Config(message)),
            "42" => Self::Refused(StoreError::Schema(format!(
                "the schema is not as expected: {message}"
            ))),
            _ => Self::Refused(StoreError::Data(message)),
        }
    }
}

/// Error codes of contention. Transactions of Tidegate cannot deadlock with each other, but with
/// transactions of another application.
const CONTENDED: [SqlState; 4] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::QUERY_CANCELED,
];

/// Returns whether the error code is one of contention with other transactions.
pub(super) fn is_contention(code: &SqlState) -> bool {
    CONTENDED.contains(code)
}

/// Formats an error with the server's message, or with its cause if it did not come from the
/// server.
pub(super) fn say(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return describe(server);
    }
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

fn describe(error: &DbError) -> String {
    let mut text = format!("{} ({})", error.message(), error.code().code());
    if let Some(detail) = error.detail() {
        text.push_str(": ");
        text.push_str(detail);
    }
    text
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let error = Arc::new(error);
        let text = Reason::new(say(&error), error.clone());
        if let Some(server) = error.as_db_error() {
            return Self::from_server(server, text);
        }
        // The statement was not sent, because a parameter cannot be encoded.
        if text.starts_with("error serializing") || text.starts_with("error encoding") {
            return Self::Refused(StoreError::Data(text));
        }
        if text.contains("invalid peer certificate") || text.contains("does not support TLS") {
            return Self::Refused(StoreError::Config(text));
        }
        Self::Lost(text)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}
