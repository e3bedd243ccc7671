//! Schedule: a workflow that is started every minute.
//!
//! Look at the schedule of `digest`: it starts one run at every full minute, and shows when the
//! next one is planned.

use serde_json::Value;
use tidegate::{Ctx, EngineBuilder, Result, Workflow};

use super::work;

async fn digest(ctx: Ctx, occurrence: Value) -> Result<String> {
    ctx.step("gather", || work(300)).await?;
    ctx.step("write", || work(500)).await?;
    Ok(format!("the news of {}", occurrence["plannedAt"].as_str().unwrap_or_default()))
}

pub(super) fn serve(builder: EngineBuilder) -> EngineBuilder {
    builder.workflow(Workflow::new("digest", digest).cron("* * * * *", "UTC"))
}
