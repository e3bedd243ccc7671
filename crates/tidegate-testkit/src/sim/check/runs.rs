//! Checks of runs: leases, steps, waits and ends.

use tidegate_core::{
    command::{Answer, Command},
    row::{
        Begun, Ended, Ending, Event, Listener, ListenerEffect, Phase, Purpose, Row, RowKey, Run,
        Span, Step, StepKind, WaitOn,
    },
    run::{listen::MAX_INBOX, wait::encoded},
};

use super::{
    Checked, Look, deliveries,
    history::{History, is_expired},
};
use crate::sim::{
    state::{Delta, State},
    task::SIGNAL,
};

/// An ended run does not change, and no step is recorded for it.
pub(super) fn i6(look: &Look<'_>, _: &History) -> Checked {
    for delta in look.deltas {
        match &delta.key {
            RowKey::Ended(seq) => {
                let forgotten = delta.after.is_none() && look.forgets().is_some();
                if (delta.before.is_some() || delta.after.is_none()) && !forgotten {
                    return Err(format!("the row of ended run {seq} changed: {delta:?}"));
                }
                if look.state.run(*seq).is_some_and(|run| run.phase != Phase::Stopping) {
                    return Err(format!("run {seq} has ended and is still live"));
                }
            }
            RowKey::Run(seq) => {
                let ended = look.state.ended(*seq).is_some();
                let lives =
                    matches!(&delta.after, Some(Row::Run(run)) if run.phase != Phase::Stopping);
                if ended && lives {
                    return Err(format!("run {seq} is live after its end"));
                }
                if !ended && delta.after.is_none() {
                    return Err(format!("run {seq} was deleted without an end"));
                }
            }
            RowKey::Step(seq, id) => {
                let ends_now = look.deltas.iter().any(|other| other.key == RowKey::Ended(*seq));
                if look.state.ended(*seq).is_some() && !ends_now && delta.after.is_some() {
                    return Err(format!("step {id} was recorded after the end of run {seq}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A step is recorded once, and its record never changes.
pub(super) fn i23(look: &Look<'_>, _: &History) -> Checked {
    let forgotten = |delta: &Delta| delta.after.is_none() && look.forgets().is_some();
    let steps = look.deltas.iter().filter(|delta| matches!(delta.key, RowKey::Step(..)));
    let steps = steps.filter(|delta| !forgotten(delta));
    match steps.into_iter().find(|delta| delta.before.is_some() || delta.after.is_none()) {
        Some(delta) => Err(format!("a recorded step changed: {delta:?}")),
        None => Ok(()),
    }
}

/// A report is accepted only with the current fence of the run; a fence never decreases.
pub(super) fn i25(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let (Some(old), Some(new)) = (before, after) else { continue };
        let leased = old.phase != Phase::Driven && new.phase == Phase::Driven;
        if new.fence < old.fence || (leased && new.fence == old.fence) {
            return Err(format!("the fence changed from {} to {}", old.fence, new.fence));
        }
    }
    for (command, answer) in look.answered() {
        let (Command::Record { report, .. }, Ok(Answer::Recorded(_))) = (command, answer) else {
            continue;
        };
        let good = |run: &Run| {
            run.phase == Phase::Driven
                && run.owner == Some(report.engine)
                && run.fence == report.fence
        };
        if !look.before(report.run).is_some_and(good) {
            let run = look.before(report.run);
            return Err(format!(
                "the report {report:?} was accepted, although the run was {run:?}"
            ));
        }
    }
    Ok(())
}

/// The runs of an engine are reaped only if it is dead. It is marked dead only if its heartbeat has
/// not changed for a whole lease.
pub(super) fn i27(look: &Look<'_>, history: &History) -> Checked {
    for (command, answer) in look.answered() {
        if let (Command::MarkDead { engine, .. }, Ok(Answer::Changed(true))) = (command, answer) {
            let (last, lease_ms) = history.beats.get(engine).copied().unwrap_or_default();
            if look.now - last < u64::from(lease_ms) * 1000 {
                return Err(format!(
                    "engine {engine} was marked dead {} µs after its last heartbeat, before the \
                     end of its lease",
                    look.now - last
                ));
            }
        }
    }
    for (before, after) in look.runs().filter(|_| !look.rows_only) {
        let Some(Run { owner: Some(owner), id, .. }) = before else { continue };
        if after.is_some_and(|run| run.owner == Some(*owner)) {
            continue;
        }
        let by_its_worker = look.commands.iter().any(|(command, _)| match command {
            Command::Record { report, .. } => report.run == id.seq && report.engine == *owner,
            Command::Stopped { known } => known.id == *id && known.owner == Some(*owner),
            _ => false,
        });
        if !by_its_worker && look.state.engine(*owner).is_some_and(|row| !row.dead) {
            return Err(format!("run {id} was taken from engine {owner}, which is not dead"));
        }
    }
    Ok(())
}

/// Each death of an engine is counted, if the handler of the run had begun. At the maximum the run
/// is paused with the reason.
pub(super) fn i28(look: &Look<'_>, _: &History) -> Checked {
    let max = look.plan.max_deaths;
    for (before, after) in look.runs() {
        let (Some(old), Some(new)) = (before, after) else { continue };
        let reaped = old.phase == Phase::Driven
            && look.commands.iter().any(|(command, _)| {
                matches!(command, Command::Reap { known, engine, .. }
                    if known.id == new.id && Some(*engine) == old.owner)
            });
        let taken = reaped && new.owner != old.owner;
        let died = taken && old.begun == Begun::Yes;
        let grown = new.deaths.saturating_sub(old.deaths);
        let may_grow = look.rows_only && old.begun == Begun::Yes && grown == 1;
        if grown != u32::from(died) && !may_grow {
            let (old, new, by) = (old.deaths, new.deaths, u32::from(died));
            return Err(format!(
                "`deaths` changed from {old} to {new}, expected an increase of {by}"
            ));
        }
        let taken_over = new.takeovers.saturating_sub(old.takeovers);
        if taken_over != u32::from(taken) && !(look.rows_only && taken_over <= 1) {
            return Err(format!(
                "wrong number of takeovers: before {}, after {}",
                old.takeovers, new.takeovers
            ));
        }
        let at_its_bound = max > 0 && new.deaths >= max;
        let paused = new.phase == Phase::Paused && new.pause_reason.is_some();
        if at_its_bound != new.pause_reason.is_some() || (at_its_bound && !paused) {
            let (id, deaths, phase, reason) = (new.id, new.deaths, new.phase, &new.pause_reason);
            return Err(format!(
                "run {id} with {deaths} of at most {max} deaths has phase {phase:?} and pause \
                 reason {reason:?}: it must be paused exactly at the maximum"
            ));
        }
    }
    Ok(())
}

/// A run does not miss an event that is posted after its wait began, and gets no earlier one.
pub(super) fn i33(look: &Look<'_>, _: &History) -> Checked {
    let new = |delta: &'_ &Delta| delta.before.is_none();
    let added = look.deltas.iter().filter(new).filter_map(|delta| delta.after.as_ref());
    let events: Vec<&Event> = deliveries::admitted(look).collect();
    for event in &events {
        for run in look.state.runs().filter(|run| run.ws == event.ws) {
            let Some(old) = look.before(run.id.seq) else { continue };
            for wait in run.waits.iter().filter(|wait| old.waits.contains(wait)) {
                let WaitOn::Event { name, matches, .. } = &wait.on else { continue };
                let all = matches
                    .iter()
                    .all(|(path, value)| encoded(&event.data, path).as_ref() == Some(value));
                if *name == event.name && all {
                    return Err(format!("the event {event:?} did not wake the run {run:?}"));
                }
            }
        }
    }
    for row in added {
        let Row::Step(step) = row else { continue };
        // A retry from a step starts with the recorded events of the first run.
        if step.kind == StepKind::Event && look.before(step.run).is_some() {
            brought(
                look,
                step,
                events.iter().any(|event| step.result.as_ref() == Ok(&event.data))
                    || is_from_inbox(look, step),
            )?;
        }
    }
    Ok(())
}

/// Whether the result is an event that this commit has taken out of the run's inbox.
fn is_from_inbox(look: &Look<'_>, step: &Step) -> bool {
    look.deltas.iter().any(|delta| match (&delta.before, &delta.after) {
        (Some(Row::Signal(kept)), None) => {
            kept.run == step.run && step.result.as_ref() == Ok(&kept.data)
        }
        _ => false,
    })
}

/// Returns the posted events of this commit.
fn posted<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Event> {
    let events = deliveries::admitted(look);
    // While a chore wakes runs for the name, its later events wait.
    events.filter(|event| {
        let behind = |row: &Row| {
            matches!(row, Row::Chore(chore) if chore.topic.as_ref() == Some(&event.name))
        };
        !look.state.rows().any(behind)
    })
}

/// Whether a listener was there when the event arrived, and has its values.
fn hears(listener: &Listener, event: &Event) -> bool {
    listener.name == event.name
        && listener.since <= event.number()
        && listener.until.is_none_or(|until| event.admitted_at() <= until)
        && encoded(&event.data, &listener.path).as_ref() == Some(&listener.value)
}

/// An event cancels every run with its values that was admitted before it. A run is cancelled by an
/// event only if it has such a listener.
pub(super) fn i60(look: &Look<'_>, _: &History) -> Checked {
    for event in posted(look) {
        let runs = look.state.runs().filter(|run| run.ws == event.ws);
        for run in runs.filter(|run| run.phase != Phase::Stopping) {
            let cancels = |it: &&Listener| it.effect == ListenerEffect::Cancel;
            if run.listeners.iter().filter(cancels).any(|it| hears(it, event)) {
                return Err(format!("the event {event:?} did not cancel the run {run:?}"));
            }
        }
    }
    for delta in look.deltas {
        let Some(Row::Ended(ended)) = &delta.after else { continue };
        let Ending::Cancelled { reason, .. } = &ended.ending else { continue };
        let by = posted(look).find(|it| *reason == format!("event `{}` ({})", it.name, it.id));
        let Some(by) = by else { continue };
        let had = look.before(ended.id.seq).map(|run| &run.listeners);
        // The run may have been admitted in this commit: then its listeners are not known.
        if had.is_some_and(|listeners| !listeners.iter().any(|it| hears(it, by))) {
            return Err(format!("run {} was cancelled by {by:?}, without reason", ended.id));
        }
    }
    Ok(())
}

/// An event of `waitsFor` reaches every run with its values that was admitted before it, once. The
/// number of events in an inbox is that of its rows, at most the maximum.
pub(super) fn i61(look: &Look<'_>, _: &History) -> Checked {
    for event in posted(look) {
        let runs = look.state.runs().filter(|run| run.ws == event.ws);
        for run in runs.filter(|run| run.phase != Phase::Stopping) {
            let missed = run.listeners.iter().any(|it| match it.effect {
                ListenerEffect::Keep { last, .. } => hears(it, event) && last < event.id.seq,
                ListenerEffect::Cancel => false,
            });
            if missed {
                return Err(format!("the event {event:?} did not reach the run {run:?}"));
            }
        }
    }
    for run in look.runs().filter_map(|(_, after)| after) {
        let kept = run.listeners.iter().map(|it| match it.effect {
            ListenerEffect::Keep { kept, .. } => kept,
            ListenerEffect::Cancel => 0,
        });
        let rows = look.state.rows().filter(
            |row| matches!(row, Row::Signal(it) if it.run == run.id.seq && it.name != SIGNAL),
        );
        let (kept, rows) = (kept.sum::<u32>() as usize, rows.count());
        let ends = run.phase == Phase::Stopping;
        if !ends && (kept != rows || kept > MAX_INBOX as usize * run.listeners.len()) {
            return Err(format!("run {} has {kept} events in its inbox, and {rows} rows", run.id));
        }
    }
    Ok(())
}

/// Checks that a wait for an event got an event of this commit, or timed out.
fn brought(look: &Look<'_>, step: &Step, by_event: bool) -> Checked {
    let wait = look.before(step.run).and_then(|run| run.waits.iter().find(|w| w.step == step.id));
    let timed_out = wait.and_then(|wait| wait.until).is_some_and(|until| until <= look.at);
    let null = step.result.as_ref().is_ok_and(|data| data.as_str() == "null");
    if by_event || (null && timed_out) {
        return Ok(());
    }
    Err(format!("no event and no timeout for the result {step:?} of the wait {wait:?}"))
}

/// A run starts before its `startWithinMs` is over, or not at all. It expires only if it has not
/// started by then, and its input gets a receipt for that.
pub(super) fn i53(look: &Look<'_>, history: &History) -> Checked {
    for (before, after) in look.runs() {
        let Some(run) = after.filter(|run| run.started) else { continue };
        let by = history.start_by.get(&run.id.seq).filter(|by| **by <= look.at);
        if let Some(by) = by.filter(|_| !before.is_some_and(|old| old.started)) {
            return Err(format!("run {} started at {}, but it expired at {by}", run.id, look.at));
        }
    }
    for delta in look.deltas {
        let Some(Row::Ended(ended)) = &delta.after else { continue };
        if !is_expired(&ended.ending) {
            continue;
        }
        let by = history.start_by.get(&ended.id.seq);
        if by.is_some_and(|by| *by > look.at) {
            return Err(format!("run {} expired at {}, before its time {by:?}", ended.id, look.at));
        }
        if history.begun.contains_key(&ended.id.seq) {
            return Err(format!("run {} expired although it has started", ended.id));
        }
        let said = look.deltas.iter().any(|delta| {
            matches!(&delta.after, Some(Row::Receipt(receipt))
                if receipt.verdict["outcome"] == Ending::EXPIRED
                    && receipt.verdict["runId"] == ended.id.to_string())
        });
        if !said {
            return Err(format!("run {} expired without a receipt", ended.id));
        }
    }
    Ok(())
}

/// Every accepted signal was delivered or is still stored, and no ended child has a parent that is
/// live.
pub(super) fn settled(state: &State, history: &History) -> Result<(), (&'static str, String)> {
    for (run, sent) in history.signals.iter().filter(|(run, _)| !history.forgotten.contains(run)) {
        let taken = state.rows().filter(|row| {
            matches!(row, Row::Step(step)
                if step.run == *run && step.kind == StepKind::Signal
                    && step.result.as_ref().is_ok_and(|data| data.as_str() != "null"))
        });
        let kept = state
            .rows()
            .filter(|row| matches!(row, Row::Signal(it) if it.run == *run && it.name == SIGNAL));
        let (taken, kept) = (taken.count(), kept.count());
        if taken + kept != *sent {
            return Err((
                "I33",
                format!("run {run}: {sent} signals were sent, {taken} delivered, {kept} stored"),
            ));
        }
    }
    for row in state.rows() {
        if let Row::Ended(Ended { id, parent: Some(parent), .. }) = row {
            let answer = state.run(*parent).is_none();
            if !answer {
                return Err(("I32", format!("the parent of ended run {id} has not ended")));
            }
        }
    }
    Ok(())
}

/// No run of a paused workflow starts for the first time.
pub(super) fn i66(look: &Look<'_>, _: &History) -> Checked {
    // The order of a pause and a lease in one commit is not known.
    if look.redefines() {
        return Ok(());
    }
    for (before, after) in look.runs() {
        let Some(run) = after else { continue };
        let first = run.started && !before.is_some_and(|before| before.started);
        if first && run.purpose == Purpose::Ordinary && look.state.is_paused(run) {
            return Err(format!("{} has started, although `{}` is paused", run.id, run.workflow));
        }
    }
    Ok(())
}

/// An unstarted run of a paused workflow holds no turn and no executing place, and waits in no queue
/// behind its throttle, once the chore of the pause has looked at it (spec L25).
pub(super) fn i96(look: &Look<'_>, _: &History) -> Checked {
    let ended = |key: &RowKey| matches!(key, RowKey::Chore(_));
    let chore_ended = look.deltas.iter().any(|delta| ended(&delta.key) && delta.after.is_none());
    if look.state.takes_back() {
        return Ok(());
    }
    let changed = look.deltas.iter().filter_map(|delta| delta.after.as_ref()?.as_run());
    let all = look.state.runs().filter(|_| chore_ended);
    for run in changed.chain(all) {
        let goes_on = match run.phase {
            Phase::Ready => true,
            Phase::Queued { .. } => {
                run.entered > run.kept()
                    || run.plan.get(run.entered).is_some_and(|need| {
                        need.span != Span::Run && !look.state.is_closed(&need.gate)
                    })
            }
            Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => false,
        };
        let ordinary = !run.started && run.purpose == Purpose::Ordinary;
        if goes_on && ordinary && look.state.is_paused(run) {
            return Err(format!("the start of {} is paused, and it has gone on: {run:?}", run.id));
        }
    }
    Ok(())
}
