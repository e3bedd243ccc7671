//! Reload of the config file on SIGHUP.

use serde_json::json;

use crate::{server::Server, target::Target};

/// A limit that a reload changes applies to queued runs. A reload of an invalid file has no effect,
/// and changed settings that need a restart are logged.
#[tokio::test]
async fn a_changed_file_counts_after_a_hangup() {
    let target = Target::kind().await;
    target.open(false);
    let workflow = |name: &str, limit: i32| {
        let url = &target.url;
        format!(
            "[[workflow]]\nname = \"{name}\"\nurl = \"{url}\"\nconcurrency = {{ limit = {limit} }}\n"
        )
    };
    let first = workflow("sync", 1) + &workflow("other", 1);
    let server = Server::start_with(&first, &[("TIDEGATE_LOG", "info")]);
    for n in 0..3 {
        server.start_run("sync", json!(n)).await;
    }
    target.called(1).await;
    let version =
        async |name: &str| server.get(&format!("/workflows/{name}")).await.1["version"].clone();

    server.reload(&(workflow("sync", 3) + &workflow("other", 1)));
    target.called(3).await;
    server.logged("config file reloaded").await;
    assert_eq!((version("sync").await, version("other").await), (json!(2), json!(1)));

    server.reload(&(workflow("sync", 4) + &workflow("other", 0)));
    server.logged("nothing was changed").await;
    let log = server.log();
    assert!(
        log.contains("workflow `other`: concurrency.limit must be at least 1, got 0"),
        "the log must name the mistake: {log}"
    );
    assert_eq!((version("sync").await, version("other").await), (json!(2), json!(1)));

    server.reload(&format!("workers = 7\n{}", workflow("sync", 5)));
    server.logged("restart the server to apply it setting=\"workers\"").await;
    server.logged("delete` deletes it name=\"other\"").await;
    assert_eq!((version("sync").await, version("other").await), (json!(3), json!(1)));

    server.command(&["release", "sync", "2"]).unwrap();
    server.reload(&format!("workers = 7\n{}", workflow("sync", 5)));
    server.logged("file_version=3 released_version=2").await;
    assert_eq!(version("sync").await, 2, "a reload must not undo a manual release");
    assert!(!server.log().contains('\x1b'), "a log to a file must have no colours");
}

/// A config file is applied as a whole: if one of its flows is invalid, its workflows are not
/// changed either.
#[tokio::test]
async fn a_file_with_a_bad_flow_changes_no_workflow() {
    let target = Target::kind().await;
    let url = &target.url;
    let file = |limit: i32, flow: &str| {
        format!(
            "[[workflow]]\nname = \"w\"\nurl = \"{url}\"\nconcurrency = {{ limit = {limit} }}\n\
             [[flow]]\nname = \"f\"\nactions.a = {{ url = \"{url}\", {flow} }}\n"
        )
    };
    let server = Server::start(&file(1, "timeoutMs = 1000"));
    server.reload(&file(2, "triggers = [{ cron = \"61 * * * *\" }]"));
    server.logged("nothing was changed").await;
    let (_, answer) = server.get("/workflows/w").await;
    assert_eq!(answer["version"], 1, "{answer}");
}

/// A reload logs only the changes since the last reload, not since the start.
#[tokio::test]
async fn a_workflow_that_is_gone_is_said_once() {
    let target = Target::kind().await;
    let workflow =
        |name: &str| format!("[[workflow]]\nname = \"{name}\"\nurl = \"{}\"\n", target.url);
    let both = workflow("a") + &workflow("b");
    let server = Server::start_with(&both, &[("TIDEGATE_LOG", "info")]);
    let read = async |times: usize| {
        while server.log().matches("config file reloaded").count() < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    // In the log, the warnings of a reload are between its line and that of the next reload.
    for (n, file) in [workflow("a"), workflow("a"), both].iter().enumerate() {
        server.reload(file);
        read(n + 1).await;
    }
    let log = server.log();
    assert_eq!(log.matches("deletes it name=\"b\"").count(), 1, "{log}");
}

/// An invalid config file is refused before any file is created.
#[test]
fn a_file_with_a_mistake_leaves_no_store_behind() {
    for mistake in ["workers = \"many\"", "[[workflow]]\nname = \"w\"\nurl = \"ftp://h\""] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("new.db");
        let said = Server::refused(&format!("store = \"sqlite:{}\"\n{mistake}", store.display()));
        assert!(said.contains("must be"), "{said}");
        assert!(!store.exists(), "{mistake}: {said}");
    }
}

/// A reload of an unchanged file creates no version and releases none.
#[tokio::test]
async fn a_reload_of_the_same_file_does_nothing() {
    let target = Target::kind().await;
    let url = &target.url;
    let file = format!(
        "[[workflow]]\nname = \"a\"\nurl = \"{url}\"\nthrottle = {{ limit = 5, perMs = 10, burst = 1 }}\n\
         [[flow]]\nname = \"f\"\nconcurrency = \"queue\"\nactions.x = {{ url = \"{url}\" }}\n"
    );
    let server = Server::start_with(&file, &[("TIDEGATE_LOG", "info")]);
    let defined = || server.log().matches(": defined").count();
    let (before, count) = (server.get("/workflows").await.1, defined());
    assert_eq!(count, 2, "{}", server.log());
    server.reload(&file);
    server.logged("config file reloaded changed=0").await;
    assert_eq!((server.get("/workflows").await.1, defined()), (before, count), "{}", server.log());
    server.reload(&file.replace("limit = 5", "limit = 6"));
    server.logged("config file reloaded changed=1").await;
    let (_, answer) = server.get("/workflows/a").await;
    assert_eq!(
        (&answer["version"], &answer["flowControl"]["throttle"]["limit"]),
        (&json!(2), &json!(6))
    );
    assert_eq!(defined(), count + 1, "{}", server.log());
}

/// The migrations of a new store are logged in one line.
#[tokio::test]
async fn a_new_store_is_migrated_in_one_line() {
    let mut stores = vec![String::new()];
    stores.extend(crate::postgres::database_now().map(|store| format!("store = \"{store}\"\n")));
    for store in stores {
        let server = Server::start_with(&store, &[("TIDEGATE_LOG", "info")]);
        let log = server.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains("migrat")).collect();
        let [line] = &lines[..] else { panic!("one line: {log}") };
        assert!(line.contains("migrated the schema from=0 to="), "{line}");
    }
}

/// Suspicious settings in the config file are logged as warnings, at the start and at a reload.
/// They still apply.
#[tokio::test]
async fn warnings_of_the_file_are_logged() {
    let target = Target::kind().await;
    let url = &target.url;
    let workflow = format!(
        "[[workflow]]\nname = \"w\"\nurl = \"{url}\"\nsingleton = {{}}\n\
         concurrency = {{ limit = 3 }}\n"
    );
    let flow = format!(
        "[[flow]]\nname = \"f\"\n\
         actions.a = {{ url = \"{url}\", concurrency = {{ policy = \"allow\", key = \"user\" }} }}\n"
    );
    let server = Server::start(&workflow);
    let never = "concurrency.limit of 3 is never reached";
    assert!(server.log().contains(never), "{}", server.log());
    assert!(server.log().contains("never_binds"), "{}", server.log());
    server.reload(&(workflow + &flow));
    server.logged("no_effect").await;
    assert!(server.log().contains("action `f/a`: concurrency has a key"), "{}", server.log());
    assert_eq!(server.log().matches(never).count(), 2, "{}", server.log());
    let run = server.start_run("w", json!(1)).await;
    server.until(&run, "completed").await;
}
