//! Saga: an order takes three steps in three systems. When the last step fails permanently, the
//! compensations of the earlier steps run, newest first, in a separate run.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{Ctx, Result, Retry, StepError, Workflow, testing::TestHarness};

/// The external systems: the calls they received, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    async fn ask(&self, what: &str) -> Result<()> {
        println!("  {what}");
        self.0.lock().expect("it is whole").push(what.to_owned());
        tokio::task::yield_now().await; // stands for the time of a call to another service
        Ok(())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("it is whole"))
    }
}

async fn order(ctx: Ctx, world: World, order: Value) -> Result<String> {
    // Registered before the step, so that the effect can be undone as soon as it may have happened.
    let undo = world.clone();
    ctx.compensate("reserved", move || async move { undo.ask("release").await }).await?;
    ctx.step("reserve", || world.ask("reserve")).await?;

    let undo = world.clone();
    ctx.compensate("charged", move || async move { undo.ask("refund").await }).await?;
    ctx.step("charge", || world.ask("charge")).await?;

    let ship = ctx.step("ship", || async {
        world.ask("ship").await?;
        match order["to"].as_str() {
            Some("nowhere") => Err(StepError::new("there is no such place")),
            _ => Ok(()),
        }
    });
    ship.retry(Retry::attempts(2).fixed(Duration::from_mins(1))).await?;
    Ok("shipped".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (harness, world) = (TestHarness::new(), World::default());
    let outside = world.clone();
    let workflow = Workflow::new("order", move |ctx, it| order(ctx, outside.clone(), it));
    let engine = harness.engine().workflow(workflow).start().await?;

    println!("an order that goes well:");
    let run = engine.send("order", json!({ "to": "Berlin" })).await?.run().expect("it runs");
    harness.advance(Duration::from_mins(10)).await;
    assert_eq!(engine.output::<String>(run).await??, "shipped");
    assert_eq!(world.asked(), ["reserve", "charge", "ship"]);

    println!("an order that does not:");
    let run = engine.send("order", json!({ "to": "nowhere" })).await?.run().expect("it runs");
    harness.advance(Duration::from_mins(10)).await;
    let fault = engine.output::<String>(run).await?.expect_err("it cannot be shipped");
    assert_eq!(fault.message(), "there is no such place");
    assert_eq!(world.asked(), ["reserve", "charge", "ship", "ship", "refund", "release"]);
    Ok(())
}
