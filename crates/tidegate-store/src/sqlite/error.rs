//! Mapping of SQLite's errors to `StoreError`.

use std::{fmt, sync::Arc};

use rusqlite::{Error, ErrorCode};

use crate::{Reason, StoreError};

/// Maps an error of any operation except a commit.
pub(super) fn refused(error: Error) -> StoreError {
    classify(error.sqlite_error_code(), reason(error.to_string(), error))
}

/// Maps an error of any operation except a commit, and puts a subject before its text.
pub(super) fn refused_for(subject: impl fmt::Display, error: Error) -> StoreError {
    classify(error.sqlite_error_code(), reason(format!("{subject}: {error}"), error))
}

fn reason(text: String, error: Error) -> Reason {
    Reason::new(text, Arc::new(error))
}

fn classify(code: Option<ErrorCode>, reason: Reason) -> StoreError {
    let Some(code) = code else { return StoreError::Corrupt(reason) };
    if matches!(code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) {
        StoreError::Busy(reason)
    } else if code == ErrorCode::DiskFull {
        StoreError::Full(reason)
    } else if code == ErrorCode::ReadOnly {
        StoreError::ReadOnly(reason)
    } else if matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) {
        StoreError::Corrupt(reason.reword(|text| format!("{text}; restore the file from a backup")))
    } else if matches!(
        code,
        ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
    ) {
        StoreError::Data(reason)
    } else {
        StoreError::Unavailable(reason)
    }
}

/// Maps the error of a commit.
///
/// The transaction is rolled back, and the next one overwrites its frames in the write-ahead log.
/// But if the disk failed, the last frame may have been written completely. If the machine then
/// stops before the next commit, the transaction takes effect after all: its outcome is unknown.
pub(super) fn not_committed(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => StoreError::Unknown(reason(error.to_string(), error)),
        _ => refused(error),
    }
}
