//! Receipts: the durable record of every verdict other than a plain start.

use serde_json::{Value, json};

use super::{
    cancel_on, fold,
    plan::Candidate,
    verdict::{Verdict, VerdictView},
};
use crate::{
    draft::{Decided, Draft},
    row::{Ending, Event, Receipt, Run},
};

/// Writes the receipt of a verdict, unless the verdict is a plain start.
pub fn write<E>(draft: &mut Draft, candidate: &Candidate<'_>, verdict: &Verdict) -> Decided<(), E> {
    if matches!(verdict, Verdict::Started { .. }) {
        return Ok(());
    }
    let workflow = candidate.workflow();
    let mut value = verdict.to_value();
    let missing = candidate.keys_missing();
    if !missing.is_empty() {
        value["keyMissing"] = json!(missing);
    }
    let receipt = Receipt {
        seq: draft.next_seq()?,
        ws: candidate.ws.clone(),
        app: workflow.app.clone(),
        workflow: workflow.name.clone(),
        key: verdict.by().map(|by| by.key.clone()).unwrap_or_default(),
        event: candidate.event.id.seq,
        at: draft.now(),
        verdict: value,
    };
    draft.put(receipt);
    Ok(())
}

/// Writes the receipt of a run that was cancelled before it started, for the last event of its
/// input.
///
/// The other events of a window or buffer already have receipts that name the run. The last event
/// has none if it filled the buffer, which was flushed at once.
pub fn write_unstarted<E>(
    draft: &mut Draft,
    run: &Run,
    outcome: &str,
    control: Option<&'static str>,
    key: &str,
) -> Decided<(), E> {
    let mut verdict = json!({ "outcome": outcome, "runId": run.id });
    for (name, text) in [("control", control), ("key", Some(key).filter(|key| !key.is_empty()))] {
        if let Some(text) = text {
            verdict[name] = json!(text);
        }
    }
    write_for_input(draft, run, key, verdict)
}

/// Writes the receipt of a run that an event has cancelled (`cancelOn`), for the last event of its
/// input. It names the event.
pub fn write_cancelled<E>(draft: &mut Draft, run: &Run, by: &Event) -> Decided<(), E> {
    let verdict = VerdictView {
        outcome: Ending::CANCELLED,
        run_id: Some(run.id),
        control: Some(cancel_on::CONTROL.name),
        cancelled_by: Some(by.id),
        ..VerdictView::default()
    };
    write_for_input(draft, run, "", json!(verdict))
}

fn write_for_input<E>(draft: &mut Draft, run: &Run, key: &str, verdict: Value) -> Decided<(), E> {
    let event = fold::events(draft, run)?.last().copied().unwrap_or(run.source.first());
    let receipt = Receipt {
        seq: draft.next_seq()?,
        ws: run.ws.clone(),
        app: run.app.clone(),
        workflow: run.workflow.clone(),
        key: key.to_owned(),
        event: event.seq,
        at: draft.now(),
        verdict,
    };
    draft.put(receipt);
    Ok(())
}
