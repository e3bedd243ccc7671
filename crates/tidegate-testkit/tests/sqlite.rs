//! Runs the store contract on the SQLite store, and tests its guarantees about files.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use tidegate_core::{
    id::Seq,
    reads::{Change, ReadSet},
    row::{Engine, Row, RowKey},
    time::Timestamp,
};
use tidegate_store::{
    Decide, Decision, ManualClock, SqliteLook, SqliteStore, Store, StoreError, SystemClock,
    lease::Leases,
};
use tidegate_testkit::{
    contract::{Open, insert, row, scans, seen},
    sample,
};

/// Time to live of a named lease.
const TTL: Duration = Duration::from_secs(60);

/// A directory for one test, deleted at its end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("tidegate.db")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Open for Place {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(SqliteStore::open(self.file(), Arc::new(SystemClock)).await?))
    }
}

mod file {
    use super::Place;

    async fn place() -> Option<Place> {
        Some(Place::new())
    }

    tidegate_testkit::store_contract!(place);
    tidegate_testkit::durable_contract!(place);
}

mod in_memory {
    use std::sync::Arc;

    use tidegate_store::{SqliteStore, Store, StoreError, SystemClock};
    use tidegate_testkit::contract::Open;

    struct InMemory;

    impl Open for InMemory {
        async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
            Ok(Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)).await?))
        }
    }

    async fn in_memory() -> Option<InMemory> {
        Some(InMemory)
    }

    tidegate_testkit::store_contract!(in_memory);
}

#[tokio::test]
async fn a_second_opening_in_this_process_is_told_who_has_the_file() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    let error = place.open().await.unwrap_err().to_string();
    assert!(error.contains(" is in use by this process; use the store that is open"), "{error}");
    drop(store);
    place.open().await.expect("the file can be opened after the first store is closed");
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_file() {
    let place = Place::new();
    let mut other = OtherProcess::start(&place);
    other.wait_for_commits(1);
    assert_in_use(place.open().await.unwrap_err(), &place, other.child.id());
    other.kill();
    place.open().await.expect("the lock is released when its process is killed");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_the_file_is_the_same_file() {
    let place = Place::new();
    let link = place.0.join("link.db");
    std::os::unix::fs::symlink(place.file(), &link).unwrap();
    let through_link = SqliteStore::open(&link, Arc::new(SystemClock)).await.unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(through_link);
}

/// A file that was removed or replaced stays open, and writes to it would be lost: the store must
/// refuse all writes.
#[cfg(unix)]
#[tokio::test]
async fn a_store_whose_files_are_gone_acknowledges_nothing() {
    type Harm = fn(&Path);
    let beside = |file: &Path, ending: &str| PathBuf::from(format!("{}{ending}", file.display()));
    let cases: [(&str, Harm); 6] = [
        ("tidegate.db was removed", |file| std::fs::remove_file(file).unwrap()),
        ("tidegate.db was removed", |file| {
            std::fs::rename(file, file.with_extension("old")).unwrap();
        }),
        ("tidegate.db was replaced", |file| {
            std::fs::copy(file, file.with_extension("new")).unwrap();
            std::fs::rename(file.with_extension("new"), file).unwrap();
        }),
        ("tidegate.db-wal was removed", |file| {
            std::fs::remove_file(format!("{}-wal", file.display())).unwrap();
        }),
        ("tidegate.db.lock was removed", |file| {
            std::fs::remove_file(format!("{}.lock", file.display())).unwrap();
        }),
        ("tidegate.db was removed", |file| {
            std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }),
    ];
    for (aged, (said, harm)) in
        [false, true].into_iter().flat_map(|aged| cases.map(|it| (aged, it)))
    {
        let place = Place::new();
        let leases = SqliteStore::open(place.file(), Arc::new(SystemClock)).await.unwrap();
        let leases = Arc::new(leases);
        let store: Arc<dyn Store> = leases.clone();
        if aged {
            // Makes the last change of the directory old, so that the store checks only the
            // directory and not each file.
            let folder = std::fs::File::open(place.file().parent().unwrap()).unwrap();
            folder.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        }
        insert(&store, [sample::event(1, "1")]).await;
        assert!(store.heartbeat(7, sample::LEASE_MS).await.unwrap());
        assert!(beside(&place.file(), "-wal").exists());
        harm(&place.file());
        let write: Decide =
            Box::new(|_| Decision::Apply(vec![Change::Insert(Row::from(sample::event(2, "2")))]));
        let error = store.transact(ReadSet::default(), write).await.unwrap_err();
        assert!(matches!(error, StoreError::FileGone(_)), "{said}: {error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert!(error.to_string().contains("restore the file"), "{said}: {error}");
        let error = store.heartbeat(7, sample::LEASE_MS).await.unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
        let error = leases.acquire("name", "holder", TTL).await.unwrap_err();
        assert!(matches!(error, StoreError::FileGone(_)), "{said}: {error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

/// A write-ahead log whose database is missing is not deleted: opening fails, and creates no new
/// database.
#[tokio::test]
async fn a_log_without_its_database_is_kept() {
    let place = Place::new();
    let log = PathBuf::from(format!("{}-wal", place.file().display()));
    std::fs::write(&log, "what was committed last").unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::FileGone(_)), "{error}");
    assert!(error.to_string().contains("tidegate.db is missing, and its"), "{error}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "what was committed last");
    assert!(!place.file().exists(), "a new database was created");
    std::fs::write(&log, "").unwrap();
    place.open().await.expect("an empty log does not prevent opening");
}

/// If the file disappears before a commit, the outcome of the commit is unknown, and it is not
/// acknowledged.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_goes_during_a_transaction_leaves_it_in_doubt() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    let file = place.file();
    let write: Decide = Box::new(move |_| {
        std::fs::remove_file(&file).unwrap();
        Decision::Apply(vec![Change::Insert(Row::from(sample::event(1, "1")))])
    });
    let error = store.transact(ReadSet::default(), write).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error}");
    assert!(error.to_string().contains("tidegate.db was removed"), "{error}");
}

/// A copy that fails leaves no file that could be taken for a backup.
#[tokio::test]
async fn a_copy_that_fails_leaves_nothing_behind() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    insert(&store, (1..200).map(|seq| sample::event(seq, r#"{"some":"data"}"#))).await;
    drop(store);
    let copy = place.0.join("copy.db");
    std::fs::write(&copy, "something else").unwrap();
    SqliteLook::open(place.file()).await.unwrap().copy(&copy).await.unwrap_err();
    assert_eq!(std::fs::read(&copy).unwrap(), b"something else", "an existing file was changed");
    std::fs::remove_file(&copy).unwrap();

    let mut bytes = std::fs::read(place.file()).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    let look = SqliteLook::open(place.file()).await.unwrap();
    std::fs::write(place.file(), bytes).unwrap();
    look.copy(&copy).await.unwrap_err();
    assert!(!copy.exists());
    let error = SqliteLook::restore(&copy, place.file()).await.unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
    assert!(!place.0.join("tidegate.db.restoring").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_of_a_store_and_its_copies_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let store = place.open().await.unwrap();
    insert(&store, [sample::event(1, "1")]).await;
    let copy = place.0.join("copy.db");
    SqliteLook::open(place.file()).await.unwrap().copy(&copy).await.unwrap();
    drop(store);
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644)).unwrap();
    let restored = place.0.join("restored.db");
    SqliteLook::restore(&copy, &restored).await.unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
    let store = place.open().await.unwrap();
    insert(&store, [sample::event(2, "2")]).await;
    for file in std::fs::read_dir(&place.0).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:o}: {}", mode, file.path().display());
    }
    drop(store);
}

#[tokio::test]
async fn what_was_acknowledged_outlives_a_kill() {
    let place = Place::new();
    let mut other = OtherProcess::start(&place);
    let acknowledged = other.wait_for_commits(20);
    other.kill();
    let store = place.open().await.unwrap();
    for seq in 1..=acknowledged {
        let key = RowKey::Event(Seq(seq));
        assert!(row(&store, key).await.is_some(), "event {seq} of {acknowledged} is lost");
    }
    let block = seen(&store, ReadSet::default()).await.block;
    assert!(block.0 > other.last_block, "block {block} was already used before the kill");
}

#[tokio::test]
async fn opening_voids_older_leases() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    assert!(store.heartbeat(7, sample::LEASE_MS).await.unwrap());
    drop(store);
    let store = place.open().await.unwrap();
    let engine = Engine { dead: true, ..Engine::new(7, sample::LEASE_MS) };
    assert_eq!(row(&store, RowKey::Engine(7)).await, Some(engine.into()));
    assert!(!store.heartbeat(7, sample::LEASE_MS).await.unwrap());
    assert!(store.heartbeat(8, sample::LEASE_MS).await.unwrap());
}

#[tokio::test]
async fn a_file_of_something_else_is_refused() {
    let place = Place::new();
    let text = "this is a letter to a friend, not a database. ".repeat(100);
    std::fs::write(place.file(), &text).unwrap();
    let error = place.open().await.unwrap_err().to_string();
    assert!(error.contains("tidegate.db"), "{error}");
    assert!(error.contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), text, "the file was changed");
}

#[tokio::test]
async fn a_damaged_file_gives_an_error_and_no_wrong_rows() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    insert(&store, (1..200).map(|seq| sample::event(seq, r#"{"some":"data"}"#))).await;
    drop(store);
    let mut bytes = std::fs::read(place.file()).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(place.file(), bytes).unwrap();
    let outcome = match place.open().await {
        Ok(store) => store.dump().await,
        Err(error) => Err(error),
    };
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("restore the file from a backup"), "{error}");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let path = PathBuf::from("/nowhere/at/all/tidegate.db");
    let error = SqliteStore::open(&path, Arc::new(SystemClock)).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all/tidegate.db"), "{error}");
    assert!(error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn what_is_due_at_this_moment_is_due() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1000)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(clock).await.unwrap());
    scans::what_is_due_at_this_moment_is_due(&store).await;
}

#[tokio::test]
async fn moments_come_from_the_clock_that_was_given() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1000)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(clock.clone()).await.unwrap());
    assert_eq!(seen(&store, ReadSet::default()).await.now, Timestamp::from_ms(1000));
    clock.advance_ms(5);
    assert_eq!(seen(&store, ReadSet::default()).await.now, Timestamp::from_ms(1005));
    clock.set(Timestamp::from_ms(3));
    assert_eq!(seen(&store, ReadSet::default()).await.now, Timestamp::from_ms(3));
    assert_eq!(store.read(ReadSet::default()).await.unwrap().now, Timestamp::from_ms(3));
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_its_transaction() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    {
        let inserting = insert(&store, [sample::run(1)]);
        let mut inserting = std::pin::pin!(inserting);
        // Polls the future once, so that the transaction has started, and then drops it.
        let once = std::future::poll_fn(|context| {
            let _ = inserting.as_mut().poll(context);
            std::task::Poll::Ready(())
        });
        once.await;
    }
    assert_eq!(row(&store, RowKey::Run(Seq(1))).await, Some(Row::from(sample::run(1))));
}

#[track_caller]
fn assert_in_use(error: StoreError, place: &Place, pid: u32) {
    let expected = format!(
        "{} is in use by another process (pid {pid}); stop it or use another file",
        place.file().display()
    );
    assert_eq!(error.to_string(), expected);
}

/// This test program as a second process, which commits to the database until it is killed.
struct OtherProcess {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
    last_block: i64,
}

impl OtherProcess {
    fn start(place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_other_process_commits_until_it_is_killed", "--exact", "--ignored"])
            .arg("--nocapture")
            .env(FILE, place.file())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says, last_block: 0 }
    }

    /// Waits until the process has acknowledged `count` commits. Returns the number of the last
    /// one.
    fn wait_for_commits(&mut self, count: i64) -> i64 {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "the other process has ended");
            let Some(said) = line.trim().strip_prefix("committed ") else { continue };
            let (seq, block) = said.split_once(' ').expect("the line has two numbers");
            self.last_block = block.parse().unwrap();
            let seq: i64 = seq.parse().unwrap();
            if seq >= count {
                return seq;
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Environment variable with the path of the database for the other process.
const FILE: &str = "TIDEGATE_TEST_SQLITE_FILE";

/// Maximum number of commits of the other process, so that it ends even if it is not killed.
const MOST_COMMITS: i64 = 100_000;

#[tokio::test]
#[ignore = "started by the tests above, in a process of its own"]
async fn the_other_process_commits_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let store = SqliteStore::open(file, Arc::new(SystemClock)).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    for seq in 1..=MOST_COMMITS {
        insert(&store, [sample::event(seq, "{}")]).await;
        let block = seen(&store, ReadSet::default()).await.block;
        println!("committed {seq} {block}");
        std::io::stdout().flush().unwrap();
    }
}
