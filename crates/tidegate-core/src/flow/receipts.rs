//! Receipts: the durable record of every verdict other than a plain start.

use serde_json::json;

use super::{fold, plan::Candidate, verdict::Verdict};
use crate::{
    draft::{Decided, Draft},
    row::{Receipt, Run},
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
        event: candidate.event.seq,
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
    let event = fold::events(draft, run)?.last().copied().unwrap_or(run.source.first());
    let mut verdict = json!({ "outcome": outcome, "runId": run.id });
    for (name, text) in [("control", control), ("key", Some(key).filter(|key| !key.is_empty()))] {
        if let Some(text) = text {
            verdict[name] = json!(text);
        }
    }
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
