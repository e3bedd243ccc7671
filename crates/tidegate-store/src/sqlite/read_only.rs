//! Read-only access to a database file, also while another process uses it; and copies of the file.
//!
//! The write-ahead log lets any process read while another one writes. So the file can be checked
//! and copied without its owner process: permission to read it is enough.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::Connection;

use super::{
    Access, connect,
    error::{refused, refused_for},
    lock::{FileLock, private},
    statements as sql, view,
    worker::Worker,
    writer,
};
use crate::{Reason, StoreError, Visit, migrate::Migration};

/// Database file opened for reading only.
#[derive(Debug)]
pub struct SqliteLook {
    path: PathBuf,
    reader: Worker<Connection>,
}

impl SqliteLook {
    /// Opens a file, even if another process has it open. Fails if the file is missing, or if its
    /// schema is not that of this program.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let look = Self::connect(path.as_ref().to_owned()).await?;
        if let [first, ..] = look.pending().await? {
            return Err(StoreError::Schema(format!(
                "{}: the schema is older: it has not had migration {} `{}`; bring it up to date \
                 with `tidegate migrate`",
                look.path.display(),
                first.version,
                first.name
            )));
        }
        Ok(look)
    }

    pub(super) async fn connect(path: PathBuf) -> Result<Self, StoreError> {
        let ours = path.clone();
        let reader = Worker::start("tidegate-look", move || connect(&ours, Access::Read));
        Ok(Self { path, reader: reader.await? })
    }

    /// Returns the pending migrations of a file. The file may have an older schema.
    pub async fn pending_of(path: impl AsRef<Path>) -> Result<&'static [Migration], StoreError> {
        Self::connect(path.as_ref().to_owned()).await?.pending().await
    }

    async fn pending(&self) -> Result<&'static [Migration], StoreError> {
        self.reader.call(|db| writer::left(db)).await
    }

    /// Visits all rows in key order, from one consistent snapshot.
    pub async fn walk(&self, mut visit: Visit) -> Result<(), StoreError> {
        self.reader.call(move |db| view::walk(db, &mut visit)).await
    }

    /// Reads every page, and returns an error if the file is damaged.
    pub async fn check_file(&self) -> Result<(), StoreError> {
        let path = self.path.display().to_string();
        let check = move |db: &mut Connection| {
            let said: String =
                db.query_row(sql::own().file_check, (), |row| row.get(0)).map_err(refused)?;
            if said == "ok" {
                Ok(())
            } else {
                Err(StoreError::Corrupt(format!("{path}: {said}").into()))
            }
        };
        self.reader.call(check).await
    }

    /// Writes all rows of one snapshot to a new file. The file is synced to disk when this returns.
    pub async fn copy(&self, to: impl AsRef<Path>) -> Result<(), StoreError> {
        let to = to.as_ref().to_owned();
        let copy = move |db: &mut Connection| {
            let name = to.display().to_string();
            // Creates an empty file that only its owner can read; SQLite copies into it. A file
            // that SQLite created would be readable by every user.
            private().create_new(true).open(&to).map_err(|error| failed(&to, error))?;
            let copied = db.execute(sql::own().file_copy, [&name]);
            let written = copied
                .map_err(|error| refused_for(&name, error))
                .and_then(|_| keep(&to).map_err(|error| failed(&to, error)));
            written.inspect_err(|_| drop(fs::remove_file(&to)))
        };
        self.reader.call(copy).await
    }

    /// Replaces a database file, which must not be open, by a copy of `from`. The file is never a
    /// part of the copy, even after an error. A write-ahead log without its database is deleted.
    pub async fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), StoreError> {
        let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
        let target = to.clone();
        let lock = move || FileLock::take_to_replace(&target);
        let owner = Worker::start("tidegate-restore", lock).await?;
        owner.call(move |_| replace(&from, &to).map_err(|error| failed(&to, error))).await
    }
}

fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let part = beside(to, ".restoring");
    replace_by(from, &part, to).inspect_err(|_| drop(fs::remove_file(&part)))
}

fn replace_by(from: &Path, part: &Path, to: &Path) -> io::Result<()> {
    // Created with private permissions first; `fs::copy` would copy the permissions of the backup.
    let mut copy = private().create(true).truncate(true).open(part)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    keep(part)?;
    // The write-ahead log of the old file does not belong to the new one, and is deleted first: if
    // this stops in between, the old file without its log is an older, but valid database.
    for log in ["-wal", "-shm"] {
        match fs::remove_file(beside(to, log)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(part, to)?;
    keep(to)
}

/// Syncs a file and its directory entry to disk.
fn keep(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn failed(path: &Path, error: io::Error) -> StoreError {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    let reason = Reason::new(format!("{}: {error}", path.display()), Arc::new(error));
    if is_full { StoreError::Full(reason) } else { StoreError::Unavailable(reason) }
}
