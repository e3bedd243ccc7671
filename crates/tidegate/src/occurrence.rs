//! Occurrences of schedules, as handlers receive them.

use serde::{Deserialize, Serialize};
use tidegate_core::time::Timestamp;

/// Input of a run that a schedule has started.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Ctx, Occurrence, Result, Workflow, testing::TestHarness};
///
/// async fn report(_: Ctx, occurrence: Occurrence) -> Result<String> {
///     Ok(format!("report of {}", occurrence.planned_at.rfc3339()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let report = Workflow::new("report", report).cron("0 6 * * *", "UTC");
/// let harness = TestHarness::new();
/// let engine = harness.engine().workflow(report).start().await?;
/// harness.advance(Duration::from_secs(24 * 60 * 60)).await;
/// let run = harness.runs("report").await[0].id;
/// assert_eq!(harness.completed(&engine, run).await, "report of 2027-01-01T06:00:00Z");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Occurrence {
    /// Cron expression of the schedule, and its time zone if that is not UTC.
    pub schedule: String,
    /// Planned time. The run starts at this time or later, by [`Engine::now`](crate::Engine::now).
    #[serde(serialize_with = "rfc3339")]
    pub planned_at: Timestamp,
}

impl Occurrence {
    /// Creates an occurrence, for calling a handler directly.
    pub fn new(schedule: impl Into<String>, planned_at: Timestamp) -> Self {
        Self { schedule: schedule.into(), planned_at }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field as it is")]
fn rfc3339<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.rfc3339())
}
