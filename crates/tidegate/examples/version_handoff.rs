//! Version handoff: a new version of a long-lived agent (one run per customer) is deployed while
//! the agent works.
//!
//! One process serves both versions. With `drain` the old run finishes first; with `supersede` the
//! old run is cancelled and the new one starts.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Ctx, Engine, Handoff, OnNewVersion, Result, RunId, Workflow, testing::TestHarness};

const HOUR: Duration = Duration::from_hours(1);

async fn agent(ctx: Ctx, _: Value) -> Result<String> {
    ctx.sleep("shift", 8 * HOUR).await?;
    Ok(format!("worked a shift as version {}", ctx.version()))
}

fn version(name: &str, version: u32, on_new: OnNewVersion) -> Workflow<Value, String> {
    Workflow::new(name, agent).version(version).handoff(Handoff::keyed("customer", on_new))
}

async fn begin(engine: &Engine, name: &str) -> Result<(RunId, &'static str)> {
    let sent = engine.send(name, json!({ "customer": "acme" })).await?;
    Ok((sent.run().expect("it runs or waits"), sent.runs[0].verdict.outcome()))
}

async fn deploy(name: &str, on_new: OnNewVersion) -> Result<[String; 3]> {
    let harness = TestHarness::new();
    let engine = harness.engine().workflow(version(name, 1, on_new)).start().await?;
    let (old, _) = begin(&engine, name).await?;
    harness.advance(HOUR).await;
    engine.shutdown().await;

    // The new program serves both versions; new runs use the highest.
    let serving = harness.engine().workflow(version(name, 1, on_new));
    let engine = serving.workflow(version(name, 2, on_new)).start().await?;
    let (new, outcome) = begin(&engine, name).await?;
    println!("{name}: the newcomer is {outcome}; {}", engine.why(new).await?.sentence);
    harness.advance(24 * HOUR).await;
    let mut ends = Vec::new();
    for run in [old, new] {
        let end = engine.handle::<String>(run).output().await;
        println!("  {end:?}");
        ends.push(end.unwrap_or_else(|error| error.code().to_owned()));
    }
    Ok([outcome.to_owned(), ends.remove(0), ends.remove(0)])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (one, two) = ("worked a shift as version 1", "worked a shift as version 2");
    assert_eq!(deploy("agent.drained", OnNewVersion::Drain).await?, ["queued", one, two]);
    let superseded = deploy("agent.superseded", OnNewVersion::Supersede).await?;
    assert_eq!(superseded, ["replaced", "run_cancelled", two]);
    Ok(())
}
