//! Events: the posted ones, newest first, and what became of one.

use super::{
    Newest, Part,
    receipts::{self, ReceiptEntry},
};
use crate::{
    draft::{Decided, Draft, Missing},
    id::EventId,
    reads::Scan,
    row::{Event, Kind, Row, RowKey, Workspace},
};

/// How many events are looked at for a page of those with a name. An event may have half a
/// megabyte of data, so that it is not more.
const LOOK: u32 = 500;

/// How many receipts, runs and batches of one event are shown.
const SHOWN: u32 = 1000;

/// Which names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// Any.
    #[default]
    Any,
    /// This one.
    Exactly(String),
    /// All that begin with this.
    Beginning(String),
}

impl Name {
    /// As users write it: a name, or the beginning of one and `*`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some("") => Self::Any,
            Some(beginning) => Self::Beginning(beginning.to_owned()),
            None => Self::Exactly(text.to_owned()),
        }
    }

    fn fits(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => name == wanted,
            Self::Beginning(wanted) => name.starts_with(wanted),
        }
    }
}

/// The posted events of a workspace, newest first. Names are filtered while paging.
pub fn list<E>(
    draft: &Draft,
    ws: &Workspace,
    name: &Name,
    part: Part,
) -> Decided<Newest<Event>, E> {
    let look = part.look(*name != Name::Any, LOOK);
    let rows = draft.found(&Scan::EventsBelow(ws.clone(), part.below()), look)?;
    Ok(part.of(&rows, look, |row| {
        let Row::Event(event) = row else { return None };
        Some((event.id.seq, name.fits(&event.name).then(|| event.clone())))
    }))
}

/// An event with all that came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDetails {
    /// The event.
    pub event: Event,
    /// Its verdicts other than plain starts, in order.
    pub receipts: Vec<ReceiptEntry>,
    /// [`Row::Run`] and [`Row::Ended`] of the runs that carry it, oldest first: those started with
    /// it, and those whose batch it is in.
    pub runs: Vec<Row>,
}

/// One posted event of a workspace; none where there is no such event, or not any more.
pub fn show<E>(draft: &Draft, ws: &Workspace, id: EventId) -> Decided<Option<EventDetails>, E> {
    let Some(event) = draft.event(id)?.filter(|event| is(event, ws, id)).cloned() else {
        return Ok(None);
    };
    let mut missing = Missing::default();
    let receipts = missing.note(draft.found(&Scan::Receipts(id.seq), SHOWN))?;
    let live = missing.note(draft.found(&Scan::RunsOf(id.seq), SHOWN))?;
    let ended = missing.note(draft.found(&Scan::EndedOf(id.seq), SHOWN))?;
    let items = missing.note(draft.found(&Scan::ItemsOf(id.seq), SHOWN))?;
    let mut batches = Vec::new();
    for row in items.into_iter().flatten() {
        let RowKey::Item(run, _) = row.key() else { continue };
        for key in [RowKey::Run(run), RowKey::Ended(run)] {
            batches.extend(missing.note(draft.row(&key))?.flatten());
        }
    }
    let mut listed = Vec::new();
    for row in receipts.into_iter().flatten() {
        let Row::Receipt(receipt) = row else { continue };
        let cancelled = receipts::cancelled(draft, &mut missing, receipt)?;
        listed.push(ReceiptEntry { receipt: receipt.clone(), event: Some(id), cancelled });
    }
    missing.settle()?;
    // A run that has ended and is being stopped has both rows: the later one counts.
    let rows = live.into_iter().chain(ended).flatten().chain(batches);
    let runs: std::collections::BTreeMap<_, _> =
        rows.filter_map(|row| Some((crate::list::number(row)?, row.clone()))).collect();
    Ok(Some(EventDetails { event, receipts: listed, runs: runs.into_values().collect() }))
}

/// Requests, occurrences and calls are inputs, and no events that people have posted.
fn is(event: &Event, ws: &Workspace, id: EventId) -> bool {
    event.id == id && event.ws == *ws && event.kind == Kind::Event
}
