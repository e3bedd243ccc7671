//! Every control, each on a workflow of its own. Prints the verdicts on a burst of three events (a,
//! b and c) and the time at which each one runs.
//!
//! A run takes one second of the harness's virtual clock, so no real time passes.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate::{
    Batch, Concurrency, Ctx, Debounce, Engine, EngineBuilder, Handoff, Idempotency, OnNewVersion,
    Rate, Result, Singleton, Timer, Workflow, new_event, testing::TestHarness,
};

const SECOND: Duration = Duration::from_secs(1);

/// Inputs of the executed runs, each with its start time.
type Ran = Arc<Mutex<Vec<String>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    show("none", |it| it, "started started started: a 0s, b 0s, c 0s").await?;
    let limit = Concurrency::limit(2);
    show("concurrency", |it| it.concurrency(limit), "started started queued: a 0s, b 0s, c 1s")
        .await?;
    let pace = Rate::of(1, 10 * SECOND);
    show("throttle", |it| it.throttle(pace), "started queued queued: a 0s, b 10s, c 20s").await?;
    let rate = Rate::per_hour(2).burst(2);
    show("rateLimit", |it| it.rate_limit(rate), "started started dropped: a 0s, b 0s").await?;
    let quiet = Debounce::quiet(5 * SECOND);
    show("debounce", |it| it.debounce(quiet), "coalesced coalesced coalesced: c 5s").await?;
    let skip = Singleton::skip();
    show("singleton skip", |it| it.singleton(skip), "started skipped skipped: a 0s").await?;
    let cancel = Singleton::cancel();
    show("singleton cancel", |it| it.singleton(cancel), "started replaced replaced: c 0s").await?;
    let once = Idempotency::within(60 * SECOND);
    show("idempotency", |it| it.idempotency(once), "started deduped deduped: a 0s").await?;
    let drain = Handoff::singleton(OnNewVersion::Drain);
    show("handoff", |it| it.handoff(drain), "started queued queued: a 0s, b 1s, c 2s").await?;

    // The two cases below need another setup: a batch takes a list of inputs, and turns are visible
    // only with two workflows that share one worker.
    let (harness, ran) = (TestHarness::new(), Ran::default());
    let batch = work::<Vec<Value>>("work", &harness, &ran).on_event("letter/*");
    let batch = batch.batch(Batch::of(2).within(5 * SECOND));
    let engine = harness.engine().workflow(batch);
    burst("batch", &harness, engine, &ran, "buffered started buffered: [a,b] 0s, [c] 5s").await?;

    let (harness, ran) = (TestHarness::new(), Ran::default());
    let bulk = work::<Value>("bulk", &harness, &ran).on_event("letter/a").on_event("letter/b");
    let other = work::<Value>("other", &harness, &ran).on_event("letter/c");
    let engine = harness.engine().workers(1).workflow(bulk).workflow(other);
    burst("turns", &harness, engine, &ran, "started queued queued: a 0s, c 1s, b 2s").await
}

/// Sends the burst to a workflow with one control.
async fn show(
    control: &str,
    define: impl FnOnce(Workflow<Value, ()>) -> Workflow<Value, ()>,
    expected: &str,
) -> Result<()> {
    let (harness, ran) = (TestHarness::new(), Ran::default());
    let workflow = define(work("work", &harness, &ran).on_event("letter/*"));
    burst(control, &harness, harness.engine().workflow(workflow), &ran, expected).await
}

/// Sends the burst, advances the clock by a minute, and checks the verdicts and the start times.
async fn burst(
    control: &str,
    harness: &TestHarness,
    engine: EngineBuilder,
    ran: &Ran,
    expected: &str,
) -> Result<()> {
    let engine: Engine = engine.start().await?;
    let burst = ["a", "b", "c"].map(|it| new_event(&format!("letter/{it}"), json!(it)));
    let posted = engine.send_all(burst.into_iter().collect::<Result<_, _>>()?).await?;
    let told: Vec<&str> = posted.iter().map(|it| it.runs[0].verdict.outcome()).collect();
    harness.advance(60 * SECOND).await;
    let happened = format!("{}: {}", told.join(" "), ran.lock().expect("it is whole").join(", "));
    println!("{control:<16} {happened}");
    assert_eq!(happened, expected);
    Ok(())
}

/// Returns a workflow that records its input and takes one second.
fn work<I>(name: &str, harness: &TestHarness, ran: &Ran) -> Workflow<I, ()>
where
    I: DeserializeOwned + Into<Value> + Send + 'static,
{
    let (timer, ran) = (harness.timer(), ran.clone());
    Workflow::new(name, move |ctx: Ctx, input: I| {
        worked(ctx, timer.clone(), ran.clone(), input.into())
    })
}

async fn worked(ctx: Ctx, timer: Arc<dyn Timer>, ran: Ran, input: Value) -> Result<()> {
    let work = ctx.step("work", || async move {
        let now = timer.elapsed();
        let line = format!("{} {}s", input.to_string().replace('"', ""), now.as_secs());
        ran.lock().expect("it is whole").push(line);
        timer.sleep_until(now + SECOND).await;
        Ok(())
    });
    work.await
}
