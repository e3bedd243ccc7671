//! What an engine tells about itself: spans with run ids, and metrics.

use std::time::Duration;

use tidegate_core::row::Run;

/// Counts and measures.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {}

impl Telemetry {
    /// The span in which a run is driven.
    pub(crate) fn span(&self, run: &Run) -> tracing::Span {
        tracing::debug_span!("run", id = %run.id, workflow = run.workflow, fence = run.fence)
    }

    /// A transaction was made.
    pub(crate) fn committed(&self, commands: usize, took: Duration) {
        tracing::trace!(commands, ?took, "committed");
    }

    /// The engine's lease was lost.
    pub(crate) fn lease_lost(&self) {}
}
