//! Receipt queries: every verdict other than a plain start, newest first.

use super::{Newest, Part};
use crate::{
    draft::{Decided, Draft, Missing},
    id::{EventId, RunId, Seq},
    reads::Scan,
    row::{Ending, Receipt, Row, RowKey, Workspace},
};

/// Number of receipts that are read for a filtered page.
const LOOK: u32 = 1000;

/// Filter of receipts; an absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptFilter {
    /// Receipts of this event, found by an index. All other fields are filtered after reading.
    pub event: Option<EventId>,
    /// Receipts of this app.
    pub app: Option<String>,
    /// Receipts of this workflow.
    pub workflow: Option<String>,
    /// Receipts of decisions by this control.
    pub control: Option<String>,
    /// Receipts with this display key.
    pub key: Option<String>,
    /// Receipts with this outcome: `queued`, `dropped` and so on.
    pub outcome: Option<String>,
}

impl ReceiptFilter {
    fn is_filtered(&self) -> bool {
        let Self { app, workflow, control, key, outcome, .. } = self;
        [app, workflow, control, key, outcome].into_iter().any(Option::is_some)
    }

    fn fits(&self, receipt: &Receipt) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|it| it == text);
        let said = |name: &str| receipt.verdict[name].as_str().unwrap_or_default();
        is(&self.app, &receipt.app)
            && is(&self.workflow, &receipt.workflow)
            && is(&self.control, said("control"))
            && is(&self.key, &receipt.key)
            && is(&self.outcome, said("outcome"))
    }
}

/// Receipt and the event that it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiptEntry {
    /// The receipt.
    pub receipt: Receipt,
    /// The event's id; none if the event was already deleted.
    pub event: Option<EventId>,
    /// If the run that the receipt names was cancelled: the reason, and the run that replaced it.
    pub cancelled: Option<(String, Option<RunId>)>,
}

/// Returns the receipts of a workspace, newest first.
pub fn list<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &ReceiptFilter,
    part: Part,
) -> Decided<Newest<ReceiptEntry>, E> {
    let look = part.look(which.is_filtered(), LOOK);
    let mut rows = match which.event {
        Some(event) => draft.found(&Scan::Receipts(event.seq), LOOK)?,
        None => draft.found(&Scan::ReceiptsBelow(ws.clone(), part.below()), look)?,
    };
    if which.event.is_some() {
        rows.retain(|row| number(row).is_some_and(|seq| seq < part.below()));
        rows.reverse();
    }
    let page = part.of(&rows, look, |row| {
        let Row::Receipt(receipt) = row else { return None };
        let fits = receipt.ws == *ws && which.fits(receipt);
        Some((receipt.seq, fits.then(|| receipt.clone())))
    });
    let mut missing = Missing::default();
    let mut items = Vec::new();
    for receipt in page.items {
        let event = missing.note(draft.row(&RowKey::Event(receipt.event)))?.flatten();
        let event = event.and_then(|row| if let Row::Event(it) = row { Some(it.id) } else { None });
        // The event must have the same salt as the given id, which may be of another store.
        if which.event.is_none() || event == which.event {
            let cancelled = cancelled(draft, &mut missing, &receipt)?;
            items.push(ReceiptEntry { receipt, event, cancelled });
        }
    }
    missing.settle()?;
    Ok(Newest { items, next: page.next })
}

/// Returns the cancellation of the run that a receipt names; none if it was not cancelled.
///
/// It is read here and not written to each receipt, because a window does not store all events
/// that it has merged.
pub(super) fn cancelled<E>(
    draft: &Draft,
    missing: &mut Missing,
    receipt: &Receipt,
) -> Decided<Option<(String, Option<RunId>)>, E> {
    let run = receipt.verdict["runId"].as_str().and_then(|run| run.parse::<RunId>().ok());
    let Some(run) = run else { return Ok(None) };
    let row = missing.note(draft.row(&RowKey::Ended(run.seq)))?.flatten();
    let Some(Row::Ended(ended)) = row else { return Ok(None) };
    Ok(match &ended.ending {
        Ending::Cancelled { reason, by } if ended.id == run => Some((reason.clone(), *by)),
        Ending::Cancelled { .. } | Ending::Completed { .. } | Ending::Failed { .. } => None,
    })
}

fn number(row: &Row) -> Option<Seq> {
    if let Row::Receipt(receipt) = row { Some(receipt.seq) } else { None }
}
