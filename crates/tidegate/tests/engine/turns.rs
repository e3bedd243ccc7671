//! Fair use of workers: workflows take turns, and one workflow cannot occupy all workers.

use std::{pin::Pin, sync::Arc};

use serde_json::{Value, json};
use tidegate::{Concurrency, Ctx, Engine, Handler, Result, testing::TestHarness};
use tidegate_core::{definition::Definition, flow::Verdict, json::Payload};

use crate::words::{Journal, burst, ms, secs, start, states, verdict, work};

/// Returns the verdict that an event would get.
async fn dry_run(engine: &Engine, name: &str) -> Verdict {
    let event = tidegate::new_event(name, json!({ "n": name })).unwrap();
    engine.dry_run(vec![event]).await.unwrap().remove(0).runs.remove(0).verdict
}

/// spec L2: between two runs of a workflow, every other workflow with ready runs gets one, however
/// many runs wait.
pub(crate) async fn workflows_take_turns_for_a_worker(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let all = ["bulk", "more", "late"].map(|name| work(&journal, name, secs(1)));
    let engine = harness.engine().workers(1);
    let engine = all.into_iter().fold(engine, tidegate::EngineBuilder::workflow);
    let engine = engine.start().await.unwrap();
    for n in 0..20 {
        start(&engine, "bulk", json!({ "n": format!("bulk {n}") })).await;
    }
    for n in 0..20 {
        start(&engine, "more", json!({ "n": format!("more {n}") })).await;
    }
    harness.advance(ms(3500)).await;
    journal.take();
    start(&engine, "late", json!({ "n": "late" })).await;
    harness.advance(secs(3)).await;
    let noted = journal.take();
    assert!(noted.iter().take(2).any(|line| line == "\"late\""), "{noted:?}");
    harness.advance(secs(60)).await;
    assert_eq!(states(harness, "bulk").await, ["completed"; 20]);
}

/// spec L2: with several free workers, no workflow gets a second turn before all have had one.
pub(crate) async fn workflows_take_turns_for_several_workers(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let names = ["a", "b", "c"];
    let engine = harness.engine().workers(2);
    let all = names.iter().map(|name| work(&journal, name, secs(1)));
    let engine = all.fold(engine, tidegate::EngineBuilder::workflow).start().await.unwrap();
    let sends = (0..10).flat_map(|_| names);
    let events = sends.map(|name| tidegate::new_event(name, json!({ "n": name })).unwrap());
    engine.send_all(events.collect()).await.unwrap();
    harness.advance(ms(8500)).await;
    let noted = journal.take();
    assert_eq!(noted.len(), 18);
    for round in noted.chunks(3) {
        let mut names: Vec<_> = round.iter().map(|line| line.trim_matches('"')).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c"], "{noted:?}");
    }
}

/// spec L2: workspaces take turns, even if there are more workspaces than one lease can check.
pub(crate) async fn many_workspaces_take_turns_for_a_worker(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let names: Vec<String> = (0..40).map(|n| format!("w{n:02}")).collect();
    let engine = harness.engine().workers(1).workspaces(names.iter().map(String::as_str));
    let engine = engine.workflow(work(&journal, "a", secs(1))).start().await.unwrap();
    for _ in 0..2 {
        for name in &names {
            start(&engine.in_workspace(name.as_str()), "a", json!({ "n": name })).await;
        }
    }
    harness.advance(ms(39_500)).await;
    let mut noted = journal.take();
    noted.sort_unstable();
    let each: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    assert_eq!(noted, each, "each workspace must have had one turn");
}

/// spec L2: workspaces take turns, however many workflows one of them has.
pub(crate) async fn workspaces_take_turns_for_a_worker(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let names = ["a", "b", "c", "d", "e"];
    let engine = harness.engine().workers(1).workspaces(["busy", "calm", "idle"]);
    let all = names.iter().map(|name| work(&journal, name, secs(1)));
    let busy = all.fold(engine, tidegate::EngineBuilder::workflow).start().await.unwrap();
    let busy = busy.in_workspace("busy");
    for name in names {
        burst(&busy, name, 10).await;
    }
    harness.advance(ms(2500)).await;
    journal.take();
    let calm = busy.in_workspace("calm");
    for _ in 0..3 {
        start(&calm, "a", json!({ "n": "calm" })).await;
    }
    harness.advance(secs(6)).await;
    let calm: Vec<bool> = journal.take().iter().map(|line| line == "\"calm\"").collect();
    assert_eq!(calm, [true, false, true, false, true, false], "every other one");
}

/// spec L2: a workflow whose runs never end leaves some workers to other workflows.
pub(crate) async fn a_workflow_that_hangs_does_not_get_all_workers(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let stuck = work(&journal, "stuck", secs(1_000_000));
    let quick = work(&journal, "quick", ms(1));
    let engine = harness.engine().workers(20).workflow(stuck).workflow(quick);
    let engine = engine.start().await.unwrap();
    burst(&engine, "stuck", 50).await;
    harness.advance(secs(1)).await;
    assert_eq!(
        journal.most("stuck"),
        18,
        "a tenth of the workers must be reserved for other workflows"
    );
    journal.take();
    for _ in 0..30 {
        let run = start(&engine, "quick", json!({ "n": "quick" })).await;
        harness.advance(ms(2)).await;
        assert_eq!(harness.completed(&engine, run).await, json!({ "n": "quick" }));
    }
}

/// Handler of definitions with a URL.
struct Elsewhere(Journal);

impl Handler for Elsewhere {
    fn call(&self, _: Ctx) -> Pin<Box<dyn Future<Output = Result<Payload>> + Send>> {
        let journal = self.0.clone();
        Box::pin(async move {
            journal.work("call", "call", secs(10)).await;
            Ok(Payload::from_value(&Value::Null))
        })
    }
}

/// spec L3: calls of URLs and local handlers have separate workers.
pub(crate) async fn calls_need_no_workers_of_handlers(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let here = work(&journal, "here", secs(10));
    let calls = journal.clone();
    let code = move |definition: &Definition| -> Option<Arc<dyn Handler>> {
        definition.url.as_ref()?;
        Some(Arc::new(Elsewhere(calls.clone())))
    };
    let engine = harness.engine().workers(2).call_workers(5).workflow(here).handler_resolver(code);
    let engine: Engine = engine.start().await.unwrap();
    engine.define(&json!({ "name": "there", "url": "http://there" })).await.unwrap();
    burst(&engine, "there", 20).await;
    burst(&engine, "here", 5).await;
    harness.advance(secs(5)).await;
    assert_eq!((journal.most("call"), journal.most("here")), (5, 2));
    harness.advance(secs(60)).await;
    assert_eq!(states(harness, "there").await, ["completed"; 20]);
    assert_eq!(states(harness, "here").await, ["completed"; 5]);
}

/// spec L1: if a run finds no free worker, its verdict says so. The verdict of a run that is queued
/// at a gate names the gate.
pub(crate) async fn a_run_without_a_worker_is_queued_by_workers(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let narrow = work(&journal, "narrow", secs(10)).concurrency(Concurrency::limit(1));
    let engine = harness.engine().workers(3).workspaces(["main", "other"]);
    let engine = engine.workflow(work(&journal, "wide", secs(10))).workflow(narrow);
    let engine = engine.start().await.unwrap();
    let mut answer = Vec::new();
    for name in ["wide", "narrow", "narrow", "wide", "wide", "narrow"] {
        let dry = dry_run(&engine, name).await;
        let verdict = verdict(&engine, name, json!({ "n": name })).await;
        assert_eq!((dry.outcome(), dry.waits_for()), (verdict.outcome(), verdict.waits_for()));
        answer.push((verdict.outcome(), verdict.waits_for().unwrap_or_default()));
    }
    let (started, no_worker) = (("started", ""), ("queued", "workers"));
    let in_line = ("queued", "concurrency");
    assert_eq!(answer, [started, started, in_line, started, no_worker, in_line]);
    let several = (0..2).map(|n| tidegate::new_event("wide", json!({ "n": n })).unwrap());
    for posted in engine.send_all(several.collect()).await.unwrap() {
        assert_eq!(posted.runs[0].verdict.waits_for(), Some("workers"));
    }
    let all = engine.stats().await.unwrap().all;
    assert_eq!((all.in_flight, all.queued, all.ready), (3, 5, 3));
    let [here, calls] = &engine.workers()[..] else { panic!("two kinds") };
    let with: Vec<_> = here.with.iter().map(|it| (it.workflow.as_str(), it.runs)).collect();
    assert_eq!(
        (here.kind, here.busy, here.of, &with[..]),
        ("handlers", 3, 3, &[("wide", 2), ("narrow", 1)][..])
    );
    assert_eq!((calls.kind, calls.busy), ("calls", 0));
    // Another workspace does not see which workflows occupy the workers.
    let other = engine.in_workspace("other");
    let verdict = verdict(&other, "wide", json!({ "n": "other" })).await;
    assert_eq!(verdict.waits_for(), Some("workers"));
    let why = other.why(verdict.run().unwrap()).await.unwrap();
    assert!(why.sentence.contains("3 of 3 are busy (3 for other workspaces)"), "{}", why.sentence);
    harness.advance(secs(100)).await;
    assert_eq!(states(harness, "wide").await, ["completed"; 6]);
    assert_eq!(engine.workers()[0].busy, 0);
    assert_eq!(engine.stats().await.unwrap().all.ready, 0);
}

/// spec L1: a run that may use a reserved worker is not reported as waiting.
pub(crate) async fn a_run_that_gets_a_kept_worker_is_started(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let stuck = work(&journal, "stuck", secs(1_000_000));
    let engine =
        harness.engine().workers(20).workflow(stuck).workflow(work(&journal, "quick", ms(1)));
    let engine = engine.start().await.unwrap();
    burst(&engine, "stuck", 18).await;
    for _ in 0..3 {
        assert_eq!(dry_run(&engine, "stuck").await.waits_for(), Some("workers"));
        assert_eq!(dry_run(&engine, "quick").await.outcome(), "started");
        assert_eq!(verdict(&engine, "stuck", json!({})).await.waits_for(), Some("workers"));
        assert_eq!(verdict(&engine, "quick", json!({})).await.outcome(), "started");
        harness.advance(ms(2)).await;
    }
}

/// spec L2: reserved workers are only for workflows whose number of driven runs is below the number
/// of reserved workers.
pub(crate) async fn a_kept_worker_is_for_those_with_few_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness.engine().workers(20).workflow(work(&journal, "many", secs(1000)));
    let engine = engine.workflow(work(&journal, "two", secs(1000)));
    let engine = engine.workflow(work(&journal, "few", secs(1000))).start().await.unwrap();
    burst(&engine, "many", 16).await;
    burst(&engine, "two", 2).await;
    harness.settle().await;
    assert_eq!(verdict(&engine, "two", json!({})).await.waits_for(), Some("workers"));
    for _ in 0..2 {
        assert_eq!(verdict(&engine, "few", json!({})).await.outcome(), "started");
        harness.settle().await;
    }
    assert_eq!((journal.inside("two"), journal.inside("few")), (2, 2));
}
