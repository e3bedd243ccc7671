//! Commands of the command line that use a server.

use serde_json::{Value, json};

use crate::{server::Server, target::Target};

/// The commands `send`, `runs`, `why` and others, with text and JSON output.
#[tokio::test]
async fn a_server_is_worked_with_from_the_command_line() {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\nconcurrency = {{ limit = 1 }}"
    ));
    let said = server.command(&["send", "sync", r#"{"n": 1}"#, "--count", "1200"]).unwrap();
    assert_eq!(said, "1199 queued by concurrency: sync\n1 started: sync\n");
    assert_eq!(server.command(&["send", "other"]).unwrap(), "1 recorded: triggers no workflow\n");
    target.called(1).await;
    let list = server.command(&["runs", "list", "--state", "queued", "--limit", "2"]).unwrap();
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[0].starts_with("ID") && lines.len() == 3, "{list}");
    assert!(lines[0].contains("BLOCKED BY") && lines[1].contains("concurrency"), "{list}");
    let run = lines[1].split_whitespace().next().unwrap();
    // The running run is the oldest one: the command has to read many pages to find it.
    let running = server.command(&["runs", "list", "--state", "running", "--limit", "1"]).unwrap();
    assert_eq!(running.lines().count(), 2, "{running}");
    let why = server.command(&["why", run]).unwrap();
    assert!(why.contains("is queued: it waits for concurrency"), "{why}");
    let why: Value =
        serde_json::from_str(&server.command(&["why", run, "--json"]).unwrap()).unwrap();
    assert_eq!(why["state"], "queued");
    let said = server.command(&["runs", "cancel", run, "--reason", "enough"]).unwrap();
    assert_eq!(said, format!("{run} is cancelled\n"));
    let shown = server.command(&["runs", "show", run]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["reason"], &shown["steps"]), (&json!("enough"), &json!([])));
    let listed = server.command(&["workflows"]).unwrap();
    assert!(listed.contains(r#"sync  default  1        {"concurrency":{"limit":1}}"#), "{listed}");
    let said = server.command(&["release", "sync", "1"]).unwrap();
    assert!(said.starts_with("sync v1 released"), "{said}");
}

/// A failed command prints one line and exits with a failure status.
#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let server = Server::start("");
    for (command, said) in [
        (vec!["why", "run_x"], "there is no run `run_x` (no_run)"),
        (vec!["release", "a/b", "2"], "`a/b` in app `default` has no version 2 (no_version)"),
        (vec!["send", "a", "{'n': 1}"], "the data must be JSON, got `{'n': 1}`"),
        (vec!["send", "a", "text"], "for a text write '\"text\"'"),
        (vec!["send", ""], "event 0: its name must have 1 to 256 characters, got 0 (bad_value)"),
        (vec!["runs", "list", "--server", "http://127.0.0.1:1"], "no server at"),
    ] {
        let error = server.command(&command).unwrap_err();
        assert!(error.contains(said), "{command:?}: {error}");
    }
}

/// The commands for streams, reactions, bulk actions and workflows.
#[tokio::test]
async fn streams_and_workflows_are_worked_with_from_the_command_line() {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let server = Server::start(&format!(
        "[[workflow]]\nname = \"sync\"\nurl = \"{url}\"\nconcurrency = {{ limit = 1 }}"
    ));
    let commit = json!({ "events": [{ "name": "Opened", "data": 7 }, { "name": "Paid" }] });
    server.post("/streams/order%2F1/events", commit).await;
    let list = server.command(&["streams", "list"]).unwrap();
    assert!(list.lines().nth(1).unwrap().starts_with("order/1  1        2"), "{list}");
    let shown = server.command(&["streams", "show", "order/1", "--backwards"]).unwrap();
    let names: Vec<_> = shown.lines().skip(1).map(|line| line.contains("Paid")).collect();
    assert_eq!(names, [true, false], "{shown}");
    let list = server.command(&["reactions"]).unwrap();
    assert!(list.starts_with("REACTION  STREAM"), "{list}");
    let error = server.command(&["streams", "unblock", "mail", "--dry-run"]).unwrap_err();
    assert!(error.contains("there is no reaction `mail` (no_reaction)"), "{error}");
    // So many that the operation is not finished when the command asks for the first time.
    server.command(&["send", "sync", "--count", "1000"]).unwrap();
    target.called(1).await;
    let queued = ["bulk", "cancel", "--workflow", "sync", "--state", "queued"];
    assert_eq!(server.command(&queued).unwrap(), "cancel: 999 done, 0 refused\n");
    let error = server.command(&["bulk", "pause"]).unwrap_err();
    assert!(error.contains("(bulk_needs_filter)"), "{error}");
    let said = server.command(&["workflows", "delete", "sync"]).unwrap();
    assert_eq!(said, "sync deleted; 1 of its runs continue\n");
    assert_eq!(server.command(&["send", "sync"]).unwrap(), "1 recorded: triggers no workflow\n");
}

/// spec cli: without a running server, commands read the store's file and do not change it. If a
/// server has the file open, the error refers to the server.
#[tokio::test]
async fn a_file_without_a_server_can_be_looked_into() {
    let target = Target::kind().await;
    target.open(false);
    let config = "[[workflow]]\nname = \"a\"\nconcurrency = { limit = 1 }\nurl = ";
    let mut server = Server::start_on_file(&format!("{config}\"{}\"", target.url));
    server.command(&["send", "a", "--count", "2"]).unwrap();
    target.called(1).await;
    server.post("/keys", json!({ "name": "k" })).await;
    let file = server.file("tidegate.db");
    let held = server.command(&["runs", "list", "--file", &file]).unwrap_err();
    assert!(held.contains("the file is open in a server"), "{held}");
    server.kill();
    let list = server.command(&["runs", "list", "--file", &file]).unwrap();
    assert_eq!(list.matches(" running ").count() + list.matches(" queued ").count(), 2, "{list}");
    let run = list.lines().nth(1).unwrap().split(' ').next().unwrap();
    let why = server.command(&["why", run, "--file", &file]).unwrap();
    assert!(why.contains("position 1 in the queue"), "{why}");
    let error = server.command(&["runs", "cancel", run, "--file", &file]).unwrap_err();
    assert!(error.contains("--file only reads"), "{error}");
    let error = server.command(&["runs", "list", "--file", "/nowhere"]).unwrap_err();
    assert!(error.contains("there is no file /nowhere"), "{error}");
}
