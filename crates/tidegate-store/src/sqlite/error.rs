//! What SQLite's errors mean to a caller.

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

/// Any error but that of a commit.
pub(super) fn refused(error: &Error) -> StoreError {
    let reason = error.to_string();
    let Some(code) = error.sqlite_error_code() else { return StoreError::Corrupt(reason) };
    if matches!(code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) {
        StoreError::Busy(reason)
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

/// The error of a commit.
///
/// The transaction is rolled back, and the next one overwrites what it left in the log. But where
/// the disk failed in between, its last frame may have been written whole: if the machine stops
/// before the next commit, the transaction is there again.
pub(super) fn not_committed(error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => StoreError::Unknown(error.to_string()),
        _ => refused(error),
    }
}
