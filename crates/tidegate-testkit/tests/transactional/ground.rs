//! A store whose database also has a table of the user, and transactional steps that write to it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    row::{Row, Run},
    run::record::{NewSend, Record, Recorded, Then},
    time::Timestamp,
};
use tidegate_store::{
    ManualClock, PostgresOptions, PostgresStore, PostgresTransaction, SeededCommand, SqliteStore,
    SqliteTransaction, Store, TransactionError, rusqlite,
};
use tidegate_testkit::{
    postgres::{fresh_schema, url},
    world::{World, event, step},
};
use tokio_postgres::{Client, NoTls};

/// Time after which a test fails because it waits for too long.
pub(crate) const STUCK: Duration = Duration::from_secs(20);

/// A timeout of a step that no test reaches.
pub(crate) const AMPLE: Duration = Duration::from_mins(1);

/// Statement of a step that writes to the user's table.
pub(crate) const PAY: &str = "insert into payment (run) values ('order')";

/// The outcome of a step.
pub(crate) type Outcome = Result<Vec<Answer>, TransactionError<String>>;

/// What a step does after its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Return,
    Fail,
    Panic,
    /// Prints a line, and waits to be killed.
    Halt,
    /// Returns from the step, and halts in the function that returns its record.
    HaltInRecord,
}

/// The actions of a step.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    statements: Vec<String>,
    end: End,
    limit: Duration,
    /// Whether the step continues after a statement that failed.
    careless: bool,
}

impl Part {
    /// Creates a step that executes these statements and returns.
    pub(crate) fn new(statements: &[&str]) -> Self {
        let statements = statements.iter().map(|&it| it.to_owned()).collect();
        Self { statements, end: End::Return, limit: AMPLE, careless: false }
    }

    pub(crate) fn end(self, end: End) -> Self {
        Self { end, ..self }
    }

    pub(crate) fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn careless(self) -> Self {
        Self { careless: true, ..self }
    }

    fn ended(&self) -> Result<(), String> {
        match self.end {
            End::Return | End::HaltInRecord => Ok(()),
            End::Fail => Err("the card was declined".to_owned()),
            End::Panic => panic!("as planned"),
            End::Halt => halt(),
        }
    }

    fn on_sqlite(&self, tx: &SqliteTransaction<'_>) -> Result<(), String> {
        for sql in &self.statements {
            let run = || {
                let mut statement = tx.prepare(sql)?;
                let mut rows = statement.query(())?;
                while rows.next()?.is_some() {}
                Ok(())
            };
            let done = run().map_err(|error: rusqlite::Error| error.to_string());
            if !self.careless {
                done?;
            }
        }
        self.ended()
    }

    async fn on_postgres(self, tx: PostgresTransaction) -> Result<(), String> {
        for sql in &self.statements {
            let done = tx.query(sql, &[]).await.map_err(|error| error.to_string());
            if !self.careless {
                done?;
            }
        }
        self.ended()
    }
}

/// Prints a line for the parent process, and never returns.
pub(crate) fn halt() -> ! {
    println!("{HALTED}");
    loop {
        std::thread::park();
    }
}

/// Line that a process prints when it halts.
pub(crate) const HALTED: &str = "halted as planned";

/// A SQLite or PostgreSQL store with the user's table `payment`.
pub(crate) struct Ground {
    pub(crate) world: World,
    on: On,
}

enum On {
    Sqlite { store: Arc<SqliteStore>, file: PathBuf, _folder: Option<Folder> },
    Postgres { store: Arc<PostgresStore>, outside: Client, names: Names },
}

/// A directory for one test, deleted at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("transactional-{}-{count}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Returns the directory of a file that another process has created.
    pub(crate) fn of(file: impl AsRef<Path>) -> Self {
        Self(file.as_ref().parent().unwrap().to_owned())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("tidegate.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Names of the schema of Tidegate and of the schema of the user.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Names {
    pub(crate) fn fresh() -> Self {
        Self { ours: fresh_schema("step"), theirs: fresh_schema("user") }
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)))
}

impl Ground {
    /// Opens SQLite, in a file that is deleted on drop.
    pub(crate) async fn sqlite() -> Option<Self> {
        let folder = Folder::new();
        let mut ground = Self::on_file(&folder.file()).await;
        if let On::Sqlite { _folder: kept, .. } = &mut ground.on {
            *kept = Some(folder);
        }
        Some(ground)
    }

    /// Opens SQLite, in this file.
    pub(crate) async fn on_file(file: &Path) -> Self {
        let clock = clock();
        let store = Arc::new(SqliteStore::open(file, clock.clone()).await.unwrap());
        let file = file.to_owned();
        rusqlite::Connection::open(&file)
            .unwrap()
            .execute_batch("create table if not exists payment (run text not null)")
            .unwrap();
        let world = World::new(store.clone(), clock);
        Self { world, on: On::Sqlite { store, file, _folder: None } }
    }

    /// Opens PostgreSQL, in separate schemas; `None` if there is no server.
    pub(crate) async fn postgres() -> Option<Self> {
        Self::postgres_with(PostgresOptions::default()).await
    }

    pub(crate) async fn postgres_with(options: PostgresOptions) -> Option<Self> {
        Some(Self::in_schemas(url()?, Names::fresh(), options).await)
    }

    /// Opens PostgreSQL, in these schemas.
    pub(crate) async fn in_schemas(url: &str, names: Names, options: PostgresOptions) -> Self {
        let (outside, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let theirs = &names.theirs;
        let table = format!(
            "create schema if not exists {theirs};
             create table if not exists {theirs}.payment (run text not null);
             set search_path = {theirs}"
        );
        outside.batch_execute(&table).await.unwrap();
        let clock = clock();
        let options =
            PostgresOptions { schema: names.ours.clone(), clock: Some(clock.clone()), ..options };
        // The URL sets the `search_path` to the user's schema, as in a user's program.
        let mark = if url.contains('?') { '&' } else { '?' };
        let url = format!(
            "{url}{mark}options=-c%20search_path%3D{theirs}&application_name={}",
            names.ours
        );
        let store = Arc::new(PostgresStore::open(&url, options).await.unwrap());
        let world = World::new(store.clone(), clock);
        Self { world, on: On::Postgres { store, outside, names } }
    }

    /// Returns a run that an engine drives.
    pub(crate) async fn driven(&self) -> Run {
        self.world.define(json!({ "name": "order", "concurrency": { "limit": 2 } })).await;
        self.world.send("order", json!({})).await;
        self.world.lease_one().await
    }

    /// Returns the command that records a step of a run.
    pub(crate) fn recording(&self, run: &Run, id: &str) -> SeededCommand {
        self.reporting(run, id, Vec::new())
    }

    /// Returns the command that records a step of a run and the event that the step sends.
    pub(crate) fn sending(&self, run: &Run, name: &str, data: &Value) -> SeededCommand {
        let send = NewSend::event("send", event(name, data));
        self.reporting(run, "pay", vec![send])
    }

    fn reporting(&self, run: &Run, id: &str, sends: Vec<NewSend>) -> SeededCommand {
        let report = Record {
            run: run.id.seq,
            engine: run.owner.unwrap(),
            fence: run.fence,
            steps: vec![step(id, &json!("paid"))],
            sends,
            then: Then::Continue,
            ..Record::default()
        };
        self.world.salted(Command::Record { known: Box::new(run.clone()), report })
    }

    /// Executes a transactional step of a run.
    pub(crate) async fn act(&self, run: &Run, id: &str, part: Part) -> Outcome {
        self.act_with(vec![self.recording(run, id)], part).await
    }

    /// Executes a transactional step that is recorded by these commands.
    pub(crate) async fn act_with(&self, commands: Vec<SeededCommand>, part: Part) -> Outcome {
        let (limit, end) = (part.limit, part.end);
        let record = move |(): &()| if end == End::HaltInRecord { halt() } else { commands };
        let kept = match &self.on {
            On::Sqlite { store, .. } => {
                store.transact_with(limit, move |tx| part.on_sqlite(tx), record).await?
            }
            On::Postgres { store, .. } => {
                store.transact_with(limit, |tx| part.on_postgres(tx), record).await?
            }
        };
        Ok(kept.answers)
    }

    /// Executes a transactional step that inserts one payment.
    pub(crate) async fn pay(&self, run: &Run) -> Outcome {
        self.act(run, "pay", Part::new(&[PAY])).await
    }

    /// Returns the committed payments, read by another connection.
    pub(crate) async fn payments(&self) -> Vec<String> {
        match &self.on {
            On::Sqlite { file, .. } => {
                let db = rusqlite::Connection::open(file).unwrap();
                let mut rows = db.prepare("select run from payment order by run").unwrap();
                rows.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            On::Postgres { outside, .. } => {
                let rows = outside.query("select run from payment order by run", &[]).await;
                rows.unwrap().iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Returns the number of committed payments, and the number of recorded steps of a run.
    pub(crate) async fn kept(&self, run: &Run) -> (usize, usize) {
        (self.payments().await.len(), self.world.steps(run.id).await.len())
    }

    /// Returns the numbers of the runs that have recorded a step.
    pub(crate) async fn recorded(&self) -> BTreeSet<String> {
        let rows = self.world.dump().await;
        let step =
            |row: &Row| if let Row::Step(it) = row { Some(it.run.0.to_string()) } else { None };
        rows.iter().filter_map(step).collect()
    }

    /// Returns the PostgreSQL store; panics on SQLite.
    pub(crate) fn server(&self) -> &Arc<PostgresStore> {
        let On::Postgres { store, .. } = &self.on else { panic!("this is SQLite") };
        store
    }

    /// Returns the user's connection to PostgreSQL; panics on SQLite.
    pub(crate) fn outside(&self) -> &Client {
        let On::Postgres { outside, .. } = &self.on else { panic!("this is SQLite") };
        outside
    }

    /// Returns Tidegate's PostgreSQL schema; panics on SQLite.
    pub(crate) fn schema(&self) -> &str {
        let On::Postgres { names, .. } = &self.on else { panic!("this is SQLite") };
        &names.ours
    }

    /// Returns the number of PostgreSQL connections of the store for which `condition` is true; 0
    /// on SQLite.
    pub(crate) async fn connections(&self, condition: &str) -> i64 {
        let On::Postgres { outside, names, .. } = &self.on else { return 0 };
        let sql = format!(
            "select count(*) from pg_stat_activity where application_name = $1 and {condition}"
        );
        // Without this, all queries of a transaction return the statistics of its first query.
        outside.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
        outside.query_one(&sql, &[&names.ours]).await.unwrap().get(0)
    }

    /// Waits until `condition` is true for some connection of the store (or for none, if `some` is
    /// false).
    pub(crate) async fn until(&self, condition: &str, some: bool) {
        let begun = Instant::now();
        while (self.connections(condition).await > 0) != some {
            let wanted = if some { "a connection" } else { "no connection" };
            assert!(begun.elapsed() < STUCK, "waited too long for {wanted} with {condition}");
            tokio::task::yield_now().await;
        }
    }

    /// Returns the same store with another engine.
    pub(crate) fn successor(self) -> Self {
        let engine = self.world.engine + 1;
        Self { world: self.world.engine(engine), on: self.on }
    }

    /// Returns this store as a trait object.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.world.store.clone()
    }
}

/// Returns the answer to the record of a step whose run continues.
pub(crate) fn recorded() -> Vec<Answer> {
    vec![Answer::Recorded(Recorded::GoOn)]
}
