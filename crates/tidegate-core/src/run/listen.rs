//! Listeners: events that concern a run from its admission on, whether it waits for them or not.
//!
//! An event of `cancelOn` cancels the run; an event of `waitsFor` enters its inbox. A listener has a
//! row in the index of waits, so an event finds it as it finds a wait, and reads only the runs whose
//! values it has. The values are fixed at admission.

use super::{end, wait};
use crate::{
    definition::EventMatch,
    draft::{Decided, Draft},
    flow::{plan::Candidate, receipts},
    id::Seq,
    json::Payload,
    reads::Scan,
    row::{Event, Listener, ListenerEffect, Row, RowKey, Run, Signal},
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
    let since = draft.next_seq()?;
    let mut add = |wanted: &EventMatch, within_ms: Option<u64>, effect| {
        let Some((path, value)) = wanted.values(&candidate.event.data) else { return };
        let until = within_ms.map(|ms| run.queued_at.plus_ms(ms));
        let name = wanted.event.clone();
        run.listeners.push(Listener { name, path, value, since, until, effect });
    };
    for entry in &workflow.cancel_on {
        add(&entry.on, entry.within_ms, ListenerEffect::Cancel);
    }
    for wanted in &workflow.waits_for {
        add(wanted, None, ListenerEffect::Keep { kept: 0, dropped: 0, last: since });
    }
    for (n, listener) in run.listeners.iter().enumerate() {
        let first = (listener.path.clone(), listener.value.clone());
        wait::file(draft, run, &listener.name, first, step(n))?;
    }
    Ok(())
}

/// Removes the listeners of a run that ends.
pub(super) fn forget(draft: &mut Draft, run: &mut Run) {
    for (n, listener) in std::mem::take(&mut run.listeners).into_iter().enumerate() {
        let first = (listener.path, listener.value);
        draft.delete_known(wait::filed(run, &listener.name, first, step(n)));
    }
}

/// Applies an event to a run that has a listener for it. Returns whether it ended a wait.
pub(super) fn hear<E>(draft: &mut Draft, event: &Event, run: Run, n: usize) -> Decided<bool, E> {
    let Some(listener) = run.listeners.get(n) else { return Ok(false) };
    let is_current = event.number() >= listener.since
        && listener.until.is_none_or(|until| event.admitted_at() <= until)
        && wait::encoded(&event.data, &listener.path).as_ref() == Some(&listener.value);
    match listener.effect {
        _ if !is_current || listener.name != event.name => Ok(false),
        ListenerEffect::Cancel => {
            receipts::write_cancelled(draft, &run, event)?;
            let reason = format!("event `{}` ({})", event.name, event.id);
            end::cancel(draft, run, reason, None)?;
            Ok(false)
        }
        ListenerEffect::Keep { .. } => keep(draft, event, run, n),
    }
}

/// Gives an event to the run's waits for it, or else keeps it in the inbox.
fn keep<E>(draft: &mut Draft, event: &Event, mut run: Run, n: usize) -> Decided<bool, E> {
    let Some(Listener { effect: ListenerEffect::Keep { kept, dropped, last }, .. }) =
        run.listeners.get_mut(n)
    else {
        return Ok(false);
    };
    // One of its waits was found first, and has the event.
    if *last == event.number() {
        return Ok(false);
    }
    let waits = run.waits.iter().filter(|wait| wait::is_ended_by(wait, event));
    let steps: Vec<String> = waits.map(|wait| wait.step.clone()).collect();
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
        return Ok(false);
    }
    *last = event.number();
    let id = run.id.seq;
    draft.put(run);
    for step in steps {
        if let Some(run) = draft.run(id)?.cloned() {
            wait::answer(draft, run, &step, Ok(event.data.clone()))?;
        }
    }
    Ok(true)
}

/// Notes that a wait gets the event, so that it does not enter the inbox, too.
pub(super) fn pass(run: &mut Run, event: &Event) {
    for listener in run.listeners.iter_mut().filter(|listener| listener.name == event.name) {
        if let ListenerEffect::Keep { last, .. } = &mut listener.effect {
            *last = event.number();
        }
    }
}

/// Takes the first event with these values out of the run's inbox.
pub(super) fn take<E>(
    draft: &mut Draft,
    run: &mut Run,
    event: &str,
    matches: &[(String, Vec<u8>)],
) -> Decided<Option<Payload>, E> {
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
    let mut events = Vec::new();
    for row in stored.into_iter().chain(written) {
        if let Row::Signal(signal) = row
            && wait::has_values(&signal.data, matches)
        {
            events.push(signal);
        }
    }
    let first = events.into_iter().min_by_key(|signal| signal.seq).cloned();
    Ok(first.map(|signal| {
        *kept -= 1;
        draft.delete(key(signal.seq));
        signal.data
    }))
}

fn inbox(event: &str) -> String {
    format!("{EVENT}{event}")
}
