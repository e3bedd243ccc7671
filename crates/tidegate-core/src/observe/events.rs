//! Event queries: the list of posted events, newest first, and the details of one event.

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

/// Number of events that are read for a page filtered by name. It is not higher, because an event
/// may have half a megabyte of data.
const LOOK: u32 = 500;

/// Maximum number of receipts, runs and batches of one event that are returned.
const SHOWN: u32 = 1000;

/// Filter by event name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// Any name.
    #[default]
    Any,
    /// Events with this name.
    Exactly(String),
    /// Events whose name begins with this prefix.
    Beginning(String),
}

impl Name {
    /// Parses the notation of users: a name, or a prefix with `*` at the end.
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

/// Returns the posted events of a workspace, newest first. Names are filtered after reading.
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

/// Event with its receipts and runs.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDetails {
    /// The event.
    pub event: Event,
    /// The receipts of verdicts other than plain starts, in order.
    pub receipts: Vec<ReceiptEntry>,
    /// [`Row::Run`] and [`Row::Ended`] of the event's runs, oldest first: runs that the event has
    /// started, and runs of batches that contain it.
    pub runs: Vec<Row>,
}

/// Returns one posted event of a workspace; none if it does not exist or was deleted.
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
    // A cancelled run whose worker has not stopped yet has two rows. The ended row comes later and
    // replaces the live one in this map.
    let rows = live.into_iter().chain(ended).flatten().chain(batches);
    let runs: std::collections::BTreeMap<_, _> =
        rows.filter_map(|row| Some((crate::list::number(row)?, row.clone()))).collect();
    Ok(Some(EventDetails { event, receipts: listed, runs: runs.into_values().collect() }))
}

/// Whether the row is a posted event with this id. Requests, occurrences and calls are stored in
/// the same table, but are not posted events.
fn is(event: &Event, ws: &Workspace, id: EventId) -> bool {
    event.id == id && event.ws == *ws && event.kind == Kind::Event
}
