//! Claims: the first taker wins until a moment. Behind `idempotency` and `dedupeId`.

use super::{
    plan::Candidate,
    verdict::{By, Verdict},
};
use crate::{
    draft::{Decided, Draft, Stop},
    id::{EventId, RunId},
    key::{Key, Scalar},
    row::{Claim, Class, Gate, GateKey, GateState, RowKey, Scope, Workspace},
};

/// How long a `dedupeId` is remembered.
pub const DEDUPE_MS: u64 = 24 * 60 * 60 * 1000;

/// The claim at this place, if it has not run out.
pub fn held<E>(draft: &Draft, key: &GateKey) -> Decided<Option<Claim>, E> {
    match draft.gate(key)? {
        Some(Gate { state: GateState::Claim(claim), .. }) if claim.until > draft.now() => {
            Ok(Some(*claim))
        }
        _ => Ok(None),
    }
}

/// Takes a claim that nobody holds, until `period_ms` from now.
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

/// Refuses an event whose idempotency key is claimed; names the gate to claim otherwise.
pub fn check(draft: &Draft, candidate: &Candidate<'_>) -> Decided<Option<GateKey>, Verdict> {
    let idempotency = candidate.workflow().idempotency.as_ref();
    let Some(idempotency) = idempotency.filter(|_| candidate.arrives()) else { return Ok(None) };
    let scope = candidate.scope(Class::Idempotency, idempotency.key.as_ref())?;
    let key = GateKey::new(&scope);
    match held(draft, &key)? {
        // A window's own claim: its flush takes it over.
        Some(claim) => Err(Stop::Refused(Verdict::Deduped {
            by: By::scope(&scope),
            first: claim.event,
            run: claim.run,
        })),
        None => Ok(Some(key)),
    }
}

/// Takes the idempotency claim for a run.
pub fn take_for(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    run: RunId,
) -> Decided<Option<GateKey>, Verdict> {
    let Some(key) = check(draft, candidate)? else { return Ok(None) };
    let period = candidate.workflow().idempotency.as_ref().map_or(0, |control| control.period_ms);
    take(draft, key.clone(), candidate.event, Some(run), period)?;
    Ok(Some(key))
}

/// Gives a run's claim back: it was replaced before its first step.
pub fn give_back<E>(draft: &mut Draft, key: &GateKey, run: RunId) -> Decided<(), E> {
    if held(draft, key)?.is_some_and(|claim| claim.run == Some(run)) {
        draft.delete(RowKey::Gate(key.clone()));
    }
    Ok(())
}

/// The place of a `dedupeId`.
pub fn dedupe_key(ws: &Workspace, id: &str) -> GateKey {
    GateKey::new(&Scope {
        ws: ws.clone(),
        class: Class::Dedupe,
        app: String::new(),
        name: String::new(),
        slot: String::new(),
        key: Key::Value(Scalar::text(id.to_owned())),
    })
}

/// The sweep's look at a claim: deletes it when it has run out.
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

/// How long such a claim is held, in milliseconds; none if the current release has no such
/// control.
fn period<E>(draft: &Draft, gate: &Gate) -> Decided<Option<u64>, E> {
    let Some(scope) = gate.key.scope() else { return Ok(None) };
    if scope.class == Class::Dedupe {
        return Ok(Some(DEDUPE_MS));
    }
    let catalog = draft.catalog(&scope.ws)?;
    let entry = catalog.entry(&scope.app, &scope.name);
    let current = entry.and_then(|entry| entry.current.as_ref());
    let idempotency = current.and_then(|current| current.workflow.idempotency.as_ref());
    Ok(idempotency.map(|control| control.period_ms))
}
