//! The queue of a fair gate: the values of `fair` are served in the order of their tags (spec L16).
//!
//! Each value with waiting runs has a row, its share, which is changed under the lock of its gate.
//! The value's first run by rank is in the gate's queue at the value's tag, the other runs are
//! behind all tags. So gates serve the first run of a fair queue as that of any other. When a
//! value's first run leaves, its next one takes a tag; only rows of this one value change.
//!
//! The virtual time of a gate is the greatest tag that it has served. A value that begins to wait
//! has this time as its base, so idle values save up no turns, and a value that waits is passed by
//! each other value at most as often as their weights say (spec L17).

use serde::Serialize;

use crate::{
    draft::{Decided, Draft, Missing},
    id::Seq,
    key::Key,
    row::{
        Costs, Gate, GateKey, GateState, Phase, Place, PlannedGate, RowKey, Run, Share, ShareOf,
        Tag,
    },
};

/// Number of runs that return to the order of rank in one transaction, after a release without
/// `fair`.
const RETURNED_AT_ONCE: usize = 256;

/// Returns the weight of the run's value, if the gate is fair under the current release and the run
/// was admitted when it was.
fn weight<E>(draft: &Draft, need: &PlannedGate) -> Decided<Option<u32>, E> {
    let Some(share) = &need.share else { return Ok(None) };
    let Some(gate) = draft.fair_gate(&need.gate) else { return Ok(None) };
    Ok(draft.catalog(&gate.scope.ws)?.weight(&gate.scope, &share.value))
}

/// Returns the key of the share of one value at a gate.
fn key(draft: &Draft, gate: &Gate, value: &Key) -> Option<GateKey> {
    draft.fair_gate(&gate.key).map(|gate| gate.share(value))
}

/// Position of a run that joins a queue by its value, and whether it has moved another run.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) place: Place,
    pub(super) swapped: bool,
}

/// Adds a run to the share of its value. Returns its position; none if the queue is served by rank.
pub(super) fn join<E>(
    draft: &mut Draft,
    gate: &mut Gate,
    run: &mut Run,
    need: &PlannedGate,
) -> Decided<Option<Joined>, E> {
    let (Some(weight), Some(of)) = (weight(draft, need)?, &need.share) else { return Ok(None) };
    let Some(key) = key(draft, gate, &of.value) else { return Ok(None) };
    let now = gate.state.served().unwrap_or_default();
    gate.state.set_served(Some(now));
    let fresh = Share { base: now, first: run.id.seq, rank: run.rank };
    let (id, mut share, known) = match draft.gate(&key)? {
        Some(Gate { id, state: GateState::Share(share), .. }) => (*id, *share, true),
        _ => (draft.next_seq()?, fresh, false),
    };
    if let Some(share) = &mut run.plan[run.entered].share {
        share.number = Some(id);
    }
    if known && run.rank > share.rank {
        return Ok(Some(Joined { place: Place::behind(id, run.rank), swapped: false }));
    }
    if known && let Some(first) = draft.run(share.first)?.cloned() {
        let phase = Phase::Queued { gate: gate.id, place: Place::behind(id, first.rank) };
        draft.put(Run { phase, ..first });
    }
    (share.first, share.rank) = (run.id.seq, run.rank);
    put(draft, key, id, share);
    let place = Place::of_tag(share.base.after(need.costs.one(), weight), run.rank);
    Ok(Some(Joined { place, swapped: known }))
}

/// Charges a run that is admitted from a fair queue: advances the gate's virtual time, and gives
/// the next run of its value a tag. Returns the position of that run.
pub(super) fn serve<E>(
    draft: &mut Draft,
    gate: &mut Gate,
    run: &Run,
    place: Place,
) -> Decided<Option<(Place, Costs)>, E> {
    let Some(tag) = place.tag() else { return Ok(None) };
    let now = gate.state.served().unwrap_or_default().max(tag);
    gate.state.set_served(Some(now));
    promote(draft, gate, run, Some(now))
}

/// Gives the next run of a value a tag after its first one has left the queue without being served.
/// Returns the position of the next run.
pub(super) fn leave<E>(
    draft: &mut Draft,
    gate: &Gate,
    run: &Run,
    place: Place,
) -> Decided<Option<(Place, Costs)>, E> {
    if place.tag().is_none() { Ok(None) } else { promote(draft, gate, run, None) }
}

/// Gives the run after the first of a value its tag, or deletes the share of a value of which no
/// other run waits.
fn promote<E>(
    draft: &mut Draft,
    gate: &Gate,
    run: &Run,
    served: Option<Tag>,
) -> Decided<Option<(Place, Costs)>, E> {
    let of = run.plan.get(run.entered).and_then(|need| need.share.as_ref());
    let Some(ShareOf { value, number: Some(number) }) = of else { return Ok(None) };
    let Some(key) = key(draft, gate, value) else { return Ok(None) };
    let mut missing = Missing::default();
    let share = missing.note(draft.gate(&key).map(Option::<&Gate>::cloned))?.flatten();
    let next = missing.note(draft.behind(gate, *number, 1))?.unwrap_or_default();
    missing.settle()?;
    let Some(Gate { state: GateState::Share(share), .. }) = share else { return Ok(None) };
    let next = next.first().map(|(_, seq)| draft.run(*seq));
    let Some(mut next) = next.transpose()?.flatten().cloned() else {
        draft.delete(RowKey::Gate(key));
        return Ok(None);
    };
    let need = next.plan.get(next.entered).cloned().expect("a queued run has another gate");
    let base = served.unwrap_or(share.base);
    let tag = base.after(need.costs.one(), weight(draft, &need)?.unwrap_or(1));
    let place = Place::of_tag(tag, next.rank);
    next.phase = Phase::Queued { gate: gate.id, place };
    put(draft, key, *number, Share { base, first: next.id.seq, rank: next.rank });
    draft.put(next);
    Ok(Some((place, need.costs)))
}

fn put(draft: &mut Draft, key: GateKey, id: Seq, share: Share) {
    draft.put(Gate { key, id, at: draft.now(), due: None, state: GateState::Share(share) });
}

/// Whether runs wait by their values at a gate that is not fair under the current release.
pub(super) fn is_left_over<E>(draft: &Draft, gate: &Gate) -> Decided<bool, E> {
    if gate.state.served().is_none() {
        return Ok(false);
    }
    let Some(scope) = gate.key.scope() else { return Ok(false) };
    Ok(draft.catalog(&scope.ws)?.fair(&scope).is_none())
}

/// Returns runs that wait by their values to the order of rank: the last ones of the queue, as many
/// as fit into the transaction. Returns the best position of them.
pub(super) fn give_up<E>(draft: &mut Draft, gate: &mut Gate) -> Decided<Option<(Place, Costs)>, E> {
    let last = draft.end_of_queue(gate, RETURNED_AT_ONCE)?;
    let shared: Vec<_> = last.into_iter().filter(|(place, _)| place.is_shared()).collect();
    let mut missing = Missing::default();
    let mut runs = Vec::new();
    for (place, seq) in &shared {
        let run = missing.note(draft.run(*seq).map(Option::<&Run>::cloned))?.flatten();
        let Some(run) = run else { continue };
        let need = run.plan.get(run.entered);
        let value = need.and_then(|need| need.share.as_ref()).map(|share| &share.value);
        let key = value.filter(|_| place.tag().is_some()).and_then(|value| key(draft, gate, value));
        if let Some(key) = &key {
            missing.note(draft.gate(key).map(|_| ()))?;
        }
        runs.push((run, key));
    }
    missing.settle()?;
    if shared.len() < RETURNED_AT_ONCE {
        gate.state.set_served(None);
    }
    let mut best: Option<(Place, Costs)> = None;
    for (mut run, key) in runs {
        if let Some(key) = key {
            draft.delete(RowKey::Gate(key));
        }
        let need = run.plan.get(run.entered).cloned().expect("a queued run has another gate");
        let place = Place { tier: need.tier, rank: run.rank };
        run.phase = Phase::Queued { gate: gate.id, place };
        draft.put(run);
        if best.as_ref().is_none_or(|(known, _)| place < *known) {
            best = Some((place, need.costs));
        }
    }
    Ok(best)
}

/// Position of a run among those of its value, and the turn of the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "FairTurn"))]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The value.
    pub value: String,
    /// The position among the runs of the value, from 1; none if it is beyond position 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// The weight of the value.
    pub weight: u32,
    /// The override of the weight in words, with its author, end and reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden: Option<String>,
    /// The sum of the weights of the values that wait, of the first 1,000.
    pub of: u64,
    /// Upper bound of the number of runs that enter before it, of the values that wait now.
    pub ahead: u64,
}

impl Standing {
    /// Says how long the run waits, in the words of `why`. `most` is the number of runs that were
    /// counted.
    pub fn words(&self, most: usize) -> String {
        let Self { value, weight, overridden, of, ahead, .. } = self;
        let place = match self.place {
            Some(place) => ordinal(place),
            None => format!("beyond the {}", ordinal(most)),
        };
        let over = overridden.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
        let entries = if *ahead == 1 { "entry" } else { "entries" };
        format!(
            "{place} of {value} (weight {weight} of {of}{over}), at most {ahead} {entries} until then"
        )
    }
}

fn ordinal(place: usize) -> String {
    let suffix = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{place}{suffix}")
}

/// Returns the standing of a run in a fair queue, among the first `most` runs of the queue and of
/// its value; none if the run waits by rank alone.
pub fn standing<E>(
    draft: &Draft,
    gate: &Gate,
    run: &Run,
    most: usize,
) -> Decided<Option<Standing>, E> {
    let Phase::Queued { place, .. } = run.phase else { return Ok(None) };
    let of = run.plan.get(run.entered).and_then(|need| need.share.as_ref());
    let Some(ShareOf { value, number: Some(number) }) = of.filter(|_| place.is_shared()) else {
        return Ok(None);
    };
    let Some(scope) = gate.key.scope() else { return Ok(None) };
    let catalog = draft.catalog(&scope.ws)?;
    let weight_of = |value: &Key| catalog.weight(&scope, value).unwrap_or(1);
    let mut missing = Missing::default();
    let queue = missing.note(draft.queue(gate, most))?.unwrap_or_default();
    let behind = missing.note(draft.behind(gate, *number, most))?.unwrap_or_default();
    missing.settle()?;
    let behind: Vec<&Run> = behind.iter().filter_map(|(_, seq)| draft.seen_run(*seq)).collect();
    let before = match place.tag() {
        Some(_) => Some(0),
        None => behind.iter().position(|other| other.id == run.id).map(|n| n + 1),
    };
    // Runs that were admitted before the limit was fair are served first.
    let by_rank = queue.iter().filter(|(at, _)| !at.is_shared()).count();
    let firsts = queue.iter().filter_map(|(at, seq)| {
        let other = draft.seen_run(*seq)?;
        let of = other.plan.get(other.entered)?.share.as_ref()?;
        Some((at.tag()?, &of.value, weight_of(&of.value)))
    });
    let firsts: Vec<_> = firsts.collect();
    let weight = weight_of(value);
    let earlier = before.unwrap_or(behind.len());
    // The tag that the run has after the runs before it, as its value waits now.
    let own = firsts.iter().find(|(_, other, _)| *other == value).map(|(tag, ..)| *tag);
    let tag = behind.iter().take(earlier).fold(own.unwrap_or_default(), |tag, run| {
        let need = run.plan.get(run.entered);
        tag.after(need.map_or(1, |need| need.costs.one()), weight)
    });
    let others = firsts.iter().filter(|(_, other, _)| *other != value);
    let passing: u64 = others.map(|(first, _, weight)| first.services_until(tag, *weight)).sum();
    Ok(Some(Standing {
        value: value.to_string(),
        place: before.map(|before| before + 1),
        weight,
        overridden: catalog.overrides().weight(&scope, value).map(|over| over.words()),
        of: firsts.iter().map(|(_, _, weight)| u64::from(*weight)).sum(),
        ahead: (by_rank + earlier) as u64 + passing,
    }))
}

#[cfg(test)]
mod tests;
