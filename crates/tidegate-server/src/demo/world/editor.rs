//! Debounce: an editor saves with every key stroke.
//!
//! Look at the debounce of `save-document`: each document has a window whose deadline moves with
//! every save. When the writer pauses, one run starts, with the last text.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, Debounce, EngineBuilder, Result, Workflow};

use super::{Check, Ledger, Seen, Town, work};

const NAME: &str = "save-document";

#[derive(Serialize, Deserialize)]
struct Save {
    document: String,
    revision: u64,
}

async fn save(ctx: Ctx, save: Save, ledger: Arc<Ledger>) -> Result<u64> {
    ctx.step("write", || work(60)).await?;
    ledger.newest_done(NAME, &save.document, save.revision);
    Ok(save.revision)
}

pub(super) fn serve(builder: EngineBuilder, ledger: &Arc<Ledger>) -> EngineBuilder {
    let ledger = ledger.clone();
    let quiet = Debounce::quiet(Duration::from_millis(1500)).at_most(Duration::from_secs(6));
    let workflow = Workflow::new(NAME, move |ctx, input| save(ctx, input, ledger.clone()));
    builder.workflow(workflow.debounce(quiet.key("document")))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let documents = ["minutes.md", "novel.md", "recipe.md"];
    let [minutes, novel, recipe] = documents.map(|document| writer(&town, document));
    tokio::try_join!(minutes, novel, recipe).map(drop)
}

async fn writer(town: &Town, document: &str) -> anyhow::Result<()> {
    let mut chance = town.chance(document);
    let mut revision = 0;
    loop {
        for _ in 0..chance.of(3..=10) {
            revision += 1;
            town.ledger.newest_sent(NAME, document, revision);
            town.send(NAME, Save { document: document.to_owned(), revision }).await?;
            town.pause(chance.of(200..=900)).await;
        }
        if !town.pause(chance.of(2000..=5000)).await {
            return Ok(());
        }
    }
}

pub(super) fn last(seen: &Seen) -> Check {
    let (tally, behind) = (seen.of(NAME), seen.ledger.behind(NAME));
    let (saves, runs) = (tally.merged, tally.runs);
    let missing = if behind.is_empty() { String::new() } else { format!(", except {behind:?}") };
    let what =
        format!("{saves} saves became {runs} runs, with the last text of each document{missing}");
    Check::new(runs > 0 && runs < saves && behind.is_empty(), what)
}
