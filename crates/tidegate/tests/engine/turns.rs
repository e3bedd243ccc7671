//! Workers are shared in turns, and one workflow does not get them all.

use std::{pin::Pin, sync::Arc};

use serde_json::{Value, json};
use tidegate::{
    Ctx, Engine, Handler, Result, core::json::Payload, core::workflow::Workflow as Definition,
    testing::Lab,
};

use crate::words::{Journal, burst, ms, secs, start, states, work};

/// L2: the next run of a workflow waits for one run of each other, whatever their backlog is.
pub(crate) async fn workflows_take_turns_for_a_worker(lab: &Lab) {
    let journal = Journal::new(lab);
    let all = ["bulk", "more", "late"].map(|name| work(&journal, name, secs(1)));
    let engine = lab.engine().workers(1);
    let engine = all.into_iter().fold(engine, tidegate::EngineBuilder::workflow);
    let engine = engine.start().await.unwrap();
    for n in 0..20 {
        start(&engine, "bulk", json!({ "n": format!("bulk {n}") })).await;
    }
    for n in 0..20 {
        start(&engine, "more", json!({ "n": format!("more {n}") })).await;
    }
    lab.advance(ms(3500)).await;
    journal.take();
    start(&engine, "late", json!({ "n": "late" })).await;
    lab.advance(secs(3)).await;
    let noted = journal.take();
    assert!(noted.iter().take(2).any(|line| line == "\"late\""), "{noted:?}");
    lab.advance(secs(60)).await;
    assert_eq!(states(lab, "bulk").await, ["completed"; 20]);
}

/// L2: workspaces take turns, however many workflows one of them has.
pub(crate) async fn workspaces_take_turns_for_a_worker(lab: &Lab) {
    let journal = Journal::new(lab);
    let names = ["a", "b", "c", "d", "e"];
    let engine = lab.engine().workers(1).workspaces(["busy", "calm", "idle"]);
    let all = names.iter().map(|name| work(&journal, name, secs(1)));
    let busy = all.fold(engine, tidegate::EngineBuilder::workflow).start().await.unwrap();
    let busy = busy.in_workspace("busy");
    for name in names {
        burst(&busy, name, 10).await;
    }
    lab.advance(ms(2500)).await;
    journal.take();
    let calm = busy.in_workspace("calm");
    for _ in 0..3 {
        start(&calm, "a", json!({ "n": "calm" })).await;
    }
    lab.advance(secs(6)).await;
    let calm: Vec<bool> = journal.take().iter().map(|line| line == "\"calm\"").collect();
    assert_eq!(calm, [true, false, true, false, true, false], "every other one");
}

/// L2: one workflow whose runs never end leaves workers to the others.
pub(crate) async fn a_workflow_that_hangs_does_not_get_all_workers(lab: &Lab) {
    let journal = Journal::new(lab);
    let stuck = work(&journal, "stuck", secs(1_000_000));
    let quick = work(&journal, "quick", ms(1));
    let engine = lab.engine().workers(20).workflow(stuck).workflow(quick);
    let engine = engine.start().await.unwrap();
    burst(&engine, "stuck", 50).await;
    lab.advance(secs(1)).await;
    assert_eq!(journal.most("stuck"), 18, "a tenth is kept for others");
    journal.take();
    for _ in 0..30 {
        let run = start(&engine, "quick", json!({ "n": "quick" })).await;
        lab.advance(ms(2)).await;
        assert_eq!(lab.completed(&engine, run).await, json!({ "n": "quick" }));
    }
}

/// A handler that is called instead of a URL.
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

/// L3: calls and handlers have workers of their own.
pub(crate) async fn calls_need_no_workers_of_handlers(lab: &Lab) {
    let journal = Journal::new(lab);
    let here = work(&journal, "here", secs(10));
    let calls = journal.clone();
    let code = move |definition: &Definition| -> Option<Arc<dyn Handler>> {
        definition.url.as_ref()?;
        Some(Arc::new(Elsewhere(calls.clone())))
    };
    let engine = lab.engine().workers(2).call_workers(5).workflow(here).code_for(code);
    let engine: Engine = engine.start().await.unwrap();
    engine.define(&json!({ "name": "there", "url": "http://there" })).await.unwrap();
    burst(&engine, "there", 20).await;
    burst(&engine, "here", 5).await;
    lab.advance(secs(5)).await;
    assert_eq!((journal.most("call"), journal.most("here")), (5, 2));
    lab.advance(secs(60)).await;
    assert_eq!(states(lab, "there").await, ["completed"; 20]);
    assert_eq!(states(lab, "here").await, ["completed"; 5]);
}
