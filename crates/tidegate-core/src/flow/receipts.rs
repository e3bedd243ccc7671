//! Receipts: the durable record of every verdict other than a plain start.

use super::{needs::Candidate, verdict::Verdict};
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
    let receipt = Receipt {
        seq: draft.next_seq()?,
        ws: candidate.ws.clone(),
        app: workflow.app.clone(),
        workflow: workflow.name.clone(),
        key: verdict.by().map(|by| by.key.clone()).unwrap_or_default(),
        event: candidate.event.seq,
        at: draft.now(),
        verdict: verdict.to_value(),
    };
    draft.put(receipt);
    Ok(())
}
