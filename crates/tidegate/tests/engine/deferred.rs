//! Events that a run posts for later.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Ctx, Part, Result, Workflow, testing::TestHarness};

use crate::words::start;

const SECOND: Duration = Duration::from_secs(1);

/// spec L23: a step posts a deferred event once, however often the handler is replayed, and the
/// engine delivers it at its time, after the run has ended.
pub(crate) async fn a_run_posts_an_event_for_later(harness: &TestHarness) {
    let remind = Workflow::new("remind", async |ctx: Ctx, _: Value| -> Result<String> {
        ctx.send_event("later", "user.remind", json!(7)).delay(SECOND * 60).await?;
        ctx.sleep("nap", SECOND).await?;
        let never = ctx.send_event("never", "user.remind", json!(8)).delay(SECOND * 31_536_001);
        Ok(never.await.unwrap_err().code().to_owned())
    });
    let mail = Workflow::new("mail", async |_: Ctx, n: u64| -> Result<u64> { Ok(n) });
    let engine = harness.engine().workflow(remind).workflow(mail.on_event("user.remind"));
    let engine = engine.start().await.unwrap();
    let run = start(&engine, "remind", json!(null)).await;
    harness.settle().await;
    harness.advance(SECOND).await;
    assert_eq!(harness.completed(&engine, run).await, json!("TooFarAhead"));
    let waiting = engine.deferred(Part { below: None, limit: 10 }).await.unwrap().items;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    harness.advance(Duration::from_millis(58_999)).await;
    assert!(harness.runs("mail").await.is_empty(), "delivered too early");
    harness.advance(Duration::from_millis(1)).await;
    let runs = harness.runs("mail").await;
    assert_eq!((runs.len(), runs[0].state), (1, "completed"), "{runs:?}");
    assert!(engine.deferred(Part { below: None, limit: 10 }).await.unwrap().items.is_empty());
}
