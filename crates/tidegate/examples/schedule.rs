//! A cron schedule at 02:30 in Berlin, across the night when clocks jump from 02:00 to 03:00.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{sync::Arc, time::Duration};

use tidegate::{
    Ctx, MemoryStore, Occurrence, Result, Timestamp, Workflow,
    testing::{TestHarness, VirtualClock},
};

/// 27 March 2027, midnight by UTC.
const SATURDAY: Timestamp = Timestamp::from_ms(1_806_105_600_000);

async fn report(_: Ctx, occurrence: Occurrence) -> Result<Timestamp> {
    Ok(occurrence.planned_at)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let clock = Arc::new(VirtualClock::new(SATURDAY));
    let harness = TestHarness::on(Arc::new(MemoryStore::new(clock.clone())), clock);
    let report = Workflow::new("report", report).cron("30 2 * * *", "Europe/Berlin");
    let engine = harness.engine().workflow(report).start().await?;
    harness.advance(Duration::from_hours(72)).await;

    let mut hours = Vec::new();
    for run in harness.runs("report").await {
        let planned: Timestamp = engine.handle(run.id).output().await?;
        let minutes = (planned.micros() - SATURDAY.micros()) / 60_000_000;
        println!("planned {}:{:02} h after midnight by UTC", minutes / 60, minutes % 60);
        hours.push((minutes / 60, minutes % 60));
    }
    // 02:30 in winter time, the moment of the jump (02:30 does not exist), 02:30 in summer time.
    assert_eq!(hours, [(1, 30), (25, 0), (48, 30)]);
    Ok(())
}
