//! Pools, overrides, bounded and fair queues, closed gates, and events that end or precede waits: code and
//! rows of the databases that builds with them have made.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    CancelOn, Concurrency, Ctx, Debounce, Engine, EngineBuilder, Fair, GateToClose, Limited,
    OverrideFields, OverrideTarget, Pool, Queue, Rate, ServedWorkflow, Singleton, WaitsFor,
    Workflow, testing::TestHarness,
};
use tidegate_core::overrides::OverrideChange;

use crate::{
    code::{HOUR, Life, between, done, work, workflow},
    make::expect,
};

/// Adds a pool and the workflows of this file to an engine.
pub(crate) fn serve(mut engine: EngineBuilder, life: Life) -> EngineBuilder {
    let model = Pool::new("model").concurrency(4).throttle(Rate::of(100, HOUR).burst(100));
    engine = engine.pool(model);
    for workflow in workflows(life) {
        engine = engine.workflow(workflow);
    }
    engine
}

fn workflows(life: Life) -> Vec<ServedWorkflow> {
    let settled = |ctx: Ctx, input: Value, life: Life| async move {
        let worked = life.hang(&ctx, "work").await?;
        ctx.settle("model", 2).await?;
        Ok(json!([input["n"], worked]))
    };
    let refused = |ctx: Ctx, input: Value, life: Life| async move {
        let call = ctx.step("call", || async {
            if life == Life::Opened {
                return Ok(life.word().to_owned());
            }
            Err(ctx.close_gate(GateToClose::Concurrency, Duration::from_secs(15 * 60)))
        });
        Ok(json!([input["n"], call.await?]))
    };
    let early = |ctx: Ctx, input: Value, life: Life| async move {
        let first = life.mark(&ctx, "first").await?;
        ctx.sleep("nap", HOUR).await?;
        let verified = ctx.wait_for_event::<Value>("verified", "verified");
        let verified = verified.matching("n", &input["n"]).timeout(HOUR).await?;
        Ok(json!([first, verified.map(|event| event["by"].clone())]))
    };
    let all = move |ctx: Ctx, _: Value| async move {
        let count = ctx.events().map_or(0, <[_]>::len);
        Ok(json!([count, life.mark(&ctx, "work").await?]))
    };
    let whole = || Concurrency::limit(1).for_the_whole_run();
    let asking = workflow("asking", life, settled);
    let asking = asking.concurrency(Concurrency::pool("model").cost("cost"));
    let windows = workflow("windows", life, done).throttle(Rate::of(2, HOUR).burst(2).key("n"));
    let fair = Concurrency::limit(1).fair(Fair::by("account").weight("a", 2));
    vec![
        asking.throttle(Rate::pool("model").cost(5)).into(),
        workflow("mailing", life, work).concurrency(Concurrency::pool("model")).into(),
        workflow("bounded", life, between).concurrency(whole().queue(Queue::of(1))).into(),
        workflow("newest", life, between).singleton(Singleton::latest()).into(),
        windows.throttle(Rate::of(3, 24 * HOUR).burst(3).key("n")).into(),
        Workflow::new("gathering", all).debounce(Debounce::quiet(HOUR).keep_all()).into(),
        workflow("refused", life, refused).concurrency(Concurrency::limit(2)).into(),
        workflow("halted", life, done).concurrency(Concurrency::limit(2).key("account")).into(),
        workflow("raised", life, work).concurrency(Concurrency::limit(1)).into(),
        workflow("fair", life, work).concurrency(fair).into(),
        workflow("resting", life, done).concurrency(Concurrency::limit(1)).into(),
        workflow("leaving", life, between)
            .cancel_on(CancelOn::event("gone").matching("n", "n"))
            .into(),
        workflow("early", life, early)
            .waits_for(WaitsFor::event("verified").matching("n", "n"))
            .into(),
    ]
}

/// Makes runs that wait at a pool, at a full, a closed and a paused gate, and events that have come
/// before their wait.
pub(crate) async fn fill(harness: &TestHarness, engine: &Engine) {
    let of = |n: u32, cost: u32| json!({ "n": n, "cost": cost });
    expect(engine, "asking", &[of(1, 3), of(2, 2)], &["started", "queued"]).await;
    expect(engine, "mailing", &[of(3, 1)], &["queued"]).await;
    let three = [of(1, 1), of(2, 1), of(3, 1)];
    expect(engine, "bounded", &three, &["started", "queued", "rejected"]).await;
    harness.settle().await;
    expect(engine, "newest", &three[..1], &["started"]).await;
    harness.settle().await;
    let later = [of(2, 1), of(2, 1)];
    expect(engine, "newest", &later, &["queued", "replaced"]).await;
    let same = [of(1, 1), of(1, 1), of(1, 1)];
    expect(engine, "windows", &same, &["started", "started", "queued"]).await;
    expect(engine, "gathering", &three, &["coalesced"; 3]).await;
    expect(engine, "refused", &three[..1], &["started"]).await;
    harness.settle().await;
    expect(engine, "refused", &three[1..2], &["queued"]).await;
    let accounts = ["a", "a", "a", "b"].map(|account| json!({ "n": 1, "account": account }));
    expect(engine, "fair", &accounts, &["started", "queued", "queued", "queued"]).await;
    overrides(engine).await;
    expect(engine, "halted", &[json!({ "n": 1, "account": "a" })], &["queued"]).await;
    expect(engine, "raised", &three, &["started", "started", "queued"]).await;
    expect(engine, "leaving", &three[..2], &["started"; 2]).await;
    expect(engine, "early", &three[..1], &["started"]).await;
    harness.settle().await;
    engine.send("verified", json!({ "n": 1, "by": "ann" })).await.unwrap();
    engine.send("gone", json!({ "n": 2 })).await.unwrap();
}

/// Returns the target of a workflow, or of one of its controls.
fn of(workflow: &str, control: Option<Limited>) -> OverrideTarget {
    let (app, workflow) = ("default".to_owned(), workflow.to_owned());
    OverrideTarget { app, workflow, control, ..OverrideTarget::default() }
}

/// Pauses the starts of a workflow.
pub(crate) fn rest() -> OverrideChange {
    let fields = OverrideFields { paused: Some(true), ..OverrideFields::default() };
    let (target, reason, expires_at) = (of("resting", None), None, None);
    OverrideChange::Set { target, fields, reason, expires_at }
}

/// Pauses a key, changes a limit twice, and the weight of a value.
async fn overrides(engine: &Engine) {
    let key = OverrideTarget {
        path: Some("account".to_owned()),
        key: Some(serde_json::from_value(json!("a")).unwrap()),
        ..of("halted", None)
    };
    let paused = OverrideFields { paused: Some(true), ..OverrideFields::default() };
    engine.set_override(key, paused, Some("overdue"), None).await.unwrap();
    for limit in [3, 2] {
        let fields = OverrideFields { limit: Some(limit), ..OverrideFields::default() };
        let target = of("raised", Some(Limited::Concurrency));
        engine.set_override(target, fields, Some("migration"), None).await.unwrap();
    }
    let value =
        OverrideTarget { value: Some("b".to_owned()), ..of("fair", Some(Limited::Concurrency)) };
    let weight = OverrideFields { weight: Some(5), ..OverrideFields::default() };
    engine.set_override(value, weight, None, None).await.unwrap();
}

/// Undoes the last change of every override: what was paused goes on.
pub(crate) async fn undo(engine: &Engine) {
    for change in engine.overrides().await.unwrap() {
        engine.undo_override(change.target).await.unwrap();
    }
}

/// Ends the run that an event cancels.
pub(crate) async fn leave(engine: &Engine) {
    engine.send("gone", json!({ "n": 1 })).await.unwrap();
}
