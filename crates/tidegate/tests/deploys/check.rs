//! The replay check: what it predicts for a history is what happens to the run after the deploy.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Ctx, Engine, RunId, Workflow,
    testing::{ReplayEnd, Report, TestHarness, replay},
};
use tidegate_core::list::{RunFilter, RunStatus};

use crate::{
    program::{Code, World, night, step},
    table::{self, Change, Then},
};

/// Exports the histories of all runs of a workspace in the format of `tidegate runs export`.
async fn export(engine: &Engine) -> String {
    let (mut lines, mut below) = (String::new(), None);
    loop {
        let page = engine.histories(&RunFilter::default(), below, 2).await.unwrap();
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

/// Checks that the replay check predicts the expected end before the deploy, and has no effects.
async fn check(Change { name, old, new, then }: Change) {
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let engine = harness.engine().workflow(world.job(&old)).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.advance(Duration::from_secs(10)).await;
    let (before, histories) = (world.effects(), export(&engine).await);
    engine.shutdown().await;
    // Advances the clock, so that awaits of the code outside of its operations complete.
    let ticks = async {
        loop {
            harness.advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    };
    let report = tokio::select! {
        report = replayed(&world, &new, &histories) => report,
        () = ticks => unreachable!(),
    };
    match (then, end_of(&report, run)) {
        (Then::Completes(_), ReplayEnd::Fine) => {}
        (Then::Stops(words), ReplayEnd::Breaks(fault)) => {
            let message = fault.to_string();
            // Operations after the sleep are not reached, because the sleep has no answer yet.
            let reached = if message.contains("requested steps:") { &words[..1] } else { words };
            let missing: Vec<_> = reached.iter().filter(|word| !message.contains(**word)).collect();
            assert!(missing.is_empty(), "{name}: {message}");
        }
        (_, end) => panic!("{name}: {end:?}"),
    }
    assert_eq!(world.effects(), before, "{name}: the replay check executed effects");
}

#[tokio::test]
async fn the_check_says_before_a_deploy_what_becomes_of_a_run() {
    // The changes are checked in parallel, because some checks end only after a time limit of the
    // system clock.
    let all = table::all().into_iter().chain([table::beside_a_busy_branch()]);
    let checks = all.map(|change| {
        let name = change.name;
        (name, tokio::spawn(check(change)))
    });
    let mut failed = Vec::new();
    for (name, check) in checks.collect::<Vec<_>>() {
        failed.extend(check.await.is_err().then_some(name));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test]
async fn runs_in_all_states_are_replayed() {
    for state in RunStatus::ALL {
        let harness = TestHarness::new();
        let world = World::new(&harness);
        let last = match state {
            RunStatus::Failed => Code::Fails("f".to_owned()),
            RunStatus::Running | RunStatus::Queued => Code::Step("long".to_owned(), 3_600_000),
            _ => step("b"),
        };
        let code = Code::All(vec![step("a"), night(), last]);
        let engine = harness.engine().workers(1).workflow(world.job(&code)).start().await.unwrap();
        let send = async || engine.send("job", json!(null)).await.unwrap().run().unwrap();
        let first = send().await;
        harness.advance(Duration::from_secs(1)).await;
        // The second run wakes after the first, which may then occupy the only worker.
        let second = send().await;
        harness.advance(Duration::from_secs(1)).await;
        match state {
            RunStatus::Cancelled => engine.cancel(first, "by hand").await.unwrap(),
            RunStatus::Paused => engine.pause(first).await.unwrap(),
            RunStatus::Waiting => {}
            _ => harness.advance(Duration::from_mins(2)).await,
        }
        harness.settle().await;
        let run = if state == RunStatus::Queued { second } else { first };
        let histories = export(&engine).await;
        let line = histories.lines().find(|line| line.contains(&format!("\"run\":\"{run}\"")));
        let is = format!("\"state\":\"{}\"", state.as_str());
        assert!(line.unwrap().contains(&is), "{histories}");
        let same = replayed(&world, &code, &histories).await;
        let changed = replayed(&world, &step("x"), &histories).await;
        assert!(matches!(end_of(&same, run), ReplayEnd::Fine), "{state:?}: {same}");
        assert!(matches!(end_of(&changed, run), ReplayEnd::Breaks(_)), "{state:?}: {changed}");
        assert_eq!((same.broken().count(), changed.broken().count()), (0, 2), "{state:?}");
        assert!(changed.to_string().ends_with("2 runs replayed, 2 would fail, 0 skipped"));
    }
}

/// If the input type of a handler has changed, or the handler panics, every run would fail.
#[tokio::test]
async fn inputs_that_cannot_be_read_and_panics_break_a_run() {
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let code = Code::All(vec![night(), step("a")]);
    let engine = harness.engine().workflow(world.job(&code)).start().await.unwrap();
    let run = engine.send("job", json!(null)).await.unwrap().run().unwrap();
    harness.settle().await;
    let histories = export(&engine).await;
    let reads = Workflow::new("job", async |ctx: Ctx, _: u64| {
        ctx.sleep("night", Duration::from_mins(1)).await
    });
    let report = replay(|engine| engine.workflow(reads), &histories).await.unwrap();
    let ReplayEnd::Breaks(fault) = end_of(&report, run) else { panic!("{report}") };
    assert_eq!(fault.code(), "BadInput", "{fault}");
    let panics = Workflow::new("job", async |ctx: Ctx, _: Value| {
        let run = ctx.run_id();
        assert_eq!(run.to_string(), "another", "it panics");
        ctx.sleep("night", Duration::from_mins(1)).await
    });
    let report = replay(|engine| engine.workflow(panics), &histories).await.unwrap();
    let ReplayEnd::Breaks(fault) = end_of(&report, run) else { panic!("{report}") };
    assert!(fault.to_string().contains("it panics"), "{fault}");
}

#[tokio::test]
async fn a_line_that_is_no_history_is_named_and_other_workflows_are_skipped() {
    let harness = TestHarness::new();
    let world = World::new(&harness);
    let bad = replay(|engine| engine.workflow(world.job(&step("a"))), "\n{\"run\": 1}").await;
    assert!(bad.unwrap_err().to_string().contains("line 2 of the histories"));
    let engine = harness.engine().workflow(world.job(&step("a"))).start().await.unwrap();
    engine.send("job", json!(null)).await.unwrap();
    harness.settle().await;
    let report = replay(|engine| engine, &export(&engine).await).await.unwrap();
    assert!(matches!(report.runs[0].end, ReplayEnd::Skipped(_)), "{report}");
}
