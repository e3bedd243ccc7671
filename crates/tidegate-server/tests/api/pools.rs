//! Pools over HTTP, in the config file and from the command line.

use serde_json::json;

use crate::{server::Server, target::Target};

/// Workflows share the limit of a pool of the file; an operator changes it, and a restart keeps the
/// change.
#[tokio::test]
async fn a_pool_is_declared_shared_and_changed() {
    let target = Target::kind().await;
    target.open(false);
    let url = &target.url;
    let config = format!(
        r#"
        [[pool]]
        name = "gpu"
        concurrency = {{ limit = 1 }}

        [[workflow]]
        name = "chat"
        url = "{url}"
        concurrency = {{ pool = "gpu" }}

        [[workflow]]
        name = "index"
        url = "{url}"
        concurrency = [{{ limit = 9 }}, {{ pool = "gpu", cost = "units" }}]
        "#
    );
    let mut server = Server::start_on_file(&config);
    let holder = server.start_run("chat", json!({})).await;
    target.called(1).await;
    let waiting = server.start_run("index", json!({ "units": 1 })).await;
    let (_, why) = server.get(&format!("/runs/{waiting}/why")).await;
    assert_eq!(why["gates"][0]["pool"], "gpu", "{why}");
    let (_, run) = server.get(&format!("/runs/{waiting}")).await;
    assert_eq!(run["waitsFor"]["pool"], "gpu", "{run}");
    let (_, page) = server.get("/gates?pool=gpu").await;
    let gate = &page["gates"][0];
    assert_eq!((&gate["pool"], &gate["holders"]), (&json!("gpu"), &json!([holder])), "{page}");
    assert_eq!(gate["line"]["count"], 1);

    let (status, shown) = server.put("/pools/gpu", json!({ "concurrency": { "limit": 3 } })).await;
    let users = json!(["chat", "index"]);
    assert_eq!((status.as_u16(), &shown["users"]), (200, &users), "{shown}");
    target.called(2).await;
    server.kill();
    server.restart();
    let (_, shown) = server.get("/pools/gpu").await;
    let expected = json!({ "name": "gpu", "concurrency": { "limit": 3 }, "users": users });
    assert_eq!(shown, expected, "a restart must keep the change");
    let said = server.command(&["pools"]).unwrap();
    assert!(said.contains("gpu") && said.contains("chat, index"), "{said}");
    let said = server.command(&["pools", "put", "api", r#"{"rateLimit":{"limit":1,"perMs":9}}"#]);
    assert_eq!(said.unwrap(), "pool api is in force\n");
    let (_, all) = server.get("/pools").await;
    assert_eq!(all["pools"][0]["rateLimit"], json!({ "limit": 1, "perMs": 9 }));
    assert_eq!(server.command(&["pools", "delete", "api"]).unwrap(), "pool api deleted\n");
    target.open(true);
}

/// Requests about pools that are refused say what is wrong.
#[tokio::test]
async fn what_is_no_pool_is_refused() {
    let server = Server::start("");
    let (status, answer) = server.put("/pools/p", json!({ "throttle": { "limit": 0 } })).await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_definition")));
    assert_eq!(answer["problems"][0]["subject"], "pool `p`", "{answer}");
    let pool = json!({ "throttle": { "limit": 1, "perMs": 1 } });
    assert_eq!(server.put("/pools/openai", pool).await.0, 200);
    let workflow = |pool: &str| json!({ "url": "http://h", "throttle": { "pool": pool } });
    let (status, answer) = server.put("/workflows/w", workflow("opnai")).await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_definition")));
    let said = "names pool `opnai`, which does not exist: did you mean `openai`?";
    assert_eq!(answer["problems"][0]["message"], said);
    assert_eq!(server.put("/workflows/w", workflow("openai")).await.0, 200);
    let (status, answer) = server.delete("/pools/openai").await;
    assert_eq!((status.as_u16(), &answer["error"]), (409, &json!("pool_in_use")), "{answer}");
    let (status, answer) = server.get("/pools/x").await;
    assert_eq!((status.as_u16(), &answer["error"]), (404, &json!("no_pool")), "{answer}");
}
