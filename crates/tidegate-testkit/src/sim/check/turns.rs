//! Checks of fair gates: the order of turns, and the bound of what others get while a value waits.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{
    id::Seq,
    key::Key,
    row::{Gate, GateKey, GateState, Phase, Place, Row, Run, Share, Tag},
};

use super::{Look, undoes};
use crate::sim::controls::{Fair, Policy};

/// What a waiting value has seen since its arrival or its last service.
#[derive(Debug)]
struct Wait {
    number: Seq,
    base: Tag,
    /// The greatest cost of its first run.
    cost: u64,
    /// The units that each other value got.
    units: BTreeMap<Key, u64>,
}

/// Values at one gate.
#[derive(Debug, Default)]
struct Values {
    waits: BTreeMap<Key, Wait>,
    /// The greatest cost of a run of each value.
    greatest: BTreeMap<Key, u64>,
}

/// Model of the turns, by gate.
#[derive(Debug, Default)]
pub(super) struct TurnModel {
    gates: BTreeMap<GateKey, Values>,
}

/// First run of a value: the value, its position, the number and the base of the share, the cost.
struct First {
    value: Key,
    place: Place,
    number: Seq,
    base: Tag,
    cost: u64,
}

impl TurnModel {
    /// Compares a commit with the rules, and records what the waiting values have seen.
    pub(super) fn play(&mut self, look: &Look<'_>) -> Result<(), (&'static str, String)> {
        if look.redefines() {
            // Weights may have changed.
            self.gates.clear();
            return Ok(());
        }
        let fair: BTreeSet<GateKey> = look.state.gates().filter(is_fair).map(key).collect();
        self.gates.retain(|gate, _| fair.contains(gate));
        for key in fair {
            let gate = look.state.gate(&key).expect("it was just read");
            let firsts = firsts(look, gate);
            grows(look, gate, &firsts).map_err(|text| ("I72", text))?;
            if let Some(fair) = settings(look, gate) {
                let values = self.gates.entry(key).or_default();
                values.play(look, gate, fair, firsts).map_err(|text| ("I71", text))?;
            }
        }
        Ok(())
    }
}

fn key(gate: &Gate) -> GateKey {
    gate.key.clone()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that iterators need")]
fn is_fair(gate: &&Gate) -> bool {
    gate.state.served().is_some()
}

/// Returns the turns of a gate; none where tags are not made of the costs that the runs have now: a
/// request that joins a waiting run changes its cost, and tags of before a release stay.
fn settings(look: &Look<'_>, gate: &Gate) -> Option<Fair> {
    let scope = gate.key.scope()?;
    let joins =
        |it: &crate::sim::controls::Controls| matches!(it.policy, Some(Policy::Debounce(_)));
    let mut specs = look.plan.specs.iter();
    if look.plan.releases > 0
        || specs.any(|spec| spec.versions.iter().any(|(controls, _)| joins(controls)))
    {
        return None;
    }
    match scope.pool() {
        Some(name) => look.plan.pools.iter().find(|pool| pool.name == name)?.fair,
        None => look.controls(&scope.ws, &scope.name)?.fair(scope.class, &scope.slot),
    }
}

/// Returns the first runs of the values that wait at a gate.
fn firsts(look: &Look<'_>, gate: &Gate) -> Vec<First> {
    let share = |run: &Run, value: &Key| -> Option<Share> {
        let need = run.plan.get(run.entered)?;
        match &look.state.gate(&need.gate.share(value)?)?.state {
            GateState::Share(share) => Some(*share),
            _ => None,
        }
    };
    let first = |run: &&Run| {
        let Phase::Queued { place, .. } = run.phase else { return None };
        let need = run.plan.get(run.entered)?;
        let of = need.share.as_ref().filter(|_| place.tag().is_some())?;
        let base = share(run, &of.value)?.base;
        let (value, number) = (of.value.clone(), of.number?);
        Some(First { value, place, number, base, cost: need.costs.one().into() })
    };
    look.lines.get(&gate.id).into_iter().flatten().filter_map(first).collect()
}

/// The tag of the latest service only grows while values wait, and is not above the tag of a value
/// that waited before the commit and still does: the lowest tag is served.
fn grows(look: &Look<'_>, gate: &Gate, firsts: &[First]) -> Result<(), String> {
    let gates = look.deltas.iter();
    let delta = gates.filter(|delta| delta.before.is_some()).find(|delta| {
        let before = delta.before.as_ref().and_then(Row::as_gate);
        before.is_some_and(|before| before.key == gate.key)
    });
    let before = delta.and_then(|delta| delta.before.as_ref()?.as_gate()?.state.served());
    let (Some(before), Some(after)) = (before, gate.state.served()) else { return Ok(()) };
    let stayed = firsts.iter().filter(|first| {
        look.lines.get(&gate.id).into_iter().flatten().any(|run| {
            let here = matches!(run.phase, Phase::Queued { place, .. } if place == first.place);
            here && look.before(run.id.seq).is_some_and(|old| old.phase == run.phase)
        })
    });
    let lowest = stayed.filter_map(|first| first.place.tag()).min();
    let Some(lowest) = lowest else { return Ok(()) };
    if after < before || (after > before && after > lowest) {
        let scope = gate.key.scope();
        return Err(format!(
            "the turns at {scope:?} went from {before:?} to {after:?}, and {lowest:?} still waits"
        ));
    }
    Ok(())
}

impl Values {
    fn play(
        &mut self,
        look: &Look<'_>,
        gate: &Gate,
        fair: Fair,
        firsts: Vec<First>,
    ) -> Result<(), String> {
        let came = came(look, gate);
        for (value, cost) in came.iter().chain(
            firsts.iter().map(|first| (first.value.clone(), first.cost)).collect::<Vec<_>>().iter(),
        ) {
            let known = self.greatest.entry(value.clone()).or_default();
            *known = (*known).max(*cost);
        }
        let mut before = std::mem::take(&mut self.waits);
        for First { value: i, number, base, cost, .. } in firsts {
            let known = before.remove(&i);
            let known = known.filter(|wait| (wait.number, wait.base) == (number, base));
            let Some(mut wait) = known else {
                self.waits.insert(i, Wait { number, base, cost, units: BTreeMap::new() });
                continue;
            };
            wait.cost = wait.cost.max(cost);
            for (j, units) in &came {
                *wait.units.entry(j.clone()).or_default() += units;
            }
            let weight = |value: &Key| fair.weight(&value.to_string());
            for (j, &units) in &wait.units {
                let most = weight(j) * wait.cost / weight(&i) + self.greatest[j];
                if units > most {
                    let scope = gate.key.scope();
                    return Err(format!(
                        "while {i} waited at {scope:?} with a cost of {}, {j} got {units} units; \
                         the bound is {most}",
                        wait.cost
                    ));
                }
            }
            self.waits.insert(i, wait);
        }
        Ok(())
    }
}

/// Returns the runs that have entered a gate in this commit, by value and cost.
fn came(look: &Look<'_>, gate: &Gate) -> Vec<(Key, u64)> {
    let runs = look.runs().filter(|(before, after)| {
        let inside = after.is_some_and(|run| run.holds(&gate.key) && !undoes(run));
        inside && !before.is_some_and(|run| run.holds(&gate.key))
    });
    let came = runs.filter_map(|(_, after)| {
        let need = after?.plan.iter().find(|need| need.gate == gate.key)?;
        Some((need.share.as_ref()?.value.clone(), u64::from(need.costs.one())))
    });
    came.collect()
}
