//! Storage of a simulation: in memory, or in a SQLite file that is closed and reopened.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tidegate_store::{Clock, MemoryStore, SqliteStore, Store, StoreError};
use tidegate_testkit::sim::world::block_on;
use tokio::task::unconstrained;

/// Kind of storage of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    Sqlite,
}

/// Way in which the machine with the SQLite file stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The store is dropped, and SQLite writes its log into the database.
    Closed,
    /// The files stay as they are between two transactions, and the log is replayed at the next
    /// start.
    Killed,
    /// As `Killed`, but the log also ends in the middle of a transaction.
    Torn,
}

/// The store that all processes share. After it was reopened, calls of processes that started
/// before no longer reach it: they belong to an older generation.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    folder: Option<Folder>,
    store: Mutex<Option<Arc<dyn Store>>>,
    generation: AtomicU64,
    /// Whether the machine has stopped and has not been restarted.
    down: AtomicBool,
    /// Number of copies of the file that were opened.
    copies: AtomicU64,
}

impl Shared {
    pub(crate) fn new(backend: Backend, clock: Arc<dyn Clock>) -> Self {
        let folder = (backend == Backend::Sqlite).then(Folder::new);
        let (generation, down, copies) = Default::default();
        let shared = Self { clock, folder, store: Mutex::new(None), generation, down, copies };
        let store: Arc<dyn Store> = match &shared.folder {
            None => Arc::new(MemoryStore::new(shared.clock.clone())),
            Some(folder) => shared.open(&folder.file(0)),
        };
        shared.put(Some(store));
        shared
    }

    /// Returns whether the store is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.folder.is_some()
    }

    fn put(&self, store: Option<Arc<dyn Store>>) -> Option<Arc<dyn Store>> {
        std::mem::replace(&mut *self.store.lock().unwrap_or_else(PoisonError::into_inner), store)
    }

    fn open(&self, path: &Path) -> Arc<dyn Store> {
        let opened = block_on(unconstrained(SqliteStore::open(path, self.clock.clone())));
        Arc::new(opened.expect("the file can be opened"))
    }

    /// Returns the generation of processes that start now.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Returns the store for a process of this generation, or an error if it was reopened since.
    pub(crate) fn get(&self, generation: u64) -> Result<Arc<dyn Store>, StoreError> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store = store.filter(|_| generation == self.generation());
        store.ok_or_else(|| StoreError::Unavailable("the machine is down, as simulated".into()))
    }

    /// Stops the machine: from now on no call of its processes reaches the store.
    pub(crate) fn shut_off(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    /// Closes the file in this way and opens it again.
    pub(crate) fn reopen(&self, stop: Stop) {
        let folder = self.folder.as_ref().expect("only a simulation on a file reopens it");
        let last = self.copies.load(Ordering::SeqCst);
        let (old, new) = (folder.file(last), folder.file(last + 1));
        let store = self.put(None).expect("it is open");
        let path = if stop == Stop::Closed {
            old
        } else {
            copy(&old, &new, stop).expect("the files can be copied");
            self.copies.fetch_add(1, Ordering::SeqCst);
            new
        };
        assert_eq!(Arc::strong_count(&store), 1, "a call still uses the store that is closed");
        drop(store);
        self.put(Some(self.open(&path)));
        self.down.store(false, Ordering::SeqCst);
    }
}

/// Copies a database and its log as a crash would leave them. The index file of the log is not
/// needed.
fn copy(old: &Path, new: &Path, stop: Stop) -> io::Result<()> {
    fs::copy(old, new)?;
    let log = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    let length = fs::copy(log(old), log(new))?;
    if stop == Stop::Torn && length > 0 {
        let mut log = fs::OpenOptions::new().append(true).open(log(new))?;
        log.write_all(&[7; 5000])?;
    }
    Ok(())
}

/// A folder that is deleted at the end of the simulation. It is on a file system in memory if there
/// is one, because a sync costs nothing there. Loss of power is not simulated.
#[derive(Debug)]
struct Folder(PathBuf);

static FOLDERS: AtomicU64 = AtomicU64::new(0);

impl Folder {
    fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { env::temp_dir() };
        let number = FOLDERS.fetch_add(1, Ordering::SeqCst);
        let path = parent.join(format!("tidegate-sim-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("the folder can be created");
        Self(path)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number}.db"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If the deletion fails, the folder stays, which does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
