//! Files of an open store, and the check that they are still at their paths.
//!
//! A file that is removed or replaced stays open: SQLite would continue to write into a file that
//! has no path any more, and another process could open a new file at the same path.

use std::{
    cell::Cell,
    fs::{File, Metadata},
    io,
    path::PathBuf,
};

use super::read_only::beside;
use crate::clock::{Clock as _, SystemClock};

/// Device and inode number, which identify a file.
type Identity = (u64, u64);

/// Identity of a folder, and the time in microseconds when an entry in it was last created, removed
/// or renamed.
type Folder = (Identity, i64);

/// Paths of the files of an open store, each with the identity of the file that was opened there.
#[derive(Debug)]
pub(super) struct Place {
    files: Vec<(PathBuf, Identity)>,
    /// State of the folder when the last check found all files in it. `None` if the folder had
    /// changed shortly before: file times have the resolution of the kernel's tick, so a second
    /// change within the same tick would not change the time.
    unchanged: Cell<Option<Folder>>,
}

/// Minimum age of a folder's last change. After that, the next change gets another time.
const TICK_MICROS: i64 = 100_000;

impl Place {
    /// Records the identities of the database and the lock file, before SQLite opens the database.
    ///
    /// If the database is replaced before SQLite opens it, the file at its path is not the one
    /// recorded here, so the check fails. The identity of the lock file is that of the open file,
    /// because the lock is on that file and not on its path.
    pub(super) fn of(database: PathBuf, path: PathBuf, lock: &File) -> io::Result<Self> {
        let opened = identity(&database.metadata()?);
        let files = vec![(database, opened), (path, identity(&lock.metadata()?))];
        Ok(Self { files, unchanged: Cell::default() })
    }

    /// Adds the write-ahead log. SQLite must have opened it, because it may not exist before.
    pub(super) fn add_log(&mut self) -> io::Result<()> {
        let log = beside(&self.files[0].0, "-wal");
        let opened = identity(&log.metadata()?);
        self.files.push((log, opened));
        self.unchanged.set(None);
        Ok(())
    }

    /// Checks all files. The error names the file that is no longer at its path, and says what to
    /// do.
    ///
    /// While nothing changes in the folder, this is one `stat` call for the folder; otherwise one
    /// more for each file. Calls for all three files before and after every commit would take 12 of
    /// the 340 µs of a hand-off.
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

/// Returns the identity of a folder and the time of its last change, if the system records it.
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
