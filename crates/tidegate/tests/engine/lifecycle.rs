//! Events at the end of a run.

use serde_json::{Value, json};
use tidegate::{Ctx, Retry, StepError, Workflow, testing::TestHarness};

use crate::words::{recorded, secs, sharing, start, states};

/// A workflow that does as its input says, and posts events at its end.
fn job() -> Workflow<Value, Value> {
    let definition = json!({ "name": "job", "endEvents": {
        "completed": ["job/finished"],
        "failed": ["job/failed", "job/finished"],
        "cancelled": ["job/cancelled"],
        "data": { "function_id": "app-job" },
    } });
    Workflow::from_definition(definition, |ctx: Ctx, input: Value| async move {
        match input["how"].as_str() {
            Some("fail") => {
                let error = StepError::coded("TypeError", "boom").fatal();
                Err(error.with_details(json!({ "stack": "at a.js:1" })))
            }
            Some("sleep") => {
                ctx.sleep("nap", secs(1000)).await?;
                Ok(input)
            }
            _ => Ok(input),
        }
    })
}

/// A workflow that is triggered by an event, and returns its data.
fn watcher(name: &str, event: &str) -> Workflow<Value, Value> {
    let watch = async |_: Ctx, data: Value| Ok(data);
    Workflow::new(name, watch).on_event(event).retry(Retry::attempts(1))
}

async fn outputs(harness: &TestHarness, engine: &tidegate::Engine, name: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for run in harness.runs(name).await {
        all.push(harness.completed(engine, run.id).await);
    }
    all
}

/// spec end-events: the end of a run posts its events once, with the members of the definition, the
/// run, its input, and its result or its error with its details.
pub(crate) async fn the_end_of_a_run_posts_events(harness: &TestHarness) {
    let engine = harness.engine().workflow(job());
    let engine = engine.workflow(watcher("failures", "job/failed"));
    let engine = engine.workflow(watcher("ends", "job/*"));
    let engine = engine.start().await.unwrap();
    let good = start(&engine, "job", json!({ "how": "return" })).await;
    harness.settle().await;
    let bad = start(&engine, "job", json!({ "how": "fail" })).await;
    harness.settle().await;
    let gone = start(&engine, "job", json!({ "how": "sleep" })).await;
    harness.settle().await;
    engine.cancel(gone, "by hand").await.unwrap();
    harness.settle().await;
    let failures = outputs(harness, &engine, "failures").await;
    assert_eq!(failures.len(), 1, "a failure must be handled once");
    let failure = &failures[0];
    assert_eq!((&failure["function_id"], &failure["run_id"]), (&json!("app-job"), &json!(bad)));
    let error = json!({ "name": "TypeError", "message": "boom", "stack": "at a.js:1" });
    assert_eq!(failure["error"], error);
    assert_eq!(failure["event"]["data"], json!({ "how": "fail" }));
    assert_eq!(failure["events"], json!([failure["event"]]));
    let ends = outputs(harness, &engine, "ends").await;
    let runs: Vec<_> = ends.iter().map(|end| end["run_id"].clone()).collect();
    assert_eq!(runs, [json!(good), json!(bad), json!(bad), json!(gone)]);
    assert_eq!(ends[0]["result"], json!({ "how": "return" }));
    assert_eq!(ends[3]["error"]["message"], json!("by hand"));
}

/// spec end-events: an event that triggers nobody is not recorded, and a run that such an event has
/// started posts none.
pub(crate) async fn only_events_that_trigger_are_posted(harness: &TestHarness) {
    let chain = json!({ "name": "chain", "triggers": [{ "event": "job/finished" }],
        "endEvents": { "completed": ["job/finished", "chain/finished"] } });
    let chain = Workflow::from_definition(chain, async |_: Ctx, _: Value| Ok(json!(null)));
    let engine = harness.engine().workflow(job()).workflow(chain).start().await.unwrap();
    start(&engine, "job", json!({ "how": "return" })).await;
    start(&engine, "job", json!({ "how": "fail" })).await;
    harness.advance(secs(100)).await;
    assert_eq!(states(harness, "chain").await, ["completed"; 2]);
    assert_eq!(recorded(harness, "job/finished").await, 2);
    for name in ["job/failed", "job/cancelled", "chain/finished"] {
        assert_eq!(recorded(harness, name).await, 0, "{name} triggers nobody");
    }
}

/// spec end-events: a batch posts none if one of its events is such an event, wherever it stands.
pub(crate) async fn a_batch_with_an_end_event_posts_none(harness: &TestHarness) {
    let batch = json!({ "name": "job", "triggers": ["job", "job/finished"],
        "batch": { "maxSize": 2, "timeoutMs": 1000 },
        "endEvents": { "completed": ["job/finished"] } });
    let batch = Workflow::from_definition(batch, async |_: Ctx, _: Value| Ok(json!(null)));
    let engine = harness.engine().workflow(batch).start().await.unwrap();
    for name in ["job", "job/finished"] {
        engine.send(name, json!(null)).await.unwrap();
    }
    harness.advance(secs(10)).await;
    assert_eq!(states(harness, "job").await, ["completed"]);
    assert_eq!(recorded(harness, "job/finished").await, 1, "the run has posted another one");
}

/// spec end-events: an event that triggers nobody is recorded if a run waits for it with its value,
/// whether the run or the definition was first, or if it cancels a run.
pub(crate) async fn an_end_event_reaches_a_run_that_waits(harness: &TestHarness) {
    let waiter = Workflow::new("waiter", async |ctx: Ctx, of: String| {
        let end = ctx.wait_for_event::<Value>("end", "job/finished");
        end.matching("function_id", of).timeout(secs(10_000)).await
    });
    let fragile = json!({ "name": "fragile",
        "cancelOn": [{ "event": "job/failed", "if": { "lenient": "true" } }] });
    let fragile = Workflow::from_definition(fragile, async |ctx: Ctx, _: Value| {
        ctx.sleep("nap", secs(10_000)).await
    });
    let first = sharing(harness).workflow(waiter).workflow(fragile).start().await.unwrap();
    let early = start(&first, "waiter", json!("app-job")).await;
    harness.settle().await;
    let second = sharing(harness).workflow(job()).start().await.unwrap();
    let ends = async |how: &str| {
        let run = start(&second, "job", json!({ "how": how })).await;
        harness.advance(secs(10)).await;
        run
    };
    let run = ends("return").await;
    assert_eq!(harness.completed(&first, early).await["run_id"], json!(run));
    ends("return").await;
    start(&first, "waiter", json!("app-other")).await;
    ends("return").await;
    assert_eq!(recorded(harness, "job/finished").await, 1, "nobody waits for the last two");
    let late = start(&first, "waiter", json!("app-job")).await;
    harness.settle().await;
    let run = ends("fail").await;
    assert_eq!(harness.completed(&first, late).await["run_id"], json!(run));
    assert_eq!(recorded(harness, "job/failed").await, 0);
    start(&first, "fragile", json!({})).await;
    harness.settle().await;
    ends("fail").await;
    assert_eq!(states(harness, "fragile").await, ["cancelled"]);
    assert_eq!(recorded(harness, "job/failed").await, 1);
    assert_eq!(states(harness, "waiter").await, ["completed", "waiting", "completed"]);
}

/// spec end-events: the events are recorded with the end: an engine that crashes right after it
/// loses none.
pub(crate) async fn end_events_outlive_a_crash(harness: &TestHarness) {
    let build = || sharing(harness).workflow(job());
    // The definition is served by the second engine only.
    let second = sharing(harness).workflow(watcher("ends", "job/finished")).start().await.unwrap();
    let first = build().start().await.unwrap();
    for _ in 0..20 {
        start(&first, "job", json!({ "how": "return" })).await;
    }
    harness.settle().await;
    harness.crash(&first).await;
    let third = build().start().await.unwrap();
    harness.advance(secs(300)).await;
    assert_eq!(states(harness, "job").await, ["completed"; 20]);
    assert_eq!(outputs(harness, &second, "ends").await.len(), 20);
    third.shutdown().await;
}
