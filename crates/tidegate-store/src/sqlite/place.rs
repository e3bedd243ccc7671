//! The files of an open store, and whether they are still at their paths.
//!
//! A file that was removed or replaced stays open: SQLite would go on to write into a file that
//! nobody finds again, and another process could open a new one at the same path.

use std::{
    fs::{File, Metadata},
    io,
    path::PathBuf,
};

use super::look::beside;

/// Device and inode of a file.
type Identity = (u64, u64);

/// The paths of an open store's files, each with the file that was opened there.
#[derive(Debug)]
pub(super) struct Place {
    files: Vec<(PathBuf, Identity)>,
}

impl Place {
    /// The database and the lock, before SQLite opens the database.
    ///
    /// The order makes a file that is swapped meanwhile show as replaced: its path then leads to
    /// another file than the one remembered here, whichever of the two SQLite opened. The lock's
    /// identity is the open file's, since the lock is on that file and not on the path.
    pub(super) fn of(database: PathBuf, path: PathBuf, lock: &File) -> io::Result<Self> {
        let opened = identity(&database.metadata()?);
        Ok(Self { files: vec![(database, opened), (path, identity(&lock.metadata()?))] })
    }

    /// Adds the write-ahead log, once SQLite has opened it: it may not exist before.
    pub(super) fn add_log(&mut self) -> io::Result<()> {
        let log = beside(&self.files[0].0, "-wal");
        let opened = identity(&log.metadata()?);
        self.files.push((log, opened));
        Ok(())
    }

    /// Says which file is no longer at its path, and what to do.
    ///
    /// Three calls of `stat`, a few microseconds beside a commit that waits for the disk.
    pub(super) fn check(&self) -> Result<(), String> {
        for (path, opened) in &self.files {
            let what = match std::fs::metadata(path) {
                Ok(found) if identity(&found) == *opened => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed".to_owned(),
                Err(error) => format!("cannot be looked at: {error}"),
            };
            return Err(format!(
                "{} {what} while the store is open; stop this process, restore the file and \
                 start again",
                path.display()
            ));
        }
        Ok(())
    }
}

#[cfg(unix)]
fn identity(of: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (of.dev(), of.ino())
}

/// Elsewhere an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}
