//! Saga: an order takes three steps in three systems. When the last step fails permanently, the
//! compensations of the earlier steps run, newest first, in a separate run.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, Result, Retry, StepError, Workflow, testing::TestHarness};

#[derive(Serialize, Deserialize)]
struct Order {
    to: String,
}

/// The external systems, as the list of the calls that they received, in order.
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

async fn order(ctx: Ctx, order: Order) -> Result<String> {
    let world = ctx.state::<World>()?;
    // Registered before the step, so that the effect can be undone as soon as it may have happened.
    let undo = world.clone();
    ctx.compensate("reserved", move || async move { undo.ask("release").await }).await?;
    ctx.step("reserve", || world.ask("reserve")).await?;

    let undo = world.clone();
    ctx.compensate("charged", move || async move { undo.ask("refund").await }).await?;
    ctx.step("charge", || world.ask("charge")).await?;

    let ship = ctx.step("ship", || async {
        world.ask("ship").await?;
        match &*order.to {
            "nowhere" => Err(StepError::new("there is no such place")),
            _ => Ok(()),
        }
    });
    ship.retry(Retry::attempts(2).fixed(Duration::from_mins(1))).await?;
    Ok("shipped".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (harness, world) = (TestHarness::new(), World::default());
    let workflow = Workflow::new("order", order);
    let order = workflow.reference();
    let engine = harness.engine().state(world.clone()).workflow(workflow).start().await?;

    println!("an order that goes well:");
    let run = engine.start(&order, Order { to: "Berlin".to_owned() }).await?;
    harness.advance(Duration::from_mins(10)).await;
    assert_eq!(run.output().await?, "shipped");
    assert_eq!(world.asked(), ["reserve", "charge", "ship"]);

    println!("an order that does not:");
    let run = engine.start(&order, Order { to: "nowhere".to_owned() }).await?;
    harness.advance(Duration::from_mins(10)).await;
    let error = run.output().await.expect_err("it cannot be shipped");
    assert_eq!(error.to_string(), format!("run `{}` failed: there is no such place", run.id()));
    assert_eq!(world.asked(), ["reserve", "charge", "ship", "ship", "refund", "release"]);
    Ok(())
}
