//! SIGHUP: the file is read again.

use serde_json::json;

use crate::{server::Server, target::Target};

/// A limit that is changed by a reload counts for those who wait; a file that is wrong changes
/// nothing, and what a reload cannot change is said.
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
    server.logged("the file was read again").await;
    assert_eq!((version("sync").await, version("other").await), (json!(2), json!(1)));

    server.reload(&(workflow("sync", 4) + &workflow("other", 0)));
    server.logged("nothing was changed").await;
    let log = server.log();
    assert!(
        log.contains("workflow `other`: concurrency.limit must be at least 1, got 0"),
        "it says what is wrong: {log}"
    );
    assert_eq!((version("sync").await, version("other").await), (json!(2), json!(1)));

    server.reload(&format!("workers = 7\n{}", workflow("sync", 5)));
    server.logged("`workers` is different in the file now").await;
    server.logged("`other` is no longer in the file and stays defined").await;
    assert_eq!((version("sync").await, version("other").await), (json!(3), json!(1)));

    server.command(&["release", "sync", "2"]).unwrap();
    server.reload(&format!("workers = 7\n{}", workflow("sync", 5)));
    server.logged("`sync` in the file is version 3, but version 2 was released").await;
    assert_eq!(version("sync").await, 2, "a release by hand stays in force");
    assert!(!server.log().contains('\x1b'), "a log that nobody looks at has no colours");
}

/// A mistake in the file is found before anything is made of it.
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
