//! A zombie: a process that stands still for three times its lease, is replaced, and wakes up in
//! the middle of everything that it can do, believing that no time has passed.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Flow, Request, Workflow,
    core::{
        definition::DEFAULT_APP,
        json::Payload,
        row::{Ending, Row},
    },
};
use tokio::sync::Notify;

use crate::{
    child::{Me, Role, pause, wait_for_door},
    journal::wait_until,
    place::{Place, block_on},
    process::Scene,
};

/// A busy machine that stands still for a second must not cost the lease before its time.
const TTL: Duration = Duration::from_secs(4);

/// What a run can commit: each is tried by a run of its own.
const WAYS: [&str; 6] = ["step", "state", "event", "chunk", "result", "transaction"];

/// How many of them stand where they are to be woken.
static HOLDING: AtomicUsize = AtomicUsize::new(0);

/// Wakes them all at once.
static THAW: Notify = Notify::const_new();

/// Tells the process that it was woken.
static THAWED: Notify = Notify::const_new();

/// One thread, and no look at its clocks while there is anything else to do: when it wakes up, all
/// that its runs have in hand is on its way to the store before it can notice how late it is.
pub(crate) fn runtime() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.event_interval(100_000).global_queue_interval(1);
    builder
}

/// Where a run stands when its process is stopped, and where its heir stands while it wakes.
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

/// Commits in one way, signed with the name of the process.
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
            let run = |tx: tidegate::store::PostgresTransaction| async move {
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
    // One more step, so that the last one is reported on its own before the end is.
    Ok(json!(ctx.step("more", || async { Ok(signed.clone()) }).await?))
}

fn flow(me: &'static Me) -> Flow {
    let work = Action::new("work", move |ctx: Ctx, way: String| commit(me, ctx, way));
    Flow::new("shop").action(work)
}

/// Stops the whole process in the middle of a handler until the test lets it go on.
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

/// The process that is stopped.
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
        };
        engine.dispatch(request).await.unwrap();
    }
    while HOLDING.load(Ordering::SeqCst) < WAYS.len() {
        pause(Duration::from_millis(1)).await;
    }
    engine.send("freeze", json!({})).await.unwrap();
    THAWED.notified().await;
    // Behind all that was on its way; and the proof that it goes on under another name.
    let posted = engine.send("late", json!({})).await.unwrap();
    engine.ended(posted.runs[0].verdict.run().unwrap()).await.unwrap();
    me.note("done late");
    pause(Duration::from_mins(10)).await;
}

/// The process that takes over.
pub(crate) async fn inherit(me: &'static Me) {
    let builder = me.engine().await.flow(flow(me)).workflow(freeze(me));
    let _engine = builder.start().await.unwrap();
    pause(Duration::from_mins(10)).await;
}

/// spec B174, B173, B178: the late holder's writes are refused, all of them, and its heir's are
/// not.
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
    assert_eq!(left(&rows), WAYS.len(), "all are still driven by the heir: {rows:#?}");
    assert_eq!(block_on(place.effects()), [], "no transaction is committed yet");
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

/// No step, no state, no event, no chunk and no result bears its name.
fn nothing_by_the_zombie(rows: &[Row]) {
    let signed: Vec<_> = rows.iter().map(|row| format!("{row:?}")).collect();
    let signed: Vec<_> = signed.iter().filter(|row| row.contains("by-zombie")).collect();
    assert!(signed.is_empty(), "{signed:#?}");
}

/// Each of them once, by the heir.
fn by_the_heir(rows: &[Row]) {
    let (mut steps, mut told, mut chunks, mut states, mut results) = (0, 0, 0, 0, 0);
    for row in rows {
        let signed = format!("{row:?}").contains("by-heir");
        match row {
            Row::Step(step) if step.id == "it" => steps += 1,
            Row::Event(event) if event.name == "told" => told += 1,
            Row::Chunk(_) => chunks += 1,
            Row::Session(session) if session.version == 1 => states += 1,
            Row::Ended(ended) if ended.workflow == "shop/work" => {
                assert!(matches!(ended.ending, Ending::Completed { .. }), "{ended:?}");
                results += 1;
            }
            _ => continue,
        }
        // The records of what was sent and set say nothing of their own.
        assert!(signed || matches!(row, Row::Step(_)), "{row:?}");
    }
    let found = (steps, told, chunks, states, results);
    assert_eq!(found, (4, 1, 1, 1, WAYS.len()), "steps, events, chunks, states, results");
}
