//! Listeners: events that concern a run from its admission on, whether it waits for them or not.
//!
//! An event of `cancelOn` cancels the run; an event of `waitsFor` enters its inbox. The run's row has
//! the number of its first listener, other listeners have rows in the index of waits. So an event
//! reads only the runs whose values it has. The values are fixed at admission, and so is the run's
//! part of a condition.

use super::{end, wait};
use crate::{
    draft::{Decided, Draft},
    flow::{cancel_on::Listened, plan::Candidate, receipts},
    id::{EventId, Seq},
    json::Payload,
    reads::Scan,
    row::{Event, Kind, Listener, ListenerEffect, Row, RowKey, Run, Signal, Wait, WaitOn, WaitRow},
};

/// Maximum number of events of one name in a run's inbox. Later ones are dropped, so that the
/// earliest are consumed in order and without a gap.
pub const MAX_INBOX: u32 = 100;

/// Start of the names of listeners in the index of waits, which have a step there.
const STEP: &str = "\u{1}listener ";

/// Start of the names of events in an inbox, which is that of signals.
const EVENT: &str = "\u{1}event ";

/// Returns the name of a run's listener in the index of waits.
pub(crate) fn step(n: usize) -> String {
    format!("{STEP}{n}")
}

/// Returns the number of a listener; none if the name is that of a step.
pub(super) fn number(step: &str) -> Option<usize> {
    step.strip_prefix(STEP)?.parse().ok()
}

/// Registers the listeners of a run that is being admitted. A run whose data lacks one of the
/// values has no listener: no event can have that value.
pub(crate) fn begin<E>(
    draft: &mut Draft,
    run: &mut Run,
    candidate: &Candidate<'_>,
) -> Decided<(), E> {
    let workflow = candidate.workflow();
    if workflow.cancel_on.is_empty() && workflow.waits_for.is_empty() {
        return Ok(());
    }
    if draft.is_probing() {
        let cancel_on = workflow.cancel_on.iter();
        let cancel_on = cancel_on.map(|entry| (&entry.on, entry.path(candidate.event)));
        let waits_for = workflow.waits_for.iter().map(|wanted| (wanted, wanted.path()));
        let mut entries = cancel_on.chain(waits_for);
        return entries.try_for_each(|(it, path)| wait::use_path(draft, &run.ws, &it.event, &path));
    }
    let since = draft.next_seq()?;
    let mut add = |name: &str, (path, value, filter): Listened, until, effect| {
        let (name, first) = (name.to_owned(), run.listeners.is_empty());
        run.listeners.push(Listener { name, path, value, since, filter, until, effect, first });
    };
    for entry in &workflow.cancel_on {
        // The plan has rejected an input for which the condition cannot be fixed.
        let Ok(Some(listened)) = entry.listener(candidate.event) else { continue };
        let until = entry.within_ms.map(|ms| run.queued_at.plus_ms(ms));
        add(&entry.on.event, listened, until, ListenerEffect::Cancel);
    }
    for wanted in &workflow.waits_for {
        let Some((path, value)) = wanted.values(&candidate.event.data) else { continue };
        let effect = ListenerEffect::Keep { kept: 0, dropped: 0, last: since };
        add(&wanted.event, (path, value, None), None, effect);
    }
    // No latch of the values: of an event and an admission that are committed at the same time,
    // either may be first (spec L29, L35).
    for (n, Listener { name, path, value, first, .. }) in run.listeners.iter().enumerate() {
        wait::use_path(draft, &run.ws, name, path)?;
        if !first {
            let (ws, name, path) = (run.ws.clone(), name.clone(), path.clone());
            let (value, run, step) = (value.clone(), run.id.seq, step(n));
            draft.put(WaitRow { ws, name, path, value, run, step });
        }
    }
    Ok(())
}

/// Removes the listeners of a run that ends.
pub(super) fn forget(draft: &mut Draft, run: &mut Run) {
    for (n, listener) in std::mem::take(&mut run.listeners).into_iter().enumerate() {
        if !listener.first {
            let values = (listener.path, listener.value);
            draft.delete_known(wait::filed(run, &listener.name, values, step(n)));
        }
    }
}

/// Effect of an event on one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// None, or the run keeps the event for a later wait.
    Passed,
    /// It ended a wait.
    Woke,
    /// It cancelled the run.
    Cancelled,
}

/// Applies an event to a run that has a listener for it.
pub(super) fn hear<E>(draft: &mut Draft, event: &Event, run: Run, n: usize) -> Decided<Heard, E> {
    let Some(listener) = run.listeners.get(n) else { return Ok(Heard::Passed) };
    let is_current = event.number() >= listener.since
        && listener.until.is_none_or(|until| event.admitted_at() <= until)
        && wait::encoded(&event.data, &listener.path).as_ref() == Some(&listener.value)
        && listener.filter.as_ref().is_none_or(|filter| filter.holds(event));
    match listener.effect {
        _ if !is_current || listener.name != event.name => Ok(Heard::Passed),
        ListenerEffect::Cancel => {
            receipts::write_cancelled(draft, &run, event)?;
            let reason = format!("event `{}` ({})", event.name, event.id);
            end::cancel(draft, run, reason, None)?;
            Ok(Heard::Cancelled)
        }
        ListenerEffect::Keep { .. } => keep(draft, event, run, n),
    }
}

/// Gives an event to the run's waits for it, or else keeps it in the inbox.
fn keep<E>(draft: &mut Draft, event: &Event, mut run: Run, n: usize) -> Decided<Heard, E> {
    let Some(Listener { effect: ListenerEffect::Keep { kept, dropped, last }, .. }) =
        run.listeners.get_mut(n)
    else {
        return Ok(Heard::Passed);
    };
    // One of its waits was found first, and has the event.
    if *last == event.number() {
        return Ok(Heard::Passed);
    }
    let waits = run.waits.iter().filter(|wait| wait::is_ended_by(wait, event));
    let answer = |wait: &Wait| (wait.step.clone(), wait::answer_of(&wait.on, event));
    let steps: Vec<(String, Payload)> = waits.map(answer).collect();
    if steps.is_empty() {
        if *kept < MAX_INBOX {
            *kept += 1;
            let (name, seq) = (inbox(&event.name), event.number());
            draft.put(Signal { run: run.id.seq, name, seq, data: event.data.clone() });
        } else {
            *dropped += 1;
        }
        *last = event.number();
        draft.put(run);
        return Ok(Heard::Passed);
    }
    *last = event.number();
    let id = run.id.seq;
    draft.put(run);
    for (step, answer) in steps {
        if let Some(run) = draft.run(id)?.cloned() {
            wait::answer(draft, run, &step, Ok(answer))?;
        }
    }
    Ok(Heard::Woke)
}

/// Notes that a wait gets the event, so that it does not enter the inbox, too.
pub(super) fn pass(run: &mut Run, event: &Event) {
    for listener in run.listeners.iter_mut().filter(|listener| listener.name == event.name) {
        if let ListenerEffect::Keep { last, .. } = &mut listener.effect {
            *last = event.number();
        }
    }
}

/// Takes the first event that ends a wait out of the run's inbox. Returns the answer of the wait.
///
/// Of an event that was deferred, or that retention has deleted, only name, data and number are
/// known.
pub(super) fn take<E>(
    draft: &mut Draft,
    run: &mut Run,
    event: &str,
    on: &WaitOn,
) -> Decided<Option<Payload>, E> {
    let ws = run.ws.clone();
    let mut listeners = run.listeners.iter_mut().filter(|listener| listener.name == event);
    let kept = listeners.find_map(|listener| match &mut listener.effect {
        ListenerEffect::Keep { kept, .. } => Some(kept),
        ListenerEffect::Cancel => None,
    });
    let Some(kept) = kept.filter(|kept| **kept > 0) else { return Ok(None) };
    let (run, name) = (run.id.seq, inbox(event));
    let key = |seq| RowKey::Signal(run, name.clone(), seq);
    let stored = draft.found_all(&Scan::Inbox(run, name.clone()), MAX_INBOX + 1)?;
    let written = draft.written(key(Seq(i64::MIN)), key(Seq(i64::MAX)));
    let needs_whole = matches!(on, WaitOn::Event { filter: Some(_), .. })
        || matches!(on, WaitOn::Event { whole: true, .. });
    let mut events = Vec::new();
    for row in stored.into_iter().chain(written) {
        let Row::Signal(signal) = row else { continue };
        let stored = match needs_whole.then_some(RowKey::Event(signal.seq)) {
            Some(key) => draft.row(&key)?.cloned(),
            None => None,
        };
        let event = match stored {
            Some(Row::Event(stored)) if stored.name == event && stored.ws == ws => stored,
            _ => Event {
                id: EventId { seq: signal.seq, salt: 0 },
                ws: ws.clone(),
                kind: Kind::Event,
                name: event.to_owned(),
                at: draft.now(),
                ts: None,
                data: signal.data.clone(),
                delivery: None,
                attributes: None,
            },
        };
        if wait::is_met_by(on, &event) {
            events.push((signal.seq, wait::answer_of(on, &event)));
        }
    }
    let first = events.into_iter().min_by_key(|(seq, _)| *seq);
    Ok(first.map(|(seq, answer)| {
        *kept -= 1;
        draft.delete(key(seq));
        answer
    }))
}

fn inbox(event: &str) -> String {
    format!("{EVENT}{event}")
}
