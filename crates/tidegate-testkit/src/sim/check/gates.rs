//! Gates: who is inside, who stands in line, and in which order.

use std::collections::BTreeMap;

use tidegate_core::row::{
    Class, Gate, GateState, Hold, Phase, Place, Purpose, Row, RowKey, Run, Span,
};

use super::{Checked, Look, history::History, undoes};
use crate::sim::state::State;

fn holders(gate: &Gate) -> &[Hold] {
    if let GateState::Slots(slots) = &gate.state { &slots.holders } else { &[] }
}

fn head(gate: &Gate) -> Option<Place> {
    match &gate.state {
        GateState::Slots(slots) => slots.head,
        GateState::Turns(turns) => turns.head,
        _ => None,
    }
}

/// The gates that changed: as they were, as they are.
fn changed<'a>(look: &Look<'a>) -> impl Iterator<Item = (Option<&'a Gate>, Option<&'a Gate>)> {
    let gates = look.deltas.iter().filter(|delta| matches!(delta.key, RowKey::Gate(_)));
    gates.map(|delta| {
        (delta.before.as_ref().and_then(Row::as_gate), delta.after.as_ref().and_then(Row::as_gate))
    })
}

/// Whoever is let in finds room. Lowering a limit evicts nobody, and a release that brings a
/// handoff gives holds to those who are there.
pub(super) fn i2(look: &Look<'_>, _: &History) -> Checked {
    if look.redefines() {
        return Ok(());
    }
    for (before, after) in changed(look) {
        let Some(gate) = after else { continue };
        let inside = match &gate.state {
            GateState::Slots(slots) => slots.holders.len(),
            GateState::Turns(turns) => turns.pending.len(),
            _ => continue,
        };
        let was = before.map_or(0, |gate| match &gate.state {
            GateState::Slots(slots) => slots.holders.len(),
            GateState::Turns(turns) => turns.pending.len(),
            _ => 0,
        });
        let known = before.map(holders).unwrap_or_default();
        let fresh = holders(gate).iter().any(|hold| {
            // Whoever undoes a run has that one's hold.
            let undoes = look.state.run(hold.run.seq).is_some_and(undoes);
            !undoes && known.iter().all(|old| old.run != hold.run)
        });
        let limit = look.limit(&gate.key);
        if limit.is_some_and(|limit| inside as u64 > limit) && (inside > was || fresh) {
            return Err(format!("{inside} are inside of {:?}, limit {limit:?}", gate.key.scope()));
        }
    }
    Ok(())
}

/// What a run has fits where it is.
pub(super) fn i3(look: &Look<'_>, _: &History) -> Checked {
    for run in look.runs().filter_map(|(_, after)| after) {
        let fits = match run.phase {
            Phase::Waiting => run.has == run.executing(),
            Phase::Paused => run.has <= run.executing(),
            Phase::Ready | Phase::Driven => run.has == run.needs.len(),
            Phase::Line { .. } => run.has < run.needs.len(),
            Phase::Stopping => true,
        };
        if !fits {
            return Err(format!("it has {} of its gates: {run:?}", run.has));
        }
    }
    Ok(())
}

/// Holds and runs agree, lines and runs agree.
pub(super) fn i4(look: &Look<'_>, _: &History) -> Checked {
    for gate in look.state.gates() {
        for hold in holders(gate) {
            let agrees = look.state.run(hold.run.seq).is_some_and(|run| run.holds(&gate.key));
            if !agrees {
                return Err(format!(
                    "{} holds {:?} and does not say so",
                    hold.run,
                    gate.key.scope()
                ));
            }
        }
        if let GateState::Turns(turns) = &gate.state {
            let waits = |seq| look.state.run(seq).is_some_and(|run| !run.started);
            if !turns.pending.iter().all(|seq| waits(*seq)) {
                return Err(format!("a turn belongs to nobody: {gate:?}"));
            }
        }
        let first = look.lines.get(&gate.id).into_iter().flatten().filter_map(place).min();
        if first.is_some_and(|first| head(gate).is_none_or(|head| head > first)) {
            return Err(format!("the line of {:?} begins before its head", gate.key.scope()));
        }
    }
    for run in look.state.runs() {
        for need in run.needs.iter().take(run.has) {
            let gate = look.state.gate(&need.gate);
            let inside = match (need.span, gate.map(|gate| &gate.state)) {
                (Span::Start, Some(GateState::Turns(turns))) => {
                    run.started || turns.pending.contains(&run.id.seq)
                }
                (Span::Start, _) => run.started,
                (_, Some(GateState::Slots(slots))) => {
                    slots.holders.iter().filter(|hold| hold.run == run.id).count() == 1
                }
                _ => false,
            };
            if !inside {
                return Err(format!("{} says that it holds {:?}", run.id, need.gate.scope()));
            }
        }
        if let Phase::Line { gate, .. } = run.phase {
            let next = run.needs.get(run.has).and_then(|need| look.state.gate(&need.gate));
            if next.is_none_or(|next| next.id != gate) {
                return Err(format!("it stands in a line that is not its next gate's: {run:?}"));
            }
        }
    }
    Ok(())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as iterators hand them out")]
fn place(run: &&Run) -> Option<Place> {
    if let Phase::Line { place, .. } = run.phase { Some(place) } else { None }
}

/// Room and a line mean that somebody will look.
pub(super) fn i7(look: &Look<'_>, _: &History) -> Checked {
    for gate in look.state.gates() {
        if !look.lines.contains_key(&gate.id) || gate.due.is_some() {
            continue;
        }
        let inside = match &gate.state {
            GateState::Slots(slots) => slots.holders.len(),
            GateState::Turns(turns) => turns.pending.len(),
            _ => continue,
        };
        let limit = look.limit(&gate.key);
        if limit.is_none_or(|limit| (inside as u64) < limit) {
            return Err(format!("room, a line, and nothing due: {:?} {gate:?}", gate.key.scope()));
        }
    }
    Ok(())
}

/// Nobody who was in line before and still is stands before one who was let in.
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
            GateState::Turns(turns) => turns.pending.clone(),
            _ => Vec::new(),
        };
        let known = inside(before);
        for seq in inside(gate).into_iter().filter(|seq| !known.contains(seq)) {
            let Some(run) = look.state.run(seq) else { continue };
            // Whoever undoes a run keeps that one's place.
            if undoes(run) {
                continue;
            }
            let Some(need) = run.needs.iter().find(|need| need.gate == gate.key) else { continue };
            let by_arrival = gate.key.class() == Some(Class::Policy);
            let mut rank = run.rank;
            if by_arrival {
                rank.at = first.rank.at;
            }
            if (Place { tier: need.tier, rank }) > first {
                let scope = gate.key.scope();
                return Err(format!("run {seq} passes {stayed:?} in the line of {scope:?}"));
            }
        }
    }
    Ok(())
}

/// What is still to be taken comes after all that is held, in one order.
pub(super) fn i10(look: &Look<'_>, _: &History) -> Checked {
    for run in look.runs().filter_map(|(_, after)| after) {
        let (held, open) = run.needs.split_at(run.has);
        let sorted = open.windows(2).all(|two| two[0].gate < two[1].gate);
        let after = open.first().is_none_or(|next| held.iter().all(|need| need.gate < next.gate));
        if !sorted || !after {
            return Err(format!("its gates are out of order: {run:?}"));
        }
    }
    Ok(())
}

/// Nobody waits for what its own caller keeps.
pub(super) fn i11(look: &Look<'_>, _: &History) -> Checked {
    for run in look.lines.values().flatten() {
        let (Some(parent), Some(need)) = (&run.parent, run.needs.get(run.has)) else { continue };
        if need.span != Span::Run || need.gate.class() == Some(Class::Handoff) {
            continue;
        }
        let Some(gate) = look.state.gate(&need.gate) else { continue };
        let blocked = |hold: &&Hold| !hold.draining && parent.line.contains(&hold.run.seq);
        if let Some(hold) = holders(gate).iter().find(blocked) {
            return Err(format!("{} waits for its ancestor {}", run.id, hold.run));
        }
    }
    Ok(())
}

/// A rank is fixed at admission, and priority moves it by no more than its shift.
pub(super) fn i21(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let Some(run) = after else { continue };
        match before {
            Some(old) if old.rank != run.rank || old.queued_at != run.queued_at => {
                return Err(format!("its rank changed from {:?} to {:?}", old.rank, run.rank));
            }
            // What follows a run's end is not admitted, and has no priority; a retry goes on in its
            // own version by today's rules.
            None if run.replaced.is_none()
                && run.purpose == Purpose::Ordinary
                && run.replay_of.is_none() =>
            {
                let controls = look.plan.spec(&run.workflow).map(|spec| spec.version(run.version));
                let shift = controls.and_then(|(controls, _)| controls.shift_ms).unwrap_or(0);
                if run.rank.at != run.queued_at.minus_ms(shift) {
                    return Err(format!("its rank is not its time less {shift} ms: {run:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A gate and its runs are of one workspace, and so is everything that a run points at.
pub(super) fn i44(look: &Look<'_>, _: &History) -> Checked {
    for run in look.runs().filter_map(|(_, after)| after) {
        let foreign =
            run.needs.iter().any(|need| need.gate.scope().is_none_or(|scope| scope.ws != run.ws));
        let input = match look.state.row(&RowKey::Event(run.source.first().seq)) {
            Some(Row::Event(event)) => event.ws != run.ws,
            _ => false,
        };
        if foreign || input {
            return Err(format!("it meets another workspace: {run:?}"));
        }
    }
    Ok(())
}

/// Nothing is held and nobody waits when everything has finished.
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
        Some(gate) => Err(("I4", format!("it is left behind: {gate:?}"))),
        None => Ok(()),
    }
}
