//! Deferred events and requests (spec L23): recorded when they are sent, admitted at a later time.
//!
//! A chore with the number of the event makes the sweep deliver it. The delivery and the deletion of
//! the chore are one transaction, so that an event is delivered once over all engines. A delivered
//! event has a second number, that of its delivery: by it waits, listeners and limits from data
//! order events. The run of a deferred request has the number and the salt of its event, so that
//! its id is known before the run exists.

use crate::{
    command::{Answer, Refusal},
    definition::MAX_DURATION_MS,
    draft::{Decided, Draft, Missing, Stop},
    event,
    flow::{claim, idempotency},
    id::{ChoreId, EventId, RunId},
    observe::{Newest, Part},
    reads::{Latch, Mode, ReadSet, Scan},
    request,
    row::{Chore, Deferred, Delivery, DeliveryEnd, Event, Row, RowKey, Source, Work, Workspace},
    run::{end, record::Until},
    time::Timestamp,
};

/// Maximum time between the sending of an event and its delivery: 365 days.
pub const MAX_DELAY_MS: u64 = MAX_DURATION_MS;

/// Topic of the chores that deliver events. No event has an empty name, so no event waits for them.
const TOPIC: &str = "";

/// A deferred event that was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledDelivery {
    /// The event, or the input of the request.
    pub id: EventId,
    /// The run that the request would have got; none for an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The name of the event, or of the action.
    pub name: String,
    /// When it would have been delivered.
    pub deliver_at: Timestamp,
    /// The deduplication id, which can be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_id: Option<String>,
}

/// Returns the id of the run of a deferred request.
pub fn run_of(event: EventId) -> RunId {
    RunId { seq: event.seq, salt: event.salt }
}

/// Returns the event of a deferred request by the id of its run.
pub fn event_of(run: RunId) -> EventId {
    EventId { seq: run.seq, salt: run.salt }
}

/// Returns the delivery of an input that is sent now; none if it is admitted at once, because the
/// time has passed.
pub fn planned(draft: &Draft, deliver: Option<Until>) -> Decided<Option<Timestamp>> {
    let Some(deliver) = deliver else { return Ok(None) };
    let (now, at) = (draft.now(), deliver.moment(draft.now()));
    if at > now.plus_ms(MAX_DELAY_MS) {
        return Err(Stop::Refused(Refusal::TooFarAhead { at, now }));
    }
    Ok((at > now).then_some(at))
}

/// Leaves the chore that delivers an event. The event has been recorded.
pub fn defer(draft: &mut Draft, event: &Event, at: Timestamp, deferred: Deferred) {
    let id = ChoreId { seq: event.id.seq, salt: event.id.salt };
    let (topic, due, work) = (Some(TOPIC.to_owned()), Some(at), Work::Deliver(deferred));
    draft.put(Chore { id, ws: event.ws.clone(), topic, due, work });
}

/// Returns the reads of a delivery other than rows.
pub fn reads(chore: &Chore, deferred: &Deferred) -> ReadSet {
    let topic = Latch::Topic(chore.ws.clone(), deferred.name.clone());
    ReadSet::default().catalog(&chore.ws).latch(topic, Mode::Shared)
}

/// Delivers an event, if it is due, and returns the answer that its sender would have got. Until
/// then the chore stays.
pub fn deliver(draft: &mut Draft, chore: &Chore, deferred: &Deferred) -> Decided<Answer> {
    let (now, due) = (draft.now(), chore.due.unwrap_or(Timestamp::MIN));
    let event = draft.event(id_of(chore))?.cloned();
    if due > now {
        // The clock has stepped back: a delay is not longer than it was asked for.
        let at = deferred.delay_ms.map_or(due, |ms| due.capped(now, ms));
        if let Some(event) = event.filter(|_| at < due) {
            draft.put(Chore { due: Some(at), ..chore.clone() });
            draft.put(Event { delivery: Some(Delivery { at, end: None }), ..event });
        }
        return Ok(Answer::Done);
    }
    draft.delete(RowKey::Chore(chore.id.seq));
    let Some(event) = event else { return Ok(Answer::Done) };
    let number = draft.next_seq()?;
    let event = ended(event, DeliveryEnd::Delivered { number, at: now });
    draft.put(event.clone());
    match &deferred.request {
        Some(request) => {
            let outcome = request::deliver(draft, &event, request.clone())?;
            Ok(outcome.map_or(Answer::Done, Answer::Admitted))
        }
        None => {
            let posted = event::arrive(draft, &event, deferred.dedupe_id.is_some())?;
            Ok(Answer::Posted(vec![posted]))
        }
    }
}

/// Whether a chore has to be processed although its due time is ahead: the clock has stepped back,
/// and its delay would be longer than it was asked for.
pub fn is_too_far(due: Timestamp, deferred: &Deferred, now: Timestamp) -> bool {
    deferred.delay_ms.is_some_and(|ms| due > now.plus_ms(ms))
}

fn id_of(chore: &Chore) -> EventId {
    EventId { seq: chore.id.seq, salt: chore.id.salt }
}

fn ended(event: Event, end: DeliveryEnd) -> Event {
    let delivery = event.delivery.map(|delivery| Delivery { end: Some(end), ..delivery });
    Event { delivery, ..event }
}

/// Finds a deferred event that was not delivered yet, with its chore.
fn pending(draft: &Draft, ws: &Workspace, id: EventId) -> Decided<Option<(Chore, Deferred)>> {
    let Some(Row::Chore(chore)) = draft.row(&RowKey::Chore(id.seq))? else { return Ok(None) };
    let Work::Deliver(deferred) = &chore.work else { return Ok(None) };
    let found = chore.ws == *ws && id_of(chore) == id;
    Ok(found.then(|| (chore.clone(), deferred.clone())))
}

/// Returns when the request of a run will be delivered; none if no deferred request waits for it.
pub fn of_run(draft: &Draft, ws: &Workspace, run: RunId) -> Decided<Option<Timestamp>> {
    let found = pending(draft, ws, event_of(run))?;
    Ok(found.and_then(|(chore, deferred)| deferred.request.and(chore.due)))
}

/// Cancels a deferred event or request before its delivery. Its `dedupeId` can be used again. The
/// run of a request ends as cancelled.
pub fn cancel(
    draft: &mut Draft,
    ws: &Workspace,
    id: EventId,
    reason: &str,
) -> Decided<CancelledDelivery> {
    let Some((chore, deferred)) = pending(draft, ws, id)? else {
        let event = draft.event(id)?.filter(|event| event.ws == *ws && event.id == id);
        let end = event.and_then(|event| event.delivery).and_then(|delivery| delivery.end);
        return Err(Stop::Refused(match event {
            // An event that was not deferred was delivered when it arrived.
            Some(_) => {
                let end = end.map_or(DeliveryEnd::DELIVERED, |end| end.word());
                Refusal::DeliveryEnded { event: id, end }
            }
            None => Refusal::NoEvent(id),
        }));
    };
    let now = draft.now();
    if let Some(event) = draft.event(id)?.cloned() {
        draft.put(ended(event, DeliveryEnd::Cancelled { at: now }));
    }
    if let Some(dedupe_id) = &deferred.dedupe_id {
        let key = idempotency::dedupe_key(ws, dedupe_id);
        if claim::held(draft, &key)?.is_some_and(|claim| claim.event == id) {
            draft.delete(RowKey::Gate(key));
        }
    }
    let run = deferred.request.as_ref().map(|_| run_of(id));
    if let (Some(run), Some(request)) = (run, &deferred.request) {
        let catalog = draft.catalog(ws)?;
        let entry = catalog.entry(&request.app, &deferred.name);
        let current = entry.and_then(|entry| entry.current.as_ref());
        let owner = (ws.clone(), request.app.clone(), deferred.name.clone());
        end::end_unstarted(draft, owner, current, (run, Source::Event(id)), reason);
    }
    draft.delete(RowKey::Chore(id.seq));
    let (name, deliver_at) = (deferred.name, chore.due.unwrap_or(now));
    Ok(CancelledDelivery { id, run, name, deliver_at, dedupe_id: deferred.dedupe_id })
}

/// A deferred event or request that was not delivered yet.
#[derive(Clone, Debug, PartialEq)]
pub struct DeferredEvent {
    /// The event, or the input of the request.
    pub event: Event,
    /// When it is delivered.
    pub deliver_at: Timestamp,
    /// The deduplication id.
    pub dedupe_id: Option<String>,
    /// The run that a request gets.
    pub run: Option<RunId>,
}

/// Returns the events and requests of a workspace that were not delivered yet, newest first.
pub fn list<E>(draft: &Draft, ws: &Workspace, part: Part) -> Decided<Newest<DeferredEvent>, E> {
    let scan = Scan::ChoresBelow(ws.clone(), TOPIC.to_owned(), part.below());
    let rows = draft.found(&scan, part.limit)?;
    let mut missing = Missing::default();
    let (mut items, mut last) = (Vec::new(), None);
    for row in &rows {
        let Row::Chore(chore) = row else { continue };
        let Work::Deliver(deferred) = &chore.work else { continue };
        last = Some(chore.id.seq);
        if let Some(Some(event)) = missing.note(draft.event(id_of(chore)))? {
            let run = deferred.request.as_ref().map(|_| run_of(event.id));
            let (deliver_at, dedupe_id) = (chore.due.unwrap_or(event.at), &deferred.dedupe_id);
            let (event, dedupe_id) = (event.clone(), dedupe_id.clone());
            items.push(DeferredEvent { event, deliver_at, dedupe_id, run });
        }
    }
    missing.settle()?;
    Ok(Newest { items, next: last.filter(|_| rows.len() >= part.limit as usize) })
}
