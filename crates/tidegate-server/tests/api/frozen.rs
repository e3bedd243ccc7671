//! A server is frozen in the middle of a transaction; another server serves the same workspace and
//! a second one.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tidegate_store::tokio_postgres::Client;

use crate::{
    postgres::{client, database},
    server::Server,
    target::Target,
};

/// Test timeout. It is reached only if an expected event never happens: a frozen process could hold
/// its locks forever.
const PATIENCE: Duration = Duration::from_secs(60);

const OTHER: (&str, &str) = ("tidegate-workspace", "b");

/// Returns the transaction that has been idle for the longest time: its process id and its start
/// time.
async fn idle(db: &Client) -> Option<(i32, String)> {
    let sql = "select pid, xact_start::text from pg_stat_activity
                where datname = current_database() and state = 'idle in transaction'
                order by xact_start limit 1";
    let row = db.query_opt(sql, &[]).await.unwrap()?;
    Some((row.get(0), row.get(1)))
}

/// Freezes a busy server in the middle of a transaction.
async fn freeze(db: &Client, server: &Server) {
    let began = Instant::now();
    loop {
        server.signal("STOP");
        // A transaction that stays idle belongs to the frozen server.
        if let Some(held) = idle(db).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if idle(db).await == Some(held) {
                return;
            }
        }
        server.signal("CONT");
        assert!(began.elapsed() < PATIENCE, "no attempt froze the server in a transaction");
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

/// Posts an event in a workspace. Returns its run.
async fn post(server: &Server, headers: &[(&str, &str)], data: Value) -> String {
    let event = json!({ "name": "sync", "data": data }).to_string();
    let (status, answer) = server.post_with("/events", headers, event).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    answer["events"][0]["runs"][0]["runId"].as_str().expect("a run").to_owned()
}

/// Waits until a run of the other workspace has completed.
async fn completed(server: &Server, run: &str) {
    let began = Instant::now();
    loop {
        let answer = server.raw("GET", &format!("/runs/{run}"), &[OTHER], "").await.unwrap().json();
        if answer["state"] == "completed" {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// While a server is frozen and holds locks of a workspace, another server continues. It
/// acknowledges events of both workspaces and executes their runs, although commands of both share
/// transactions. The page about PostgreSQL in `docs/operate` describes what limits the delay.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_does_not_stop_other_workspaces() {
    let Some(url) = database().await else { return };
    let rounds = if std::env::var_os("TIDEGATE_TEST_FULL").is_some() { 20 } else { 2 };
    let (db, target) = (client(&url).await, Target::kind().await);
    let config = format!(
        "store = \"{url}\"\nworkspace = \"a\"\nworkspaces = [\"b\"]\n\
         [[workflow]]\nname = \"sync\"\nurl = \"{}\"\nconcurrency = {{ limit = 2, key = \"k\" }}\n",
        target.url
    );
    let server = Server::start(&config);
    let definition = json!({ "url": target.url }).to_string();
    let put = server.raw("PUT", "/workflows/sync", &[OTHER], &definition).await.unwrap();
    assert_eq!(put.status, 200, "{}", put.text);
    for round in 0..rounds {
        let victim = Server::start(&config);
        let load = {
            let (url, http) = (format!("{}/events", victim.url()), reqwest::Client::new());
            tokio::spawn(async move {
                loop {
                    let events: Vec<_> = (0..20)
                        .map(|n| json!({ "name": "sync", "data": { "k": n % 2 } }))
                        .collect();
                    let _ = http.post(&url).body(json!(events).to_string()).send().await;
                }
            })
        };
        freeze(&db, &victim).await;
        // Both keys are used by the load: one of these requests needs a lock that the frozen server
        // holds.
        let both = async {
            tokio::join!(
                post(&server, &[], json!({ "k": 0 })),
                post(&server, &[], json!({ "k": 1 })),
            )
        };
        let others = async {
            for n in 0..10 {
                let run = post(&server, &[OTHER], json!({ "k": n % 2 })).await;
                completed(&server, &run).await;
            }
        };
        let went_on = tokio::time::timeout(PATIENCE, async { tokio::join!(both, others) }).await;
        assert!(
            went_on.is_ok(),
            "round {round}: the other server does not continue; its log: {}",
            server.log()
        );
        load.abort();
        victim.signal("CONT");
        victim.ready().await;
    }
    let (_, answer) = server.get("/doctor").await;
    assert_eq!(answer["findings"], json!([]));
}
