//! One owner per file: an advisory lock beside the database.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use crate::StoreError;

/// Keeps the file to this process until it is dropped or the process ends, however it ends.
///
/// The lock file stays behind on purpose: to delete it would let two processes lock two files of
/// one name.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock for a database's path, or says who has it.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let unavailable =
            |error: io::Error| StoreError::Unavailable(format!("{}: {error}", database.display()));
        let path = lock_path(database).map_err(unavailable)?;
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
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
        Ok(Self { _file: file })
    }
}

/// Who holds the lock, where it has written its name already.
fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    match file.read_to_string(&mut pid) {
        Ok(_) if !pid.is_empty() => format!(" (pid {pid})"),
        Ok(_) | Err(_) => String::new(),
    }
}

/// Beside the file itself: two links to one database must meet in one lock.
///
/// The database is opened here only while it does not exist. Later that would do harm: closing
/// any handle of a file drops the locks that SQLite has on it in this process.
fn lock_path(database: &Path) -> io::Result<PathBuf> {
    let real = match database.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create(true).truncate(false).open(database)?;
            database.canonicalize()?
        }
        other => other?,
    };
    let mut path = real.into_os_string();
    path.push(".lock");
    Ok(path.into())
}
