//! Two lines of business at one printer, and one of them is in a hurry.
//!
//! Look at the line of `printer`: a rush job came last and stands first. It has priority: it
//! stands as if it had come a minute earlier.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tidegate::{Action, Ctx, EngineBuilder, Flow, Policy, Priority, Request, Result, new_request};

use super::{Check, Ledger, Seen, Town, work};

const FLOW: &str = "printer";

async fn print(ctx: Ctx, sheet: Value, ledger: Arc<Ledger>) -> Result<String> {
    ledger.starts(FLOW, ctx.workflow(), &ctx);
    let _at_the_printer = ledger.enter(FLOW, "");
    ctx.step("print", || work(350)).await?;
    Ok(format!("printed {}", sheet["title"]))
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let printing = |name: &str| {
        let ledger = ledger.clone();
        Action::new(name, move |ctx, sheet| print(ctx, sheet, ledger.clone()))
    };
    let rush = printing("rush").priority(Priority::shift(Duration::from_mins(1)));
    builder.flow(Flow::new(FLOW).policy(Policy::queue()).action(printing("page")).action(rush))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(FLOW);
    loop {
        for n in 1..=chance.of(5..=8) {
            print_out(&town, "page", &format!("page {n}")).await?;
        }
        town.pause(500).await;
        print_out(&town, "rush", "the contract, at once!").await?;
        if !town.pause(chance.of(5000..=8000)).await {
            return Ok(());
        }
    }
}

async fn print_out(town: &Town, action: &str, title: &str) -> anyhow::Result<()> {
    let request = new_request(FLOW, action, json!({ "title": title }))?;
    town.call(Request { session: Some("lobby".to_owned()), ..request }).await.map(drop)
}

pub(super) fn priority(seen: &Seen) -> Check {
    let wait = |action| seen.ledger.mean_wait(FLOW, action);
    let (page, rush) = (wait("printer/page"), wait("printer/rush"));
    let (page, rush) = (page.unwrap_or_default(), rush.unwrap_or(Duration::MAX));
    let most = seen.ledger.most(FLOW);
    let what = format!(
        "{most} at the printer at once; a rush job waits {rush:.1?} in the mean, a page {page:.1?}"
    );
    Check::new(most == 1 && rush < page, what)
}
