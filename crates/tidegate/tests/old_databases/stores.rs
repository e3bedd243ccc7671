//! Copies of the databases, each in a folder or schema of its own, and the writing of new
//! databases.

use std::{
    env, fs,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use tidegate::{
    lease::Leases,
    testing::{TestHarness, VirtualClock},
};
use tidegate_store::{
    PostgresOptions, PostgresStore, SqliteStore, Store, rusqlite, tokio_postgres,
};

/// Name of the schema in a dump. Where the dump is restored, it is replaced by another name.
const SCHEMA: &str = "old_database";

/// Returns the folder with the databases of one build: `sqlite.db` and `postgres.dump`.
pub(crate) fn folder(build: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old_databases").join(build)
}

/// Returns the number of the newest migration in the databases of one build.
pub(crate) fn schema_of(build: &str) -> u32 {
    let path = folder(build).join("sqlite.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    db.query_row("select max(version) from migration", [], |row| row.get(0)).unwrap()
}

/// A store that belongs to one test, with a harness on it.
pub(crate) struct Opened {
    pub(crate) harness: TestHarness,
    pub(crate) leases: Arc<dyn Leases>,
    place: Place,
}

/// Location of the rows.
enum Place {
    File(Folder),
    Schema { url: String, schema: String },
}

/// Name of the SQLite file in its folder.
const FILE: &str = "tidegate.db";

/// A folder that is deleted when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Opened {
    fn new<S: Store + Leases + 'static>(store: S, clock: Arc<VirtualClock>, place: Place) -> Self {
        let store = Arc::new(store);
        Self { harness: TestHarness::on(store.clone(), clock), leases: store, place }
    }

    /// Opens a SQLite file: a copy of the given file, or a new one.
    pub(crate) async fn sqlite(copy_of: Option<&Path>, clock: VirtualClock) -> Self {
        let folder = Folder(env::temp_dir().join(format!("tidegate-old-{:016x}", random())));
        fs::create_dir_all(&folder.0).unwrap();
        let (path, clock) = (folder.0.join(FILE), Arc::new(clock));
        if let Some(old) = copy_of {
            fs::copy(old, &path).unwrap();
        }
        let store = SqliteStore::open(&path, clock.clone()).await.unwrap();
        Self::new(store, clock, Place::File(folder))
    }

    /// Opens a PostgreSQL schema: restored from the given dump, or a new one. Returns `None` and
    /// prints that loudly if there is no PostgreSQL.
    pub(crate) async fn postgres(dump: Option<&Path>, clock: VirtualClock) -> Option<Self> {
        let Ok(url) = env::var("TIDEGATE_TEST_POSTGRES") else {
            assert!(
                env::var_os("CI").is_none(),
                "PostgreSQL is not available, and in CI its tests must not be skipped"
            );
            eprintln!("!!! NO POSTGRESQL: set TIDEGATE_TEST_POSTGRES, or use scripts/test");
            return None;
        };
        let (schema, clock) = (format!("{SCHEMA}_{:016x}", random()), Arc::new(clock));
        if let Some(dump) = dump {
            let sql = fs::read_to_string(dump).unwrap().replace(SCHEMA, &schema);
            let (client, connection) =
                tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            client.batch_execute(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
        }
        let options = PostgresOptions {
            schema: schema.clone(),
            clock: Some(clock.clone()),
            committers: 1,
            readers: 1,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(&url, options).await.unwrap();
        Some(Self::new(store, clock, Place::Schema { url, schema }))
    }

    /// Closes the store, and writes its rows to the files of a build.
    pub(crate) fn write(self, build: &str) {
        let Self { harness, leases, place } = self;
        drop((harness, leases));
        let folder = folder(build);
        match place {
            Place::File(made) => {
                let target = folder.join("sqlite.db");
                let _ = fs::remove_file(&target);
                let db = rusqlite::Connection::open(made.0.join(FILE)).unwrap();
                db.execute("vacuum into ?1", [target.to_str().unwrap()]).unwrap();
            }
            Place::Schema { url, schema } => {
                fs::write(folder.join("postgres.dump"), dump(&url, &schema)).unwrap();
            }
        }
    }
}

/// Dumps a schema as SQL that any client can execute, without the settings, comments and commands
/// that only `psql` understands.
fn dump(url: &str, schema: &str) -> String {
    let program = env::var("TIDEGATE_PG_DUMP").unwrap_or_else(|_| "pg_dump".to_owned());
    let mut command = Command::new(program);
    command.args(["--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=1000"]);
    let output = command.args(["--schema", schema, "--dbname", url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap().replace(schema, SCHEMA);
    let noise = ["--", "SET ", "SELECT pg_catalog.set_config", "\\"];
    let is_kept = |line: &&str| !line.is_empty() && !noise.iter().any(|it| line.starts_with(it));
    text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect()
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}
