//! A provider that takes five a second.
//!
//! Look at the throttle of `send-mail`: a burst stands in line, one is let through every 200 ms,
//! and `why` says when each will start.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Rate, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "send-mail";
const PER_SECOND: u32 = 5;

async fn deliver(ctx: Ctx, mail: Value, ledger: Arc<Ledger>) -> Result<String> {
    ledger.count("mails started", 1);
    ctx.step("deliver", || work(80)).await?;
    Ok(format!("accepted for {}", mail["to"]))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let workflow = Workflow::new(NAME, move |ctx, mail| deliver(ctx, mail, ledger.clone()));
    builder.workflow(workflow.throttle(Rate::per_second(PER_SECOND)))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    loop {
        for n in 1..=chance.of(6..=18) {
            let mail = json!({ "to": format!("reader-{n}@example.com"), "about": "news" });
            town.send(NAME, mail).await?;
        }
        if !town.pause(chance.of(4000..=7000)).await {
            return Ok(());
        }
    }
}

/// Starts are a fifth of a second apart, so only so many fit into the time until the last.
pub(super) fn spread(seen: &Seen) -> Check {
    let started = seen.ledger.counted("mails started");
    let most =
        1 + seen.ledger.until_last("mails started").as_millis() * u128::from(PER_SECOND) / 1000;
    let holds = started > 0 && u128::from(started) <= most;
    Check::new(holds, format!("{started} mails were sent when there had been turns for {most}"))
}
