//! Checks of windows and buffers, from their first event to their run.

use std::collections::BTreeMap;

use tidegate_core::{
    id::Seq,
    row::{Class, Fold, Gate, GateState, Item, Row, RowKey, Source},
};

use super::{Checked, Look, history::History};
use crate::sim::state::State;

/// Returns the fold in a gate.
pub(super) fn of(gate: &Gate) -> Option<&Fold> {
    if let GateState::Fold(fold) = &gate.state { Some(fold) } else { None }
}

fn items(state: &State, run: Seq) -> Vec<&Item> {
    let mut items = Vec::new();
    for n in 0.. {
        let Some(Row::Item(item)) = state.row(&RowKey::Item(run, n)) else { return items };
        items.push(item);
    }
    items
}

/// The run of a window is made once, and not before the period after the last event has passed. The
/// window fires at its longest wait at the latest.
pub(super) fn i15(look: &Look<'_>, history: &History) -> Checked {
    for gate in look.state.gates() {
        let Some(fold) = of(gate).filter(|fold| !fold.held && !fold.paused && !fold.fired) else {
            continue;
        };
        let late = gate.due.is_none_or(|due| due > fold.deadline);
        // A buffer may have the same run as the window that opened it.
        let window = gate.key.class() != Some(Class::Batch) && !fold.only_led();
        let by = history.windows.get(&fold.run.seq).filter(|_| window).map(|window| window.by);
        if late || by.is_some_and(|by| fold.deadline > by) {
            return Err(format!("the window is due later than {by:?}: {gate:?}"));
        }
    }
    for run in look.runs().filter_map(|(before, after)| if before.is_none() { after } else { None })
    {
        let Some(window) = history.windows.get(&run.id.seq) else { continue };
        // A release may have shortened the period.
        if history.redefined.contains(&(run.ws.clone(), run.workflow.clone())) {
            continue;
        }
        // A full window fires before its time. With costs it may be full below its size.
        if let Source::Batch(_) = run.source
            && let Some(controls) = look.controls(&run.ws, &run.workflow)
        {
            let count = items(look.state, run.batch().seq).len() as u64;
            let own = controls.limits.iter().any(|limit| limit.cost.is_some());
            let costs = own || controls.pools.iter().any(|used| used.cost.is_some());
            if costs || controls.most(Class::Gather).is_some_and(|most| count >= most) {
                continue;
            }
        }
        // A held window fires at once when the run that blocked it has ended.
        if !was_held(look, run.id.seq) && look.at < window.not_before {
            return Err(format!("the window fired at {}, before {}", look.at, window.not_before));
        }
    }
    Ok(())
}

fn was_held(look: &Look<'_>, run: Seq) -> bool {
    look.deltas.iter().any(|delta| {
        let fold = delta.before.as_ref().and_then(Row::as_gate).and_then(of);
        fold.is_some_and(|fold| fold.run.seq == run && (fold.held || fold.paused))
    })
}

/// The run of a window has the event that the window keeps; an event after the due time opens another
/// window.
pub(super) fn i16(look: &Look<'_>, history: &History) -> Checked {
    for gate in look.state.gates() {
        let Some(fold) = of(gate).filter(|fold| !fold.held && !fold.paused && !fold.fired) else {
            continue;
        };
        if gate.key.class() != Some(Class::Batch)
            && !fold.only_led()
            && history.windows.get(&fold.run.seq).is_some_and(|window| window.late)
        {
            return Err(format!("the window took an event after its due time: {gate:?}"));
        }
    }
    for (_, after) in look.runs() {
        let Some(run) = after.filter(|run| !run.started) else { continue };
        let Some(window) = history.windows.get(&run.id.seq) else { continue };
        if let Source::Event(event) = run.source
            && window.kept != event
            && !window.changed
        {
            return Err(format!(
                "run {} has event {event}, but its window keeps {}",
                run.id, window.kept
            ));
        }
    }
    Ok(())
}

/// While a window with `edge: leading` is open, no other event of its key makes a run.
pub(super) fn i62(_: &Look<'_>, history: &History) -> Checked {
    match history.early.first() {
        Some(run) => Err(format!("an event made run {run}, although its window was open")),
        None => Ok(()),
    }
}

/// A batch has its events in order and is not larger than its size. An event is in one batch of a
/// workflow.
pub(super) fn i17(look: &Look<'_>, history: &History) -> Checked {
    for delta in look.deltas {
        if let (RowKey::Item(run, _), Some(_)) = (&delta.key, &delta.after) {
            let carried = items(look.state, *run);
            // Events of debounce windows are collected in the order in which the windows fire.
            let debounced =
                look.plan.specs.iter().any(|spec| {
                    spec.versions.iter().any(|(controls, _)| controls.debounce.is_some())
                });
            // A deferred event has the number of its delivery.
            let number = |seq: Seq| match look.state.row(&RowKey::Event(seq)) {
                Some(Row::Event(event)) => event.number(),
                _ => seq,
            };
            let in_order = |two: &[&Item]| number(two[0].event.seq) < number(two[1].event.seq);
            let sorted = debounced || carried.windows(2).all(in_order);
            if !sorted || delta.before.is_some() {
                return Err(format!("the batch of run {run} is out of order: {carried:?}"));
            }
        }
    }
    let mut fold_of: BTreeMap<Seq, &Fold> = BTreeMap::new();
    for delta in look.deltas {
        if let Some(Row::Gate(gate)) = &delta.after
            && let Some(fold) = of(gate)
            && let Some(class) = gate.key.class().filter(|class| class.keeps_all())
        {
            fold_of.insert(fold.run.seq, fold);
            let count = if fold.only_led() { 0 } else { items(look.state, fold.run.seq).len() };
            if count != fold.count as usize {
                return Err(format!(
                    "the buffer has {count} stored events, which differs from {fold:?}"
                ));
            }
            let scope = gate.key.scope().expect("a gate's key");
            let controls = look.controls(&scope.ws, &scope.name);
            let size = controls.and_then(|controls| controls.most(class));
            let grown = delta.before.as_ref().and_then(Row::as_gate).and_then(of);
            let grew = grown.is_none_or(|old| old.run != fold.run || old.count < fold.count);
            if size.is_some_and(|size| u64::from(fold.count) > size) && grew {
                return Err(format!("the buffer is larger than `maxSize`: {fold:?}"));
            }
        }
    }
    for run in look.runs().filter_map(|(before, after)| if before.is_none() { after } else { None })
    {
        let Source::Batch(first) = run.source else { continue };
        let carried = items(look.state, run.batch().seq);
        if carried.first().is_none_or(|item| item.event != first) {
            return Err(format!("batch {} must begin with {first}, but has {carried:?}", run.id));
        }
        let bound = history.largest.get(&(run.ws.clone(), run.workflow.clone()));
        if bound.is_some_and(|bound| carried.len() as u64 > *bound) {
            return Err(format!("a batch has {} events, the maximum is {bound:?}", carried.len()));
        }
    }
    Ok(())
}
