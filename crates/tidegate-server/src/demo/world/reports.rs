//! Concurrency: three tenants share a limit, and one of them, acme, sends too much.
//!
//! Look at the gates of `render-report`: the gate of acme has a queue, and those of the other
//! tenants have none.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Concurrency, Ctx, EngineBuilder, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "render-report";

/// Concurrency limit per tenant, and the limit of all tenants together.
const PER_TENANT: u32 = 2;
const IN_ALL: u32 = 4;

const NOISY: &str = "acme";
const QUIET: [&str; 2] = ["globex", "initech"];

#[derive(Serialize, Deserialize)]
struct Report {
    tenant: String,
    pages: u64,
}

async fn render(ctx: Ctx, report: Report, ledger: Arc<Ledger>) -> Result<String> {
    ledger.starts(NAME, &report.tenant, &ctx);
    let _one_of_the_tenant = ledger.enter("reports of a tenant", &report.tenant);
    let _one_of_all = ledger.enter("reports", "");
    ctx.step("query", || work(100)).await?;
    ctx.step("render", || work(report.pages * 50)).await?;
    Ok(format!("{} pages for {}", report.pages, report.tenant))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let workflow = Workflow::new(NAME, move |ctx, report| render(ctx, report, ledger.clone()));
    builder.workflow(
        workflow
            .concurrency(Concurrency::limit(PER_TENANT).key("tenant"))
            .concurrency(Concurrency::limit(IN_ALL)),
    )
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    tokio::try_join!(bursts(&town), now_and_then(&town, QUIET[0]), now_and_then(&town, QUIET[1]))?;
    Ok(())
}

/// Sends far more than the tenant's limit, and then nothing until the queue is empty.
async fn bursts(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NOISY);
    loop {
        for _ in 0..12 {
            let report = Report { tenant: NOISY.to_owned(), pages: chance.of(8..=14) };
            town.send(NAME, report).await?;
        }
        if !town.pause(chance.of(4000..=6000)).await {
            return Ok(());
        }
    }
}

async fn now_and_then(town: &Town, tenant: &str) -> anyhow::Result<()> {
    let mut chance = town.chance(tenant);
    while town.pause(chance.of(600..=1800)).await {
        let report = Report { tenant: tenant.to_owned(), pages: chance.of(2..=6) };
        town.send(NAME, report).await?;
    }
    Ok(())
}

pub(super) fn limits(seen: &Seen) -> Check {
    let most = seen.ledger.most("reports of a tenant");
    let in_all = seen.ledger.most("reports");
    let holds = (1..=PER_TENANT).contains(&most) && (1..=IN_ALL).contains(&in_all);
    let what = format!(
        "at most {most} reports of a tenant at once, and {in_all} in total; \
         the limits are {PER_TENANT} and {IN_ALL}"
    );
    Check::new(holds, what)
}

pub(super) fn waits(seen: &Seen) -> Check {
    let wait = |tenant| seen.ledger.mean_wait(NAME, tenant);
    let noisy = wait(NOISY).unwrap_or_default();
    let quiet = QUIET.map(|tenant| wait(tenant).unwrap_or(Duration::MAX));
    let holds = quiet.iter().all(|quiet| *quiet < noisy / 2);
    let what = format!(
        "mean wait of a report of noisy {NOISY} {noisy:.1?}, of {} {:.1?}, of {} {:.1?}",
        QUIET[0], quiet[0], QUIET[1], quiet[1]
    );
    Check::new(holds, what)
}
