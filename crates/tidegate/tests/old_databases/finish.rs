//! Opens a database, checks its content, and finishes all runs in it.

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
    inputs, limits,
    make::{LEASE, call, deduped, held, keyed},
    stores::{Opened, folder},
};

/// Longer than any wait for a time in the databases.
const ENOUGH: Duration = Duration::from_secs(2 * 60 * 60);

/// Checks a database after the upgrade: its content, that it is still in effect, and that all runs
/// can be finished.
pub(crate) async fn finish(opened: &Opened, build: &str) {
    let Opened { harness, leases, .. } = opened;
    let before = harness.store().dump().await.unwrap();
    expect_file![folder(build).join("content.txt")].assert_eq(&describe(&before));
    healthy(&**harness.store()).await;
    let taken = leases.acquire(LEASE[0], "another", HOUR).await.unwrap();
    assert!(
        matches!(taken, Acquire::Held { .. }),
        "the lease of the old build must still be held: {taken:?}"
    );

    let engine = start(harness).await;
    remembers(&engine).await;
    let ids = live(&before);
    go_on(harness, &engine, &ids).await;
    harness.advance(ENOUGH).await;

    let lease = leases.acquire(LEASE[0], "another", HOUR).await.unwrap().acquired();
    assert_eq!(
        lease.expect("the old lease has ended").fence,
        2,
        "the new fence must follow the old one"
    );
    let account = engine.stream::<Account>("account-1").load().await.unwrap();
    assert_eq!((account.state, account.version), (Account { balance: 20 }, 3));
    let after = harness.store().dump().await.unwrap();
    expect_file![folder(build).join("finished.txt")].assert_eq(&describe(&after));
    all_ended(&before, &after);
    healthy(&**harness.store()).await;
    engine.shutdown().await;
}

/// Finishes a database that is opened when everything in it is long overdue.
pub(crate) async fn finish_late(opened: &Opened) {
    let harness = &opened.harness;
    let before = harness.store().dump().await.unwrap();
    let engine = start(harness).await;
    harness.advance(Duration::from_secs(180)).await;
    let live = live(&before);
    engine.signal(live["signalled"], "approve", json!({ "by": "bob" })).await.unwrap();
    engine.resume(live["paused"]).await.unwrap();
    engine.unblock("fragile", StreamSelection::All).await.unwrap();
    limits::undo(&engine).await;
    go(harness, &engine).await;
    harness.advance(ENOUGH).await;
    all_ended(&before, &harness.store().dump().await.unwrap());
    healthy(&**harness.store()).await;
    engine.shutdown().await;
}

/// Starts the engine that takes over from the engine that made the database.
async fn start(harness: &TestHarness) -> Engine {
    let engine = harness.engine().lease_ttl(Duration::from_secs(600));
    let engine = serve(engine.poll_interval(Duration::from_secs(60)), Life::Opened);
    engine.start().await.unwrap()
}

/// Checks that claims, meters, holders and stored answers of the database are still in effect.
async fn remembers(engine: &Engine) {
    let outcome = async |name: &str, data: Value| {
        let posted = engine.send(name, data).await.unwrap();
        posted.runs[0].verdict.outcome()
    };
    assert_eq!(outcome("once", json!({ "id": "x", "n": 3 })).await, "deduped");
    assert_eq!(outcome("metered", json!({ "n": 3 })).await, "dropped");
    assert_eq!(outcome("single", json!({ "account": "a", "n": 3 })).await, "skipped");
    let again = engine.send_all(vec![deduped()]).await.unwrap();
    assert!(again[0].deduped, "the dedupe id of the old build must be recognised");

    let (repeated, once) = engine.once(keyed("POST /v1/events a"));
    let posted = repeated.send("completing", json!({ "n": 3 })).await.unwrap();
    assert!(
        once.is_again() && posted.run().is_some(),
        "the stored answer must be returned again: {posted:?}"
    );
    let reply = engine.kept(&keyed("POST /v1/events a")).await.unwrap().expect("it is kept");
    let response = reply.response.expect("the response is stored");
    assert_eq!(response.as_str(), r#"{"events":1,"status":202}"#);
    let (repeated, once) = engine.once(keyed("POST /v1/dispatch b"));
    let append = call("chat", "append", "s3", json!({ "line": "once" }));
    let outcome = repeated.dispatch(append).await.unwrap();
    assert!(
        once.is_again() && outcome.verdict.run().is_some(),
        "the stored answer must be returned again: {outcome:?}"
    );
}

/// Answers everything that runs wait for.
async fn go_on(harness: &TestHarness, engine: &Engine, live: &BTreeMap<String, RunId>) {
    // The lease of the dead engine ends, and its runs are taken over.
    harness.advance(Duration::from_secs(180)).await;
    engine.signal(live["signalled"], "approve", json!({ "by": "bob" })).await.unwrap();
    engine.resume(live["paused"]).await.unwrap();
    engine.cancel(live["undone"], "no longer wanted").await.unwrap();
    engine.unblock("fragile", StreamSelection::All).await.unwrap();
    engine.resume_schedule(held()).await.unwrap();
    limits::leave(engine).await;
    inputs::end(engine).await;
    limits::undo(engine).await;
    go(harness, engine).await;
}

/// Posts the events that runs of both workspaces wait for. They are posted twice, because some runs
/// start only after others have ended.
async fn go(harness: &TestHarness, engine: &Engine) {
    for n in [1, 2, 1, 2] {
        for engine in [engine.clone(), engine.in_workspace("other")] {
            engine.send("go", json!({ "n": n, "word": format!("go {n}") })).await.unwrap();
        }
        harness.advance(Duration::from_secs(60)).await;
    }
}

/// Returns the live run of each workflow of the default workspace; any one of them if there are
/// several.
fn live(rows: &[Row]) -> BTreeMap<String, RunId> {
    let runs = rows.iter().filter_map(|row| match row {
        Row::Run(run) if &*run.ws == "default" => Some((run.workflow.clone(), run.id)),
        _ => None,
    });
    runs.collect()
}

/// Checks that every run that was live, ended, or promised by a window or buffer has ended now, and
/// that the runs that had ended before are unchanged.
fn all_ended(before: &[Row], after: &[Row]) {
    let ended: BTreeMap<Seq, &Row> = after
        .iter()
        .filter_map(|row| match row {
            Row::Ended(run) => Some((run.id.seq, row)),
            Row::Run(run) => panic!("run of {} {} has not ended: {run:?}", run.ws, run.workflow),
            Row::Gate(gate) if matches!(gate.state, GateState::Fold(_)) => panic!("{gate:?}"),
            _ => None,
        })
        .collect();
    let mut counted = BTreeSet::new();
    for row in before {
        match row {
            Row::Ended(run) => {
                assert_eq!(
                    ended.get(&run.id.seq),
                    Some(&row),
                    "a run that had ended before has changed"
                );
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
    assert!(missing.is_empty(), "these runs have not ended: {missing:?}");
}

/// Checks that the doctor finds no problem.
async fn healthy(store: &dyn Store) {
    let report = check_up(None, Timestamp::default(), |visit| store.walk(visit)).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
