//! Checks of deferred events and requests.

use tidegate_core::{
    id::Seq,
    row::{DeliveryEnd, Event, Kind, Row, RowKey, Work},
};

use super::{Checked, Look, history::History};
use crate::sim::state::State;

/// A deferred event is delivered once, at its time or later, unless it is cancelled before. Until
/// then it starts and ends nothing.
pub(super) fn i90(look: &Look<'_>, _: &History) -> Checked {
    for delta in look.deltas {
        let event = |row: &Option<Row>| match row {
            Some(Row::Event(event)) => Some(event.clone()),
            _ => None,
        };
        let (before, after) = (event(&delta.before), event(&delta.after));
        let was_waiting = before.as_ref().is_some_and(Event::is_deferred);
        let Some(after) = after else {
            if was_waiting {
                return Err(format!("an event was deleted before its delivery: {before:?}"));
            }
            continue;
        };
        let delivery = after.delivery;
        let good = match (&before, delivery.and_then(|it| it.end)) {
            // It is recorded, or its time is capped after a step of the clock.
            (None, None) => delivery.is_none_or(|delivery| delivery.at > look.at),
            (Some(_), None) => was_waiting && delivery.is_some_and(|it| it.at >= look.at),
            (Some(_), Some(DeliveryEnd::Delivered { number, at })) => {
                let due = delivery.is_some_and(|delivery| delivery.at <= look.at);
                was_waiting && due && at == look.at && number > after.id.seq
            }
            (Some(_), Some(DeliveryEnd::Cancelled { at })) => was_waiting && at == look.at,
            (None, Some(_)) => false,
        };
        if !good {
            return Err(format!("at {} the event {before:?} became {after:?}", look.at));
        }
    }
    for (_, after) in look.runs().filter(|(before, _)| before.is_none()) {
        let Some(run) = after else { continue };
        let input = run.source.first().seq;
        let stored = look.state.row(&RowKey::Event(input));
        if let Some(Row::Event(event)) = stored
            && event.is_deferred()
        {
            return Err(format!("the event {event:?} made the run {run:?} before its delivery"));
        }
    }
    Ok(())
}

/// Returns the posted events that this commit admits: new ones that are not deferred, and deferred
/// ones that it delivers.
pub(super) fn admitted<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Event> {
    look.deltas.iter().filter_map(|delta| {
        let Some(Row::Event(event)) = &delta.after else { return None };
        let waited = match &delta.before {
            Some(Row::Event(before)) => before.is_deferred(),
            _ => true,
        };
        let delivered = match event.delivery.map(|delivery| delivery.end) {
            None => delta.before.is_none(),
            Some(end) => waited && matches!(end, Some(DeliveryEnd::Delivered { .. })),
        };
        (delivered && event.kind == Kind::Event).then_some(event)
    })
}

/// Every deferred event was delivered or cancelled.
pub(super) fn settled(state: &State, _: &History) -> Result<(), (&'static str, String)> {
    let mut rows = state.rows();
    match rows.find(|row| matches!(row, Row::Event(event) if event.is_deferred())) {
        Some(row) => Err(("I90", format!("an event was never delivered: {row:?}"))),
        None => Ok(()),
    }
}

/// Returns the number of the run that a deferred request will get.
pub(super) fn promised(row: &Row) -> Option<Seq> {
    match row {
        Row::Chore(chore) => match &chore.work {
            Work::Deliver(deferred) => deferred.request.as_ref().map(|_| chore.id.seq),
            _ => None,
        },
        _ => None,
    }
}
