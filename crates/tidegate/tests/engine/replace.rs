//! Replacing runs (`restart` and `singleton: cancel`): session state is never a mixture of two
//! runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock},
};

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, EngineBuilder, Flow, Policy, Result, Retry, RunId, Singleton, StepError,
    Workflow, testing::TestHarness,
};
use tidegate_core::{
    flow::Verdict,
    json::Payload,
    key::Path,
    reads::ReadSet,
    row::{Ending, Row, RowKey, SessionOp, SessionRef},
    session::NewSessionOp,
};
use tidegate_store::{Database, Store, SystemClock};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    requests::{call, dispatch},
    stores,
    words::{Door, Marks, failed, secs, start, state},
};

/// Returns the state of a session of `chat`.
async fn document(store: &dyn Store, session: &str) -> Value {
    let key = ["default", "chat", session].map(str::to_owned);
    let [app, flow, id] = key;
    let key = RowKey::Session("default".into(), app, flow, id);
    let snapshot = store.read(ReadSet::default().row(key.clone())).await.unwrap();
    match snapshot.rows.get(&key) {
        Some(Some(Row::Session(row))) => serde_json::from_str(row.body.as_str()).unwrap(),
        _ => Value::Null,
    }
}

/// spec B44, replace: session writes of a replaced run are discarded, and it writes nothing
/// afterwards. The new run sees the recorded steps of the old one.
pub(crate) async fn a_replaced_run_leaves_nothing_in_its_session(harness: &TestHarness) {
    let door = Door::closed();
    let gate = door.clone();
    let edit = Action::new("edit", move |ctx: Ctx, n: u64| {
        let gate = gate.clone();
        async move {
            let session = ctx.session()?;
            session.set("title", "title", n).await?;
            let mine: Option<u64> = session.get("look", "title").await?;
            assert_eq!(mine, Some(n), "a run must read its own staged write");
            ctx.step("mail", || async move { Ok(n) }).await?;
            let hold = ctx.step("hold", || async {
                gate.pass().await;
                Ok(())
            });
            hold.await?;
            session.append("done", "done", n).await?;
            let replaced = ctx.replaced().await?;
            Ok(replaced.map(|old| {
                let mail = old.steps["mail"].as_ref().map(|value| value.as_str().to_owned());
                (old.run.to_string(), mail.unwrap_or_default(), old.steps.contains_key("hold"))
            }))
        }
    });
    let flow = Flow::new("chat").action(edit.policy(Policy::restart()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let store = &**harness.store();
    let first = dispatch(&engine, call("edit", "s", json!(1))).await.run().unwrap();
    harness.settle().await;
    assert_eq!(
        document(store, "s").await,
        json!(null),
        "staged writes must be invisible to others"
    );
    let verdict = dispatch(&engine, call("edit", "s", json!(2))).await;
    assert!(matches!(verdict, Verdict::Replaced { replaced, .. } if replaced == first));
    door.open();
    harness.settle().await;
    let second = verdict.run().unwrap();
    assert_eq!(failed(&engine, first).await.message(), "replaced");
    let seen = json!([first.to_string(), "1", false]);
    assert_eq!(harness.completed(&engine, second).await, seen);
    assert_eq!(document(store, "s").await, json!({ "title": 2, "done": [2] }));
}

/// spec sessions: a service that a run has called changes the session as steps of that run. The
/// handler's code does not contain these steps, and a restart of the handler without them is no
/// error.
pub(crate) async fn who_is_called_changes_the_session_once(harness: &TestHarness) {
    let called: Arc<OnceLock<Engine>> = Arc::default();
    let outside = called.clone();
    let edit = Action::new("edit", move |ctx: Ctx, n: u64| {
        let outside = outside.clone();
        async move {
            let call = ctx.step("call", || async {
                let [app, flow, id] = ["default", "chat", "s"].map(str::to_owned);
                let (path, value) = (Path::parse("done").ok(), Payload::from_value(&json!(n)));
                let asked = NewSessionOp {
                    step: "call".to_owned(),
                    session: SessionRef { app, flow, id },
                    op: SessionOp::Append { path, value },
                    expected_version: None,
                };
                let engine = outside.get().expect("the engine is set");
                engine.change_session_in(ctx.run_id(), asked).await.unwrap()?;
                if ctx.attempt("call") == 1 { Err(StepError::new("once more")) } else { Ok(n) }
            });
            call.await
        }
    });
    let flow = Flow::new("chat").action(edit.policy(Policy::queue()).retry(Retry::attempts(2)));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    assert!(called.set(engine.clone()).is_ok());
    let run = dispatch(&engine, call("edit", "s", json!(1))).await.run().unwrap();
    harness.advance(secs(60)).await;
    assert_eq!(harness.completed(&engine, run).await, json!(1));
    assert_eq!(document(&**harness.store(), "s").await, json!({ "done": [1] }));
}

/// spec B115, G7: no step of a replaced run starts after the first step of the new run, which waits
/// until the old worker has stopped. A run that is replaced before its start executes no step.
pub(crate) async fn a_newcomer_starts_when_the_old_one_has_stopped(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let sync = Workflow::new("sync", move |ctx: Ctx, n: u64| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            for part in 0..3 {
                let step = ctx.step(format!("{part}"), || async {
                    seen.mark(format!("{n} {part}"));
                    if part == 1 {
                        gate.pass().await;
                    }
                    Ok(())
                });
                step.await?;
            }
            Ok(())
        }
    });
    let engine =
        harness.engine().workflow(sync.singleton(Singleton::cancel())).start().await.unwrap();
    let first = start(&engine, "sync", json!(1)).await;
    harness.settle().await;
    // Both events are in one request: the second run is replaced before it can start.
    let posted = engine
        .send_all([2, 3].map(|n| tidegate::new_event("sync", json!(n)).unwrap()).to_vec())
        .await
        .unwrap();
    let second = posted[0].runs[0].verdict.run().unwrap();
    door.open();
    harness.settle().await;
    assert_eq!(marks.all(), ["1 0", "1 1", "3 0", "3 1", "3 2"]);
    for run in [first, second] {
        assert_eq!(state(harness, "sync", run).await, "cancelled");
    }
}

/// Number of parts that a run writes, each after a step of its own.
const PARTS: u64 = 4;

/// Numbers of the runs that started a step, in order, by session.
#[derive(Clone, Debug)]
struct Begun(Arc<Mutex<BTreeMap<String, Vec<u64>>>>, watch::Sender<()>);

impl Begun {
    fn new() -> Self {
        Self(Arc::default(), watch::Sender::new(()))
    }

    fn of(&self, session: &str) -> Vec<u64> {
        self.0.lock().unwrap().get(session).cloned().unwrap_or_default()
    }

    fn begin(&self, session: &str, n: u64) {
        self.0.lock().unwrap().entry(session.to_owned()).or_default().push(n);
        self.1.send_replace(());
    }

    /// Waits until a run has started this many steps.
    async fn reaches(&self, session: &str, n: u64, steps: u64) {
        let count = || self.of(session).into_iter().filter(|run| *run == n).count() as u64;
        let _ = self.1.subscribe().wait_for(|()| count() >= steps).await;
    }
}

async fn edit(ctx: Ctx, n: u64, begun: Begun) -> Result<()> {
    let session = ctx.session()?;
    for part in 0..PARTS {
        let step = ctx.step(format!("step {part}"), || async {
            begun.begin(session.id(), n);
            tokio::task::yield_now().await;
            Ok(())
        });
        step.await?;
        session.set(&format!("write {part}"), &format!("part{part}"), n).await?;
    }
    session.append("end", "ended", n).await?;
    Ok(())
}

fn chat(begun: &Begun) -> Flow {
    let begun = begun.clone();
    let edit = Action::new("edit", move |ctx: Ctx, n: u64| edit(ctx, n, begun.clone()));
    Flow::new("chat").action(edit.policy(Policy::restart()))
}

/// Replaces the run of one session `times` times, each time at another point of its code. Returns
/// the last run.
async fn replace(engine: &Engine, begun: &Begun, session: &str, times: u64) -> (u64, RunId) {
    let mut replaced = 0;
    for n in 0.. {
        let verdict = dispatch(engine, call("edit", session, json!(n))).await;
        replaced += u64::from(matches!(verdict, Verdict::Replaced { .. }));
        if replaced >= times {
            return (n, verdict.run().unwrap());
        }
        begun.reaches(session, n, n % PARTS).await;
    }
    unreachable!("it returns when it has replaced enough")
}

/// Checks that all parts of a document were written by one run, and returns that run's number.
fn whole(document: &Value) -> Option<u64> {
    let parts: BTreeSet<_> = (0..PARTS).map(|n| document[format!("part{n}")].as_u64()).collect();
    assert_eq!(parts.len(), 1, "parts of several runs are in one document: {document}");
    parts.into_iter().next().flatten()
}

/// Number of sessions in which runs are replaced concurrently.
const SESSIONS: u64 = 10;

/// Replaces runs in all sessions concurrently, and checks their documents meanwhile.
async fn replace_under_load(builder: EngineBuilder, replacements: u64) {
    let begun = Begun::new();
    let engine = builder.flow(chat(&begun)).start().await.unwrap();
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let (engine, begun) = (engine.clone(), begun.clone());
        sessions.spawn(async move {
            let session = format!("s{session}");
            let last = replace(&engine, &begun, &session, replacements / SESSIONS).await;
            (session, last)
        });
    }
    let looked = async {
        for n in 0.. {
            whole(&document(&**engine.store(), &format!("s{}", n % SESSIONS)).await);
            tokio::task::yield_now().await;
        }
    };
    let done = tokio::select! {
        () = looked => Vec::new(),
        done = sessions.join_all() => done,
    };
    assert_eq!(done.len() as u64, SESSIONS);
    let mut completed = 0;
    for (session, (n, run)) in done {
        let ended = engine.ended(run).await.unwrap();
        assert!(matches!(ended.ending, Ending::Completed { .. }), "{ended:?}");
        let document = document(&**engine.store(), &session).await;
        assert_eq!(whole(&document), Some(n), "{session} must have the parts of its last run");
        let ended: Vec<u64> = serde_json::from_value(document["ended"].clone()).unwrap();
        assert!(
            ended.is_sorted() && ended.last() == Some(&n),
            "runs of {session} completed in a wrong order: {ended:?}"
        );
        completed += ended.len();
        let begun = begun.of(&session);
        assert!(
            begun.is_sorted(),
            "in {session} a step of an old run started after a newer run: {begun:?}"
        );
        let started: BTreeSet<u64> = begun.into_iter().collect();
        assert!(
            started.len() as u64 > n / 2,
            "most runs must have started before they were replaced"
        );
    }
    let rows = engine.store().dump().await.unwrap();
    let ended = |row: &&Row| match row {
        Row::Ended(ended) => matches!(ended.ending, Ending::Completed { .. }),
        _ => false,
    };
    assert_eq!(
        rows.iter().filter(ended).count(),
        completed,
        "every completed run must have written its end"
    );
    let staged = rows.iter().filter(|row| matches!(row, Row::Staged(_))).count();
    assert_eq!(staged, 0, "staged writes of replaced runs are left");
    engine.shutdown().await;
}

/// spec B44, B115, replace: however many runs are replaced, at whatever point, a session's state is
/// always that of one whole run, and no step of an old run starts after the first step of a new
/// one.
pub(crate) async fn a_sessions_state_is_that_of_one_whole_run(harness: &TestHarness) {
    let postgres = matches!(harness.store().database(), Database::Postgres(_));
    replace_under_load(harness.engine(), if postgres { 200 } else { 1_000 }).await;
}

/// The same on the system clock, with real concurrency.
mod live {
    use super::{Arc, Engine, Store, SystemClock, replace_under_load, stores};

    async fn load(store: Option<Arc<dyn Store>>, replacements: u64) {
        let Some(store) = store else { return };
        replace_under_load(Engine::builder(store), replacements).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_thousand_replacements_on_memory() {
        load(stores::open_memory(Arc::new(SystemClock)).await, 1_000).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_thousand_replacements_on_sqlite() {
        load(stores::open_sqlite(Arc::new(SystemClock)).await, 1_000).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_thousand_replacements_on_postgres() {
        load(stores::open_postgres(Arc::new(SystemClock)).await, 1_000).await;
    }
}
