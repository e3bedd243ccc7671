//! Signals: a run that waits for a decision.
//!
//! Look at a waiting run of `approve-expense`: it uses no worker, and continues when it gets the
//! signal `decision`, from the demo or from you: `{"by": "me", "yes": true}`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Result, Workflow};

use super::{Town, work};

const NAME: &str = "approve-expense";

#[derive(Serialize, Deserialize)]
struct Decision {
    by: String,
    yes: bool,
}

async fn approve(ctx: Ctx, expense: Value) -> Result<String> {
    ctx.step("ask", || work(60)).await?;
    let decision = ctx.wait_for_signal::<Decision>("wait for a word", "decision");
    Ok(match decision.timeout(Duration::from_mins(1)).await? {
        Some(Decision { by, yes: true }) => {
            ctx.step("pay", || work(120)).await?;
            format!("{} for {} paid, {by} agreed", expense["amount"], expense["what"])
        }
        Some(Decision { by, yes: false }) => format!("{by} said no"),
        None => "nobody answered within a minute".to_owned(),
    })
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    builder.workflow(Workflow::new(NAME, approve))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    let mut before = None;
    loop {
        let what = chance.pick(&["a train", "lunch", "a yacht", "a keyboard"]);
        let expense = json!({ "what": what, "amount": chance.of(10..=2000) });
        let asked = town.send(NAME, expense).await?.run();
        if !town.pause(chance.of(4000..=9000)).await {
            return Ok(());
        }
        // The decision is sent to the previous run; one in three runs never gets a decision.
        let answered = before.replace(asked).flatten();
        if let Some(run) = answered.filter(|_| chance.of(1..=3) > 1) {
            let decision = Decision { by: "Grace".to_owned(), yes: chance.of(1..=4) > 1 };
            // An error is ignored: a user may have decided about the run or cancelled it first.
            let _ = town.engine.signal(run, "decision", decision).await;
        }
    }
}
