//! Tests of the SQLite store's internals: schema, query plans and failures.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use expect_test::expect_file;
use rusqlite::{Connection, params_from_iter};
use serde_json::json;
use tidegate_core::{
    command::Command,
    definition::Definition,
    event::NewEvent,
    id::{EventId, Seq},
    json::Payload,
    reads::{Change, ReadSet, Scan},
    row::{Event, Kind, Row, RowKind, Run},
    time::Timestamp,
    turn::Claim,
};

use super::{statements as sql, view::View, writer::schema, *};
use crate::{
    Decision, ManualClock, SystemClock,
    codec::{self, Table},
    single_writer::Source as _,
};

#[test]
fn the_schema_is_the_one_on_file() {
    let mut texts = schema(&fresh()).unwrap();
    texts.push(String::new());
    let text = format!(
        "-- The schema after all migrations. Checked by a test.\n\n{}",
        texts.join(";\n\n")
    );
    expect_file!["../../sql/sqlite/schema.sql"].assert_eq(&format!("{}\n", text.trim_end()));
}

#[test]
fn every_table_has_the_columns_of_the_codec() {
    let db = fresh();
    for table in RowKind::ALL.map(Table::of) {
        let mut statement = db.prepare("select name, pk from pragma_table_info(?1)").unwrap();
        let columns = statement.query_map([table.name], |row| Ok((row.get(0)?, row.get(1)?)));
        let columns: Vec<(String, u32)> = columns.unwrap().collect::<Result<_, _>>().unwrap();
        let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let listed: Vec<_> = table.columns.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, listed, "{table:?}");
        let key: Vec<_> = columns.iter().map(|(_, pk)| *pk).filter(|pk| *pk > 0).collect();
        assert_eq!(key, (1..).take(table.key_len).collect::<Vec<u32>>(), "{table:?}");
    }
}

#[test]
fn no_single_row_is_searched_for_without_its_key() {
    let db = fresh();
    for kind in RowKind::ALL {
        let statements = sql::of(kind);
        for text in [statements.read, statements.update, statements.delete] {
            let plan = plan(&db, text);
            assert!(plan.starts_with("SEARCH") && !plan.contains('\n'), "{plan}");
        }
    }
}

#[test]
fn a_statement_with_a_limit_is_compiled_once() {
    let db = fresh();
    set_up(&db).unwrap();
    let mut statement = db.prepare_cached(sql::shared().run_ready).unwrap();
    for limit in 1..4 {
        assert!(statement.query(("ws", 1, 1, limit)).unwrap().next().unwrap().is_none());
    }
    assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
}

/// Returns a ready run that an event has started.
async fn ready_run() -> Run {
    let store = crate::MemoryStore::default();
    let workflow = Definition::parse(&json!({ "name": "a" })).unwrap().value;
    let event = NewEvent::new("a", Payload::null());
    let ws = Workspace::from("w");
    let register = Command::Register { ws: ws.clone(), workflow: Box::new(workflow), dev: false };
    let commands = vec![(register, 1), (Command::Post { ws, events: vec![event] }, 2)];
    crate::commit(&store, commands).await.unwrap();
    let rows = store.dump().await.unwrap();
    rows.iter().find_map(|row| row.as_run()).unwrap().clone()
}

/// Returns the number of steps of SQLite's virtual machine for a claim of a hundred runs, if
/// `workflows` workflows have `backlog` ready runs each.
fn steps_of_a_claim(run: &Run, workflows: i64, backlog: i64) -> u64 {
    let mut db = fresh();
    for at in 0..workflows * backlog {
        let mut run = run.clone();
        (run.id.seq, run.rank.seq) = (Seq(at), Seq(at));
        run.lane = Seq(at % workflows);
        let cells = codec::cells(&Row::from(run));
        let mut insert = db.prepare_cached(sql::of(RowKind::Run).insert).unwrap();
        insert.execute(params_from_iter(&cells)).unwrap();
    }
    let steps = Arc::new(AtomicU64::new(0));
    let counter = steps.clone();
    db.progress_handler(1, Some(move || counter.fetch_add(1, Ordering::Relaxed) == u64::MAX))
        .unwrap();
    let view = View { db: &db, catalogs: &Catalogs::default() };
    let ready = Scan::Ready(Claim::all("w".into()));
    let runs = view.scan(&ready, 100, Timestamp::from_micros(0)).unwrap();
    assert_eq!(runs.len(), 100);
    steps.load(Ordering::Relaxed)
}

/// The cost of a claim depends on the runs it leases, not on the number of workflows or the length
/// of backlogs.
#[tokio::test]
async fn a_claim_reads_no_backlogs() {
    let run = ready_run().await;
    let steps_of = |(workflows, backlog)| steps_of_a_claim(&run, workflows, backlog);
    // A hundred workflows are the worst case for a claim of a hundred runs: one run of each.
    let steps = [(100, 10), (1_000, 2), (10_000, 1), (10, 100), (1, 1_000)].map(steps_of);
    let most = steps[0];
    assert!(steps.iter().all(|steps| *steps <= most + most / 20), "{steps:?}");
    // Going to the next lane must not read the backlog of the current lane.
    for (few, many) in [((1, 200), (1, 20_000)), ((3, 200), (3, 7_000))] {
        let (few, many) = (steps_of(few), steps_of(many));
        let ok = many <= few + few / 20;
        assert!(ok, "a long backlog takes {many} steps, a short one only {few}");
    }
}

#[test]
fn a_commit_waits_for_the_disk() {
    let path = std::env::temp_dir().join(format!("tidegate-pragma-{}.db", std::process::id()));
    let db = connect(&path, Access::Write).unwrap();
    let pragma =
        |name| db.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
    assert_eq!(pragma("synchronous").unwrap(), 2.into(), "synchronous is not 2 (full)");
    drop(db);
    fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_full_disk_is_reported_and_nothing_is_acknowledged() {
    let store = manual().await;
    limit_pages(&store, "pragma max_page_count = 1").await;
    let big = "x".repeat(200_000);
    let outcome = put(&store, 1, &big).await;
    assert!(matches!(outcome, Err(StoreError::Full(_))), "{outcome:?}");
    assert_eq!(store.dump().await.unwrap(), []);

    limit_pages(&store, "pragma max_page_count = 1000000").await;
    put(&store, 1, &big).await.expect("the store has space again");
    assert_eq!(store.dump().await.unwrap().len(), 1);
}

#[test]
fn a_newer_schema_is_refused() {
    let mut db = fresh();
    db.execute(sql::own().migration_insert, (99, "future", "00", 0)).unwrap();
    let error = writer::take_over(&mut db, Timestamp::default()).unwrap_err().to_string();
    assert!(error.starts_with("the schema is of a newer Tidegate"), "{error}");
    assert!(error.contains("migration 99 `future`"), "{error}");
}

#[test]
fn an_edited_migration_is_refused() {
    let mut db = fresh();
    db.execute("update migration set checksum = 'edited'", ()).unwrap();
    let error = writer::take_over(&mut db, Timestamp::default()).unwrap_err().to_string();
    assert!(error.starts_with("migration 1 `init` is not the one that was applied"), "{error}");
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let mut db = Connection::open_in_memory().unwrap();
    db.execute("create table album (title text)", ()).unwrap();
    let error = writer::take_over(&mut db, Timestamp::default()).unwrap_err().to_string();
    assert_eq!(error, "the file is a database of another program; use another file");
    assert_eq!(schema(&db).unwrap().len(), 1);
}

/// Returns a database after all migrations.
fn fresh() -> Connection {
    let mut db = Connection::open_in_memory().unwrap();
    writer::take_over(&mut db, Timestamp::default()).unwrap();
    db
}

fn plan(db: &Connection, text: &str) -> String {
    let mut statement = db.prepare(&["explain query plan ", text].concat()).unwrap();
    for at in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(at, 1).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut steps: Vec<String> = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps.join("\n")
}

async fn manual() -> SqliteStore {
    SqliteStore::in_memory(Arc::new(ManualClock::default())).await.unwrap()
}

async fn limit_pages(store: &SqliteStore, pragma: &'static str) {
    let set = move |writer: &mut Writer| writer.db.execute_batch(pragma).map_err(refused);
    store.writer.call(set).await.unwrap();
}

async fn put(store: &SqliteStore, seq: i64, data: &str) -> Result<(), StoreError> {
    let event = Event {
        id: EventId { seq: Seq(seq), salt: 0 },
        ws: "main".into(),
        kind: Kind::Event,
        name: "name".to_owned(),
        at: Timestamp::default(),
        ts: None,
        data: Payload::from_value(&data.into()),
        delivery: None,
        attributes: None,
    };
    let changes = vec![Change::Insert(event.into())];
    store.transact(ReadSet::default(), Box::new(move |_| Decision::Apply(changes.clone()))).await
}

/// The errors of a full disk and of a read-only file are different. Neither changes a row, and both
/// end when their cause ends.
#[tokio::test]
async fn a_store_goes_on_when_there_is_room_again() {
    let folder = std::env::temp_dir().join(format!("tidegate-full-{}", std::process::id()));
    // Left by a failed run of a process with the same, reused id.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let store = SqliteStore::open(folder.join("a.db"), Arc::new(SystemClock)).await.unwrap();
    let pragma = |text: &'static str| {
        store.writer.call(move |writer| writer.db.execute_batch(text).map_err(refused))
    };
    let big = |seq: i64| Event {
        id: EventId { seq: Seq(seq), salt: 1 },
        ws: "w".into(),
        kind: Kind::Event,
        name: "x".to_owned(),
        at: Timestamp::from_micros(1),
        ts: None,
        data: Payload::parse(format!("\"{}\"", "x".repeat(400_000)).as_bytes(), 500_000).unwrap(),
        delivery: None,
        attributes: None,
    };
    let post = |seq: i64| {
        let row = Row::from(big(seq));
        store.transact(
            ReadSet::default(),
            Box::new(move |_| Decision::Apply(vec![Change::Insert(row.clone())])),
        )
    };
    // Space for one event, not for two.
    pragma("pragma max_page_count = 200").await.unwrap();
    post(1).await.unwrap();
    assert!(matches!(post(2).await, Err(StoreError::Full(_))));
    assert!(matches!(post(2).await, Err(StoreError::Full(_))), "the second try is not `Full`");
    assert_eq!(store.dump().await.unwrap().len(), 1);
    pragma("pragma max_page_count = 100000; pragma query_only = on").await.unwrap();
    assert!(matches!(post(2).await, Err(StoreError::ReadOnly(_))));
    pragma("pragma query_only = off").await.unwrap();
    post(2).await.unwrap();
    assert_eq!(store.dump().await.unwrap().len(), 2);
    drop(store);
    fs::remove_dir_all(&folder).unwrap();
}

/// The identities of the files are recorded before SQLite opens the database, so a file that is
/// replaced in between is detected.
#[cfg(unix)]
#[test]
fn a_file_that_is_swapped_while_the_store_opens_is_noticed() {
    let folder = std::env::temp_dir().join(format!("tidegate-swap-{}", std::process::id()));
    // Left by a failed run of a process with the same, reused id.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.db");
    let swaps: [(&str, &dyn Fn()); 2] = [
        ("a.db was replaced", &|| {
            fs::write(folder.join("b.db"), "").unwrap();
            fs::rename(folder.join("b.db"), &path).unwrap();
        }),
        ("a.db.lock was removed", &|| fs::remove_file(folder.join("a.db.lock")).unwrap()),
    ];
    for (said, harm) in swaps {
        let lock = FileLock::take(&path).unwrap();
        harm();
        let db = connect(&path, Access::Write).unwrap();
        let opened = Writer::open(db, Some(lock), Arc::new(SystemClock), Arc::default());
        let error = opened.unwrap().heartbeat(1, 1).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
