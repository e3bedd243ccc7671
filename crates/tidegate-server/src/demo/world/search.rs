//! Batch: many small changes are indexed in few large calls.
//!
//! Look at the batch of `index-products`: it collects events, and flushes at ten events, or when
//! the first has waited for four seconds.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate::{Batch, Ctx, EngineBuilder, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "index-products";
const SIZE: u32 = 10;

async fn index(ctx: Ctx, products: Vec<Value>, ledger: Arc<Ledger>) -> Result<usize> {
    let count = products.len();
    ctx.step("index", || async {
        work(120).await?;
        ledger.count("products indexed", count);
        Ok(())
    })
    .await?;
    Ok(count)
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let workflow = Workflow::new(NAME, move |ctx, products| index(ctx, products, ledger.clone()));
    builder.workflow(workflow.batch(Batch::of(SIZE).within(Duration::from_secs(4)).key("shop")))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    while town.pause(chance.of(300..=1500)).await {
        let shop = chance.pick(&["books", "books", "garden"]);
        for _ in 0..chance.of(1..=4) {
            let product = json!({ "shop": shop, "product": chance.of(1..=5000) });
            town.send(NAME, product).await?;
            town.ledger.count("products", 1);
        }
    }
    Ok(())
}

pub(super) fn all(seen: &Seen) -> Check {
    let (changed, indexed) =
        (seen.ledger.counted("products"), seen.ledger.counted("products indexed"));
    let runs = seen.of(NAME).runs;
    let what = format!("{changed} products were changed, {indexed} indexed by {runs} runs");
    Check::new(changed > 0 && indexed == changed && runs < changed, what)
}
