//! Singleton: a sync run of an account is replaced by the next one.
//!
//! Look at a cancelled run of `sync-account`: it names the run that replaced it. An account never
//! has more than one run at a time, and the last run reads the newest data.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, EngineBuilder, Result, Singleton, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "sync-account";

#[derive(Serialize, Deserialize)]
struct Change {
    account: String,
    n: u64,
}

async fn sync(ctx: Ctx, change: Change, ledger: Arc<Ledger>) -> Result<u64> {
    let _the_only_one = ledger.enter(NAME, &change.account);
    for page in 1..=3 {
        ctx.progress(f64::from(page - 1) / 3.0, format!("page {page} of 3"));
        ctx.step(format!("page {page}"), || work(700)).await?;
    }
    ledger.newest_done(NAME, &change.account, change.n);
    Ok(change.n)
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let workflow = Workflow::new(NAME, move |ctx, change| sync(ctx, change, ledger.clone()));
    let workflow = workflow.on_event("account.changed").timeout(Duration::from_mins(1));
    builder.workflow(workflow.singleton(Singleton::cancel().key("account")))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    for n in 1.. {
        let account = chance.pick(&["hooli", "hooli", "umbrella"]);
        town.ledger.newest_sent(NAME, account, n);
        town.send("account.changed", Change { account: account.to_owned(), n }).await?;
        if !town.pause(chance.of(400..=2400)).await {
            break;
        }
    }
    Ok(())
}

pub(super) fn newest(seen: &Seen) -> Check {
    let (most, behind) = (seen.ledger.most(NAME), seen.ledger.behind(NAME));
    let replaced = seen.of(NAME).replaced;
    let missing = if behind.is_empty() { String::new() } else { format!(", but {behind:?}") };
    let what = format!(
        "{most} sync of an account at once, {replaced} replaced by a newer one, \
         the newest done{missing}"
    );
    Check::new(most == 1 && replaced > 0 && behind.is_empty(), what)
}
