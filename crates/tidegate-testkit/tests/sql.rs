//! Tests the statements of both dialects on real databases: all of them can be prepared, frequent
//! ones use their indexes, and the recorded plans, schemas and the list of tables are up to date.
//!
//! `UPDATE_EXPECT=1` records a plan or schema after an intended change.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use rusqlite::Connection;
use serde_json::Value;
use tidegate_core::row::RowKind;
use tidegate_store::{
    PostgresOptions, PostgresStore,
    codec::Table,
    sql::{self, Dialect, TableStatements},
};
use tidegate_testkit::postgres::{fresh_schema, url};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Statements whose plans are recorded: scans, and statements that lock rows in every transaction.
const HOT: [&str; 58] = [
    "gate_lock",
    "run_lock",
    "run_queue_order",
    "run_ready_lock",
    "run_ready_next",
    "sub_work_lock",
    "tx_token_write",
    "tx_token_close",
    "run_queue",
    "run_queue_tier",
    "run_ready",
    "gate_due",
    "run_due",
    "run_owned",
    "chore_due",
    "chore_of_topic",
    "run_lane",
    "run_listening",
    "run_newest",
    "ended_newest",
    "gate_prefix",
    "engine_watched",
    "engine_buriable",
    "step_of_run",
    "item_of_run",
    "wait_path_of_name",
    "wait_of_value",
    "signal_inbox",
    "receipt_of_event",
    "log_of_stream",
    "log_feed",
    "sub_work",
    "sub_of_workspace",
    "def_of_workspace",
    "schedule_next",
    "schedule_of_workflow",
    "chunk_of_run",
    "signal_of_run",
    "event_loose",
    "ended_loose",
    "event_after",
    "ended_after",
    "receipt_after",
    "log_feed_back",
    "stream_of_number",
    "gate_of_run",
    "snapshot_of_stream",
    "event_newest",
    "receipt_newest",
    "run_of_event",
    "ended_of_event",
    "item_of_event",
    "run_count",
    "run_driven_count",
    "run_parked_count",
    "run_queue_count",
    "run_queue_end",
    "reply_after",
];

/// Statement that reads the schema of PostgreSQL as SQL.
const SCHEMA: &str = include_str!("postgres_schema.sql");

fn folder(dialect: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidegate-store/sql").join(dialect)
}

/// Returns the text of a file in the folder of a dialect.
fn file(dialect: &str, name: &str) -> String {
    fs::read_to_string(folder(dialect).join(name)).unwrap()
}

/// Returns the PostgreSQL statement with this name.
fn postgres_statement(name: &str) -> &'static str {
    sql::all(Dialect::Postgres)[name]
}

/// Opens an empty SQLite database with the schema of `schema.sql`. Another test compares that file
/// with the migrations.
fn sqlite() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&file("sqlite", "schema.sql")).unwrap();
    db
}

/// Creates a PostgreSQL schema with all migrations. Returns a connection with the settings that the
/// store makes for its transactions; `None` without a server.
async fn postgres() -> Option<Client> {
    let (url, schema) = (url()?, fresh_schema("sql"));
    let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
    PostgresStore::open(url, options).await.unwrap();
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let settings = postgres_statement("tx_settings").replace(", true)", ", false)");
    let timeout = "60000".to_owned();
    client
        .query(&settings, &[&schema, &timeout, &timeout, &timeout, &String::new()])
        .await
        .unwrap();
    Some(client)
}

#[test]
fn every_statement_of_sqlite_can_be_prepared() {
    let db = sqlite();
    for (name, statement) in sql::all(Dialect::Sqlite) {
        if let Err(error) = db.prepare(statement) {
            panic!("{name}: {error}");
        }
    }
}

#[tokio::test]
async fn every_statement_of_postgres_can_be_prepared() {
    let Some(client) = postgres().await else { return };
    for (name, statement) in sql::all(Dialect::Postgres) {
        if let Err(error) = client.prepare(statement).await {
            panic!("{name}: {error:?}");
        }
    }
}

/// Returns SQLite's plan of a statement.
fn sqlite_plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut explain = db.prepare(&format!("explain query plan {sql}")).unwrap();
    let parameters = explain.parameter_count();
    let nothing = vec![rusqlite::types::Null; parameters];
    let rows = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// What PostgreSQL's statistics say about the sizes of tables when a statement is planned. Plans
/// must not depend on them, because a plan is made once and used until the connection is closed.
#[derive(Clone, Copy, Debug)]
enum Statistics {
    /// The tables are empty.
    Empty,
    /// The tables have rows, and have never been analysed.
    Never,
    /// The tables have rows, and were empty when they were last analysed.
    Stale,
}

/// Returns the number of rows for a table: enough for indexes of more than one page. With
/// `TIDEGATE_TEST_FULL` there are more rows, of runs a million, so that indexes have more levels.
fn many(kind: RowKind) -> usize {
    match (std::env::var("TIDEGATE_TEST_FULL").is_ok(), kind) {
        (false, _) => 3_000,
        (true, RowKind::Run) => 1_000_000,
        (true, _) => 100_000,
    }
}

/// Fills every table with rows whose columns are all different and never null, so that every
/// partial index contains all rows.
async fn fill(client: &Client, rows: impl Fn(RowKind) -> usize) {
    let value = |kind: &str| match kind {
        "bigint" => "n".to_owned(),
        "text" => "'x' || n".to_owned(),
        "bytea" => "decode(lpad(to_hex(n), 8, '0'), 'hex')".to_owned(),
        other => panic!("the test has no values for columns of type {other}"),
    };
    for table in RowKind::ALL.map(Table::of) {
        let columns = "select column_name::text, data_type::text from information_schema.columns \
                       where table_schema = current_schema() and table_name = $1 \
                       order by ordinal_position";
        let columns = client.query(columns, &[&table.name]).await.unwrap();
        let names: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
        let values: Vec<String> = columns.iter().map(|row| value(row.get(1))).collect();
        let insert = format!(
            "insert into {} ({}) select {} from generate_series(1, {}) as n",
            table.name,
            names.join(", "),
            values.join(", "),
            rows(table.kind),
        );
        client.batch_execute(&insert).await.unwrap();
    }
}

/// Brings the tables into the state that `statistics` describes.
async fn prepare_statistics(client: &Client, statistics: Statistics) {
    for table in RowKind::ALL.map(Table::of) {
        let name = table.name;
        let alone = format!("alter table {name} set (autovacuum_enabled = off)");
        client.batch_execute(&alone).await.unwrap();
    }
    match statistics {
        Statistics::Empty => {}
        Statistics::Never => fill(client, many).await,
        Statistics::Stale => {
            fill(client, |_| 1_000).await;
            for table in RowKind::ALL.map(Table::of) {
                let name = table.name;
                client.batch_execute(&format!("delete from {name}")).await.unwrap();
                // `truncate off` keeps the empty pages, so that the planner finds many pages
                // without rows.
                let vacuum = format!("vacuum (truncate off, analyze) {name}");
                client.batch_execute(&vacuum).await.unwrap();
            }
            fill(client, many).await;
        }
    }
}

/// Returns PostgreSQL's plan of a statement for unknown parameters: only the lines about access to
/// tables and about sorts, because other lines differ between versions.
async fn postgres_plan(client: &Client, sql: &str) -> Vec<String> {
    let parameters = client.prepare(sql).await.unwrap().params().len();
    let nothing = vec!["null"; parameters].join(", ");
    let arguments = if parameters == 0 { String::new() } else { format!("({nothing})") };
    client.batch_execute(&format!("prepare hot as {sql}")).await.unwrap();
    let explain = format!("explain (costs off) execute hot{arguments}");
    let lines = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("deallocate hot").await.unwrap();
    lines.iter().map(|row| row.get::<_, String>(0)).filter_map(|line| access(&line)).collect()
}

/// Returns a line of a plan with normalized parameters, if the line is about access to a table or
/// about a sort.
fn access(line: &str) -> Option<String> {
    let line = line.trim_start_matches([' ', '-', '>']);
    let words = [
        "Index Scan",
        "Index Only Scan",
        "Seq Scan",
        "Bitmap Index",
        "Index Cond",
        "Sort",
        "Tid Scan",
        "TID Cond",
    ];
    if !words.iter().any(|word| line.contains(word)) {
        return None;
    }
    let parameters = (0..10).flat_map(|n| [format!("${n}"), format!("(InitPlan {n}).col1")]);
    Some(parameters.fold(line.to_owned(), |line, parameter| line.replace(&parameter, "?")))
}

/// Returns the plans of statements. Fails if a plan depends on the statistics. `None` without a
/// server.
async fn postgres_plans(names: &[&'static str]) -> Option<BTreeMap<&'static str, Vec<String>>> {
    let mut plans: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut changed = String::new();
    for statistics in [Statistics::Empty, Statistics::Never, Statistics::Stale] {
        let client = postgres().await?;
        client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
        prepare_statistics(&client, statistics).await;
        let statements = sql::all(Dialect::Postgres);
        for &name in names {
            let Some(statement) = statements.get(name) else { continue };
            let plan = postgres_plan(&client, statement).await;
            let first = plans.entry(name).or_insert_with(|| plan.clone());
            // The order of several conditions in a plan may depend on estimates, so it is not
            // compared.
            let sorted = |plan: &[String]| plan.iter().cloned().collect::<BTreeSet<_>>();
            if sorted(first) != sorted(&plan) {
                writeln!(changed, "{name}, {statistics:?}: {plan:#?}, not {first:#?}").unwrap();
            }
        }
    }
    assert!(changed.is_empty(), "plans depend on statistics:\n{changed}");
    Some(plans)
}

#[tokio::test]
async fn scans_use_their_index_whatever_the_statistics_say() {
    let Some(mut of_postgres) = postgres_plans(&HOT).await else { return };
    let (db, of_sqlite) = (sqlite(), sql::all(Dialect::Sqlite));
    let mut plans = String::new();
    for name in HOT {
        let mut plan = |dialect: &str, lines: Vec<String>| {
            writeln!(plans, "{name}, {dialect}:").unwrap();
            for line in lines {
                writeln!(plans, "    {line}").unwrap();
            }
        };
        if let Some(lines) = of_postgres.remove(name) {
            plan("postgres", lines);
        }
        if let Some(statement) = of_sqlite.get(name) {
            plan("sqlite", sqlite_plan(&db, statement));
        }
    }
    expect_file!["plans.txt"].assert_eq(&plans);
}

/// Creates ready runs in a separate schema: `workflows` workflows with `backlog` runs each.
async fn backlogs(workflows: i64, backlog: i64) -> Option<Client> {
    let client = postgres().await?;
    let insert =
        "insert into run (seq, salt, ws, lane, ready, tier, order_at, order_seq, fence, body)
                  select n, 0, 'w', n % $1, n % $1, 0, n, n, 0, '{}'
                    from generate_series(0, $1::bigint * $2::bigint - 1) as n";
    client.execute(insert, &[&workflows, &backlog]).await.unwrap();
    Some(client)
}

/// Returns the number of rows that the scans of a plan have read, including rows that a condition
/// removed.
fn rows_read(plan: &Value) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
    let own = (number("Actual Rows") + removed) * number("Actual Loops");
    let own = if plan["Relation Name"] == "run" { own } else { 0.0 };
    let parts = plan["Plans"].as_array().into_iter().flatten();
    own + parts.map(rows_read).sum::<f64>()
}

/// Executes a claim of a hundred runs, and returns its plan with the actual numbers of rows.
async fn executed_claim(workflows: i64, backlog: i64) -> Option<Value> {
    let sql = postgres_statement("run_ready_lock");
    let client = backlogs(workflows, backlog).await?;
    client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
    client.batch_execute(&format!("prepare claim as {sql}")).await.unwrap();
    let explain = "explain (analyze, buffers, timing off, format json) execute claim
                   ('w', '{0}', '{0}', '{100000}', '{100000}', 100)";
    let plan = client.simple_query(explain).await.unwrap();
    let plan = plan.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        row.get(0)
    });
    let plan: Value = serde_json::from_str(plan.unwrap()).unwrap();
    assert_eq!(plan[0]["Plan"]["Actual Rows"], 100.0, "{plan}");
    Some(plan[0]["Plan"].clone())
}

/// The cost of a claim of a hundred runs depends on the runs that it leases, not on the number of
/// workflows and the length of backlogs. The SQLite store has the same test in `sqlite/tests.rs`.
#[tokio::test]
async fn a_claim_reads_no_backlogs() {
    let mut read = Vec::new();
    for (workflows, backlog) in [(1, 1_000), (10, 100), (100, 10), (1_000, 2), (10_000, 1)] {
        let Some(plan) = executed_claim(workflows, backlog).await else { return };
        read.push(rows_read(&plan));
    }
    // A hundred workflows are the worst case for a claim of a hundred runs. From each lane, four
    // times its share is read.
    let most = read[2];
    assert!(read.iter().all(|rows| *rows <= most * 1.05), "{read:?}");

    // Index entries that a condition skips are not counted as rows, so the pages are compared, too.
    let mut pages = Vec::new();
    for backlog in [1_000, 50_000] {
        let plan = executed_claim(3, backlog).await.unwrap();
        pages.push(plan["Shared Hit Blocks"].as_i64().unwrap());
    }
    assert!(pages[1] < pages[0] * 2, "{pages:?}");
}

/// Statements that read, lock, update or delete rows by key look up each row separately in the
/// primary key, whatever the planner's estimates are.
#[tokio::test]
async fn batches_look_up_each_key_whatever_the_statistics_say() {
    let statements: Vec<(&str, &Table)> = RowKind::ALL
        .into_iter()
        .flat_map(|kind| {
            let TableStatements { read, update, delete, lock, .. } =
                *sql::of(Dialect::Postgres, kind);
            let statements = [read, update, delete].into_iter().chain(lock);
            statements.map(move |statement| (sql::name(statement), Table::of(kind)))
        })
        .collect();
    assert!(statements.len() > 80, "too few statements were found: {}", statements.len());
    let names: Vec<&str> = statements.iter().map(|(name, _)| *name).collect();
    let Some(plans) = postgres_plans(&names).await else { return };
    for (name, table) in statements {
        let plan = &plans[name];
        let by_key = format!("Index Scan using {0}_pkey on {0}", table.name);
        let (scans, rest): (Vec<_>, Vec<_>) =
            plan.iter().partition(|line| line.replace("Index Only", "Index").starts_with(&by_key));
        let (bounds, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|line| line.starts_with("Index Cond"));
        let whole_key =
            |line: &&String| table.key().iter().all(|(column, _)| line.contains(column));
        assert!(scans.len() == 1 && bounds.len() == 1, "{name}: {plan:#?}");
        assert!(bounds.iter().all(whole_key), "{name}: {plan:#?}");
        let by_place =
            rest.iter().all(|line| line.starts_with("Tid Scan") || line.starts_with("TID"));
        assert!(by_place, "{name}: {plan:#?}");
    }
}

#[tokio::test]
async fn the_schema_of_postgres_is_the_one_on_file() {
    let Some(client) = postgres().await else { return };
    let rows = client.query(SCHEMA, &[]).await.unwrap();
    let mut schema = "-- The schema after all migrations. Checked by a test.\n".to_owned();
    for row in rows {
        writeln!(schema, "\n{};", row.get::<_, String>("statement")).unwrap();
    }
    expect_file!["../../tidegate-store/sql/postgres/schema.sql"].assert_eq(&schema);
}

/// `schema.sql` is a valid script, and running it makes the same schema.
#[tokio::test]
async fn the_schema_on_file_makes_itself() {
    let Some(client) = postgres().await else { return };
    let fresh = fresh_schema("sql_again");
    let schema = file("postgres", "schema.sql");
    let make = format!("create schema {fresh}; set search_path = {fresh}; {schema}");
    client.batch_execute(&make).await.unwrap();
    let rows = client.query(SCHEMA, &[]).await.unwrap();
    let again: Vec<String> = rows.iter().map(|row| row.get("statement")).collect();
    for statement in again {
        assert!(schema.contains(&statement), "schema.sql does not contain {statement}");
    }
}

/// Returns the texts of the migrations of a dialect before the migration `last`, and the text of
/// `last`.
fn migrations(dialect: &str, last: &str) -> (Vec<String>, String) {
    let entries = fs::read_dir(folder(dialect).join("migrations")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let at = paths.iter().position(|path| path.file_stem().is_some_and(|it| it == last)).unwrap();
    let mut texts: Vec<_> =
        paths[..=at].iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let own = texts.pop().unwrap();
    (texts, own)
}

/// Rows before the migration `0004_runs`: two ended runs. The version of one of them has no
/// definition any more.
const BEFORE: &str = "
    insert into def (lane, ws, app, name, version, body) values (7, 'w', 'a', 'order', 2, '{}');
    insert into ended (seq, salt, ws, app, workflow, version, state, queued_at, ended_at,
                       event_seq, body)
    values (1, 0, 'w', 'a', 'order', 2, 'failed', 0, 0, 0, '{}'),
           (2, 0, 'w', 'a', 'order', 1, 'failed', 0, 0, 0, '{}');
    insert into step (run, id, kind, fence, at, ok, out) values (1, 's', 'run', 1, 0, 1, '1');";

/// Query that reads the same rows after the migration.
const AFTER: &str = "select ended.seq, ended.lane, coalesce(step.seq, -1)
                       from ended left join step on step.run = ended.seq order by ended.seq";

/// The migration gives runs that have already ended the number of their definition (the lane), by
/// which lists find them.
#[tokio::test]
async fn runs_that_ended_before_a_migration_are_found_after_it() {
    let expected = [(1, 7, 0), (2, 0, -1)];
    let (before, own) = migrations("sqlite", "0004_runs");
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&[before.join(";"), BEFORE.to_owned(), own].concat()).unwrap();
    let mut select = db.prepare(AFTER).unwrap();
    let rows = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(rows.collect::<Result<Vec<(i64, i64, i64)>, _>>().unwrap(), expected);

    let Some(client) = postgres().await else { return };
    let (before, own) = migrations("postgres", "0004_runs");
    let fresh = fresh_schema("sql_before");
    let make = format!("create schema {fresh}; set search_path = {fresh};");
    client.batch_execute(&[make, before.join(";"), BEFORE.to_owned(), own].concat()).await.unwrap();
    let rows = client.query(AFTER, &[]).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, expected);
}

/// The migration that adds the column `parked` sets it for the runs that already wait or are
/// paused, and only for them.
#[tokio::test]
async fn runs_that_waited_before_a_migration_are_counted_after_it() {
    let phases = [r#""waiting""#, r#""paused""#, r#""ready""#, r#"{"line":{"gate":1}}"#];
    let run = |(seq, phase): (usize, &&str)| {
        format!(
            "insert into run (seq, salt, ws, lane, tier, order_at, order_seq, fence, body) \
             values ({seq}, 0, 'w', 1, 0, 0, 0, 0, '{{\"phase\":{phase}}}');"
        )
    };
    let runs: String = phases.iter().enumerate().map(run).collect();
    let after = "select coalesce(parked, '') from run order by seq";
    let expected = ["waiting", "paused", "", ""];
    let (before, own) = migrations("sqlite", "0011_observe");
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&[before.join(";"), runs.clone(), own].concat()).unwrap();
    let mut select = db.prepare(after).unwrap();
    let parked = select.query_map((), |row| row.get(0)).unwrap();
    assert_eq!(parked.collect::<Result<Vec<String>, _>>().unwrap(), expected);

    let Some(client) = postgres().await else { return };
    let (before, own) = migrations("postgres", "0011_observe");
    let fresh = fresh_schema("sql_parked");
    let make = format!("create schema {fresh}; set search_path = {fresh};");
    client.batch_execute(&[make, before.join(";"), runs, own].concat()).await.unwrap();
    let rows = client.query(after, &[]).await.unwrap();
    let parked: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(parked, expected);
}

/// The list of tables in `sql/README.md` is up to date. The text around the list is not compared.
#[test]
fn the_readme_lists_every_table() {
    const START: &str = "<!-- tables: written by UPDATE_EXPECT=1 -->\n";
    const END: &str = "<!-- end of tables -->";
    let readme = fs::read_to_string(folder("README.md")).unwrap();
    let (before, rest) = readme.split_once(START).expect("the page has the start of the list");
    let (_, after) = rest.split_once(END).expect("the page has the end of the list");
    let mut list =
        "| table | rows | key | locked | written statements |\n|---|---|---|---|---|\n".to_owned();
    let written = written_statements();
    for kind in RowKind::ALL {
        let table = Table::of(kind);
        let key: Vec<_> = table.key().iter().map(|(name, _)| *name).collect();
        let locked = if kind.is_locked() { "yes" } else { "" };
        let statements = written.get(table.name).map(|names| names.join(", "));
        let (name, key, statements) = (table.name, key.join(", "), statements.unwrap_or_default());
        writeln!(list, "| `{name}` | `{kind:?}` | {key} | {locked} | {statements} |").unwrap();
    }
    let expected = format!("{before}{START}{list}{END}{after}");
    expect_file!["../../tidegate-store/sql/README.md"].assert_eq(&expected);
}

/// Returns the names of written statements by file. A statement that only one dialect has is
/// followed by the name of the dialect.
fn written_statements() -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for dialect in ["sqlite", "postgres"] {
        for entry in fs::read_dir(folder(dialect)).unwrap() {
            let path = entry.unwrap().path();
            let (Some(stem), true) = (path.file_stem(), path.is_file()) else { continue };
            let names = files.entry(stem.to_str().unwrap().to_owned()).or_default();
            let text = fs::read_to_string(&path).unwrap();
            for name in text.lines().filter_map(|line| line.strip_prefix("-- name: ")) {
                names.entry(name.to_owned()).or_default().push(dialect);
            }
        }
    }
    let shown = |(name, dialects): (String, Vec<&str>)| match dialects.as_slice() {
        [only] => format!("`{name}` ({only})"),
        _ => format!("`{name}`"),
    };
    files.into_iter().map(|(file, names)| (file, names.into_iter().map(shown).collect())).collect()
}

/// The store loads every statement of every file, so that the other tests prepare all of them.
#[test]
fn every_written_statement_is_loaded() {
    for (dialect, name) in [(Dialect::Sqlite, "sqlite"), (Dialect::Postgres, "postgres")] {
        let loaded = sql::all(dialect);
        let mut names = 0;
        for part in ["", "only"] {
            for entry in fs::read_dir(folder(name).join(part)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() || path.ends_with("schema.sql") {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                for name in text.lines().filter_map(|line| line.strip_prefix("-- name: ")) {
                    let path = path.display();
                    assert!(loaded.contains_key(name), "{path}: {name} is not loaded");
                    names += 1;
                }
            }
        }
        assert_eq!(names, loaded.len(), "{name}: loaded statements that no file has");
    }
}
