//! Duplicate webhooks: a payment provider sends one delivery twice, and meanwhile another delivery
//! for the same payment.
//!
//! A repeated delivery is recognised by its id for a day, even after the first has finished. Two
//! deliveries for one payment never run at the same time.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, Flow, Idempotency, Policy, Result, new_request, testing::TestHarness,
};

const DAY: Duration = Duration::from_hours(24);

async fn book(ctx: Ctx, webhook: Value) -> Result<Value> {
    // The external service gets an idempotency key, so that it books only once even if the step is
    // executed again after a crash.
    let key = ctx.idempotency_key("book");
    let booked = ctx.step("book", || async { Ok(json!({ "key": key })) }).await?;
    ctx.sleep("settle", Duration::from_secs(10)).await?;
    Ok(json!({ "payment": webhook["payment"], "booked": booked }))
}

async fn deliver(engine: &Engine, delivery: &str, payment: &str) -> Result<&'static str> {
    let input = json!({ "delivery": delivery, "payment": payment });
    let verdict = engine.dispatch(new_request("payments", "book", input)?).await?.verdict;
    println!("{}", verdict.to_value());
    Ok(verdict.outcome())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let book = Action::new("book", book)
        .policy(Policy::reject().key("input.payment"))
        .idempotency(Idempotency::within(DAY).key("input.delivery"));
    let harness = TestHarness::new();
    let engine = harness.engine().flow(Flow::new("payments").action(book)).start().await?;

    assert_eq!(deliver(&engine, "d-1", "p-7").await?, "started");
    assert_eq!(deliver(&engine, "d-1", "p-7").await?, "deduped", "same delivery, repeated at once");
    assert_eq!(
        deliver(&engine, "d-2", "p-7").await?,
        "skipped",
        "another delivery while the payment's run is live"
    );
    assert_eq!(deliver(&engine, "d-3", "p-8").await?, "started", "another payment");
    harness.advance(Duration::from_mins(1)).await;
    assert_eq!(deliver(&engine, "d-1", "p-7").await?, "deduped", "same delivery, repeated later");
    // The skipped delivery is not lost: the provider sends it again, and now the first run has
    // ended.
    assert_eq!(deliver(&engine, "d-2", "p-7").await?, "started");
    harness.advance(Duration::from_mins(1)).await;
    let runs = harness.runs("payments/book").await;
    assert_eq!(runs.iter().filter(|run| run.state == "completed").count(), 3);
    Ok(())
}
