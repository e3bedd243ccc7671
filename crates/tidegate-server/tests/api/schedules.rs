//! Schedules over HTTP and from the command line.

use serde_json::json;

use crate::{server::Server, target::Target};

/// The list of schedules has the last and the next five occurrences. A schedule can be paused and
/// resumed; a pause survives restarts of the server and changes of the definition.
#[tokio::test]
async fn schedules_are_listed_paused_and_resumed() {
    let target = Target::kind().await;
    let url = &target.url;
    let config = format!(
        r#"
        [[flow]]
        name = "books"
        actions.sync = {{ url = "{url}" }}
        schedules.nightly = {{ action = "sync", cron = "0 3 * * *", timeZone = "Europe/Berlin", onOverlap = {{ policy = "queue", maxWaitMs = 60000 }} }}
        schedules.often = {{ action = "sync", cron = "* * * * * *", onOverlap = "allow", catchUpMs = 60000 }}
        "#
    );
    let mut server = Server::start_on_file(&config);
    target.called(1).await;
    let (status, page) = server.get("/schedules?limit=1&workflow=books%2Fsync").await;
    assert_eq!(status, 200, "{page}");
    let often = &page["schedules"][0];
    assert_eq!((&often["name"], &often["catchUpMs"]), (&json!("often"), &json!(60_000)));
    assert_eq!((&often["flow"], &often["action"]), (&json!("books"), &json!("sync")));
    assert!(often["last"]["plannedAt"].is_string() && often["last"]["outcome"] == "started");
    assert_eq!(often["next"].as_array().map(Vec::len), Some(5));
    let cursor = page["next"].as_str().expect("there must be another page");
    let (_, rest) = server.get(&format!("/schedules?limit=1&cursor={cursor}")).await;
    let nightly = &rest["schedules"][0];
    assert_eq!((&nightly["name"], &rest["next"]), (&json!("nightly"), &json!(null)));
    assert_eq!(nightly["schedule"], "0 3 * * * Europe/Berlin");
    assert_eq!(nightly["onOverlap"], json!({ "policy": "queue", "maxWaitMs": 60_000 }));
    let id = often["id"].as_str().unwrap();
    let (status, paused) = server.post(&format!("/schedules/{id}/pause"), "").await;
    assert_eq!(
        (status.as_u16(), &paused["paused"], &paused["next"]),
        (200, &json!(true), &json!([]))
    );
    server.kill();
    server.restart();
    let (_, page) = server.get("/schedules?app=default").await;
    assert_eq!(page["schedules"][0]["pausedAt"], paused["pausedAt"]);
    let list = server.command(&["schedules"]).unwrap();
    let line = list.lines().find(|line| line.starts_with(id)).expect("the schedule must be listed");
    assert!(line.contains("often") && line.ends_with("paused"), "{list}");
    let said = server.command(&["schedules", "resume", id]).unwrap();
    assert!(said.starts_with("* * * * * * of books/sync is resumed, next at 20"), "{said}");
    let before = target.calls().len();
    target.called(before + 1).await;
    let said = server.command(&["schedules", "pause", id]).unwrap();
    assert_eq!(said, "* * * * * * of books/sync is paused\n");
}

/// Invalid requests are refused, and the error lists the valid values.
#[tokio::test]
async fn what_is_no_schedule_is_refused() {
    let server = Server::start("");
    for (path, code) in [
        ("/schedules/sch_3vhg4wr080zyskrpfp7j3z70c9/pause", "no_schedule"),
        ("/schedules/nightly/resume", "no_schedule"),
    ] {
        let (status, answer) = server.post(path, "").await;
        assert_eq!((status.as_u16(), &answer["error"]), (404, &json!(code)), "{path}: {answer}");
    }
    for (query, named) in
        [("paused=true", "paused"), ("cursor=%5B1%5D", "[1]"), ("limit=0", "limit")]
    {
        let (status, answer) = server.get(&format!("/schedules?{query}")).await;
        assert!(status.is_client_error(), "{query}: {status}");
        assert!(
            answer["detail"].as_str().is_some_and(|it| it.contains(named)),
            "{query}: {answer}"
        );
    }
    let debounced = r#"triggers = [{ cron = "@daily", onOverlap = "debounce" }]"#;
    let config = format!("[[workflow]]\nname = \"w\"\nurl = \"http://127.0.0.1:1\"\n{debounced}");
    let said = Server::refused(&config);
    assert!(said.contains("triggers[0].onOverlap cannot be `debounce`"), "{said}");
    let error = server.command(&["schedules", "pause", "x"]).unwrap_err();
    assert!(error.contains("there is no schedule `x`") && error.contains("no_schedule"), "{error}");
}
