//! Zombie process: a process is stopped for three times its lease and replaced by another. Then it
//! resumes in the middle of every kind of write, and does not know that time has passed.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{Action, Ctx, Flow, Request, Workflow};
use tidegate_core::{
    definition::DEFAULT_APP,
    json::Payload,
    row::{Ending, Row},
};
use tokio::sync::Notify;

use crate::{
    child::{Me, Role, pause, wait_for_door},
    journal::wait_until,
    place::{Place, block_on},
    process::Scene,
};

/// Lease that is long enough not to expire early if a busy machine pauses for a second.
const TTL: Duration = Duration::from_secs(4);

/// Kinds of writes. Each is made by a separate run.
const WAYS: [&str; 6] = ["step", "state", "event", "chunk", "result", "transaction"];

/// Number of runs that wait in [`hold`].
static HOLDING: AtomicUsize = AtomicUsize::new(0);

/// Releases all runs that wait in [`hold`] at once.
static THAW: Notify = Notify::const_new();

/// Notified when the process was resumed.
static THAWED: Notify = Notify::const_new();

/// Returns a runtime with one thread that does not check its timers while tasks are ready. So after
/// the process resumes, all writes of its runs are sent to the store before it can notice how late
/// it is.
pub(crate) fn runtime() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.event_interval(100_000).global_queue_interval(1);
    builder
}

/// Holds a run: in the first process until it is resumed, in the second until the first has
/// resumed.
async fn hold(me: &Me, way: &str) {
    let thaw = THAW.notified();
    me.note(&format!("holding {way}"));
    if matches!(me.orders.role, Role::Zombie) {
        HOLDING.fetch_add(1, Ordering::SeqCst);
        thaw.await;
        me.note(&format!("goes on with {way}"));
    } else {
        wait_for_door(&me.door("go")).await;
    }
}

/// Writes in one of the ways. The value names the process that wrote it.
async fn commit(me: &'static Me, ctx: Ctx, way: String) -> tidegate::Result<Value> {
    let signed = format!("by-{}", me.name());
    match way.as_str() {
        "step" => {
            let run = || async {
                hold(me, "step").await;
                Ok(signed.clone())
            };
            return Ok(json!(ctx.step("it", run).await?));
        }
        "transaction" => {
            let sql = format!("insert into {} values ($1, $2)", me.orders.place.table());
            let key = ctx.idempotency_key("it");
            let run = |tx: tidegate_store::PostgresTransaction| async move {
                tx.execute(&sql, &[&key, &signed]).await?;
                hold(me, "transaction").await;
                Ok(signed)
            };
            return Ok(json!(ctx.postgres_step("it", run).await?));
        }
        _ => hold(me, &way).await,
    }
    match way.as_str() {
        "state" => ctx.session()?.set("it", "by", &signed).await?,
        "event" => ctx.send_event("it", "told", json!({ "by": signed })).await?,
        "chunk" => ctx.emit(&signed)?,
        _ => return Ok(json!(signed)),
    }
    // One more step, so that the previous step is reported separately before the end of the run.
    Ok(json!(ctx.step("more", || async { Ok(signed.clone()) }).await?))
}

fn flow(me: &'static Me) -> Flow {
    let work = Action::new("work", move |ctx: Ctx, way: String| commit(me, ctx, way));
    Flow::new("shop").action(work)
}

/// A workflow that stops the whole process in its handler, until the test resumes it.
fn freeze(me: &'static Me) -> Workflow<Value, ()> {
    Workflow::new("freeze", move |_: Ctx, _: Value| async move {
        if matches!(me.orders.role, Role::Zombie) {
            stand_still(me, &me.door("thaw"));
        }
        Ok(())
    })
}

fn stand_still(me: &Me, door: &Path) {
    me.note("frozen");
    while fs::metadata(door).is_err() {
        thread::sleep(Duration::from_millis(1));
    }
    THAW.notify_waiters();
    THAWED.notify_one();
}

/// Code of the process that is stopped.
pub(crate) async fn live(me: &'static Me) {
    let late = Workflow::new("late", |_: Ctx, _: Value| async { Ok(()) });
    let builder = me.engine().await.flow(flow(me)).workflow(freeze(me)).workflow(late);
    let engine = builder.start().await.unwrap();
    for way in WAYS {
        let input = Payload::parse(json!(way).to_string().as_bytes(), 100).unwrap();
        let request = Request {
            app: DEFAULT_APP.to_owned(),
            flow: "shop".to_owned(),
            action: "work".to_owned(),
            input,
            session: Some(way.to_owned()),
            user: None,
            metadata: Payload::null(),
            function_key: None,
            max_wait_ms: None,
            deliver: None,
        };
        engine.dispatch(request).await.unwrap();
    }
    while HOLDING.load(Ordering::SeqCst) < WAYS.len() {
        pause(Duration::from_millis(1)).await;
    }
    engine.send("freeze", json!({})).await.unwrap();
    THAWED.notified().await;
    // This command is queued after all pending writes. It also shows that the process continues
    // under a new engine id.
    let posted = engine.send("late", json!({})).await.unwrap();
    engine.ended(posted.runs[0].verdict.run().unwrap()).await.unwrap();
    me.note("done late");
    pause(Duration::from_mins(10)).await;
}

/// Code of the process that takes over.
pub(crate) async fn inherit(me: &'static Me) {
    let builder = me.engine().await.flow(flow(me)).workflow(freeze(me));
    let _engine = builder.start().await.unwrap();
    pause(Duration::from_mins(10)).await;
}

/// spec B174, B173, B178: all writes of the stopped process are refused after it resumes, and those
/// of its successor are accepted.
pub(crate) fn judge() {
    let scene = Scene::new();
    let Some(place) = Place::postgres() else { return };
    block_on(place.make_table());
    let zombie = scene.start(Role::Zombie, "zombie", &place, TTL, None);
    scene.journal.wait_for("zombie", "frozen", 1);
    zombie.signal("-STOP");
    let stopped = Instant::now();
    let heir = scene.start(Role::Heir, "heir", &place, TTL, None);
    scene.journal.wait_for("heir", "holding", WAYS.len());
    wait_until(|| stopped.elapsed() >= TTL * 3, || unreachable!("time passes"));
    scene.open_door("thaw");
    zombie.signal("-CONT");
    scene.journal.wait_for("zombie", "goes on", WAYS.len());
    scene.journal.wait_for("zombie", "done late", 1);

    let left = |rows: &[Row]| rows.iter().filter(|row| matches!(row, Row::Run(_))).count();
    let rows = block_on(place.rows());
    nothing_by_the_zombie(&rows);
    assert_eq!(left(&rows), WAYS.len(), "the successor must still drive all runs: {rows:#?}");
    assert_eq!(block_on(place.effects()), [], "a transaction of the stopped process was committed");
    scene.open_door("go");
    let ended = || left(&block_on(place.rows())) == 0;
    wait_until(ended, || format!("never ended:\n{}", scene.journal.told()));
    zombie.kill();
    heir.kill();

    let rows = block_on(place.rows());
    nothing_by_the_zombie(&rows);
    by_the_heir(&rows);
    let effects = block_on(place.effects());
    assert!(matches!(&effects[..], [(_, by)] if by == "by-heir"), "{effects:?}");
    scene.clear();
}

/// Checks that no step, session, event, chunk or output was written by the stopped process.
fn nothing_by_the_zombie(rows: &[Row]) {
    let signed: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
    let signed: Vec<_> = signed.iter().filter(|row| row.contains("by-zombie")).collect();
    assert!(signed.is_empty(), "{signed:#?}");
}

/// Checks that each write exists once, and was made by the successor.
fn by_the_heir(rows: &[Row]) {
    let (mut steps, mut answer, mut chunks, mut states, mut results) = (0, 0, 0, 0, 0);
    for row in rows {
        let signed = format!("{row:?}").contains("by-heir");
        match row {
            Row::Step(step) if step.id == "it" => steps += 1,
            Row::Event(event) if event.name == "told" => answer += 1,
            Row::Chunk(_) => chunks += 1,
            Row::Session(session) if session.version == 1 => states += 1,
            Row::Ended(ended) if ended.workflow == "shop/work" => {
                assert!(matches!(ended.ending, Ending::Completed { .. }), "{ended:?}");
                results += 1;
            }
            _ => continue,
        }
        // The records of sent events and of session changes do not name the process.
        assert!(signed || matches!(row, Row::Step(_)), "{row:?}");
    }
    let found = (steps, answer, chunks, states, results);
    assert_eq!(
        found,
        (4, 1, 1, 1, WAYS.len()),
        "wrong number of steps, events, chunks, sessions or outputs"
    );
}
