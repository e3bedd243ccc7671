//! Typed handles: start, status, output, updates and state; and the verdicts of controls on a
//! start.

use serde_json::{Value, json};
use tidegate::{
    Batch, Ctx, Debounce, Error, Idempotency, Rate, Result, RunStatus, RunUpdate, Singleton,
    StepError, Verdict, Workflow, WorkflowRef, testing::TestHarness,
};
use tidegate_core::row::Row;

use crate::words::{secs, states};

/// A workflow that no engine serves.
const NOBODY: WorkflowRef<Value, Value> = WorkflowRef::new("nobody");

/// spec start: a start runs exactly one workflow, whatever its triggers are.
pub(crate) async fn a_start_runs_one_workflow_and_no_other(harness: &TestHarness) {
    let length = Workflow::new("length", async |_: Ctx, text: String| Ok(text.len()));
    let length = length.on_event("text/saved");
    let other = Workflow::new("other", async |_: Ctx, _: Value| Ok(())).on_event("length");
    let reference = length.reference();
    let engine = harness.engine().workflow(length).workflow(other).start().await.unwrap();
    let run = engine.start(&reference, "four".to_owned()).await.unwrap();
    assert!(matches!(run.verdict(), Some(Verdict::Started { .. })));
    assert_eq!(run.output().await.unwrap(), 4);
    assert_eq!(run.status().await.unwrap(), RunStatus::Completed);
    let by_name = engine.start::<_, usize>("length", "by name").await.unwrap();
    assert_eq!(by_name.output().await.unwrap(), 7);
    harness.settle().await;
    assert_eq!(states(harness, "other").await, [""; 0]);

    let error = engine.start(&NOBODY, json!(1)).await.unwrap_err();
    assert_eq!(error.code(), "no_workflow");
    let error = engine.start(&reference.app("shop"), "four".to_owned()).await.unwrap_err();
    assert_eq!(error.code(), "no_workflow", "a workflow of another app must not be found");
}

/// A start is checked against the workflow's schema, as a request is. A start of an action is a
/// request.
pub(crate) async fn a_start_fits_the_schema(harness: &TestHarness) {
    let schema = json!({ "type": "integer", "minimum": 1 });
    let count = Workflow::new("count", async |_: Ctx, n: u32| Ok(n)).schema(schema);
    let echo = tidegate::Action::new("echo", async |_: Ctx, text: String| Ok(text));
    let flow = tidegate::Flow::new("chat").action(echo);
    let engine = harness.engine().workflow(count).flow(flow).start().await.unwrap();
    let error = engine.start::<_, u32>("count", 0).await.unwrap_err();
    assert_eq!(error.code(), "bad_input");
    assert_eq!(engine.start::<_, u32>("count", 1).await.unwrap().output().await.unwrap(), 1);
    let echo = engine.start::<_, String>("chat/echo", "hello").await.unwrap();
    assert_eq!(echo.output().await.unwrap(), "hello");
}

/// A start succeeds if any run takes the input. If a control drops the input, it returns an error
/// with the verdict.
pub(crate) async fn a_start_that_a_control_stops_says_so(harness: &TestHarness) {
    let nap = async |ctx: Ctx, n: u32| {
        ctx.sleep("nap", secs(60)).await?;
        Ok(n)
    };
    let engine = harness
        .engine()
        .workflow(Workflow::new("dropped", nap).rate_limit(Rate::per_hour(1)))
        .workflow(Workflow::new("skipped", nap).singleton(Singleton::skip()))
        .workflow(Workflow::new("deduped", nap).idempotency(Idempotency::within(secs(60))))
        .workflow(Workflow::new("merged", nap).debounce(Debounce::quiet(secs(10))))
        .start()
        .await
        .unwrap();
    let mut firsts = Vec::new();
    for name in ["dropped", "skipped", "deduped", "merged"] {
        firsts.push(engine.start::<_, u32>(name, 1).await.unwrap());
    }
    for (name, part) in [("dropped", "its rateLimit is exceeded"), ("skipped", "is held by run")] {
        let error = engine.start::<_, u32>(name, 2).await.unwrap_err();
        assert_eq!(error.code(), "not_started");
        assert!(error.to_string().contains(part), "{error}");
        let Error::NotStarted { workflow, verdict } = error else { panic!("{error}") };
        assert_eq!((workflow.as_str(), verdict.outcome()), (name, name));
    }
    let again = engine.start::<_, u32>("deduped", 2).await.unwrap();
    assert_eq!(again.id(), firsts[2].id(), "a repeated start must return the run of the first");
    assert!(matches!(again.verdict(), Some(Verdict::Deduped { .. })));
    let merged = engine.start::<_, u32>("merged", 2).await.unwrap();
    assert_eq!(merged.id(), firsts[3].id());
    assert_eq!(
        merged.status().await.unwrap(),
        RunStatus::Queued,
        "a run whose window is open must be queued"
    );
    harness.advance(secs(70)).await;
    assert_eq!(again.output().await.unwrap(), 1);
    assert_eq!(firsts[3].output().await.unwrap(), 2, "the run must get the data of the last start");
}

/// Each start passes one input; the batch's handler gets a list of them.
pub(crate) async fn a_start_joins_a_batch(harness: &TestHarness) {
    let sum = Workflow::new("sum", async |_: Ctx, all: Vec<u32>| Ok(all.iter().sum::<u32>()));
    let sum = sum.batch(Batch::of(3).within(secs(5)));
    let reference: WorkflowRef<u32, u32> = sum.reference();
    let engine = harness.engine().workflow(sum).start().await.unwrap();
    let mut runs = Vec::new();
    for n in [1, 2, 3] {
        runs.push(engine.start(&reference, n).await.unwrap());
    }
    for run in &runs {
        assert_eq!(run.output().await.unwrap(), 6);
    }
}

/// If a run failed or was cancelled, `output` returns an error with its own code.
pub(crate) async fn a_run_without_an_output_is_an_error(harness: &TestHarness) {
    let fail = Workflow::new("fail", async |_: Ctx, (): ()| {
        Err::<(), _>(StepError::coded("NoStock", "there is none left").fatal())
    });
    let nap = Workflow::new("nap", async |ctx: Ctx, (): ()| ctx.sleep("nap", secs(60)).await);
    let (of_fail, of_nap) = (fail.reference(), nap.reference());
    let engine = harness.engine().workflow(fail).workflow(nap).start().await.unwrap();
    let error = engine.start(&of_fail, ()).await.unwrap().output().await.unwrap_err();
    assert_eq!(error.code(), "run_failed");
    let Error::RunFailed { error, .. } = error else { panic!("{error}") };
    assert_eq!((error.code(), error.message()), ("NoStock", "there is none left"));
    let run = engine.start(&of_nap, ()).await.unwrap();
    harness.settle().await;
    assert_eq!(run.status().await.unwrap(), RunStatus::Waiting);
    run.cancel("enough").await.unwrap();
    let error = run.output().await.unwrap_err();
    assert_eq!(error.code(), "run_cancelled");
    assert!(error.to_string().ends_with("was cancelled: enough"), "{error}");
    assert_eq!(engine.handle::<()>(run.id()).status().await.unwrap(), RunStatus::Cancelled);
    let unknown = tidegate::RunId { salt: run.id().salt ^ 1, ..run.id() };
    let error = engine.handle::<()>(unknown).status().await.unwrap_err();
    assert_eq!(error.code(), "no_run");
}

/// All chunks of a run arrive in order and before its end, also those of earlier activations.
pub(crate) async fn updates_arrive_in_order_until_the_end(harness: &TestHarness) {
    let count = Workflow::new("count", async |ctx: Ctx, (): ()| {
        for n in 0..250 {
            ctx.emit(n)?;
        }
        ctx.progress(0.5, "half");
        ctx.sleep("pause", secs(60)).await?;
        ctx.emit(250)
    });
    let reference = count.reference();
    let engine = harness.engine().workflow(count).start().await.unwrap();
    let run = engine.start(&reference, ()).await.unwrap();
    harness.settle().await;
    let (mut updates, mut chunks, mut progress) = (run.updates(), Vec::new(), Vec::new());
    while progress.is_empty() {
        match updates.next().await.expect("the updates ended before the run").unwrap() {
            RunUpdate::Chunk(chunk) => chunks.push(chunk.get::<u32>().unwrap()),
            RunUpdate::Progress(update) => progress.push(update.permille),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((chunks.len(), progress.as_slice()), (250, &[500][..]));
    harness.advance(secs(60)).await;
    while let Some(update) = updates.next().await {
        if let RunUpdate::Chunk(chunk) = update.unwrap() {
            chunks.push(chunk.get::<u32>().unwrap());
        }
    }
    assert_eq!(chunks, (0..=250).collect::<Vec<_>>());
    assert!(updates.next().await.is_none(), "the updates continued after their end");
}

/// State is found by its type. If an engine lacks it, the error names the type, and an engine that
/// has it continues the run.
pub(crate) async fn state_is_found_by_its_type(harness: &TestHarness) {
    struct Rate(u32);
    let convert = || {
        Workflow::new("convert", async |ctx: Ctx, amount: u32| -> Result<u32> {
            Ok(amount * ctx.state::<Rate>()?.0)
        })
    };
    let without = harness.engine().workflow(convert()).start().await.unwrap();
    let run = without.start::<_, u32>("convert", 7).await.unwrap();
    harness.settle().await;
    let rows = harness.store().dump().await.unwrap();
    let failures = rows.iter().filter_map(Row::as_run).map(|run| run.failures.len());
    assert_eq!(failures.sum::<usize>(), 1, "it is retried");
    without.shutdown().await;
    let with = harness.engine().state(Rate(3)).workflow(convert()).start().await.unwrap();
    harness.advance(secs(60)).await;
    assert_eq!(with.handle::<u32>(run.id()).output().await.unwrap(), 21);
    let fatal = convert().retry(tidegate::Retry::attempts(1)).version(2);
    let engine = harness.engine().workflow(fatal).start().await.unwrap();
    with.shutdown().await;
    let error = engine.start::<_, u32>("convert", 7).await.unwrap().output().await.unwrap_err();
    let Error::RunFailed { error: cause, .. } = &error else { panic!("{error}") };
    assert_eq!(cause.code(), "NoState");
    let message = error.to_string();
    assert!(message.contains("workflow `convert` uses state of type `"), "{message}");
    assert!(message.contains("Rate`") && message.contains("EngineBuilder::state"), "{message}");
}

/// A read-only engine answers reads, and refuses writes at once.
pub(crate) async fn a_read_only_engine_refuses_writes(harness: &TestHarness) {
    let count = Workflow::new("count", async |_: Ctx, n: u32| Ok(n));
    let engine = harness.engine().workflow(count).start().await.unwrap();
    let run = engine.start::<_, u32>("count", 1).await.unwrap();
    run.output().await.unwrap();
    let reader = harness.engine().read_only();
    assert_eq!(reader.handle::<u32>(run.id()).output().await.unwrap(), 1);
    let event = tidegate::events::new("a", 1).unwrap();
    let codes = [
        reader.send("count", 1).await.map(drop),
        reader.start::<_, u32>("count", 1).await.map(drop),
        reader.cancel(run.id(), "no").await,
        reader.release("default", "count", 1).await.map(drop),
        reader.define(&json!({ "name": "new" })).await.map(drop),
        reader.streams().commit("s", vec![event], None).await.map(drop),
    ]
    .map(|answer| answer.map_err(|error| error.code()));
    assert_eq!(codes, [Err("engine_read_only"); 6]);
}
