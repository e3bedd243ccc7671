//! Mapping of SQLite's errors to `StoreError`.

use std::fmt;

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

/// Maps any error but that of a commit.
pub(super) fn refused(error: &Error) -> StoreError {
    classify(error, error.to_string())
}

/// Maps any error but that of a commit, and adds its subject.
pub(super) fn refused_for(subject: impl fmt::Display, error: &Error) -> StoreError {
    classify(error, format!("{subject}: {error}"))
}

fn classify(error: &Error, reason: String) -> StoreError {
    let Some(code) = error.sqlite_error_code() else { return StoreError::Corrupt(reason) };
    if matches!(code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) {
        StoreError::Busy(reason)
    } else if code == ErrorCode::DiskFull {
        StoreError::Full(reason)
    } else if code == ErrorCode::ReadOnly {
        StoreError::ReadOnly(reason)
    } else if matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) {
        StoreError::Corrupt(format!("{reason}; restore the file from a backup"))
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
/// The transaction is rolled back, and the next one overwrites its frames in the log. But if the
/// disk failed in between, the last frame may have been written completely: if the machine stops
/// before the next commit, the transaction is there again.
pub(super) fn not_committed(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => StoreError::Unknown(error.to_string()),
        _ => refused(error),
    }
}
