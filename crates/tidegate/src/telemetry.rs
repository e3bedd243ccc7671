//! Telemetry of an engine: spans with run ids, and metrics.
//!
//! Spans go to `tracing`, metrics to the recorder that the program has installed for the `metrics`
//! crate. Without a recorder, metrics cost almost nothing. The book lists their names
//! (operate/metrics).
//!
//! Levels: at info there is one span for each time that a run is driven, and no log line for a
//! successful run. Operations that happen several times within a run or a request (steps, attempts,
//! posts, dispatches) are at debug. Lines at warn and error are for operators.

use std::time::Duration;

use metrics::{Label, counter, gauge, histogram};
use tidegate_core::{
    command::{Answer, Refusal, StreamAnswer},
    event::{NewEvent, Outcome, Posted},
    reaction::Effected,
    request::Request,
    row::{Ended, Run},
    stream::StreamRefusal,
    time::Timestamp,
};
use tracing::{Span, debug_span, field::Empty, info_span};

/// Creates the span in which a run is driven. A request has the id of its run.
pub(crate) fn run_span(run: &Run, is_request: bool) -> Span {
    let span = info_span!(
        "run",
        run_id = %run.id,
        request_id = Empty,
        workflow = run.workflow,
        version = run.version,
        workspace = %run.ws,
        fence = run.fence
    );
    if is_request {
        span.record("request_id", tracing::field::display(run.id));
    }
    span
}

/// Creates the span of one attempt of a step.
pub(crate) fn step_span(step: &str, attempt: u32) -> Span {
    debug_span!("step", step, attempt)
}

/// Creates the span in which events are posted. It has the name of the first event.
pub(crate) fn post_span(ws: &str, events: &[NewEvent]) -> Span {
    let event = events.first().map(|event| event.name.as_str());
    debug_span!("post", workspace = ws, event, events = events.len(), event_id = Empty)
}

/// Records that events were posted.
pub(crate) fn posted(span: &Span, posted: &[Posted]) {
    if let Some(first) = posted.first() {
        span.record("event_id", tracing::field::display(first.id));
    }
}

/// Creates the span of [`Engine::start`](crate::Engine::start).
pub(crate) fn start_span(ws: &str, workflow: &str) -> Span {
    debug_span!("start", workspace = ws, workflow, request_id = Empty, verdict = Empty)
}

/// Creates the span in which an action is called.
pub(crate) fn dispatch_span(ws: &str, request: &Request) -> Span {
    let Request { flow, action, .. } = request;
    debug_span!("dispatch", workspace = ws, flow, action, request_id = Empty, verdict = Empty)
}

/// Records that an action was called.
pub(crate) fn dispatched(span: &Span, outcome: &Outcome) {
    span.record("verdict", outcome.verdict.outcome());
    if let Some(run) = outcome.verdict.run() {
        span.record("request_id", tracing::field::display(run));
    }
}

/// Records a transaction, committed or failed.
pub(crate) fn committed(commands: usize, took: Duration, good: bool) {
    let outcome = if good { "ok" } else { "error" };
    histogram!("tidegate_store_seconds", "outcome" => outcome).record(took.as_secs_f64());
    #[expect(
        clippy::cast_precision_loss,
        reason = "a batch has at most some hundreds of commands"
    )]
    histogram!("tidegate_batch_commands").record(commands as f64);
}

/// Records the answer to a command.
pub(crate) fn answered(answer: &Answer) {
    match answer {
        Answer::Posted(posted) => {
            posted.iter().flat_map(|posted| &posted.runs).for_each(admitted);
        }
        Answer::Admitted(outcome) => admitted(outcome),
        Answer::AdmittedBoth(first, then) => {
            std::iter::once(first).chain(then.as_deref()).for_each(admitted);
        }
        Answer::Stream(StreamAnswer::Committed(_)) => stream_committed(),
        Answer::Stream(StreamAnswer::Reacted(reacted)) => reacted.effects.iter().for_each(effected),
        _ => {}
    }
}

/// Records an effect of a reaction's handler.
fn effected(effect: &Effected) {
    match effect {
        Effected::Committed(_) => stream_committed(),
        Effected::Posted(posted) => posted.runs.iter().for_each(admitted),
        Effected::Admitted(outcome) => admitted(outcome),
        Effected::Skipped => {}
    }
}

/// Records a refused command.
pub(crate) fn refused(refusal: &Refusal) {
    if let Refusal::Stream(StreamRefusal::Conflict { .. }) = refusal {
        stream_conflict();
    }
}

/// Records a commit to a stream.
pub(crate) fn stream_committed() {
    counter!("tidegate_stream_commits_total").increment(1);
}

/// Records a commit that found its stream at another version than expected.
pub(crate) fn stream_conflict() {
    counter!("tidegate_stream_conflicts_total").increment(1);
}

/// Records that a run was leased at `now`, by the store's clock.
pub(crate) fn leased(run: &Run, now: Timestamp) {
    if run.fence == 1 {
        let waited = now.micros().saturating_sub(run.queued_at.micros()).max(0).unsigned_abs();
        let waited = Duration::from_micros(waited);
        let labels = of_run(&run.ws, &run.workflow);
        counter!("tidegate_starts_total", labels.clone()).increment(1);
        histogram!("tidegate_start_delay_seconds", labels).record(waited.as_secs_f64());
    }
}

/// Records the end of a run, whichever engine ended it.
pub(crate) fn ended(run: &Ended) {
    let mut labels = of_run(&run.ws, &run.workflow);
    labels.push(Label::new("state", run.ending.state()));
    counter!("tidegate_ends_total", labels).increment(1);
}

fn of_run(ws: &str, workflow: &str) -> Vec<Label> {
    vec![Label::new("workspace", ws.to_owned()), Label::new("workflow", workflow.to_owned())]
}

/// Records the number of driven runs.
pub(crate) fn driven(runs: usize) {
    #[expect(clippy::cast_precision_loss, reason = "at most the number of workers")]
    gauge!("tidegate_driven_runs").set(runs as f64);
}

/// Records the number of workers of one kind, and the number of busy ones.
pub(crate) fn workers(kind: &'static str, of: usize, busy: usize) {
    for (name, count) in [("tidegate_workers", of), ("tidegate_busy_workers", busy)] {
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are some thousands of workers at most"
        )]
        gauge!(name, "kind" => kind).set(count as f64);
    }
}

/// Records that the driver of a leased run has started, and how long that took.
pub(crate) fn handed_over(took: Duration) {
    histogram!("tidegate_hand_off_seconds").record(took.as_secs_f64());
}

/// Records the loss of the engine's lease.
pub(crate) fn lease_lost() {
    counter!("tidegate_lease_losses_total").increment(1);
}

/// Records the takeover of a run from a dead engine.
pub(crate) fn taken_over() {
    counter!("tidegate_takeovers_total").increment(1);
}

/// Records the number of streams that a reaction has claimed.
pub(crate) fn reaction_claimed(reaction: &str, streams: usize) {
    let claims = u64::try_from(streams).unwrap_or(u64::MAX);
    counter!("tidegate_reaction_claims_total", "reaction" => reaction.to_owned()).increment(claims);
}

/// Records that an event was delivered to a reaction, with the time since its commit.
pub(crate) fn reaction_handled(reaction: &str, lag: Duration) {
    reaction_folded(reaction, 1);
    histogram!("tidegate_reaction_lag_seconds", "reaction" => reaction.to_owned())
        .record(lag.as_secs_f64());
}

/// Records the number of events that a reaction has folded.
pub(crate) fn reaction_folded(reaction: &str, events: usize) {
    let events = u64::try_from(events).unwrap_or(u64::MAX);
    counter!("tidegate_reaction_events_total", "reaction" => reaction.to_owned()).increment(events);
}

/// Records a failure of a reaction's handler.
pub(crate) fn reaction_failed(reaction: &str) {
    counter!("tidegate_reaction_failures_total", "reaction" => reaction.to_owned()).increment(1);
}

/// Records that a stream of a reaction was blocked.
pub(crate) fn reaction_blocked(reaction: &str) {
    counter!("tidegate_reaction_blocks_total", "reaction" => reaction.to_owned()).increment(1);
}

/// Records the loss of a lease on a stream.
pub(crate) fn reaction_lost(reaction: &str) {
    counter!("tidegate_reaction_lost_leases_total", "reaction" => reaction.to_owned()).increment(1);
}

/// Records a verdict, by workflow, and the control that the run waits for, if any.
fn admitted(outcome: &Outcome) {
    let (workflow, verdict) = (outcome.workflow.clone(), outcome.verdict.outcome());
    counter!("tidegate_admissions_total", "workflow" => workflow.clone(), "verdict" => verdict)
        .increment(1);
    if let Some(control) = outcome.verdict.waits_for() {
        counter!("tidegate_waits_total", "workflow" => workflow, "control" => control).increment(1);
    }
}

#[cfg(test)]
mod tests {
    /// The book lists every metric name that the code uses, and no others.
    #[test]
    fn every_metric_is_in_the_book() {
        let code = include_str!("telemetry.rs").split("mod tests").next().unwrap_or_default();
        let page = include_str!("../../../docs/operate/metrics.md");
        let told = |word: &&str| word.starts_with("tidegate_");
        let mut told_by_code: Vec<&str> = code.split('"').filter(told).collect();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut told_by_page: Vec<&str> =
            rows.filter_map(|row| row.split('`').next()).filter(told).collect();
        told_by_code.sort_unstable();
        told_by_code.dedup();
        told_by_page.sort_unstable();
        assert_eq!(told_by_code, told_by_page);
    }
}
