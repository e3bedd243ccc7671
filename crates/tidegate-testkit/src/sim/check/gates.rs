//! Checks of gates: holders, queues, and their order.

use std::collections::BTreeMap;

use tidegate_core::row::{
    Class, Gate, GateKey, GateState, Hold, Phase, Place, Purpose, Row, RowKey, Run, Slots, Span,
    Turns,
};

use super::{
    Checked, Look,
    history::{History, is_dropped},
    undoes,
};
use crate::sim::{
    controls::{Policy, Shift},
    state::State,
    workload::LONGEST_CLOSING,
};

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
        let limit = look.highest_limit(&gate.key);
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

/// Returns the limit that an event has set at a gate.
pub(super) fn given(gate: &Gate) -> Option<u32> {
    gate.state.given()?.at(0).limit
}

/// The limit of a gate that comes from data is that of its run with the highest event number, or of
/// a later event; only admitted runs set it.
pub(super) fn i76(look: &Look<'_>, _: &History) -> Checked {
    let here = |run: &Run| run.plan.iter().take(run.entered + 1).cloned().collect::<Vec<_>>();
    for run in look.state.runs() {
        for need in here(run) {
            let Some(gate) = look.state.gate(&need.gate) else { continue };
            let (Some(own), set) = (&need.given, gate.state.given()) else { continue };
            let inside = holders(gate).iter().any(|hold| hold.run == run.id);
            let waits = matches!(run.phase, Phase::Queued { gate: at, .. } if at == gate.id);
            if !inside && !waits {
                continue;
            }
            let later = set.is_some_and(|set| set.event_number() > own.event_number());
            if !later && set != Some(own) {
                let scope = gate.key.scope();
                return Err(format!("run {} has {own:?}, but {scope:?} has {set:?}", run.id));
            }
        }
    }
    for (before, after) in changed(look) {
        let (old, set) =
            (before.and_then(|it| it.state.given()), after.and_then(|it| it.state.given()));
        let Some(set) = set.filter(|set| Some(*set) != old) else { continue };
        let is_meter = matches!(after.map(|it| &it.state), Some(GateState::Meter(_)));
        let key = after.map(|it| &it.key);
        let sets = |run: &Run| {
            let mut own = run.plan.iter().filter(|need| Some(&need.gate) == key);
            own.any(|need| need.given.as_ref() == Some(set))
        };
        // A run may have been admitted and replaced in the same commit.
        let gone = look.deltas.iter().any(|delta| matches!(delta.after, Some(Row::Ended(_))));
        // The run of a fired window may have taken a newer request in the same commit.
        let refilled = look.deltas.iter().any(|delta| match &delta.before {
            Some(Row::Gate(Gate { state: GateState::Fold(fold), .. })) => fold.last == set.event_id,
            _ => false,
        });
        if !is_meter && !gone && !refilled && !look.state.runs().any(sets) {
            return Err(format!(
                "no admitted run has set {set:?} at {:?}",
                key.map(GateKey::scope)
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
            // Of the values of `fair`, those that waited at their tags here before the commit.
            let was = match look.before(seq).map(|old| old.phase) {
                Some(Phase::Queued { gate: at, place }) if at == gate.id => Some(place),
                _ => None,
            };
            // A gate that is not fair any more has returned them to the order of rank.
            let by_tag = need.share.is_some() && gate.state.served().is_some();
            let own = match was.filter(|_| by_tag) {
                Some(place) if place.tag().is_some() => place,
                _ if need.share.is_some() && first.is_shared() => continue,
                _ => Place { tier: need.tier, rank },
            };
            if own > first {
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
                let shift = controls.and_then(|(controls, _)| controls.shift_ms);
                let input = look.state.row(&RowKey::Event(run.source.first().seq));
                let data =
                    if let Some(Row::Event(event)) = input { event.data.as_str() } else { "" };
                let data = serde_json::from_str(data).unwrap_or_default();
                let shift = shift.map_or(0, |shift| shift.of(&data));
                let micros = run.queued_at.micros() - shift * 1000;
                // Later requests may have joined the run in the same commit.
                let joins = controls.is_some_and(|(controls, _)| {
                    matches!(controls.shift_ms, Some(Shift::From(_)))
                        && matches!(controls.policy, Some(Policy::Debounce(_)))
                });
                if run.rank.at.micros() != micros && !joins {
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
            let (units, limit) = (all.iter().sum::<u64>(), look.highest_limit(gate));
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
        // A later event of the same transaction may have raised the limit of an earlier gate, in
        // whose queue the run was.
        if run.plan.iter().take(run.entered).any(|need| need.given.is_some()) {
            continue;
        }
        // So may the end of another run, or another command. Only run gates record where a run came
        // from.
        let ends = look.deltas.iter().any(|delta| matches!(delta.after, Some(Row::Ended(_))));
        if need.span != Span::Run && (ends || look.commands.len() > 1) {
            continue;
        }
        let (Some(scope), Some(gate)) = (need.gate.scope(), look.state.gate(&need.gate)) else {
            continue;
        };
        let controls = look.controls(&run.ws, &run.workflow);
        let queue = controls.and_then(|controls| controls.queue(scope.class, &scope.slot));
        let Some((most, mode)) = queue.filter(|_| at(run, gate)) else { continue };
        let waiting = look.lines.get(&gate.id).map_or(0, Vec::len);
        // A run that came from the queue of an earlier gate, also in this commit, joins always.
        let own = |other: &Run| {
            let late = other.plan.get(other.entered).is_some_and(|need| need.after_queue);
            (&other.ws, &other.workflow) == (&run.ws, &run.workflow) && !late
        };
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

/// No run enters a gate that was closed before the commit, by an override or by a run.
pub(super) fn i79(look: &Look<'_>, _: &History) -> Checked {
    // The order of a change of an override and an entry in one commit is not known.
    if look.redefines() {
        return Ok(());
    }
    let before = |key: &GateKey| {
        let mut deltas = look.deltas.iter().filter(|it| it.key == RowKey::Gate(key.clone()));
        match deltas.next() {
            Some(delta) => delta.before.as_ref().and_then(Row::as_gate),
            None => look.state.gate(key),
        }
    };
    for (old, run) in look.runs() {
        let Some(run) = run.filter(|run| !undoes(run)) else { continue };
        let entered = run.plan.iter().take(run.entered);
        let known = |key: &GateKey| {
            let mut gates = old.into_iter().flat_map(|old| old.plan.iter().take(old.entered));
            gates.any(|need| need.gate == *key)
        };
        for need in entered.filter(|need| !known(&need.gate)) {
            // A run that has started passes its throttle without a turn.
            if need.span == Span::Start && run.started {
                continue;
            }
            let gate = before(&need.gate);
            let closed = gate.is_some_and(|gate| gate.state.closed(look.at).is_some());
            if closed || look.state.is_closed(&need.gate) {
                let (id, scope) = (run.id, need.gate.scope());
                return Err(format!("run {id} entered {scope:?}, which is closed: {gate:?}"));
            }
        }
    }
    Ok(())
}

/// A gate that a run has closed is due when it opens, and no longer after than the maximum.
pub(super) fn i80(look: &Look<'_>, _: &History) -> Checked {
    for (_, gate) in changed(look) {
        let Some(gate) = gate else { continue };
        let (GateState::Slots(Slots { closed, .. }) | GateState::Turns(Turns { closed, .. })) =
            &gate.state
        else {
            continue;
        };
        let Some(closed) = closed else { continue };
        let due = gate.due.is_some_and(|due| due <= closed.until.max(look.at));
        let within = closed.until <= closed.at.plus_ms(LONGEST_CLOSING);
        if (!due && !look.state.is_closed(&gate.key)) || !within {
            return Err(format!("a closed gate does not open in time: {gate:?}"));
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
