//! Checks of the order between runs: sessions, replacements, releases.

use tidegate_core::{
    row::{At, Class, GateKey, GateState, Phase, Row, RowKey, Run, Scope},
    run::wait::encoded,
    time::Timestamp,
};

use super::{Checked, Look, history::History, undoes};
use crate::sim::controls::Policy;

/// Returns the runs that this commit started for the first time, without compensations.
fn started<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Run> {
    look.runs().filter_map(|(before, after)| {
        let fresh = before.is_none_or(|run| !run.started);
        after.filter(|run| run.started && fresh && !undoes(run))
    })
}

/// Under the policy `queue`, runs start in the order of arrival, each after the end of the one
/// before.
pub(super) fn i22(look: &Look<'_>, _: &History) -> Checked {
    let queues = |run: &Run| {
        let spec = look.plan.spec(&run.workflow);
        let policy = spec.and_then(|spec| spec.version(run.version).0.policy.clone());
        matches!(policy, Some(Policy::Queue(..)))
    };
    for run in started(look).filter(|run| queues(run)) {
        let session = run.plan.iter().find(|need| need.gate.class() == Some(Class::Policy));
        let Some(need) = session else { continue };
        let shares = |other: &&Run| other.plan.iter().any(|it| it.gate == need.gate);
        for other in look.state.runs().filter(shares).filter(|other| other.id != run.id) {
            // The run of a fold is ordered by the time of its flush, although its id is older.
            let next = other.plan.get(other.entered).is_some_and(|it| it.gate == need.gate);
            // It may have come from the queue of an earlier gate when the run was inside already.
            let next = next && queued_at(other, &need.gate) < entered_at(run, &need.gate);
            let earlier = other.rank.seq < run.rank.seq && next && queues(other);
            // A run that replaced another one has the position of that run.
            let plain = run.replaced.is_none() && other.replaced.is_none();
            if other.started || (earlier && plain) {
                return Err(format!("run {} started before the end of {other:?}", run.id));
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

/// A run that replaced another one starts only after the row of that run was deleted.
pub(super) fn i29(look: &Look<'_>, _: &History) -> Checked {
    for run in started(look) {
        if let Some(old) = run.replaced.and_then(|old| look.state.run(old.seq)) {
            return Err(format!(
                "run {} started before run {}, which it replaced, has stopped",
                run.id, old.id
            ));
        }
    }
    Ok(())
}

/// Under `drain` and `supersede`, no run starts while a run of an older release with its key is
/// live, and a superseding run has cancelled the started ones.
pub(super) fn i30(look: &Look<'_>, history: &History) -> Checked {
    let release = |run: &Run| history.releases.get(&run.id.seq).copied().unwrap_or(0);
    let new = look.runs().filter_map(|(before, after)| after.filter(|_| before.is_none()));
    for run in new.chain(started(look)) {
        let Some(spec) = look.plan.spec(&run.workflow) else { continue };
        let Some((path, on)) = spec.version(run.version).0.handoff else { continue };
        // The gate of the run's own handoff, not a gate that a later release gave it.
        let own = |scope: Scope| scope.class == Class::Handoff && scope.slot == path.unwrap_or("");
        let gate = run.plan.iter().find(|need| need.gate.scope().is_some_and(own));
        let Some(gate) = gate.filter(|_| on != "coexist") else { continue };
        let key = |run: &Run| path.map(|path| field(look, run, path));
        for other in look.state.runs().filter(|it| it.ws == run.ws && it.workflow == run.workflow) {
            let older = other.lane != run.lane && release(other) < release(run);
            // A retry of an older version may be created when a newer run already has the hold.
            let late = other.replay_of.is_some() && !other.started;
            if !older || late || is_behind(look, other, release) || key(other) != key(run) {
                continue;
            }
            let shares = other.plan.iter().any(|it| it.gate == gate.gate);
            let over = other.phase == Phase::Stopping || !other.started || undoes(other);
            if on == "supersede" && shares && !over && !run.started {
                return Err(format!("run {} did not cancel the older run {other:?}", run.id));
            }
            // `supersede` gives unstarted runs the new version, and has cancelled the others.
            if !run.started || over && (on == "supersede" || history.moved.contains(&run.id.seq)) {
                continue;
            }
            // A run that had started got its hold from the release; one that was queued at another
            // gate may have none.
            let released = history.released.get(&(run.ws.clone(), release(run)));
            let began = history.begun.get(&other.id.seq);
            let shares = has_reached(other, &gate.gate) && !is_before(look, run, other, &gate.gate);
            if shares || began.zip(released).is_some_and(|(began, at)| began < at) {
                return Err(format!(
                    "run {} started while an older run is live: {other:?}",
                    run.id
                ));
            }
        }
    }
    Ok(())
}

/// Whether a run is queued behind one of a newer release that replaced the holder. That run is
/// first in the queue; if it had to wait for older queued runs, none of them could start.
fn is_behind(look: &Look<'_>, run: &Run, release: impl Fn(&Run) -> i64) -> bool {
    let waits =
        matches!(run.phase, Phase::Queued { .. }).then(|| run.plan.get(run.entered)).flatten();
    let gate = waits.and_then(|need| look.state.gate(&need.gate));
    let Some(GateState::Slots(slots)) = gate.map(|gate| &gate.state) else { return false };
    let holders = slots.holders.iter().filter_map(|hold| look.state.run(hold.run.seq));
    holders.into_iter().any(|holder| holder.replaced.is_some() && release(holder) > release(run))
}

/// Whether a run holds a gate or is queued at it. If it is queued at an earlier gate, it has no
/// position at this one yet.
fn has_reached(run: &Run, gate: &GateKey) -> bool {
    run.plan.iter().position(|need| need.gate == *gate).is_some_and(|at| at <= run.entered)
}

/// Whether a run got its hold before another one, to which a later release gave its hold.
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

/// A run keeps its version after its start.
pub(super) fn i31(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let (Some(old), Some(new)) = (before, after) else { continue };
        if old.started && (old.version, old.lane) != (new.version, new.lane) {
            return Err(format!("started run {} was moved to version {}", old.id, new.version));
        }
    }
    Ok(())
}
