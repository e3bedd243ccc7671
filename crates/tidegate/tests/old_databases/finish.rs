//! Opens a database, checks what it holds, and brings everything in it to its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use expect_test::expect_file;
use serde_json::{Value, json};
use tidegate::{Engine, RunId, lease::Acquire, testing::TestHarness};
use tidegate_core::{
    id::Seq,
    reaction::StreamSelection,
    row::{GateState, Row},
    time::Timestamp,
};
use tidegate_store::{Store, check_up};

use crate::{
    code::{Account, HOUR, Life, serve},
    content::describe,
    make::{LEASE, call, deduped, held, keyed},
    stores::{Opened, folder},
};

/// Longer than anything in the databases waits, but for what waits for something else than time.
const ENOUGH: Duration = Duration::from_secs(2 * 60 * 60);

/// The whole life of a database after the upgrade.
pub(crate) async fn finish(opened: &Opened, build: &str) {
    let Opened { harness, leases, .. } = opened;
    let before = harness.store().dump().await.unwrap();
    expect_file![folder(build).join("content.txt")].assert_eq(&describe(&before));
    healthy(&**harness.store()).await;
    let taken = leases.acquire(LEASE[0], "another", HOUR).await.unwrap();
    assert!(matches!(taken, Acquire::Held { .. }), "the lease is still held: {taken:?}");

    let engine = start(harness).await;
    remembers(&engine).await;
    let ids = live(&before);
    go_on(harness, &engine, &ids).await;
    harness.advance(ENOUGH).await;

    let lease = leases.acquire(LEASE[0], "another", HOUR).await.unwrap().acquired();
    assert_eq!(lease.expect("the old lease has ended").fence, 2, "fences go on from the old ones");
    let account = engine.stream::<Account>("account-1").load().await.unwrap();
    assert_eq!((account.state, account.version), (Account { balance: 20 }, 3));
    let after = harness.store().dump().await.unwrap();
    expect_file![folder(build).join("finished.txt")].assert_eq(&describe(&after));
    all_ended(&before, &after);
    healthy(&**harness.store()).await;
    engine.shutdown().await;
}

/// A database that is opened when everything in it is long overdue.
pub(crate) async fn finish_late(opened: &Opened) {
    let harness = &opened.harness;
    let before = harness.store().dump().await.unwrap();
    let engine = start(harness).await;
    harness.advance(Duration::from_secs(180)).await;
    let live = live(&before);
    engine.signal(live["signalled"], "approve", json!({ "by": "bob" })).await.unwrap();
    engine.resume(live["paused"]).await.unwrap();
    engine.unblock("fragile", StreamSelection::All).await.unwrap();
    go(harness, &engine).await;
    harness.advance(ENOUGH).await;
    all_ended(&before, &harness.store().dump().await.unwrap());
    healthy(&**harness.store()).await;
    engine.shutdown().await;
}

/// An engine that takes over from the one that made the database.
async fn start(harness: &TestHarness) -> Engine {
    let engine = harness.engine().lease_ttl(Duration::from_secs(600));
    let engine = serve(engine.poll_interval(Duration::from_secs(60)), Life::Opened);
    engine.start().await.unwrap()
}

/// Claims, meters, holders and kept answers of the database still decide.
async fn remembers(engine: &Engine) {
    let outcome = async |name: &str, data: Value| {
        let posted = engine.send(name, data).await.unwrap();
        posted.runs[0].verdict.outcome()
    };
    assert_eq!(outcome("once", json!({ "id": "x", "n": 3 })).await, "deduped");
    assert_eq!(outcome("metered", json!({ "n": 3 })).await, "dropped");
    assert_eq!(outcome("single", json!({ "account": "a", "n": 3 })).await, "skipped");
    let again = engine.send_all(vec![deduped()]).await.unwrap();
    assert!(again[0].deduped, "the dedupe id is known");

    let (repeated, once) = engine.once(keyed("POST /v1/events a"));
    let posted = repeated.send("completing", json!({ "n": 3 })).await.unwrap();
    assert!(once.is_again() && posted.run().is_some(), "the answer is repeated: {posted:?}");
    let reply = engine.kept(&keyed("POST /v1/events a")).await.unwrap().expect("it is kept");
    let response = reply.response.expect("the response is kept");
    assert_eq!(response.as_str(), r#"{"events":1,"status":202}"#);
    let (repeated, once) = engine.once(keyed("POST /v1/dispatch b"));
    let append = call("chat", "append", "s3", json!({ "line": "once" }));
    let outcome = repeated.dispatch(append).await.unwrap();
    assert!(once.is_again() && outcome.verdict.run().is_some(), "it is repeated: {outcome:?}");
}

/// Gives everything what it waits for.
async fn go_on(harness: &TestHarness, engine: &Engine, live: &BTreeMap<String, RunId>) {
    // The leases of the engine that died end, and what it drove is driven again.
    harness.advance(Duration::from_secs(180)).await;
    engine.signal(live["signalled"], "approve", json!({ "by": "bob" })).await.unwrap();
    engine.resume(live["paused"]).await.unwrap();
    engine.cancel(live["undone"], "no longer wanted").await.unwrap();
    engine.unblock("fragile", StreamSelection::All).await.unwrap();
    engine.resume_schedule(held()).await.unwrap();
    go(harness, engine).await;
}

/// Posts what runs of both workspaces wait for, twice: some of them wait behind the first ones.
async fn go(harness: &TestHarness, engine: &Engine) {
    for n in [1, 2, 1, 2] {
        for engine in [engine.clone(), engine.in_workspace("other")] {
            engine.send("go", json!({ "n": n, "word": format!("go {n}") })).await.unwrap();
        }
        harness.advance(Duration::from_secs(60)).await;
    }
}

/// The run of each workflow of the default workspace that has only one which is not over.
fn live(rows: &[Row]) -> BTreeMap<String, RunId> {
    let runs = rows.iter().filter_map(|row| match row {
        Row::Run(run) if &*run.ws == "default" => Some((run.workflow.clone(), run.id)),
        _ => None,
    });
    runs.collect()
}

/// Every run that was live, promised by a window or buffer, or over, is over now, and what was over
/// is as it was.
fn all_ended(before: &[Row], after: &[Row]) {
    let ended: BTreeMap<Seq, &Row> = after
        .iter()
        .filter_map(|row| match row {
            Row::Ended(run) => Some((run.id.seq, row)),
            Row::Run(run) => panic!("{} {} is not over: {run:?}", run.ws, run.workflow),
            Row::Gate(gate) if matches!(gate.state, GateState::Fold(_)) => panic!("{gate:?}"),
            _ => None,
        })
        .collect();
    let mut counted = BTreeSet::new();
    for row in before {
        match row {
            Row::Ended(run) => {
                assert_eq!(ended.get(&run.id.seq), Some(&row), "what was over has changed");
                counted.insert(run.id.seq);
            }
            Row::Run(run) => _ = counted.insert(run.id.seq),
            Row::Gate(gate) => {
                if let GateState::Fold(fold) = &gate.state {
                    counted.insert(fold.run.seq);
                }
            }
            _ => {}
        }
    }
    let missing: Vec<_> = counted.iter().filter(|run| !ended.contains_key(run)).collect();
    assert!(missing.is_empty(), "{missing:?} have not ended");
}

/// The doctor finds nothing, and has looked at every rule.
async fn healthy(store: &dyn Store) {
    let report = check_up(None, Timestamp::default(), |visit| store.walk(visit)).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
