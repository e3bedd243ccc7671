//! Settling: a run that has spent the throttle of a pool says how many units it really took
//! (spec L10).
//!
//! The correction is part of the transaction that records the step, under the fence of the lease.
//! So it happens once, and a run that is replayed settles its own reservation.

use super::meter;
use crate::{
    catalog::Limit,
    draft::{Decided, Draft},
    flow::gate,
    id::Seq,
    json::Payload,
    row::{Class, Gate, GateState, Meters, PlannedGate, RowNumbers, Run, RunError, Turns},
};

/// Maximum number of units of one use.
pub const MAX_SETTLED: u32 = 1_000_000_000;

/// Corrects the meter of a pool that a run has passed. Returns the reserved units.
pub(crate) fn settle<E>(
    draft: &mut Draft,
    run: Seq,
    pool: &str,
    actual: u32,
) -> Decided<Result<Payload, RunError>, E> {
    let run = draft.run(run)?.cloned().expect("the run was just leased");
    let need = match reservation(&run, pool) {
        Ok(need) => need.clone(),
        Err(error) => return Ok(Err(error)),
    };
    let (key, costs) = (need.gate, need.costs);
    let reserved = Ok(Payload::from_value(&serde_json::json!(costs.one())));
    let catalog = draft.catalog(&run.ws)?;
    let Some(Limit::Rates(rates)) =
        key.scope().map(|scope| catalog.open_limit(&scope, RowNumbers::default()))
    else {
        return Ok(reserved);
    };
    let now = draft.now();
    let mut gate = match draft.gate(&key)? {
        Some(gate) => gate.clone(),
        // The meter was full again, and its row is deleted.
        None if (0..rates.len()).all(|n| actual <= costs.at(n)) => return Ok(reserved),
        None => {
            let (id, state) = (draft.next_seq()?, GateState::Turns(Turns::default()));
            Gate { key: key.clone(), id, at: now, due: None, state }
        }
    };
    if let GateState::Turns(turns) = &mut gate.state {
        let each = rates.iter().enumerate();
        let meters = each
            .map(|(n, rate)| meter::correct(turns.meters.at(n), *rate, (costs.at(n), actual), now));
        turns.meters = Meters::from(meters.collect::<Vec<_>>());
    }
    gate.at = gate.at.max(now);
    // The time of the next turn or of the deletion of the row follows from the corrected meters.
    gate.due = None;
    draft.put(gate);
    gate::settle(draft, &key)?;
    Ok(reserved)
}

/// Returns the throttle gate of a pool that a run has passed. The error says why there is none to
/// settle.
pub fn reservation<'a>(run: &'a Run, pool: &str) -> Result<&'a PlannedGate, RunError> {
    let is_of_pool = |need: &&PlannedGate| {
        need.gate.class() == Some(Class::PoolThrottle)
            && need.gate.scope().is_some_and(|scope| scope.name == pool)
    };
    let mut found = run.plan.iter().filter(is_of_pool);
    match (found.next(), found.next()) {
        (Some(need), None) => Ok(need),
        (None, _) => Err(RunError::of(
            "NoReservation",
            format!(
                "workflow `{}` uses no throttle of pool `{pool}`: add `{{\"pool\": \"{pool}\"}}` to \
                 its `throttle`",
                run.workflow
            ),
        )),
        (Some(_), Some(_)) => Err(RunError::of(
            "AmbiguousReservation",
            format!(
                "workflow `{}` uses the throttle of pool `{pool}` under two keys: settle needs one",
                run.workflow
            ),
        )),
    }
}
