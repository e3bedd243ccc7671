//! Throttle: a provider that accepts five mails per second.
//!
//! Look at the throttle of `send-mail`: the runs of a burst are queued at the gate, one run starts
//! every 200 ms, and `why` says when each will start.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Rate, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "send-mail";
const PER_SECOND: u32 = 5;
const BURSTS: &str = "bursts of mails";

async fn deliver(ctx: Ctx, mail: Value, ledger: Arc<Ledger>) -> Result<String> {
    ledger.count("mails started", 1);
    // On a busy machine a run may start after the next burst has begun: it is not counted in that
    // burst.
    if mail["burst"] == ledger.counted(BURSTS) {
        check_turn(&ledger);
    }
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
        town.ledger.begin_lap(NAME);
        town.ledger.count(BURSTS, 1);
        let burst = town.ledger.counted(BURSTS);
        for n in 1..=chance.of(6..=18) {
            let to = format!("reader-{n}@example.com");
            let mail = json!({ "to": to, "about": "news", "burst": burst });
            town.send(NAME, mail).await?;
        }
        if !town.pause(chance.of(4000..=7000)).await {
            return Ok(());
        }
    }
}

/// Checks the rate of starts: one every 200 ms since the burst began, plus one at its beginning,
/// plus one because a run may pass the gate earlier than its handler starts.
fn check_turn(ledger: &Ledger) {
    let (time, started) = ledger.lap(NAME);
    let turns = 2 + time.as_millis() * u128::from(PER_SECOND) / 1000;
    if u128::from(started) > turns {
        ledger.broken(
            NAME,
            &format!("{started} runs of the burst have started, but the rate allows {turns}"),
        );
    }
}

pub(super) fn spread(seen: &Seen) -> Check {
    let (started, broken) = (seen.ledger.counted("mails started"), seen.ledger.all_broken(NAME));
    let what = format!("{started} mails, at most {PER_SECOND} per second");
    Check::new(started > 0 && broken.is_empty(), format!("{what} {}", broken.join("; ")).trim_end())
}
