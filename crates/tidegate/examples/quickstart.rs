//! The README's program: a durable workflow with a limit, on a SQLite file.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tidegate::{Concurrency, Ctx, Engine, Result, Workflow};

#[derive(Deserialize)]
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

    let sync = Workflow::new("sync.account", sync).concurrency(Concurrency::limit(5).key("name"));
    let engine = Engine::sqlite(dir.join("tidegate.db")).await?.workflow(sync).start().await?;
    let sent = engine.send("sync.account", json!({ "name": "acme" })).await?;
    let run = sent.run().expect("nothing drops it");
    println!("{}", engine.why(run).await?.sentence);
    let output: String = engine.output(run).await??;
    println!("{output}");
    assert_eq!(output, "42 rows of acme");

    engine.shutdown().await;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
