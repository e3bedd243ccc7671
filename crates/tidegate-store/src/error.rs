//! Errors of stores.

use std::{error::Error, fmt, ops::Deref, sync::Arc};

use tidegate_core::catalog::CatalogError;

use crate::MAX_ROUNDS;

/// Error of a store.
#[derive(Debug)]
pub enum StoreError {
    /// The database cannot be reached or refuses to work; a retry may help.
    Unavailable(Reason),
    /// Other transactions held the locks until the timeout; nothing was changed.
    Busy(Reason),
    /// The disk is full; writes work again when there is space.
    Full(Reason),
    /// The database can be read but not written, for example a standby server; writes work again
    /// when it is writable.
    ReadOnly(Reason),
    /// A file of the store was removed or replaced while the store is open. Nothing was changed,
    /// and no later write will succeed.
    FileGone(String),
    /// The store refuses a row: its key exists already or is missing, or the row is invalid.
    Data(Reason),
    /// A stored row cannot be read.
    Corrupt(Reason),
    /// The connection was lost during the commit, and the outcome of the commit is unknown.
    Unknown(Reason),
    /// The file is already open, in another process or in this one.
    InUse {
        /// Path of the file.
        path: String,
        /// Process that has the file open, and what to do about it.
        holder: String,
    },
    /// The schema was made by a newer Tidegate, or was changed by hand.
    Schema(String),
    /// The address or an option is invalid.
    Config(Reason),
    /// A decision requested more rows too many times.
    TooManyRounds,
    /// A stored definition cannot be read.
    Catalog(CatalogError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "the store is unavailable: {reason}"),
            Self::Busy(reason) => write!(f, "the store is busy: {reason}"),
            Self::Full(reason) => write!(f, "the store is full: {reason}"),
            Self::ReadOnly(reason) => write!(f, "the store is read-only: {reason}"),
            Self::FileGone(reason) => write!(f, "the store's file is gone: {reason}"),
            Self::Data(reason) => write!(f, "the store refused a row: {reason}"),
            Self::Corrupt(reason) => {
                write!(f, "the store holds a row that cannot be read: {reason}")
            }
            Self::Unknown(reason) => {
                write!(f, "it is not known whether the commit took place: {reason}")
            }
            Self::InUse { path, holder } => write!(f, "{path} is in use by {holder}"),
            Self::Schema(reason) => f.write_str(reason),
            Self::Config(reason) => reason.fmt(f),
            Self::TooManyRounds => {
                write!(f, "a decision asked for more rows {MAX_ROUNDS} times in a row")
            }
            Self::Catalog(error) => error.fmt(f),
        }
    }
}

impl Error for StoreError {
    /// Returns the error of the database, if a database caused the error.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable(reason)
            | Self::Busy(reason)
            | Self::Full(reason)
            | Self::ReadOnly(reason)
            | Self::Data(reason)
            | Self::Corrupt(reason)
            | Self::Unknown(reason)
            | Self::Config(reason) => reason.source.as_deref().map(|source| source as _),
            Self::Catalog(error) => error.source(),
            Self::FileGone(_) | Self::InUse { .. } | Self::Schema(_) | Self::TooManyRounds => None,
        }
    }
}

impl From<CatalogError> for StoreError {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(error)
    }
}

impl StoreError {
    /// Returns the stable error code, which the HTTP API also returns. The reference lists all
    /// codes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::Busy(_) => "store_unavailable",
            Self::Full(_) => "store_full",
            Self::ReadOnly(_) => "store_read_only",
            Self::FileGone(_) => "store_file_gone",
            Self::Data(_) | Self::TooManyRounds => "too_much_at_once",
            Self::Unknown(_) => "outcome_unknown",
            Self::Corrupt(_)
            | Self::InUse { .. }
            | Self::Schema(_)
            | Self::Config(_)
            | Self::Catalog(_) => "store_error",
        }
    }
}

/// Reason of a failure: a text, and the error of the database if there is one.
#[derive(Clone, Debug)]
pub struct Reason {
    text: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
impl Reason {
    /// Creates a reason from a text and the error that is its source.
    pub(crate) fn new(text: String, source: Arc<dyn Error + Send + Sync>) -> Self {
        Self { text, source: Some(source) }
    }

    /// Replaces the text by `text(old text)`, and keeps the source.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn reword(self, text: impl FnOnce(&str) -> String) -> Self {
        Self { text: text(&self.text), ..self }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, source: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Deref for Reason {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
