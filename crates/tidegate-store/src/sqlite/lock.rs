//! One owner per file: an advisory lock beside the database.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use super::{place::Place, read_only::beside};
use crate::StoreError;

/// Keeps the file to this process until it is dropped or the process ends, however it ends.
///
/// The lock file stays behind on purpose: to delete it would let two processes lock two files of
/// one name.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
    place: Place,
}

impl FileLock {
    /// Takes the lock for a database's path, or says who has it.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        check_log(database)?;
        Self::take_to_replace(database)
    }

    /// Takes the lock for a database that is about to be replaced, with the log that it has left.
    pub(super) fn take_to_replace(database: &Path) -> Result<Self, StoreError> {
        let unavailable =
            |error: io::Error| StoreError::Unavailable(format!("{}: {error}", database.display()));
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

    /// The write-ahead log is open now, and belongs to the files of the store.
    pub(super) fn add_log(&mut self) -> Result<(), StoreError> {
        self.place.add_log().map_err(|error| StoreError::Unavailable(format!("-wal: {error}")))
    }

    /// Says which file of the open store is no longer at its path.
    pub(super) fn check(&self) -> Result<(), String> {
        self.place.check()
    }
}

/// What a lock's name ends with.
const LOCK: &str = ".lock";

/// Opens files to write; one that is made is its owner's alone, as it holds other people's data.
/// SQLite gives its write-ahead log the mode of the database.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Who holds the lock, where it has written its name already, and what to do about it.
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

/// Refuses to begin anew where the log of a database that is gone is left: it holds what was
/// committed last, and SQLite would delete it.
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

/// The file itself: two links to one database must meet in one lock.
///
/// The database is opened here only while it does not exist. Later that would do harm: closing
/// any handle of a file drops the locks that SQLite has on it in this process.
fn real_path(database: &Path) -> io::Result<PathBuf> {
    match database.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private().create(true).open(database)?;
            database.canonicalize()
        }
        other => other,
    }
}
