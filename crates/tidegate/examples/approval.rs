//! Human approval with a timeout of three days. A waiting run costs only its row in the store, and
//! survives every restart.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, Result, Workflow, testing::TestHarness};

const DAY: Duration = Duration::from_hours(24);

#[derive(Serialize, Deserialize)]
struct Answer {
    by: String,
    yes: bool,
}

#[derive(Serialize, Deserialize)]
struct Expense {
    amount: u32,
}

async fn expense(ctx: Ctx, expense: Expense) -> Result<String> {
    let wait = ctx.wait_for_signal::<Answer>("answer", "approval").timeout(3 * DAY);
    Ok(match wait.await? {
        Some(Answer { by, yes: true }) => format!("{} paid, {by} agreed", expense.amount),
        Some(Answer { by, yes: false }) => format!("{by} said no"),
        None => "nobody answered in three days".to_owned(),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let harness = TestHarness::new();
    let serve = || harness.engine().workflow(Workflow::new("expense", expense));
    let expense = Workflow::new("expense", expense).reference();
    let engine = serve().start().await?;
    let lunch = engine.start(&expense, Expense { amount: 12 }).await?;
    let yacht = engine.start(&expense, Expense { amount: 9_000_000 }).await?;

    harness.advance(2 * DAY).await;
    println!("{}", lunch.why().await?.sentence);
    assert_eq!(engine.driven(), 0, "a waiting run occupies a worker");
    // A restart for a deploy does not disturb the waiting run.
    engine.shutdown().await;
    let engine = serve().start().await?;
    let [lunch, yacht] = [lunch, yacht].map(|run| engine.handle::<String>(run.id()));
    lunch.signal("approval", Answer { by: "Grace".to_owned(), yes: true }).await?;
    harness.advance(DAY).await;

    for (run, expected) in
        [(lunch, "12 paid, Grace agreed"), (yacht, "nobody answered in three days")]
    {
        let output = run.output().await?;
        println!("{output}");
        assert_eq!(output, expected);
    }
    Ok(())
}
