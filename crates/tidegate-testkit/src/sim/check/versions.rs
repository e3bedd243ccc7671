//! Order between runs: sessions, replacements, releases.

use tidegate_core::{
    row::{At, Class, GateKey, GateState, Phase, Row, RowKey, Run, Scope},
    run::wait::encoded,
    time::Timestamp,
};

use super::{Checked, Look, history::History, undoes};
use crate::sim::controls::Policy;

/// Returns the runs that this commit started for the first time, except compensating ones.
fn started<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Run> {
    look.runs().filter_map(|(before, after)| {
        let fresh = before.is_none_or(|run| !run.started);
        after.filter(|run| run.started && fresh && !undoes(run))
    })
}

/// Under `queue`, starts follow acceptance, each after the end of the one before.
pub(super) fn i22(look: &Look<'_>, _: &History) -> Checked {
    let queues = |run: &Run| {
        let spec = look.plan.spec(&run.workflow);
        let policy = spec.and_then(|spec| spec.version(run.version).0.policy.clone());
        matches!(policy, Some(Policy::Queue(_)))
    };
    for run in started(look).filter(|run| queues(run)) {
        let session = run.plan.iter().find(|need| need.gate.class() == Some(Class::Policy));
        let Some(need) = session else { continue };
        let shares = |other: &&Run| other.plan.iter().any(|it| it.gate == need.gate);
        for other in look.state.runs().filter(shares).filter(|other| other.id != run.id) {
            // A fold's id is as old as its window; its order is that of its flush.
            let next = other.plan.get(other.entered).is_some_and(|it| it.gate == need.gate);
            // It may have come from the queue of an earlier gate when the run was inside already.
            let next = next && queued_at(other, &need.gate) < entered_at(run, &need.gate);
            let earlier = other.rank.seq < run.rank.seq && next && queues(other);
            // A run that replaced another has that run's position.
            let plain = run.replaced.is_none() && other.replaced.is_none();
            if other.started || (earlier && plain) {
                return Err(format!("{} starts before the end of {other:?}", run.id));
            }
        }
    }
    Ok(())
}

/// When a run joined the queue of a gate; none if it was never there.
fn queued_at(run: &Run, gate: &GateKey) -> Option<Timestamp> {
    let marks = run.trail.marks().iter().rev();
    let mut joined = marks.filter(|mark| matches!(&mark.1, At::Queue(at) if at == gate));
    joined.next().map(|mark| mark.0)
}

/// When a run entered a gate: it left its queue, or never had to queue there.
fn entered_at(run: &Run, gate: &GateKey) -> Option<Timestamp> {
    let marks = run.trail.marks();
    let joined = marks.iter().rposition(|mark| matches!(&mark.1, At::Queue(at) if at == gate));
    marks.get(joined.map_or(0, |at| at + 1)).map(|mark| mark.0)
}

/// A run that replaced another starts once that run is gone.
pub(super) fn i29(look: &Look<'_>, _: &History) -> Checked {
    for run in started(look) {
        if let Some(old) = run.replaced.and_then(|old| look.state.run(old.seq)) {
            return Err(format!("{} starts while {} is there", run.id, old.id));
        }
    }
    Ok(())
}

/// Under `drain` and `supersede` no run starts while one of an older release with its key is live,
/// and a superseding run has cancelled the started ones.
pub(super) fn i30(look: &Look<'_>, history: &History) -> Checked {
    let release = |run: &Run| history.releases.get(&run.id.seq).copied().unwrap_or(0);
    let new = look.runs().filter_map(|(before, after)| after.filter(|_| before.is_none()));
    for run in new.chain(started(look)) {
        let Some(spec) = look.plan.spec(&run.workflow) else { continue };
        let Some((path, on)) = spec.version(run.version).0.handoff else { continue };
        // The run's own handoff gate, not one that a later release gave it.
        let own = |scope: Scope| scope.class == Class::Handoff && scope.slot == path.unwrap_or("");
        let gate = run.plan.iter().find(|need| need.gate.scope().is_some_and(own));
        let Some(gate) = gate.filter(|_| on != "coexist") else { continue };
        let key = |run: &Run| path.map(|path| field(look, run, path));
        for other in look.state.runs().filter(|it| it.ws == run.ws && it.workflow == run.workflow) {
            let older = other.lane != run.lane && release(other) < release(run);
            // A retry of an older version may be made when a newer run has the hold already.
            let late = other.replay_of.is_some() && !other.started;
            if !older || late || is_behind(look, other, release) || key(other) != key(run) {
                continue;
            }
            let shares = other.plan.iter().any(|it| it.gate == gate.gate);
            let over = other.phase == Phase::Stopping || !other.started || undoes(other);
            if on == "supersede" && shares && !over && !run.started {
                return Err(format!("{} leaves the older {other:?} alone", run.id));
            }
            // `supersede` moves the runs that have not started, and has cancelled the others.
            if !run.started || over && (on == "supersede" || history.moved.contains(&run.id.seq)) {
                continue;
            }
            // A started run got its hold at the release; a run that waited elsewhere may not have.
            let released = history.released.get(&(run.ws.clone(), release(run)));
            let began = history.begun.get(&other.id.seq);
            let shares = has_reached(other, &gate.gate) && !is_before(look, run, other, &gate.gate);
            if shares || began.zip(released).is_some_and(|(began, at)| began < at) {
                return Err(format!("{} starts beside the older {other:?}", run.id));
            }
        }
    }
    Ok(())
}

/// Returns whether a run is queued behind one of a newer release. A run that replaces the holder of
/// a schedule is queued before the waiting occurrences; if it had to wait for them, none could
/// continue.
fn is_behind(look: &Look<'_>, run: &Run, release: impl Fn(&Run) -> i64) -> bool {
    let waits =
        matches!(run.phase, Phase::Queued { .. }).then(|| run.plan.get(run.entered)).flatten();
    let gate = waits.and_then(|need| look.state.gate(&need.gate));
    let Some(GateState::Slots(slots)) = gate.map(|gate| &gate.state) else { return false };
    let holders = slots.holders.iter().filter_map(|hold| look.state.run(hold.run.seq));
    holders.into_iter().any(|holder| holder.replaced.is_some() && release(holder) > release(run))
}

/// Returns whether a run holds a gate or is queued at it. A run that is queued at an earlier gate
/// has no position in the order of this one yet.
fn has_reached(run: &Run, gate: &GateKey) -> bool {
    run.plan.iter().position(|need| need.gate == *gate).is_some_and(|at| at <= run.entered)
}

/// Returns whether a run was admitted before another, which a later release gave its hold.
fn is_before(look: &Look<'_>, run: &Run, other: &Run, gate: &GateKey) -> bool {
    let GateState::Slots(slots) = &look.state.gate(gate).expect("a gate of a run").state else {
        return false;
    };
    let place = |run: &Run| slots.holders.iter().position(|hold| hold.run == run.id);
    place(run).zip(place(other)).is_some_and(|(run, other)| run < other)
}

/// Returns the value at a path of a run's input.
fn field(look: &Look<'_>, run: &Run, path: &str) -> Option<Vec<u8>> {
    match look.state.row(&RowKey::Event(run.source.first().seq)) {
        Some(Row::Event(event)) => encoded(&event.data, path),
        _ => None,
    }
}

/// A run keeps its version once it has started.
pub(super) fn i31(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let (Some(old), Some(new)) = (before, after) else { continue };
        if old.started && (old.version, old.lane) != (new.version, new.lane) {
            return Err(format!("{} moves to version {}", old.id, new.version));
        }
    }
    Ok(())
}
