//! Retries: several steps, some of which fail and are retried.
//!
//! Look at a run of `import-contacts`: its steps, and a download that needed another attempt. Files
//! that cannot be parsed fail the run at once, because a retry would not help.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Ctx, EngineBuilder, Result, Retry, StepError, Workflow};

use super::{Town, work};

const NAME: &str = "import-contacts";

#[derive(Serialize, Deserialize)]
struct File {
    name: String,
    contacts: u64,
    /// Number of download attempts that fail.
    breaks: u32,
}

async fn import(ctx: Ctx, file: File) -> Result<u64> {
    ctx.step("download", || async {
        work(250).await?;
        if ctx.attempt("download") <= file.breaks {
            return Err(StepError::coded("BrokenOff", "the connection was reset"));
        }
        Ok(())
    })
    .retry(Retry::attempts(4).exponential(Duration::from_millis(400), Duration::from_secs(2)))
    .await?;
    ctx.progress(0.3, "downloaded");
    ctx.step("read", || async {
        work(150).await?;
        match file.contacts {
            0 => Err(StepError::coded("NotCsv", format!("{} is a picture", file.name)).fatal()),
            contacts => Ok(contacts),
        }
    })
    .await?;
    ctx.progress(0.6, "read");
    ctx.step("write", || work(400)).await?;
    Ok(file.contacts)
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    builder.workflow(Workflow::new(NAME, import).on_event("file.uploaded"))
}

pub(super) async fn traffic(town: Town) -> anyhow::Result<()> {
    let mut chance = town.chance(NAME);
    while town.pause(chance.of(1500..=4500)).await {
        let picture = chance.of(1..=4) == 1;
        let (name, contacts) =
            if picture { ("cat.png", 0) } else { ("people.csv", chance.of(20..=900)) };
        let breaks = chance.pick(&[0, 0, 1, 2]);
        town.send("file.uploaded", File { name: name.to_owned(), contacts, breaks }).await?;
    }
    Ok(())
}
