//! Handoff: a new version is released while runs are active.
//!
//! Look at the versions of `assistant` right after a release: the active run of each customer ends
//! under the version with which it began, and the first run of the new version waits for that. A
//! rollback is a release like any other.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, EngineBuilder, Handoff, OnNewVersion, Result, Workflow};
use tidegate_core::definition::DEFAULT_APP;

use super::{Check, Ledger, Seen, Town};

const NAME: &str = "assistant";
const CUSTOMERS: [&str; 3] = ["acme", "globex", "initech"];

/// Time before the first release, and interval of the later releases.
const FIRST_RELEASE_MS: u64 = 4000;
const RELEASE_MS: u64 = 75_000;

#[derive(Serialize, Deserialize)]
struct Shift {
    customer: String,
}

async fn work(ctx: Ctx, Shift { customer }: Shift, ledger: Arc<Ledger>) -> Result<String> {
    ctx.step("begin", || async {
        ledger.go_in(NAME, &customer);
        Ok(())
    })
    .await?;
    for visit in 1..=3 {
        ctx.sleep(format!("visit {visit}"), Duration::from_millis(1600)).await?;
    }
    ctx.step("end", || async {
        ledger.go_out(NAME, &customer);
        Ok(())
    })
    .await?;
    Ok(format!("three visits to {customer} under version {}", ctx.version()))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    [1, 2].into_iter().fold(builder, |builder, version| {
        let ledger = ledger.clone();
        let workflow = Workflow::new(NAME, move |ctx, shift| work(ctx, shift, ledger.clone()));
        let drain = Handoff::keyed("customer", OnNewVersion::Drain);
        builder.workflow(workflow.version(version).handoff(drain))
    })
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    tokio::try_join!(shifts(&town), releases(&town)).map(drop)
}

async fn shifts(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    loop {
        let customer = chance.pick(&CUSTOMERS).to_owned();
        town.send(NAME, Shift { customer }).await?;
        if !town.pause(chance.of(1300..=2200)).await {
            return Ok(());
        }
    }
}

async fn releases(town: &Town) -> anyhow::Result<()> {
    let mut wait = FIRST_RELEASE_MS;
    for version in [1, 2].into_iter().cycle() {
        town.engine.release(DEFAULT_APP, NAME, version).await?;
        town.ledger.count("releases", 1);
        if !town.pause(wait).await {
            break;
        }
        wait = RELEASE_MS;
    }
    Ok(())
}

pub(super) fn drained(seen: &Seen) -> Check {
    let (most, releases) = (seen.ledger.most(NAME), seen.ledger.counted("releases"));
    let what = format!("at most {most} assistant per customer at once, over {releases} releases");
    Check::new(most == 1 && releases > 1, what)
}
