//! Checks of runs: leases, steps, waits and ends.

use tidegate_core::{
    command::{Answer, Command},
    row::{Begun, Ended, Ending, Phase, Purpose, Row, RowKey, Run, Span, StepKind},
};

use super::{
    Checked, Look, events,
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
                    && step.result.as_ref().is_ok_and(|data| *data == events::signal()))
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
