//! The replay check: what it says of a history is what becomes of the run.

use std::time::Duration;

use serde_json::json;
use tidegate::{
    Engine, RunId,
    core::list::Which,
    testing::{Lab, ReplayEnd, Report, replay},
};

use crate::{
    program::{Code, World, night, step},
    table::{self, Change, Then},
};

/// The histories of all runs of a workspace, as `tidegate runs export` writes them.
async fn export(engine: &Engine) -> String {
    let (mut lines, mut below) = (String::new(), None);
    loop {
        let page = engine.histories(&Which::default(), below, 2).await.unwrap();
        for history in page.histories {
            lines.push_str(&serde_json::to_string(&history).unwrap());
            lines.push('\n');
        }
        below = page.next;
        if below.is_none() {
            return lines;
        }
    }
}

async fn replayed(world: &World, code: &Code, histories: &str) -> Report {
    replay(|engine| engine.workflow(world.job(code)), histories).await.unwrap()
}

fn end_of(report: &Report, run: RunId) -> &ReplayEnd {
    &report.runs.iter().find(|replayed| replayed.run == run).unwrap().end
}

#[tokio::test]
async fn the_check_says_before_a_deploy_what_becomes_of_a_run() {
    for Change { name, old, new, then } in table::all() {
        let lab = Lab::new();
        let world = World::new(&lab);
        let engine = lab.engine().workflow(world.job(&old)).start().await.unwrap();
        let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
        lab.advance(Duration::from_secs(10)).await;
        let (before, histories) = (world.effects(), export(&engine).await);
        let report = replayed(&world, &new, &histories).await;
        match (then, end_of(&report, run)) {
            (Then::Completes(_), ReplayEnd::Fine) => {}
            (Then::Stops(words), ReplayEnd::Breaks(fault)) => {
                let message = fault.to_string();
                assert!(message.contains(words[0]), "{name}: {message}");
            }
            (_, end) => panic!("{name}: {end:?}"),
        }
        assert_eq!(world.effects(), before, "{name}: the check has effects");
    }
}

#[tokio::test]
async fn runs_in_all_states_are_replayed() {
    let lab = Lab::new();
    let world = World::new(&lab);
    let (old, other) = (Code::All(vec![step("a"), night(), step("b")]), step("x"));
    let engine = lab.engine().workers(1).workflow(world.job(&old)).start().await.unwrap();
    let send = async || engine.send("job", json!(null)).await.unwrap().run().unwrap();
    let completed = send().await;
    lab.advance(Duration::from_mins(2)).await;
    let cancelled = send().await;
    let waiting = send().await;
    lab.settle().await;
    engine.cancel(cancelled, "by hand").await.unwrap();
    let paused = send().await;
    lab.settle().await;
    engine.pause(paused).await.unwrap();
    lab.settle().await;
    let runs = [completed, cancelled, waiting, paused];
    let histories = export(&engine).await;
    let same = replayed(&world, &old, &histories).await;
    let changed = replayed(&world, &other, &histories).await;
    for run in runs {
        assert!(matches!(end_of(&same, run), ReplayEnd::Fine), "{same}");
        assert!(matches!(end_of(&changed, run), ReplayEnd::Breaks(_)), "{changed}");
    }
    assert_eq!((same.broken().count(), changed.broken().count()), (0, 4));
    assert!(changed.to_string().ends_with("4 runs replayed, 4 would fail, 0 skipped"));
}

#[tokio::test]
async fn a_line_that_is_no_history_is_named_and_other_workflows_are_skipped() {
    let lab = Lab::new();
    let world = World::new(&lab);
    let bad = replay(|engine| engine.workflow(world.job(&step("a"))), "\n{\"run\": 1}").await;
    assert!(bad.unwrap_err().to_string().contains("line 2 of the histories"));
    let engine = lab.engine().workflow(world.job(&step("a"))).start().await.unwrap();
    engine.send("job", json!(null)).await.unwrap();
    lab.settle().await;
    let report = replay(|engine| engine, &export(&engine).await).await.unwrap();
    assert!(matches!(report.runs[0].end, ReplayEnd::Skipped(_)), "{report}");
}
