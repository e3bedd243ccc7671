//! Deploys of code without a version number. Such code continues the runs of all versions that were
//! registered without a number, older and newer, so it serves deploys and rollbacks.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Engine, Retry, RunId, Singleton, StepError, Workflow, testing::TestHarness,
};
use tidegate_core::row::{Ending, Row};

use crate::words::{Warnings, secs, sharing, start, states, verdict};

/// A build of the workflow `order` without a version number. Each limit makes a separate version,
/// and the output names the build that finished the run.
fn order(limit: u32) -> Workflow<Value, Value> {
    let code = move |ctx: Ctx, input: Value| async move {
        ctx.sleep("nap", secs(input["nap"].as_u64().unwrap_or(10))).await?;
        Ok(json!([limit, ctx.version()]))
    };
    Workflow::new("order", code).concurrency(Concurrency::limit(limit))
}

async fn deploy(harness: &TestHarness, limit: u32) -> Engine {
    sharing(harness).workflow(order(limit)).start().await.unwrap()
}

/// Returns the number of registered versions of `order`.
async fn versions(harness: &TestHarness) -> usize {
    let rows = harness.store().dump().await.unwrap();
    rows.iter().filter(|row| matches!(row, Row::Def(def) if def.name == "order")).count()
}

async fn sleeping(engine: &Engine, harness: &TestHarness) -> RunId {
    let run = start(engine, "order", json!({})).await;
    harness.advance(secs(1)).await;
    assert_eq!(states(harness, "order").await.last(), Some(&"waiting"));
    run
}

/// spec versions: newer code continues the sleeping runs of the previous version.
pub(crate) async fn rolling_forward_strands_nobody(harness: &TestHarness) {
    let first = deploy(harness, 5).await;
    let old = sleeping(&first, harness).await;
    first.shutdown().await;
    let second = deploy(harness, 6).await;
    let new = sleeping(&second, harness).await;
    assert!(!second.why(old).await.unwrap().stranded);
    harness.advance(secs(20)).await;
    assert_eq!(harness.completed(&second, old).await, json!([6, 1]));
    assert_eq!(harness.completed(&second, new).await, json!([6, 2]));
}

/// spec versions: after a rollback, older code continues the runs of the newer version, and the
/// older controls apply again. Deploying the same programs in turn makes no new versions.
pub(crate) async fn rolling_back_strands_nobody(harness: &TestHarness) {
    deploy(harness, 5).await.shutdown().await;
    let mut runs = Vec::new();
    for limit in [6, 5, 6, 5] {
        let engine = deploy(harness, limit).await;
        runs.push((sleeping(&engine, harness).await, limit - 4));
        engine.shutdown().await;
    }
    assert_eq!(versions(harness).await, 2);
    let last = deploy(harness, 5).await;
    harness.advance(secs(20)).await;
    for (run, version) in runs {
        assert_eq!(harness.completed(&last, run).await, json!([5, version]));
    }
}

/// spec versions: if both programs run, each drives the runs of both versions, also of a version
/// that was registered after it started. If one dies, the other finishes all runs.
pub(crate) async fn both_programs_at_once_finish_all_runs(harness: &TestHarness) {
    for survivor in [0, 1] {
        let old = deploy(harness, 5).await;
        let first = sleeping(&old, harness).await;
        let new = deploy(harness, 6 + survivor).await;
        let second = sleeping(&new, harness).await;
        let (gone, left) = if survivor == 0 { (new, old) } else { (old, new) };
        harness.crash(&gone).await;
        // When the lease of the crashed engine has expired, only the other engine serves these
        // runs.
        harness.advance(secs(60)).await;
        let limit = [5, 7][survivor as usize];
        assert_eq!(harness.completed(&left, first).await[0], json!(limit));
        assert_eq!(harness.completed(&left, second).await[0], json!(limit));
        let third = sleeping(&left, harness).await;
        harness.advance(secs(20)).await;
        assert_eq!(harness.completed(&left, third).await[0], json!(limit));
        left.shutdown().await;
    }
}

/// spec B108, B112: `singleton skip` skips only while the holder is live. A deploy leaves no stale
/// holder.
pub(crate) async fn a_singleton_is_free_again_after_a_deploy(harness: &TestHarness) {
    let order = |limit| order(limit).singleton(Singleton::skip());
    let first = sharing(harness).workflow(order(5)).start().await.unwrap();
    start(&first, "order", json!({})).await;
    harness.advance(secs(1)).await;
    first.shutdown().await;
    let second = sharing(harness).workflow(order(6)).start().await.unwrap();
    assert_eq!(verdict(&second, "order", json!({})).await.outcome(), "skipped");
    harness.advance(secs(20)).await;
    assert_eq!(verdict(&second, "order", json!({})).await.outcome(), "started");
}

/// spec versions: the limit of the program that was deployed last applies to the runs of all
/// versions.
pub(crate) async fn the_newest_controls_rule(harness: &TestHarness) {
    let first = deploy(harness, 1).await;
    let nap = json!({ "nap": 1000 });
    for _ in 0..3 {
        start(&first, "order", nap.clone()).await;
    }
    harness.advance(secs(1)).await;
    first.shutdown().await;
    let wide = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        ctx.sleep("nap", secs(1000)).await?;
        Ok(json!("done"))
    });
    let wide = wide.concurrency(Concurrency::limit(2).for_the_whole_run());
    let second = sharing(harness).workflow(wide).start().await.unwrap();
    for _ in 0..3 {
        start(&second, "order", nap.clone()).await;
    }
    harness.advance(secs(1)).await;
    let all = states(harness, "order").await;
    assert_eq!(all[..3], ["waiting"; 3], "sleeping runs must not count under the old limit");
    assert_eq!(all[3..], ["waiting", "waiting", "queued"]);
}

/// spec versions: code without a version number does not drive runs of a numbered version, and code
/// with a number does not drive runs of versions without one.
pub(crate) async fn a_number_pins(harness: &TestHarness) {
    let numbered = sharing(harness).workflow(order(5).version(1)).start().await.unwrap();
    let pinned = sleeping(&numbered, harness).await;
    numbered.shutdown().await;
    let plain = deploy(harness, 6).await;
    let assigned = sleeping(&plain, harness).await;
    harness.advance(secs(20)).await;
    assert!(plain.why(pinned).await.unwrap().stranded);
    assert_eq!(harness.completed(&plain, assigned).await, json!([6, 2]));
    let assigned = sleeping(&plain, harness).await;
    plain.shutdown().await;
    let numbered = sharing(harness).workflow(order(7).version(3)).start().await.unwrap();
    harness.advance(secs(20)).await;
    for run in [pinned, assigned] {
        assert!(numbered.why(run).await.unwrap().stranded);
    }
    numbered.shutdown().await;
    let also = order(7).version(3).also_serves(1..=2);
    let also = sharing(harness).workflow(also).start().await.unwrap();
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&also, pinned).await, json!([7, 1]));
    assert_eq!(harness.completed(&also, assigned).await, json!([7, 2]));
}

/// spec versions: in development mode a definition can change under the same number, given or
/// assigned, and live runs continue with the new code.
pub(crate) async fn development_changes_a_definition_in_its_place(harness: &TestHarness) {
    for given in [false, true] {
        let name = if given { "given" } else { "assigned" };
        let build = |limit: u32| {
            let code = move |ctx: Ctx, _: Value| async move {
                ctx.sleep("nap", secs(10)).await?;
                Ok(json!([limit, ctx.version()]))
            };
            let order = Workflow::new(name, code).concurrency(Concurrency::limit(limit));
            sharing(harness).workflow(if given { order.version(1) } else { order })
        };
        let first = build(5).start().await.unwrap();
        let run = start(&first, name, json!({})).await;
        harness.advance(secs(1)).await;
        first.shutdown().await;
        if given {
            assert!(
                build(6).start().await.is_err(),
                "outside of development mode a changed definition must need a new number"
            );
        }
        let second = build(6).dev().start().await.unwrap();
        harness.advance(secs(20)).await;
        assert_eq!(harness.completed(&second, run).await, json!([6, 1]));
        let new = start(&second, name, json!({})).await;
        harness.advance(secs(20)).await;
        assert_eq!(harness.completed(&second, new).await, json!([6, 1]));
        second.shutdown().await;
    }
}

/// spec versions: a schedule that newer code introduced continues when only older code runs.
pub(crate) async fn older_code_keeps_the_schedules_of_newer(harness: &TestHarness) {
    let old = deploy(harness, 5).await;
    let new = sharing(harness).workflow(order(6).cron("* * * * *", "UTC")).start().await.unwrap();
    harness.advance(secs(1)).await;
    new.shutdown().await;
    harness.advance(secs(90)).await;
    assert!(!states(harness, "order").await.is_empty());
    old.shutdown().await;
}

/// If the current code has no failure handler, the run's own handler is not executed in its place.
pub(crate) async fn a_failure_handler_that_is_gone_repeats_nothing(harness: &TestHarness) {
    let work = Arc::new(Mutex::new(0));
    let build = |limit: u32| {
        let work = work.clone();
        let code = move |ctx: Ctx, _: Value| {
            let work = work.clone();
            async move {
                ctx.sleep("nap", secs(10)).await?;
                *work.lock().unwrap() += 1;
                Err::<Value, _>(StepError::new("no").fatal())
            }
        };
        let order = Workflow::new("order", code).retry(Retry::attempts(2).fixed(secs(1)));
        order.concurrency(Concurrency::limit(limit))
    };
    let handled = build(5).on_failure(|_: Ctx, _: Value| async { Ok(()) });
    let first = sharing(harness).workflow(handled).start().await.unwrap();
    sleeping(&first, harness).await;
    first.shutdown().await;
    let second = sharing(harness).workflow(build(6)).start().await.unwrap();
    harness.advance(secs(30)).await;
    assert_eq!(*work.lock().unwrap(), 1, "the run itself");
    let after = harness.runs("order").await.pop().expect("the run of the failure handler");
    let ending = second.ended(after.id).await.unwrap().ending;
    let Ending::Failed { error } = ending else { panic!("{ending:?}") };
    assert_eq!(error.code, "NoFailureHandler");
}

/// spec versions: runs that no engine serves are logged when an engine starts, once per version,
/// with possible fixes. Runs of a crashed engine are logged when its lease has expired.
pub(crate) async fn runs_that_nobody_serves_are_listed(harness: &TestHarness) {
    let (warnings, _listening) = Warnings::listen();
    let lines = || -> Vec<String> {
        warnings.take().into_iter().filter(|line| line.contains("no live engine serves")).collect()
    };
    let first = sharing(harness).workflow(order(5).version(1)).start().await.unwrap();
    for _ in 0..3 {
        start(&first, "order", json!({})).await;
    }
    harness.advance(secs(1)).await;
    first.shutdown().await;
    assert_eq!(lines(), Vec::<String>::new(), "all are served");
    let second = sharing(harness).workflow(order(6).version(2)).start().await.unwrap();
    harness.advance(secs(1)).await;
    let listed = lines();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let fields = ["workspace=default", "workflow=\"order\"", "version=1", "runs=3", "also_serves"];
    for field in fields {
        assert!(listed[0].contains(field), "the warning lacks the field {field}: {listed:?}");
    }
    harness.advance(secs(100)).await;
    assert_eq!(lines(), Vec::<String>::new(), "once");
    start(&second, "order", json!({ "nap": 1000 })).await;
    harness.advance(secs(1)).await;
    harness.crash(&second).await;
    let third = sharing(harness).workflow(order(7).version(3)).start().await.unwrap();
    harness.advance(secs(1)).await;
    assert!(
        lines().iter().all(|line| line.contains("version=1")),
        "version 2 was logged before the lease of its engine expired"
    );
    harness.advance(secs(100)).await;
    let listed = lines();
    assert!(listed.len() == 1 && listed[0].contains("version=2"), "{listed:?}");
    third.shutdown().await;
}
