//! Files of an open store, and the check that they are still at their paths.
//!
//! A file that was removed or replaced stays open: SQLite would continue to write into a file that
//! can no longer be found, and another process could open a new one at the same path.

use std::{
    cell::Cell,
    fs::{File, Metadata},
    io,
    path::PathBuf,
};

use super::read_only::beside;
use crate::clock::{Clock as _, SystemClock};

/// Device and inode of a file.
type Identity = (u64, u64);

/// Folder, with the time in microseconds when an entry was last created, removed or renamed.
type Folder = (Identity, i64);

/// Paths of an open store's files, each with the file that was opened there.
#[derive(Debug)]
pub(super) struct Place {
    files: Vec<(PathBuf, Identity)>,
    /// Their folder when all of them were last found in it. `None` if it had changed just before:
    /// file times are no finer than the kernel's tick, and a second change within one tick would
    /// not show.
    unchanged: Cell<Option<Folder>>,
}

/// Minimum age of a folder's last change, so that the next change shows in its time.
const TICK_MICROS: i64 = 100_000;

impl Place {
    /// Records the database and the lock, before SQLite opens the database.
    ///
    /// The order makes a file that is swapped in between show as replaced: its path then leads to
    /// another file than the one recorded here, whichever of the two SQLite opened. The lock's
    /// identity is that of the open file, since the lock is on that file and not on the path.
    pub(super) fn of(database: PathBuf, path: PathBuf, lock: &File) -> io::Result<Self> {
        let opened = identity(&database.metadata()?);
        let files = vec![(database, opened), (path, identity(&lock.metadata()?))];
        Ok(Self { files, unchanged: Cell::default() })
    }

    /// Adds the write-ahead log, once SQLite has opened it: it may not exist before.
    pub(super) fn add_log(&mut self) -> io::Result<()> {
        let log = beside(&self.files[0].0, "-wal");
        let opened = identity(&log.metadata()?);
        self.files.push((log, opened));
        self.unchanged.set(None);
        Ok(())
    }

    /// Checks all files; the error names the file that is no longer at its path, and what to do.
    ///
    /// One `stat` call for the folder while nothing changes in it, and one more for each file
    /// otherwise: with three calls before and after every commit they took 12 of 340 µs of a
    /// handoff.
    pub(super) fn check(&self) -> Result<(), String> {
        let folder = self.files[0].0.parent().and_then(|folder| folder.metadata().ok());
        let folder = folder.as_ref().and_then(changed);
        if folder.is_some() && folder == self.unchanged.get() {
            return Ok(());
        }
        for (path, opened) in &self.files {
            let what = match std::fs::metadata(path) {
                Ok(metadata) if identity(&metadata) == *opened => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed".to_owned(),
                Err(error) => format!("cannot be read: {error}"),
            };
            return Err(format!(
                "{} {what} while the store is open; stop this process, restore the file and \
                 start again",
                path.display()
            ));
        }
        let long_ago = SystemClock.now().micros() - TICK_MICROS;
        self.unchanged.set(folder.filter(|(_, changed)| *changed < long_ago));
        Ok(())
    }
}

/// Returns the time of a folder's last change, where the system records it.
#[cfg(unix)]
fn changed(folder: &Metadata) -> Option<Folder> {
    use std::os::unix::fs::MetadataExt;
    let micros = folder.mtime().checked_mul(1_000_000)?.checked_add(folder.mtime_nsec() / 1000)?;
    Some((identity(folder), micros))
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<Folder> {
    None
}

#[cfg(unix)]
fn identity(of: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (of.dev(), of.ino())
}

/// On other systems an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0)
}
