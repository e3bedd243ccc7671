//! Claims: the first event with a key takes the claim, and has it until it expires. `idempotency`
//! and `dedupeId` use claims.

use super::idempotency;
use crate::{
    draft::{Decided, Draft},
    id::{EventId, RunId},
    row::{Claim, Gate, GateKey, GateState, RowKey},
};

/// Returns the claim under this key, if it has not expired.
pub fn held<E>(draft: &Draft, key: &GateKey) -> Decided<Option<Claim>, E> {
    match draft.gate(key)? {
        Some(Gate { state: GateState::Claim(claim), .. }) if claim.until > draft.now() => {
            Ok(Some(*claim))
        }
        _ => Ok(None),
    }
}

/// Takes a free claim for `period_ms` from now.
pub fn take<E>(
    draft: &mut Draft,
    key: GateKey,
    event: EventId,
    run: Option<RunId>,
    period_ms: u64,
) -> Decided<(), E> {
    let until = draft.now().plus_ms(period_ms);
    let id = match draft.gate(&key)? {
        Some(gate) => gate.id,
        None => draft.next_seq()?,
    };
    let state = GateState::Claim(Claim { event, run, until });
    draft.put(Gate { key, id, at: draft.now(), due: Some(until), state });
    Ok(())
}

/// Releases the claim of a run that was replaced before its first step, or that will not exist.
pub fn give_back<E>(draft: &mut Draft, key: &GateKey, run: RunId) -> Decided<(), E> {
    if held(draft, key)?.is_some_and(|claim| claim.run == Some(run)) {
        draft.delete(RowKey::Gate(key.clone()));
    }
    Ok(())
}

/// Processes a claim in the sweep: deletes it if it has expired.
pub fn sweep<E>(draft: &mut Draft, gate: Gate, claim: Claim) -> Decided<(), E> {
    let now = draft.now();
    let until = match period(draft, &gate)? {
        Some(ms) if gate.at > now => claim.until.capped(now, ms),
        _ => claim.until,
    };
    if until <= now {
        draft.delete(RowKey::Gate(gate.key));
    } else {
        let state = GateState::Claim(Claim { until, ..claim });
        draft.put(Gate { due: Some(until), state, ..gate });
    }
    Ok(())
}

/// Returns the lifetime of a claim in milliseconds; none if the current release does not have the
/// claim's control.
fn period<E>(draft: &Draft, gate: &Gate) -> Decided<Option<u64>, E> {
    let Some(scope) = gate.key.scope() else { return Ok(None) };
    let catalog = draft.catalog(&scope.ws)?;
    let entry = catalog.entry(&scope.app, &scope.name);
    let current = entry.and_then(|entry| entry.current.as_ref());
    Ok(idempotency::period_ms(scope.class, current.map(|current| &*current.workflow)))
}
