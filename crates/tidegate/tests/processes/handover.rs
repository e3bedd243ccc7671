//! Graceful shutdown: a process that gets SIGTERM hands over its runs long before its lease
//! expires.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tidegate::{Ctx, Workflow, new_event};
use tidegate_core::row::{Ending, Row};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    child::{Me, Role, wait_for_door},
    journal::wait_until,
    place::{Place, block_on},
    process::Scene,
};

/// Lease that is longer than any test may take, so that no run is taken over because a lease has
/// expired.
const TTL: Duration = Duration::from_mins(5);

/// Number of runs in progress.
const RUNS: usize = 6;

/// Number of short runs under load, and number of runs that are driven at once.
const LOAD: usize = 1000;
const WORKERS: usize = 8;

/// Whether this process got SIGTERM.
static ASKED: AtomicBool = AtomicBool::new(false);

fn job(me: &'static Me) -> Workflow<Value, Value> {
    Workflow::new("job", move |ctx: Ctx, _: Value| async move {
        let run = ctx.run_id();
        let first: String = ctx
            .step("first", || async {
                me.note(&format!("in first {run}"));
                Ok(me.name().to_owned())
            })
            .await?;
        let second: String = ctx
            .step("second", || async {
                me.note(&format!("in second {}", ctx.idempotency_key("second")));
                wait_for_door(&me.door("go")).await;
                Ok(me.name().to_owned())
            })
            .await?;
        Ok(json!([first, second]))
    })
}

fn quick(me: &'static Me) -> Workflow<Value, Value> {
    Workflow::new("quick", move |ctx: Ctx, _: Value| async move {
        let step = || async {
            me.note("quick");
            if ASKED.load(Ordering::SeqCst) {
                // This run starts too late to finish before the shutdown.
                wait_for_door(&me.door("go")).await;
            }
            Ok(me.name().to_owned())
        };
        Ok(json!(ctx.step("only", step).await?))
    })
}

/// Drives runs until SIGTERM. The first process also sends the events.
pub(crate) async fn live(me: &'static Me) {
    let mut asked = signal(SignalKind::terminate()).unwrap();
    let builder = me.engine().await.workflow(job(me)).workflow(quick(me)).workers(WORKERS);
    let engine = builder.start().await.unwrap();
    let (name, count) = match (me.name(), &me.orders.stop_at) {
        ("first", None) => ("job", RUNS),
        ("first", Some(_)) => ("quick", LOAD),
        _ => ("job", 0),
    };
    let events = (0..count).map(|n| new_event(name, json!({ "n": n })).unwrap());
    engine.send_all(events.collect()).await.unwrap();
    me.note("up");
    asked.recv().await;
    ASKED.store(true, Ordering::SeqCst);
    engine.shutdown().await;
    me.note("gone");
}

/// spec steps, B180: runs are handed over in the middle of a step. This does not count as an engine
/// death.
pub(crate) fn judge() {
    let scene = Scene::new();
    let Some(place) = Place::postgres() else { return };
    let first = scene.start(Role::Leaver, "first", &place, TTL, None);
    scene.journal.wait_for("first", "in second", RUNS);
    let second = scene.start(Role::Leaver, "second", &place, TTL, None);
    scene.journal.wait_for("second", "up", 1);
    let asked = Instant::now();
    first.signal("-TERM");
    assert!(first.wait().success(), "the process failed to shut down");
    let gone = asked.elapsed();
    scene.journal.wait_for("second", "in second", RUNS);
    eprintln!("gone after {gone:.1?}, handed over after {:.1?}", asked.elapsed());
    let answer = scene.journal.told();
    assert_eq!(scene.journal.count("first", "gone"), 1, "{answer}");
    let rows = block_on(place.rows());
    let live: Vec<_> = rows.iter().filter_map(Row::as_run).collect();
    assert_eq!(live.len(), RUNS);
    assert!(
        live.iter().all(|run| run.deaths == 0),
        "a hand-over counted as an engine death: {live:#?}"
    );

    scene.open_door("go");
    let ended = |rows: &[Row]| rows.iter().filter(|row| matches!(row, Row::Ended(_))).count();
    wait_until(|| ended(&block_on(place.rows())) == RUNS, || scene.journal.told());
    second.signal("-TERM");
    assert!(second.wait().success());

    // Recorded steps are kept. Unfinished steps are executed again with the same idempotency key.
    assert_eq!(scene.journal.count("second", "in first"), 0, "{answer}");
    let [before, after] = ["first", "second"].map(|by| {
        let lines = scene.journal.lines();
        let mine = lines.iter().filter(|line| line.by == by);
        let mut keys: Vec<_> =
            mine.filter_map(|line| Some(line.after("in second")?.join(" "))).collect();
        keys.sort();
        keys
    });
    assert_eq!(before, after);
    for row in block_on(place.rows()) {
        let Row::Ended(ended) = row else { continue };
        let Ending::Completed { output } = &ended.ending else { panic!("{ended:?}") };
        assert_eq!(output.as_str(), r#"["first","second"]"#);
    }
    scene.clear();
}

/// spec steps: a run that is being leased at the moment of the shutdown is handed over, too.
pub(crate) fn judge_under_load() {
    let scene = Scene::new();
    let Some(place) = Place::postgres() else { return };
    let second = scene.start(Role::Leaver, "second", &place, TTL, None);
    scene.journal.wait_for("second", "up", 1);
    // The second process is stopped until the first has ended.
    second.signal("-STOP");
    let first = scene.start(Role::Leaver, "first", &place, TTL, Some("load"));
    scene.journal.wait_for("first", "quick", 100);
    first.signal("-TERM");
    assert!(first.wait().success(), "the process failed to shut down");
    assert!(
        scene.journal.count("first", "quick") < LOAD,
        "the first process finished all runs, so none was handed over"
    );
    let rows = block_on(place.rows());
    let owned: Vec<_> =
        rows.iter().filter_map(Row::as_run).filter(|run| run.owner.is_some()).collect();
    assert!(owned.is_empty(), "these runs were not handed over: {owned:#?}");
    second.signal("-CONT");
    let left = || block_on(place.rows()).iter().filter(|row| row.as_run().is_some()).count();
    wait_until(|| left() == 0, || scene.journal.told());
    scene.clear();
}
