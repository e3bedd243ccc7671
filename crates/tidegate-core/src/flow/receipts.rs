//! Receipts: the durable record of every verdict other than a plain start.

use serde_json::json;

use super::{control, fold, plan::Candidate, verdict::Verdict};
use crate::{
    draft::{Decided, Draft},
    row::{Ending, Receipt, Run},
};

/// Writes the receipt of a verdict, unless it was a plain start.
pub fn write<E>(draft: &mut Draft, candidate: &Candidate<'_>, verdict: &Verdict) -> Decided<(), E> {
    if matches!(verdict, Verdict::Started { .. }) {
        return Ok(());
    }
    let workflow = candidate.workflow();
    let mut told = verdict.to_value();
    let missing = candidate.keys_missing();
    if !missing.is_empty() {
        told["keyMissing"] = json!(missing);
    }
    let receipt = Receipt {
        seq: draft.next_seq()?,
        ws: candidate.ws.clone(),
        app: workflow.app.clone(),
        workflow: workflow.name.clone(),
        key: verdict.by().map(|by| by.key.clone()).unwrap_or_default(),
        event: candidate.event.seq,
        at: draft.now(),
        verdict: told,
    };
    draft.put(receipt);
    Ok(())
}

/// Writes the receipt of a run that expired before it started, for the last event of its input.
///
/// The other events of a window or a buffer have receipts that name the run. The last event of a
/// buffer has none if the buffer was flushed at once.
pub fn write_expired<E>(draft: &mut Draft, run: &Run) -> Decided<(), E> {
    let event = fold::events(draft, run)?.last().copied().unwrap_or(run.source.first());
    let mut verdict = json!({ "outcome": Ending::EXPIRED, "runId": run.id });
    let catalog = draft.catalog(&run.ws)?;
    if let Some((control, _)) = catalog.definition(run.lane).and_then(|it| control::expiry(it)) {
        verdict["control"] = json!(control.name);
    }
    let receipt = Receipt {
        seq: draft.next_seq()?,
        ws: run.ws.clone(),
        app: run.app.clone(),
        workflow: run.workflow.clone(),
        key: String::new(),
        event: event.seq,
        at: draft.now(),
        verdict,
    };
    draft.put(receipt);
    Ok(())
}
