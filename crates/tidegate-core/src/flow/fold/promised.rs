//! Operations on the run of an open fold. The run has an id, but does not exist yet.

use super::{
    claims,
    flush::{flush, whole},
    load,
};
use crate::{
    draft::{Decided, Draft, Missing},
    id::RunId,
    reads::Scan,
    row::{Class, Fold, Gate, GateKey, GateState, Row, RowKey, Source, Workspace},
    run::end,
};

/// Number of open buffers of a workspace that are read first to find the buffer of an earlier
/// part. If it is not among them, more are read: a caller may have the id of the part's run.
const FOLDS_READ: u32 = 1000;

/// Finds the window or buffer that will create a run. An unknown id costs only two reads of absent
/// rows, because ids come from outside.
pub(crate) fn of_run<'a>(draft: &'a Draft, ws: &Workspace, id: RunId) -> Decided<Option<&'a Gate>> {
    let mut missing = Missing::default();
    let window = missing.note(draft.found(&Scan::Window(id.seq), 1))?;
    let item = missing.note(draft.row(&RowKey::Item(id.seq, 0)))?.flatten();
    missing.settle()?;
    let promised = |row: &'a Row| {
        let gate = row.as_gate().filter(|gate| gate.key.is_of(ws))?;
        let GateState::Fold(fold) = &gate.state else { return None };
        fold.carries(id).then_some(gate)
    };
    let window = window.into_iter().flatten().find_map(promised);
    if window.is_some() || item.is_none() {
        return Ok(window);
    }
    // The run belongs to an earlier part of a held buffer, or to a buffer that an older build
    // opened.
    for class in [Class::Batch, Class::Gather] {
        let scan = Scan::Gates(GateKey::class_prefix(ws, class));
        let fold = draft.found_all(&scan, FOLDS_READ)?.into_iter().find_map(promised);
        if fold.is_some() {
            return Ok(fold);
        }
    }
    Ok(None)
}

/// Cancels the run that a window or buffer will create; its events get no other run. Returns
/// `false` if the run exists already.
pub(crate) fn cancel(draft: &mut Draft, key: &GateKey, id: RunId, reason: &str) -> Decided<bool> {
    let Some((mut gate, mut fold)) = load(draft, key)? else { return Ok(false) };
    let part = fold.full.iter().find(|part| part.run == id).cloned();
    let part = part.or_else(|| whole(&fold).filter(|part| part.run == id));
    let (Some(part), Some(scope)) = (part.filter(|_| !fold.fired), key.scope()) else {
        return Ok(false);
    };
    let catalog = draft.catalog(&scope.ws)?;
    let current = catalog.entry(&scope.app, &scope.name).and_then(|entry| entry.current.as_ref());
    let source = if scope.class.keeps_all() {
        if let Some(current) = current {
            claims::give_back(draft, &scope, current, &part)?;
        }
        Source::Batch(part.first)
    } else {
        Source::Event(fold.last)
    };
    let owner = (scope.ws, scope.app, scope.name);
    end::end_unstarted(draft, owner, current, (id, source), reason);
    fold.full.retain(|part| part.run != id);
    if fold.run == id {
        if fold.full.is_empty() {
            draft.delete(RowKey::Gate(gate.key));
            return Ok(true);
        }
        (fold.run, fold.count, fold.bytes) = (draft.new_run_id()?, 0, 0);
        fold.costs.clear();
        fold.led = false;
        gate.id = fold.run.seq;
    }
    draft.put(Gate { state: GateState::Fold(fold), ..gate });
    Ok(true)
}

/// Pauses or resumes the window or buffer of a run that does not exist yet. A resumed fold that is
/// due is flushed at once. Returns `false` if the run exists already.
pub(crate) fn pause(draft: &mut Draft, key: &GateKey, id: RunId, paused: bool) -> Decided<bool> {
    let Some((gate, fold)) = load(draft, key)? else { return Ok(false) };
    if fold.fired || !fold.carries(id) {
        return Ok(false);
    }
    // The gate that held the fold may have been released while the fold was paused.
    let due_now = fold.held || !fold.full.is_empty() || fold.deadline <= draft.now();
    let (at, waits) = (Some(fold.deadline), paused || fold.held);
    let fold = Fold { paused, ..fold };
    draft.put(Gate { due: at.filter(|_| !waits), state: GateState::Fold(fold), ..gate });
    if !paused && due_now {
        flush(draft, key)?;
    }
    Ok(true)
}
