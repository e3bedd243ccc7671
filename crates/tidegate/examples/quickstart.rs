//! The README's program: a durable workflow with a limit, on a SQLite file.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::prelude::*;

#[derive(Serialize, Deserialize)]
struct Account {
    name: String,
}

async fn sync(ctx: Ctx, account: Account) -> Result<String> {
    // The step's result is recorded: after a crash the run continues behind it.
    let rows = ctx.step("fetch", || async { Ok(42) }).await?;
    // Sleeping runs need no worker.
    ctx.sleep("pause", Duration::from_millis(50)).await?;
    Ok(format!("{rows} rows of {}", account.name))
}

#[tokio::main]
async fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("tidegate-quickstart-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;

    let workflow =
        Workflow::new("sync.account", sync).concurrency(Concurrency::limit(5).key("name"));
    let sync = workflow.reference();
    let engine = Engine::sqlite(dir.join("tidegate.db")).await?.workflow(workflow).start().await?;
    let run = engine.start(&sync, Account { name: "acme".to_owned() }).await?;
    println!("{}", run.why().await?.sentence);
    let output = run.output().await?;
    println!("{output}");
    assert_eq!(output, "42 rows of acme");

    engine.shutdown().await;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
