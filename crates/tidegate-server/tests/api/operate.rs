//! Store maintenance commands: doctor, backup, restore, migrate, and their exit statuses.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidegate_store::rusqlite::Connection;

use crate::{
    postgres::{client, database},
    server::Server,
    target::Target,
};

/// Runs the binary. Returns its exit status, stdout and stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.env_clear().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A command does not fail if the reader of its output closes the pipe early, as `head` does.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_clear().args(["config", "print"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

/// The doctor finds no violation in a healthy store in use, and names a corrupted row. A backup of
/// a running server is complete and can be restored.
#[tokio::test]
async fn a_file_is_checked_copied_and_restored() {
    let target = Target::kind().await;
    target.open(false);
    let mut server = Server::start_on_file(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         concurrency = {{ limit = 1, key = \"account\" }}",
        target.url
    ));
    let said = server.command(&["send", "sync", "--count", "20", "--vary", "account=4"]).unwrap();
    assert_eq!(said, "16 queued by concurrency: sync\n4 started: sync\n");
    target.called(4).await;
    let answer: Value =
        serde_json::from_str(&server.command(&["doctor", "--json"]).unwrap()).unwrap();
    assert_eq!((&answer["healthy"], &answer["found"]), (&json!(true), &json!(0)));
    assert!(answer["rows"].as_u64().unwrap() > 40, "{answer}");
    let holds = answer["checks"].as_array().unwrap().iter().find(|check| check["number"] == "I4");
    assert_eq!(
        holds.unwrap()["checked"],
        24,
        "the check must count 4 gates, 4 holds and 16 queued runs: {answer}"
    );

    let (store, copy) = (format!("sqlite:{}", server.file("tidegate.db")), server.file("copy.db"));
    let (status, said, _) = run(&["backup", &copy, "--store", &store]);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("rows in") && said.ends_with("checked\n"), "{said}");
    let (status, _, said) = run(&["backup", &copy, "--store", &store]);
    assert!(status == 1 && said.contains("exists already"), "{said}");

    let broken = server.file("broken.db");
    std::fs::copy(&copy, &broken).unwrap();
    let db = Connection::open(&broken).unwrap();
    assert_eq!(db.execute("delete from run where owner is not null", ()).unwrap(), 4);
    drop(db);
    let (status, said, _) = run(&["doctor", "--store", &format!("sqlite:{broken}")]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("I4   BROKEN"), "{said}");
    assert!(said.contains("I4: concurrency of `sync` for 3 lists the holder run_"), "{said}");

    let (status, _, said) = run(&["restore", &broken, "--store", &store]);
    assert!(status == 1 && said.contains("violations found"), "{said}");
    let (status, _, said) = run(&["restore", &copy, "--store", &store, "--force"]);
    assert!(status == 1 && said.contains("is in use by another process"), "{said}");
    server.command(&["send", "sync", r#"{"account": 9}"#]).unwrap();
    target.called(5).await;
    server.kill();
    let (status, _, said) = run(&["restore", &copy, "--store", &store]);
    assert!(status == 1 && said.contains("has changed since"), "{said}");
    let (status, said, _) = run(&["restore", &copy, "--store", &store, "--force"]);
    assert_eq!(status, 0, "{said}");
    server.restart();
    let (_, answer) = server.get("/runs?limit=100").await;
    assert_eq!(
        answer["runs"].as_array().unwrap().len(),
        20,
        "the restored store must have the 20 runs of the backup"
    );
    target.open(true);
    for run in answer["runs"].as_array().unwrap() {
        server.until(run["id"].as_str().unwrap(), "completed").await;
    }
    assert_eq!(run(&["migrate", "--check", "--store", &store]).1, "the schema is up to date\n");
}

/// The same checks on PostgreSQL, while the server is running.
#[tokio::test]
async fn a_database_is_checked() {
    let Some(url) = database().await else { return };
    let (status, said, _) = run(&["migrate", "--check", "--store", &url]);
    assert!(status == 1 && said.starts_with("left: 1 "), "{said}");
    let (status, said, _) = run(&["migrate", "--store", &url]);
    assert!(status == 0 && said.starts_with("applied: 1 "), "{said}");
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start(&format!(
        "store = \"{url}\"\n[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n\
         concurrency = {{ limit = 2 }}",
        target.url
    ));
    server.command(&["send", "sync", "--count", "5"]).unwrap();
    target.called(2).await;
    let (status, said, _) = run(&["doctor", "--store", &url]);
    assert!(status == 0 && said.ends_with(" rows, 0 findings\n"), "{said}");
    let db = client(&url).await;
    let broken = "update tidegate.run set line = null, ready = null,
                         body = jsonb_set(body::jsonb, '{has}', '1')::text
                   where seq = (select max(seq) from tidegate.run)";
    assert_eq!(db.execute(broken, &[]).await.unwrap(), 1);
    let (status, said, _) = run(&["doctor", "--store", &url]);
    assert!(status == 1 && said.contains("has entered concurrency of `sync`"), "{said}");
    let (status, _, said) = run(&["backup", "x.db", "--store", &url]);
    assert!(status == 1 && said.contains("use `pg_dump"), "{said}");
}

/// The exit status of a failed command tells scripts the reason.
#[tokio::test]
async fn the_exit_status_says_why() {
    let server = Server::start("");
    let at = server.url();
    for (arguments, expected) in [
        (vec!["runs", "list", "--server", at], 0),
        (vec!["send", "", "--server", at], 1),
        (vec!["send", "x", "--vary", "a=0", "--server", at], 2),
        (vec!["why", "run_x", "--server", at], 3),
        (vec!["doctor", "--store", "sqlite:nowhere/x.db"], 3),
        (vec!["runs", "list", "--server", "http://127.0.0.1:1"], 4),
    ] {
        let (status, _, said) = run(&arguments);
        assert_eq!(status, expected, "{arguments:?}: {said}");
    }
}

/// The store's file was deleted, but its WAL still exists. A backup is restored only with
/// `--force`, because the WAL may have the last commits.
#[tokio::test]
async fn a_file_that_is_gone_is_restored() {
    let target = Target::kind().await;
    let mut server = Server::start_on_file(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{}\"\n",
        target.url
    ));
    let run_id = server.start_run("sync", json!(1)).await;
    server.until(&run_id, "completed").await;
    let (file, copy) = (server.file("tidegate.db"), server.file("copy.db"));
    let store = format!("sqlite:{file}");
    assert_eq!(run(&["backup", &copy, "--store", &store]).0, 0);
    server.kill();
    std::fs::remove_file(&file).unwrap();
    let log = format!("{file}-wal");
    assert!(
        std::fs::metadata(&log).is_ok_and(|log| log.len() > 0),
        "the WAL of the deleted file must exist"
    );
    let (status, _, said) = run(&["restore", &copy, "--store", &store]);
    assert!(status == 1 && said.contains(&log) && said.contains("--force"), "{said}");
    assert!(std::path::Path::new(&log).exists(), "a refused restore must not delete the WAL");
    let (status, said, error) = run(&["restore", &copy, "--store", &store, "--force"]);
    assert_eq!(status, 0, "{said}{error}");
    server.restart();
    server.until(&run_id, "completed").await;
}
