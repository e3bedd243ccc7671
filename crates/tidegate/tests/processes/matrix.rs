//! Crash matrix: a process is killed at every boundary and in the middle of every kind of step of
//! one workflow. Another process continues the run.

use std::{sync::Mutex, thread, time::Duration};

use serde_json::{Value, json};
use tidegate::{Ctx, Engine, RunId, Workflow, new_event};
use tidegate_core::row::{Ending, Phase, Row};

use crate::{
    child::{Me, Role, pause},
    place::{Place, block_on},
    process::Scene,
};

const TTL: Duration = Duration::from_secs(1);

/// Number of points that are tested in parallel.
const AT_ONCE: usize = 4;

/// Points at which the process is killed. For each: the steps that are certainly recorded by then,
/// which must not be executed again; and the step that has started but is certainly not recorded,
/// which must be executed again.
const POINTS: [(&str, &[&str], Option<&str>); 16] = [
    ("begun", &[], None),
    ("in a", &[], Some("a")),
    ("effect of a", &[], Some("a")),
    // The handler has the result, but the store does not have the record.
    ("returned a", &[], Some("a")),
    // A step starts only when the previous step is durable.
    ("in b", &["a"], Some("b")),
    ("effect of b", &["a"], Some("b")),
    ("returned b", &["a"], Some("b")),
    ("in t", &["a", "b"], Some("t")),
    // Inside of the transaction that also records the step.
    ("effect of t", &["a", "b"], Some("t")),
    // The effect is committed together with the record.
    ("returned t", &["a", "b", "t"], None),
    ("sent", &["a", "b", "t"], None),
    ("waiting", &["a", "b", "t"], None),
    ("in c", &["a", "b", "t"], Some("c")),
    ("effect of c", &["a", "b", "t"], Some("c")),
    ("returned c", &["a", "b", "t"], Some("c")),
    ("ended", &["a", "b", "t", "c"], None),
];

/// Makes an external effect, a line in the journal.
fn effect(me: &Me, ctx: &Ctx, step: &str) -> String {
    me.point(&format!("in {step}"));
    me.note(&format!("done {step} {}", ctx.idempotency_key(step)));
    me.point(&format!("effect of {step}"));
    me.name().to_owned()
}

/// Makes an effect in the store's own database, in a transactional step.
async fn transact(me: &'static Me, ctx: &Ctx) -> tidegate::Result<String> {
    let (key, table) = (ctx.idempotency_key("t"), me.orders.place.table());
    match &me.orders.place {
        Place::Sqlite(_) => {
            let run = move |tx: &tidegate_store::SqliteTransaction<'_>| {
                me.point("in t");
                let sql = format!("insert into {table} (key, made_by) values (?1, ?2)");
                tx.execute(&sql, (&key, me.name()))?;
                me.note(&format!("done t {key}"));
                me.point("effect of t");
                Ok(me.name().to_owned())
            };
            ctx.sqlite_step("t", run).await
        }
        Place::Postgres { .. } => {
            let run = |tx: tidegate_store::PostgresTransaction| async move {
                me.point("in t");
                let sql = format!("insert into {table} (key, made_by) values ($1, $2)");
                tx.execute(&sql, &[&key, &me.name()]).await?;
                me.note(&format!("done t {key}"));
                me.point("effect of t");
                Ok(me.name().to_owned())
            };
            ctx.postgres_step("t", run).await
        }
    }
}

fn order(me: &'static Me) -> Workflow<Value, Value> {
    Workflow::new("order", move |ctx: Ctx, _: Value| async move {
        me.point("begun");
        let a: String = ctx.step("a", || async { Ok(effect(me, &ctx, "a")) }).await?;
        me.point("returned a");
        let b: String = ctx.step("b", || async { Ok(effect(me, &ctx, "b")) }).await?;
        me.point("returned b");
        let t: String = transact(me, &ctx).await?;
        me.point("returned t");
        ctx.send_event("tell", "told", json!({})).await?;
        me.point("sent");
        ctx.wait_for_signal::<Value>("go", "go").await?;
        let c: String = ctx.step("c", || async { Ok(effect(me, &ctx, "c")) }).await?;
        me.point("returned c");
        Ok(json!({ "a": a, "b": b, "t": t, "c": c }))
    })
}

/// Starts the run if there is none, waits for its end, and reports it.
pub(crate) async fn live(me: &'static Me) {
    let told = Workflow::new("told", |_: Ctx, _: Value| async { Ok(()) });
    let builder = me.engine().await.workflow(order(me)).workflow(told);
    let engine = builder.start().await.unwrap();
    let mut event = new_event("order", json!({})).unwrap();
    event.dedupe_id = Some("the one".to_owned());
    engine.send_all(vec![event]).await.unwrap();
    let run = the_run(&engine).await;
    loop {
        let (live, ended) = engine.look_up(run).await.unwrap();
        if ended.is_some() {
            break;
        }
        if live.is_some_and(|live| live.phase == Phase::Waiting) {
            me.point("waiting");
            engine.signal(run, "go", json!({})).await.unwrap();
            engine.ended(run).await.unwrap();
        }
        pause(Duration::from_millis(5)).await;
    }
    while engine.driven() > 0 || has_live(&engine).await {
        pause(Duration::from_millis(5)).await;
    }
    me.point("ended");
}

/// Returns the id of the only run of `order`.
async fn the_run(engine: &Engine) -> RunId {
    let rows = engine.store().dump().await.unwrap();
    let mut orders = rows.iter().filter_map(|row| match row {
        Row::Run(run) if run.workflow == "order" => Some(run.id),
        Row::Ended(ended) if ended.workflow == "order" => Some(ended.id),
        _ => None,
    });
    orders.next().expect("the accepted order is in the store")
}

async fn has_live(engine: &Engine) -> bool {
    let rows = engine.store().dump().await.unwrap();
    rows.iter().any(|row| matches!(row, Row::Run(_)))
}

/// Tests all points, a few at a time.
pub(crate) fn judge_all(place: impl Fn(&Scene) -> Option<Place> + Sync) {
    let left = Mutex::new(POINTS.iter());
    let next = || left.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((point, done, again)) = next() {
                    let scene = Scene::new();
                    let Some(place) = place(&scene) else { return };
                    judge(scene, &place, point, done, *again);
                }
            });
        }
    });
}

/// Kills a process at the point, lets another process continue, and checks the result.
fn judge(scene: Scene, place: &Place, point: &str, done: &[&str], again: Option<&str>) {
    block_on(place.make_table());
    let first = scene.start(Role::Order, "first", place, TTL, Some(point));
    scene.journal.wait_for("first", point, 1);
    first.kill();
    let second = scene.start(Role::Order, "second", place, TTL, None);
    scene.journal.wait_for("second", "ended", 1);
    assert!(second.wait().success());

    let told = || format!("killed at `{point}`:\n{}", scene.journal.told());
    let by = |name: &str, step: &str| scene.journal.count(name, &format!("in {step}"));
    for step in done {
        // spec B179: the crash came after the record.
        assert_eq!(
            by("second", step),
            0,
            "the recorded step `{step}` was executed again; {}",
            told()
        );
    }
    if let Some(step) = again {
        // spec B178: the crash came after the effect and before its record.
        assert!(
            by("second", step) >= 1,
            "the unrecorded step `{step}` was not executed again; {}",
            told()
        );
    }
    let (rows, effects) = block_on(async { (place.rows().await, place.effects().await) });
    let run = judge_rows(&rows, done, &told);
    for step in ["a", "b", "c"] {
        // spec B180, B181: in whichever process and however often a step is executed, its
        // idempotency key is the same.
        let key = format!("{run}:{step}");
        let lines = scene.journal.lines();
        let mut keys: Vec<&str> =
            lines.iter().filter_map(|line| line.after(&format!("done {step}"))?.pop()).collect();
        keys.dedup();
        assert_eq!(keys, [key.as_str()], "{}", told());
    }
    let maker = if done.contains(&"t") { "first" } else { "second" };
    let once = [(format!("{run}:t"), maker.to_owned())];
    assert_eq!(effects, once, "the transactional step must have one effect; {}", told());
    scene.clear();
}

/// Checks the rows: one run, completed, with every step recorded once and every event sent once.
fn judge_rows(rows: &[Row], done: &[&str], told: &impl Fn() -> String) -> RunId {
    let (mut orders, mut heard, mut steps, mut events) = (Vec::new(), 0, Vec::new(), 0);
    for row in rows {
        match row {
            Row::Ended(ended) if ended.workflow == "order" => orders.push(ended),
            Row::Ended(_) => heard += 1,
            Row::Step(step) => steps.push(step.id.as_str()),
            Row::Event(event) if event.name == "told" => events += 1,
            Row::Run(run) => panic!("this run has not ended: {run:?}; {}", told()),
            _ => {}
        }
    }
    steps.sort_unstable();
    assert_eq!(steps, ["a", "b", "c", "go", "t", "tell"], "{}", told());
    assert_eq!((events, heard), (1, 1), "the event must be sent and handled once; {}", told());
    let [order] = orders[..] else { panic!("{orders:?}; {}", told()) };
    let Ending::Completed { output } = &order.ending else { panic!("{order:?}; {}", told()) };
    let output: Value = serde_json::from_str(output.as_str()).unwrap();
    for step in ["a", "b", "t", "c"] {
        let whose = if done.contains(&step) { "first" } else { "second" };
        assert_eq!(output[step], whose, "`{step}` has the result of the wrong process; {}", told());
    }
    order.id
}
