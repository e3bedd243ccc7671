//! Deferred events and requests, and runs that listen for several events: code and rows of the
//! databases that builds with them have made.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    CancelOn, Ctx, Engine, NewEvent, ServedWorkflow, WaitsFor, new_event, testing::TestHarness,
};

use crate::{
    code::{HOUR, Life, done, workflow},
    make::{call, expect},
};

/// Workflows that deferred events trigger, or that listen for three events.
pub(crate) fn workflows(life: Life) -> Vec<ServedWorkflow> {
    let hearing = |ctx: Ctx, input: Value, life: Life| async move {
        let first = life.mark(&ctx, "first").await?;
        let go = ctx.wait_for_event::<Value>("go", "go").matching("n", &input["n"]);
        go.timeout(24 * HOUR).await?;
        let signed = ctx.wait_for_event::<Value>("signed", "signed");
        let signed = signed.matching("n", &input["n"]).timeout(HOUR).await?;
        Ok(json!([first, signed.map(|event| event["by"].clone())]))
    };
    let hearing = workflow("hearing", life, hearing)
        .cancel_on(CancelOn::event("withdrawn").matching("n", "n"))
        .cancel_on(CancelOn::event("revoked").matching("account", "account").within(48 * HOUR))
        .waits_for(WaitsFor::event("signed").matching("n", "n"));
    vec![hearing.into(), workflow("told", life, done).into()]
}

/// Makes runs that listen, one of which has an event in its inbox, and inputs that are delivered
/// already, later, or never.
pub(crate) async fn fill(harness: &TestHarness, engine: &Engine) {
    let of = |n: u32| json!({ "n": n, "account": format!("account {n}") });
    expect(engine, "hearing", &[of(1), of(2), of(3)], &["started"; 3]).await;
    harness.settle().await;
    engine.send("signed", json!({ "n": 1, "by": "ann" })).await.unwrap();

    let told = |n: u32, delay: Duration| new_event("told", of(n)).unwrap().delay(delay);
    let claimed = NewEvent { dedupe_id: Some("told-3".to_owned()), ..told(3, HOUR) };
    let events = vec![told(1, Duration::from_secs(10)), told(2, HOUR), claimed, told(4, HOUR)];
    let posted = engine.send_all(events).await.unwrap();
    engine.cancel_deferred(posted[3].id, "not told").await.unwrap();
    let line = call("chat", "append", "s5", json!({ "line": "later" })).delay(HOUR);
    engine.dispatch(line).await.unwrap();
}

/// Ends runs by the first and by the second event that they listen for.
pub(crate) async fn end(engine: &Engine) {
    engine.send("revoked", json!({ "account": "account 2" })).await.unwrap();
    engine.send("withdrawn", json!({ "n": 3 })).await.unwrap();
}
