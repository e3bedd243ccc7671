//! Receipts: the durable record of every verdict other than a plain start.

use serde_json::json;

use super::{plan::Candidate, verdict::Verdict};
use crate::{
    draft::{Decided, Draft},
    row::Receipt,
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
