//! A process that is asked to go (SIGTERM) hands its runs over, long before its lease is over.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::{
    Ctx, Workflow,
    core::row::{Ending, Row},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    child::{Me, Role, wait_for_door},
    journal::wait_until,
    place::{Place, block_on},
    process::Scene,
};

/// Longer than any test may take: nothing comes back because a lease is over.
const TTL: Duration = Duration::from_mins(5);

/// How many runs are under way.
const RUNS: usize = 6;

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

/// Works until it is asked to go; the first one also brings the work.
pub(crate) async fn live(me: &'static Me) {
    let mut asked = signal(SignalKind::terminate()).unwrap();
    let engine = me.engine().await.workflow(job(me)).start().await.unwrap();
    if me.name() == "first" {
        for n in 0..RUNS {
            engine.send("job", json!({ "n": n })).await.unwrap();
        }
    }
    me.note("up");
    asked.recv().await;
    engine.shut_down().await;
    me.note("gone");
}

/// SPEC 9, B180: runs are handed over in the middle of a step, and it is no loss.
pub(crate) fn judge() {
    let scene = Scene::new();
    let Some(place) = Place::postgres() else { return };
    let first = scene.start(Role::Leaver, "first", &place, TTL, None);
    scene.journal.wait_for("first", "in second", RUNS);
    let second = scene.start(Role::Leaver, "second", &place, TTL, None);
    scene.journal.wait_for("second", "up", 1);
    let asked = Instant::now();
    first.signal("-TERM");
    assert!(first.wait().success(), "it ends in good order");
    let gone = asked.elapsed();
    scene.journal.wait_for("second", "in second", RUNS);
    eprintln!("gone after {gone:.1?}, handed over after {:.1?}", asked.elapsed());
    let told = scene.journal.told();
    assert_eq!(scene.journal.count("first", "gone"), 1, "{told}");
    let rows = block_on(place.rows());
    let live: Vec<_> = rows.iter().filter_map(Row::as_run).collect();
    assert_eq!(live.len(), RUNS);
    assert!(live.iter().all(|run| run.losses == 0), "a loss was counted: {live:#?}");

    scene.open_door("go");
    let ended = |rows: &[Row]| rows.iter().filter(|row| matches!(row, Row::Ended(_))).count();
    wait_until(|| ended(&block_on(place.rows())) == RUNS, || scene.journal.told());
    second.signal("-TERM");
    assert!(second.wait().success());

    // What was recorded stays, what was under way is done again under the same key.
    assert_eq!(scene.journal.count("second", "in first"), 0, "{told}");
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
