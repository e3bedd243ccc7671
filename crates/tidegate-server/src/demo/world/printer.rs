//! Priority: one printer, and urgent sheets.
//!
//! Look at the queued runs of `print-page` and `print-rush`: a rush run is queued last but printed
//! next. It has priority: it is ranked as if it had arrived a minute earlier. The printer is a
//! separate engine with one worker, so that there is a queue.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate::{Ctx, Engine, Priority, Result, Workflow};
use tidegate_store::Store;

use super::{Check, Ledger, Seen, Town, work};

const PAGE: &str = "print-page";
const RUSH: &str = "print-rush";

async fn print(ctx: Ctx, sheet: Value, ledger: Arc<Ledger>) -> Result<String> {
    ledger.starts("printer", ctx.workflow(), &ctx);
    let _at_the_printer = ledger.enter("printer", "");
    ctx.step("print", || work(350)).await?;
    Ok(format!("printed {}", sheet["title"]))
}

/// Starts the printer. It polls often, because the sheets are sent by another engine on the same
/// store.
pub(in crate::demo) async fn start(
    store: Arc<dyn Store>,
    ledger: &Arc<Ledger>,
) -> Result<Engine, tidegate::Error> {
    let printing = |name: &str| {
        let ledger = ledger.clone();
        Workflow::new(name, move |ctx, sheet| print(ctx, sheet, ledger.clone()))
    };
    let rush = printing(RUSH).priority(Priority::shift(Duration::from_mins(1)));
    let printer = Engine::builder(store).workflow(printing(PAGE)).workflow(rush).workers(1);
    printer.poll_interval(Duration::from_millis(200)).start().await
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(PAGE);
    loop {
        for n in 1..=chance.of(5..=8) {
            town.send(PAGE, json!({ "title": format!("page {n}") })).await?;
        }
        town.pause(500).await;
        town.send(RUSH, json!({ "title": "the contract, at once!" })).await?;
        if !town.pause(chance.of(5000..=8000)).await {
            return Ok(());
        }
    }
}

pub(super) fn priority(seen: &Seen) -> Check {
    let wait = |workflow| seen.ledger.mean_wait("printer", workflow);
    let (page, rush) = (wait(PAGE).unwrap_or_default(), wait(RUSH).unwrap_or(Duration::MAX));
    let most = seen.ledger.most("printer");
    let what = format!(
        "{most} sheet at the printer at once; mean wait of a rush {rush:.1?}, of a page {page:.1?}"
    );
    Check::new(most == 1 && rush < page, what)
}
