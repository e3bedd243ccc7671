//! The flush of a fold: its run is created, and the fold is emptied in the same transaction.

use super::{claims, emit, load};
use crate::{
    catalog::{Current, Pools},
    draft::{Decided, Draft, Stop},
    flow::{
        control,
        fold::Folding,
        gate,
        plan::{Candidate, Origin, Results},
        pool, receipts,
        verdict::{By, Verdict},
    },
    key::Key,
    row::{
        BatchCosts, Class, Event, Fold, Gate, GateKey, GateState, Part, Phase, RowKey, Run, Scope,
        Source,
    },
    run::end,
};

/// Interval at which the sweep checks a fired window whose run has not started.
const RECHECK_MS: u64 = 60_000;

/// Flushes a fold: creates the runs of its events. If a gate would skip the run, the fold stays
/// open and is held until the gate is free.
pub fn flush<E>(draft: &mut Draft, key: &GateKey) -> Decided<Option<Verdict>, E> {
    let mut last = None;
    while let Some((gate, mut fold)) = load(draft, key)? {
        let Some(part) = fold.full.first().cloned().or_else(|| whole(&fold)) else {
            draft.delete(RowKey::Gate(gate.key));
            break;
        };
        match flush_part(draft, &gate, &fold, &part)? {
            Flushed::Run(verdict) => last = Some(verdict),
            Flushed::Gone => {}
            Flushed::Held(by) => {
                hold(draft, gate, fold, &by.gate)?;
                return Ok(last);
            }
        }
        if !fold.full.is_empty() {
            fold.full.remove(0);
            draft.put(Gate { state: GateState::Fold(fold), ..gate });
            continue;
        }
        // The new run may be queued until the run that it replaced has stopped. Until it starts,
        // further events can join it.
        let is_queued = |run: &Run| matches!(run.phase, Phase::Queued { .. });
        if gate.key.class() == Some(Class::Quiet) && draft.run(fold.run.seq)?.is_some_and(is_queued)
        {
            let fold = Fold { fired: true, held: false, ..fold };
            let due = Some(draft.now().plus_ms(RECHECK_MS));
            draft.put(Gate { due, state: GateState::Fold(fold), ..gate });
        } else {
            draft.delete(RowKey::Gate(gate.key));
        }
        break;
    }
    Ok(last)
}

pub(super) fn whole(fold: &Fold) -> Option<Part> {
    let (costs, after) = (fold.costs.clone(), fold.after.clone());
    let part = Part { run: fold.run, first: fold.first, count: fold.count, costs, after };
    (fold.count > 0).then_some(part)
}

/// Result of a flush.
enum Flushed {
    /// The run was created, or its event joined the next fold.
    Run(Verdict),
    /// No run was created: it was deduped or rejected, and ended before its start.
    Gone,
    /// A holder of this gate blocks the flush.
    Held(By),
}

fn flush_part<E>(draft: &mut Draft, gate: &Gate, fold: &Fold, part: &Part) -> Decided<Flushed, E> {
    let Some(scope) = gate.key.scope() else { return Ok(Flushed::Gone) };
    let batch = scope.class.keeps_all();
    let event = if batch { part.first } else { fold.last };
    let catalog = draft.catalog(&scope.ws)?;
    let current = catalog.entry(&scope.app, &scope.name).and_then(|entry| entry.current.as_ref());
    let source = if batch { Source::Batch(event) } else { Source::Event(event) };
    let (Some(event), Some(current)) = (draft.event(event)?.cloned(), current) else {
        let reason = "its event or its workflow is gone";
        let owner = (scope.ws, scope.app, scope.name);
        end::end_unstarted(draft, owner, current, (part.run, source), reason);
        return Ok(Flushed::Gone);
    };
    let origin = match part.after.len() {
        0 => Origin::Arrival,
        n => Origin::After { runs: part.after.clone(), wanted: part.count as usize > n },
    };
    let pools = pool::of(draft, &scope.ws, &current.workflow)?;
    let mut candidate = candidate(&scope, current, &event, origin, pools);
    candidate.batch = batch.then(|| BatchCosts { events: part.count, at: part.costs.clone() });
    let outcome = draft.keep_or_undo(|draft| emit(draft, &candidate, Some(part.run), source));
    let (verdict, flushed) = match outcome {
        Ok(verdict) => (verdict.clone(), Flushed::Run(verdict)),
        Err(Stop::Refused(Verdict::Skipped { by, .. } | Verdict::QueueFull { by, .. })) => {
            return Ok(Flushed::Held(by));
        }
        Err(Stop::Refused(verdict)) => (verdict, Flushed::Gone),
        Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
        Err(Stop::Full) => return Err(Stop::Full),
    };
    receipts::write(draft, &candidate, &verdict)?;
    // Senders already have the id of this run. If another run or none has the event as its input,
    // an ended run with this id is written.
    if verdict.run() != Some(part.run) {
        if batch && matches!(flushed, Flushed::Gone) {
            claims::give_back(draft, &scope, current, part)?;
        }
        end::cancel_unstarted(draft, &candidate, (part.run, source), &verdict);
    }
    Ok(flushed)
}

pub(super) fn candidate<'a>(
    scope: &Scope,
    current: &'a Current,
    event: &'a Event,
    origin: Origin,
    pools: Pools,
) -> Candidate<'a> {
    let by_function = scope.class == Class::Quiet && scope.slot.starts_with("function:");
    let function_key = Some(if by_function { scope.key.clone() } else { Key::Missing });
    Candidate {
        ws: scope.ws.clone(),
        current,
        event,
        origin,
        parent: None,
        function_key,
        batch: None,
        pools,
        results: Results::default(),
    }
}

/// Holds a fold: it stays open until the gate that blocks it is released.
fn hold<E>(draft: &mut Draft, gate: Gate, mut fold: Fold, by: &GateKey) -> Decided<(), E> {
    // A gate that an override closes may have no row yet.
    let mut row = gate::gate_or_new(draft, by)?;
    if let GateState::Slots(slots) = &mut row.state
        && !slots.folds.contains(&gate.key)
    {
        slots.folds.push(gate.key.clone());
    }
    draft.put(row);
    fold.held = true;
    draft.put(Gate { due: None, state: GateState::Fold(fold), ..gate });
    Ok(())
}

/// Processes a fold in the sweep: flushes it if its deadline has passed, and otherwise sets its due
/// time.
pub fn sweep<E>(draft: &mut Draft, gate: Gate, fold: Fold) -> Decided<(), E> {
    let now = draft.now();
    if fold.fired {
        let waits = draft.run(fold.run.seq)?.is_some_and(|run| !run.started);
        if waits {
            draft.put(Gate { due: Some(now.plus_ms(RECHECK_MS)), ..gate });
        } else {
            draft.delete(RowKey::Gate(gate.key));
        }
    } else if fold.stays() {
        draft.put(Gate { due: None, ..gate });
    } else {
        let (opened, deadline) = match longest(draft, &gate)? {
            Some(ms) if gate.at > now => (fold.opened.min(now), fold.deadline.capped(now, ms)),
            _ => (fold.opened, fold.deadline),
        };
        if deadline <= now {
            flush(draft, &gate.key)?;
        } else {
            let state = GateState::Fold(Fold { opened, deadline, ..fold });
            draft.put(Gate { due: Some(deadline), state, ..gate });
        }
    }
    Ok(())
}

/// Returns how long a fold stays open after an event, in milliseconds; none if the current release
/// does not have the fold's control.
fn longest<E>(draft: &Draft, gate: &Gate) -> Decided<Option<u64>, E> {
    let Some(scope) = gate.key.scope() else { return Ok(None) };
    let catalog = draft.catalog(&scope.ws)?;
    let entry = catalog.entry(&scope.app, &scope.name);
    let Some(current) = entry.and_then(|entry| entry.current.as_ref()) else { return Ok(None) };
    let folding = (control::owner(scope.class).folding)(&current.workflow);
    Ok(folding.map(Folding::wait_ms))
}

/// Retries the flush of a held fold, after the gate that blocked it was released.
pub fn retry<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    if let Some((_, fold)) = load(draft, key)?
        && fold.held
        && !fold.paused
    {
        flush(draft, key)?;
    }
    Ok(())
}
