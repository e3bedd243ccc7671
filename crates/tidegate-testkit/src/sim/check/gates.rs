//! Checks of gates: holders, queues, and their order.

use std::collections::BTreeMap;

use tidegate_core::row::{
    Class, Gate, GateKey, GateState, Hold, Phase, Place, Purpose, Row, RowKey, Run, Span,
};

use super::{
    Checked, Look,
    history::{History, is_dropped},
    undoes,
};
use crate::sim::state::State;

fn holders(gate: &Gate) -> &[Hold] {
    if let GateState::Slots(slots) = &gate.state { &slots.holders } else { &[] }
}

/// Returns the gates that changed: before and after the commit.
fn changed<'a>(look: &Look<'a>) -> impl Iterator<Item = (Option<&'a Gate>, Option<&'a Gate>)> {
    let gates = look.deltas.iter().filter(|delta| matches!(delta.key, RowKey::Gate(_)));
    gates.map(|delta| {
        (delta.before.as_ref().and_then(Row::as_gate), delta.after.as_ref().and_then(Row::as_gate))
    })
}

/// A run enters a gate only if the gate has room. A lower limit evicts no run, and a release that
/// adds a handoff gives holds to all live runs.
pub(super) fn i2(look: &Look<'_>, _: &History) -> Checked {
    if look.redefines() {
        return Ok(());
    }
    for (before, after) in changed(look) {
        let Some(gate) = after else { continue };
        let Some((inside, units, _)) = taken(gate) else { continue };
        let was = before.and_then(taken).map_or(0, |(was, ..)| was);
        let known = before.map(holders).unwrap_or_default();
        let fresh = holders(gate).iter().any(|hold| {
            // A compensation has the hold of the run that it compensates.
            let undoes = look.state.run(hold.run.seq).is_some_and(undoes);
            !undoes && known.iter().all(|old| old.run != hold.run)
        });
        let limit = look.limit(&gate.key);
        // A run whose cost exceeds a lowered limit enters alone (spec L8).
        let over = limit.is_some_and(|limit| units > limit) && inside > 1;
        if over && (inside > was || fresh) {
            return Err(format!(
                "{inside} runs take {units} units of the gate {:?}, but the limit is {limit:?}",
                gate.key.scope()
            ));
        }
    }
    Ok(())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that iterators need")]
fn place(run: &&Run) -> Option<Place> {
    if let Phase::Queued { place, .. } = run.phase { Some(place) } else { None }
}

/// Returns the number of runs inside a gate, their costs, and the cost of the first queued run.
fn taken(gate: &Gate) -> Option<(usize, u64, u64)> {
    match &gate.state {
        GateState::Slots(slots) => {
            Some((slots.holders.len(), slots.used(), u64::from(slots.wanted.one())))
        }
        GateState::Turns(turns) => {
            let units = turns.pending.iter().map(|turn| u64::from(turn.costs.one())).sum();
            Some((turns.pending.len(), units, u64::from(turns.wanted.one())))
        }
        _ => None,
    }
}

/// A gate with room and a queue has a due time at which it will be swept.
pub(super) fn i7(look: &Look<'_>, _: &History) -> Checked {
    for gate in look.state.gates() {
        if !look.lines.contains_key(&gate.id) || gate.due.is_some() {
            continue;
        }
        let Some((inside, units, wanted)) = taken(gate) else { continue };
        if look.state.is_closed(&gate.key) {
            continue;
        }
        let limit = look.limit(&gate.key);
        if inside == 0 || limit.is_none_or(|limit| units + wanted <= limit) {
            return Err(format!(
                "a gate with room and a queue has no due time: {:?} {gate:?}",
                gate.key.scope()
            ));
        }
    }
    Ok(())
}

/// No run is admitted before a run that was queued before the commit and still is.
pub(super) fn i8(look: &Look<'_>, _: &History) -> Checked {
    if look.redefines() {
        return Ok(());
    }
    for (before, after) in changed(look) {
        let (Some(before), Some(gate)) = (before, after) else { continue };
        let stayed: Vec<&Run> = look
            .lines
            .get(&gate.id)
            .into_iter()
            .flatten()
            .filter(|run| look.before(run.id.seq).is_some_and(|old| old.phase == run.phase))
            .copied()
            .collect();
        let Some(first) = stayed.iter().filter_map(place).min() else { continue };
        let inside = |gate: &Gate| match &gate.state {
            GateState::Slots(slots) => slots.holders.iter().map(|hold| hold.run.seq).collect(),
            GateState::Turns(turns) => turns.pending.iter().map(|turn| turn.run).collect(),
            _ => Vec::new(),
        };
        let known = inside(before);
        for seq in inside(gate).into_iter().filter(|seq| !known.contains(seq)) {
            let Some(run) = look.state.run(seq) else { continue };
            // A compensation has the position of the run that it compensates.
            if undoes(run) {
                continue;
            }
            let Some(need) = run.plan.iter().find(|need| need.gate == gate.key) else { continue };
            let by_arrival = gate.key.class().is_some_and(Class::is_arbitrated);
            let mut rank = run.rank;
            if by_arrival {
                rank.at = first.rank.at;
            }
            if (Place { tier: need.tier, rank }) > first {
                let scope = gate.key.scope();
                return Err(format!("run {seq} overtook queued runs at {scope:?}: {stayed:?}"));
            }
        }
    }
    Ok(())
}

/// No run waits for a hold of its own ancestors.
pub(super) fn i11(look: &Look<'_>, _: &History) -> Checked {
    for run in look.lines.values().flatten() {
        let (Some(parent), Some(need)) = (&run.parent, run.plan.get(run.entered)) else { continue };
        if need.span != Span::Run || need.gate.class() == Some(Class::Handoff) {
            continue;
        }
        let Some(gate) = look.state.gate(&need.gate) else { continue };
        let blocked = |hold: &&Hold| !hold.draining && parent.ancestors.contains(&hold.run.seq);
        if let Some(hold) = holders(gate).iter().find(blocked) {
            return Err(format!("run {} waits for its ancestor {}", run.id, hold.run));
        }
    }
    Ok(())
}

/// The rank of a run is fixed at its admission: its arrival, less the shift of its priority.
pub(super) fn i21(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let Some(run) = after else { continue };
        match before {
            Some(old) if old.rank != run.rank || old.queued_at != run.queued_at => {
                return Err(format!(
                    "the rank of the run changed from {:?} to {:?}",
                    old.rank, run.rank
                ));
            }
            // Follow-up runs are not admitted and have no priority. A retry is queued by the
            // current rules, but in the version of its run.
            None if run.replaced.is_none()
                && run.purpose == Purpose::Ordinary
                && run.replay_of.is_none() =>
            {
                let controls = look.plan.spec(&run.workflow).map(|spec| spec.version(run.version));
                let shift = controls.and_then(|(controls, _)| controls.shift_ms).unwrap_or(0);
                if run.rank.at != run.queued_at.minus_ms(shift) {
                    return Err(format!("the rank is not the arrival less {shift} ms: {run:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Under `latest` a new run leaves no unstarted run of its workflow on the gate. A displaced run
/// had not started, and names a run of its workflow with the same rank or a better one.
pub(super) fn i54(look: &Look<'_>, history: &History) -> Checked {
    for delta in look.deltas {
        let Some(Row::Ended(ended)) = &delta.after else { continue };
        let Some(by) = ended.ending.displaced_by() else { continue };
        let old = look.before(ended.id.seq);
        if history.begun.contains_key(&ended.id.seq) {
            return Err(format!("run {} was displaced although it has started", ended.id));
        }
        let newer = look.state.run(by.seq).map(|run| (run.workflow.clone(), run.rank));
        let gone = look.state.ended(by.seq).map(|run| run.workflow.clone());
        let name = newer.as_ref().map(|(name, _)| name).or(gone.as_ref());
        let better = old.zip(newer.as_ref()).is_none_or(|(old, (_, rank))| *rank <= old.rank);
        if name != Some(&ended.workflow) || !better {
            return Err(format!("{ended:?} was displaced by a wrong run: {newer:?}"));
        }
    }
    let on = |run: &Run, gate: &Gate| {
        let queued = matches!(run.phase, Phase::Queued { gate: at, .. } if at == gate.id);
        run.holds(&gate.key) || queued
    };
    let new = look.runs().filter(|(before, _)| before.is_none() && !look.redefines());
    for run in new.filter_map(|(_, after)| after).filter(|run| run.purpose == Purpose::Ordinary) {
        let Some(controls) = look.controls(&run.ws, &run.workflow) else { continue };
        for gate in run.plan.iter().filter_map(|need| look.state.gate(&need.gate)) {
            if !gate.key.class().is_some_and(|class| controls.displaces(class)) {
                continue;
            }
            let stayed = look.state.runs().find(|other| {
                let own = (&other.ws, &other.workflow) == (&run.ws, &run.workflow);
                let unstarted = !other.started && other.purpose == Purpose::Ordinary;
                let before = look.before(other.id.seq).is_some_and(|old| on(old, gate));
                own && unstarted && other.id != run.id && before && on(other, gate)
            });
            if let Some(other) = stayed {
                return Err(format!(
                    "run {} did not displace {other:?} at {:?}",
                    run.id,
                    gate.key.scope()
                ));
            }
        }
    }
    Ok(())
}

/// The runs of all workflows that are inside a pool's gate take together at most its limit. Counted
/// from the runs and the definitions' costs, not from the gate.
pub(super) fn i63(look: &Look<'_>, _: &History) -> Checked {
    if look.redefines() {
        return Ok(());
    }
    let inside = |run: &Run, gate: &GateKey| {
        let entered = run.plan.iter().take(run.entered);
        let mut units = entered.filter(|need| need.gate == *gate && need.span != Span::Start);
        units.next().map(|need| u64::from(need.costs.one()))
    };
    for (before, after) in look.runs() {
        let Some(run) = after.filter(|run| !undoes(run)) else { continue };
        let pools = run.plan.iter().take(run.entered).map(|need| &need.gate);
        for gate in pools.filter(|gate| gate.class().is_some_and(Class::is_pooled)) {
            // A run that is inside may take further units for its steps (spec L7).
            if before.is_some_and(|old| inside(old, gate) >= inside(run, gate)) {
                continue;
            }
            let all: Vec<u64> = look.state.runs().filter_map(|other| inside(other, gate)).collect();
            let (units, limit) = (all.iter().sum::<u64>(), look.limit(gate));
            if all.len() > 1 && limit.is_some_and(|limit| units > limit) {
                let scope = gate.scope();
                return Err(format!(
                    "run {} entered {scope:?}, where {units} units are over {limit:?}",
                    run.id
                ));
            }
        }
    }
    Ok(())
}

/// A new run makes no queue longer than its bound. A run that a full queue has displaced had not
/// started, and had come to this queue when it was created.
pub(super) fn i69(look: &Look<'_>, history: &History) -> Checked {
    for delta in look.deltas {
        let Some(Row::Ended(ended)) = &delta.after else { continue };
        let old = look.before(ended.id.seq).filter(|_| is_dropped(&ended.ending));
        let Some(old) = old else { continue };
        let late = old.plan.get(old.entered).is_some_and(|need| need.after_queue);
        if late || history.begun.contains_key(&ended.id.seq) {
            return Err(format!("{old:?} was displaced from a queue that it may not leave"));
        }
    }
    let at = |run: &Run, gate: &Gate| matches!(run.phase, Phase::Queued { gate: at, .. } if at == gate.id);
    let new = look.runs().filter(|(before, _)| before.is_none() && !look.redefines());
    for run in new.filter_map(|(_, after)| after).filter(|run| run.purpose == Purpose::Ordinary) {
        let Some(need) = run.plan.get(run.entered).filter(|need| !need.after_queue) else {
            continue;
        };
        let (Some(scope), Some(gate)) = (need.gate.scope(), look.state.gate(&need.gate)) else {
            continue;
        };
        let controls = look.controls(&run.ws, &run.workflow);
        let queue = controls.and_then(|controls| controls.queue(scope.class, &scope.slot));
        let Some((most, mode)) = queue.filter(|_| at(run, gate)) else { continue };
        let waiting = look.lines.get(&gate.id).map_or(0, Vec::len);
        let own = |other: &Run| (&other.ws, &other.workflow) == (&run.ws, &run.workflow);
        let joined = look.runs().filter(|(before, after)| {
            let came = before.is_none_or(|before| !at(before, gate));
            let fresh = before.is_none() && after.is_some_and(own);
            came && !fresh && after.is_some_and(|after| at(after, gate))
        });
        let left = look.runs().filter(|(before, after)| {
            before.is_some_and(|run| at(run, gate)) && !after.is_some_and(|run| at(run, gate))
        });
        let joined = joined.count();
        let fresh = look.runs().filter(|(before, after)| {
            before.is_none() && after.is_some_and(|after| own(after) && at(after, gate))
        });
        let before = waiting + left.count() - joined - fresh.count();
        let most = usize::try_from(most).expect("small");
        let kept = if mode == "reject" { 0 } else { before };
        if waiting > most.max(kept) + joined {
            return Err(format!("{waiting} runs wait at {scope:?}, whose queue is {queue:?}"));
        }
    }
    Ok(())
}

/// No hold and no queued run is left when everything has finished.
pub(super) fn settled(state: &State, _: &History) -> Result<(), (&'static str, String)> {
    let mut left = BTreeMap::new();
    for gate in state.gates() {
        let busy = match &gate.state {
            GateState::Slots(slots) => {
                !slots.holders.is_empty() || slots.head.is_some() || !slots.folds.is_empty()
            }
            GateState::Turns(turns) => !turns.pending.is_empty() || turns.head.is_some(),
            _ => false,
        };
        if busy && gate.due.is_none() {
            left.insert(gate.key.clone(), gate);
        }
    }
    match left.values().next() {
        Some(gate) => Err(("I4", format!("a hold or queue is left at the end: {gate:?}"))),
        None => Ok(()),
    }
}
