//! Pools, costs and fairness: two workflows share the capacity of one language model.
//!
//! Look at the gate of the pool `model`: documents take two units and questions one. acme and
//! globex send as many documents, but globex pays for weight 3 and is served first; the single
//! questions of initech have the next turn, however many documents wait.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Concurrency, Ctx, EngineBuilder, Fair, Pool, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const POOL: &str = "model";
const SUMMARISE: &str = "summarise-document";
const ANSWER: &str = "answer-question";

/// Units of the pool, and those that a document takes.
const UNITS: u32 = 4;
const OF_A_DOCUMENT: u32 = 2;

const NOISY: &str = "acme";
const WEIGHTY: &str = "globex";
const WEIGHT: u32 = 3;
const QUIET: &str = "initech";

/// Number of documents that each of two tenants sends in one burst.
const BURST: u32 = 12;

#[derive(Serialize, Deserialize)]
struct Prompt {
    tenant: String,
    ms: u64,
}

async fn ask(ctx: Ctx, prompt: Prompt, units: u32, ledger: Arc<Ledger>) -> Result<String> {
    ledger.starts(POOL, &prompt.tenant, &ctx);
    let _units: Vec<_> = (0..units).map(|_| ledger.enter(POOL, "")).collect();
    ctx.step("ask the model", || work(prompt.ms)).await?;
    Ok(format!("an answer for {}", prompt.tenant))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let turns = Fair::by("tenant").weight(WEIGHTY, WEIGHT);
    let pool = Pool::new(POOL).concurrency(Concurrency::limit(UNITS).fair(turns));
    let workflow = |name, units: u32| {
        let ledger = ledger.clone();
        let workflow =
            Workflow::new(name, move |ctx, prompt| ask(ctx, prompt, units, ledger.clone()));
        workflow.concurrency(Concurrency::pool(POOL).cost(units))
    };
    builder.pool(pool).workflow(workflow(SUMMARISE, OF_A_DOCUMENT)).workflow(workflow(ANSWER, 1))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    tokio::try_join!(documents(&town), questions(&town)).map(drop)
}

/// Sends the documents of two tenants in turns, and then nothing until the queue is empty.
async fn documents(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(SUMMARISE);
    loop {
        for _ in 0..BURST {
            for tenant in [NOISY, WEIGHTY] {
                let prompt = Prompt { tenant: tenant.to_owned(), ms: chance.of(200..=300) };
                town.send(SUMMARISE, prompt).await?;
            }
        }
        if !town.pause(chance.of(6000..=8000)).await {
            return Ok(());
        }
    }
}

async fn questions(town: &Town) -> anyhow::Result<()> {
    let mut chance = town.chance(ANSWER);
    while town.pause(chance.of(500..=1100)).await {
        let prompt = Prompt { tenant: QUIET.to_owned(), ms: chance.of(150..=250) };
        town.send(ANSWER, prompt).await?;
    }
    Ok(())
}

pub(super) fn shared(seen: &Seen) -> Check {
    let most = seen.ledger.most(POOL);
    let runs = [SUMMARISE, ANSWER].map(|workflow| seen.of(workflow).runs);
    let holds = (OF_A_DOCUMENT..=UNITS).contains(&most) && !runs.contains(&0);
    let what = format!(
        "at most {most} units of the pool {POOL} at once, taken by {} documents and {} questions; \
         the limit is {UNITS}",
        runs[0], runs[1]
    );
    Check::new(holds, what)
}

pub(super) fn turns(seen: &Seen) -> Check {
    let wait = |tenant| seen.ledger.mean_wait(POOL, tenant);
    let noisy = wait(NOISY).unwrap_or_default();
    let [weighty, quiet] = [WEIGHTY, QUIET].map(|tenant| wait(tenant).unwrap_or(Duration::MAX));
    // Without weights acme and globex would wait equally long, and without turns initech, too.
    let holds = weighty < noisy * 3 / 4 && quiet < noisy / 2;
    let what = format!(
        "mean wait for the model of {NOISY} {noisy:.1?}, of {WEIGHTY} with weight {WEIGHT} \
         {weighty:.1?}, of quiet {QUIET} {quiet:.1?}"
    );
    Check::new(holds, what)
}
