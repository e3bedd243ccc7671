//! File lock: an advisory lock on a second file, `<database>.lock`, allows one owner per database.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use super::{place::Place, read_only::beside};
use crate::StoreError;

/// Exclusive lock of a database by this process. It is released when it is dropped, or when the
/// process ends in any way.
///
/// The lock file is not deleted on purpose: otherwise two processes could lock two different files
/// of the same name.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
    place: Place,
}

impl FileLock {
    /// Takes the lock for the database at a path. The error names the holder of the lock.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        check_log(database)?;
        Self::take_to_replace(database)
    }

    /// Takes the lock for a database that will be replaced, even if the database is missing and its
    /// write-ahead log exists.
    pub(super) fn take_to_replace(database: &Path) -> Result<Self, StoreError> {
        let unavailable = |error: io::Error| {
            StoreError::Unavailable(format!("{}: {error}", database.display()).into())
        };
        let real = real_path(database).map_err(unavailable)?;
        let path = beside(&real, LOCK);
        let open = private().read(true).create(true).open(&path);
        let mut file = open.map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let path = database.display().to_string();
                return Err(StoreError::InUse { path, holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
        file.set_len(0).map_err(unavailable)?;
        write!(file, "{}", std::process::id()).map_err(unavailable)?;
        let place = Place::of(real, path, &file).map_err(unavailable)?;
        Ok(Self { _file: file, place })
    }

    /// Adds the write-ahead log to the files of the store. SQLite must have opened it.
    pub(super) fn add_log(&mut self) -> Result<(), StoreError> {
        self.place
            .add_log()
            .map_err(|error| StoreError::Unavailable(format!("-wal: {error}").into()))
    }

    /// Checks that the files of the open store are still at their paths. The error names the file
    /// that is not.
    pub(super) fn check(&self) -> Result<(), String> {
        self.place.check()
    }
}

/// Suffix of a lock file's name.
const LOCK: &str = ".lock";

/// Returns options to open files for writing. Only the owner can read a new file, because it
/// contains private data. SQLite gives the write-ahead log the same permissions as the database.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Describes the holder of the lock by the process id in the lock file, and says what to do.
fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    let pid = file.read_to_string(&mut pid).map_or("", |_| pid.as_str());
    match pid {
        "" => "another process; stop it or use another file".to_owned(),
        own if own == std::process::id().to_string() => {
            "this process; use the store that is open, or shut its engine down and drop both first"
                .to_owned()
        }
        pid => format!("another process (pid {pid}); stop it or use another file"),
    }
}

/// Fails if the database is missing but its write-ahead log exists: the log has the last commits,
/// and SQLite would delete it when it creates a new database.
fn check_log(database: &Path) -> Result<(), StoreError> {
    let log = beside(database, "-wal");
    let is_left = log.metadata().is_ok_and(|log| log.len() > 0);
    if !is_left || database.exists() {
        return Ok(());
    }
    let (database, log) = (database.display(), log.display());
    Err(StoreError::FileGone(format!(
        "{database} is missing, and its write-ahead log {log} is left; restore the file, or move \
         the log away to begin with an empty store"
    )))
}

/// Returns the canonical path, so that two links to one database use the same lock.
///
/// Creates the database if it does not exist. An existing database is not opened here, because
/// closing any handle of a file drops the locks that SQLite has on it in this process.
fn real_path(database: &Path) -> io::Result<PathBuf> {
    match database.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private().create(true).open(database)?;
            database.canonicalize()
        }
        other => other,
    }
}
