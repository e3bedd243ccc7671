//! The idempotency claims of a buffer's events. Each event takes its own when it joins.

use std::collections::BTreeSet;

use super::{events, flush};
use crate::{
    catalog::{Current, Pools},
    draft::{Decided, Draft, Missing},
    flow::{claim, plan::Origin},
    id::{EventId, RunId},
    key::Key,
    reads::Scan,
    row::{Class, GateKey, Part, Row, Run, Scope},
};

/// Maximum number of claims that are released in one transaction; each claim is a row.
const GIVEN_BACK_AT_ONCE: usize = 1000;

/// Releases the idempotency claims that a buffer's events took when they joined. Their run will not
/// exist, so later events with the same keys are not repeats.
pub(super) fn give_back<E>(
    draft: &mut Draft,
    scope: &Scope,
    current: &Current,
    part: &Part,
) -> Decided<(), E> {
    let items = draft.found(&Scan::Items(part.run.seq), part.count)?;
    let events = items.into_iter().filter_map(Row::as_item).map(|item| item.event).collect();
    for key in claims_of(draft, scope, current, part.run, events)? {
        claim::give_back(draft, &key, part.run)?;
    }
    Ok(())
}

/// Releases at most `GIVEN_BACK_AT_ONCE` idempotency claims of a batch that has not started.
/// Returns `false` if some are left.
pub fn give_back_some<E>(draft: &mut Draft, run: &Run) -> Decided<bool, E> {
    let catalog = draft.catalog(&run.ws)?;
    let entry = catalog.entry(&run.app, &run.workflow);
    let Some(current) = entry.and_then(|entry| entry.current.as_ref()) else { return Ok(true) };
    let (ws, app, name) = (run.ws.clone(), run.app.clone(), run.workflow.clone());
    let scope = Scope { ws, class: Class::Batch, app, name, slot: String::new(), key: Key::Whole };
    let claims = claims_of(draft, &scope, current, run.id, events(draft, run)?)?;
    for key in claims.iter().take(GIVEN_BACK_AT_ONCE) {
        claim::give_back(draft, key, run.id)?;
    }
    Ok(claims.len() <= GIVEN_BACK_AT_ONCE)
}

/// Returns the idempotency claims that a run has for these events.
fn claims_of<E>(
    draft: &Draft,
    scope: &Scope,
    current: &Current,
    run: RunId,
    events: Vec<EventId>,
) -> Decided<BTreeSet<GateKey>, E> {
    let Some(idempotency) = &current.workflow.idempotency else { return Ok(BTreeSet::new()) };
    let (mut missing, mut keys) = (Missing::default(), BTreeSet::new());
    for event in events {
        if let Some(Some(event)) = missing.note(draft.event(event))? {
            // Only the gates of the claims are used.
            let pools = Pools::default();
            let candidate = flush::candidate(scope, current, event, Origin::Arrival, pools);
            let claimed = candidate.scope(Class::Idempotency, idempotency.key.as_ref());
            keys.extend(claimed.ok().flatten().map(|scope| GateKey::new(&scope)));
        }
    }
    let mut claims = BTreeSet::new();
    for key in keys {
        let claim = missing.note(claim::held(draft, &key))?.flatten();
        if claim.is_some_and(|claim| claim.run == Some(run)) {
            claims.insert(key);
        }
    }
    missing.settle()?;
    Ok(claims)
}
