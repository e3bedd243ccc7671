//! Fair gates: the values that take turns (spec L16), in whole numbers of 10⁻⁹.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Ordinal, Place, Reference, State, Time,
    fields::{key_from, limit_name, limits, metered, source},
};

/// Parts of a unit.
const PARTS: i128 = 1_000_000_000;

/// A value of `by`; none for the runs without it.
pub(super) type FairValue = Option<String>;

/// The turns at one gate.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnsAt {
    /// The virtual time V.
    virtual_time: i128,
    values: BTreeMap<FairValue, Turn>,
    /// The runs that wait by their values.
    waiting: BTreeMap<Ordinal, FairValue>,
}

/// The turn of a value with waiting runs.
#[derive(Clone, Debug)]
struct Turn {
    base: i128,
    tag: i128,
    /// The first run of the value, whose cost the tag has.
    first: Ordinal,
    /// The number of the value, in the order in which values begin to wait. It orders only how
    /// the queue is compared: runs that are not the first of their value.
    number: u64,
}

/// Position in the queue of a fair gate: runs without a value by rank, the first runs of values by
/// their tags, all others, and at the end a run that has just come.
pub(super) type FairOrder = (u8, i128, Time, u64);

impl Reference {
    /// Returns the settings of `fair` of a gate, by the current release.
    fn fair_at(&self, place: &Place) -> Option<&Value> {
        if place.control.starts_with("pool") {
            return self.pools[&place.owner].fair.as_ref();
        }
        // Gates of a policy belong to a flow, which is not fair.
        let def = self.releases.get(&place.owner)?.last()?;
        if place.control.starts_with("throttle") {
            let known = super::fields::meters(def, "throttle").contains(&place.control);
            return metered(def, &place.control)
                .into_iter()
                .find_map(|it| it.get("fair"))
                .filter(|_| known);
        }
        limits(def).into_iter().find(|limit| limit_name(limit) == place.control)?.get("fair")
    }

    /// Returns the value of a run with this data at a gate that is fair at its admission.
    pub(super) fn value_at(&self, place: &Place, data: &Value) -> Option<FairValue> {
        let by = source(self.fair_at(place)?, "by").expect("given");
        Some(key_from(data, &by))
    }

    /// Returns the value of a step at a gate.
    pub(super) fn value_of_step(&self, place: &Place, value: FairValue) -> Option<FairValue> {
        self.fair_at(place).map(|_| value)
    }

    /// Returns the weight of a value now.
    fn weight(fair: &Value, value: &FairValue) -> i128 {
        let shown = value.as_ref().map(|value| value.trim_matches('"').to_owned());
        let weight = shown.and_then(|value| fair["weights"].get(value)?.as_i64());
        weight.or(fair["defaultWeight"].as_i64()).unwrap_or(1).into()
    }

    /// Returns the tag of a value whose first run is this one.
    fn tag(&self, place: &Place, value: &FairValue, base: i128, first: Ordinal) -> i128 {
        let weight = self.fair_at(place).map_or(1, |fair| Self::weight(fair, value));
        let units = self.cost_at(first, place) * PARTS;
        base + units / weight + i128::from(units % weight != 0)
    }

    /// Updates the turns of all gates: runs that wait no more are left out, and those that have come
    /// join, if they cannot enter.
    pub(super) fn update_turns(&mut self) {
        let places: Vec<Place> = self.turns_at.keys().cloned().collect();
        for place in places {
            let gone: Vec<Ordinal> = self.turns_at[&place]
                .waiting
                .keys()
                .copied()
                .filter(|&run| !self.waits_at(run, &place))
                .collect();
            for run in gone {
                self.withdraw(&place, run, false);
            }
            if self.fair_at(&place).is_none() || !self.lines().contains_key(&place) {
                self.turns_at.remove(&place);
            }
        }
        let came = self.by_rank(|run| run.state == State::Line && run.passed < run.way.len());
        for run in came {
            let place = self.runs[run].way[self.runs[run].passed].1.clone();
            if self.is_new_at(run, &place) && !self.is_alone_and_fits(run, &place) {
                self.join_turns(&place, run);
            }
        }
    }

    fn waits_at(&self, run: Ordinal, place: &Place) -> bool {
        let it = &self.runs[run];
        let here = it.way.get(it.passed).is_some_and(|(_, at)| at == place);
        it.state == State::Line && here && !self.is_held_back(run)
    }

    /// Whether a run has come to a fair gate and does not wait there by its value yet.
    fn is_new_at(&self, run: Ordinal, place: &Place) -> bool {
        let fair = self.runs[run].values.contains_key(place) && self.fair_at(place).is_some();
        let known = self.turns_at.get(place).is_some_and(|it| it.waiting.contains_key(&run));
        fair && !known && self.waits_at(run, place)
    }

    /// Whether nobody waits at a gate that a run has come to, and there is room.
    fn is_alone_and_fits(&self, run: Ordinal, place: &Place) -> bool {
        let line = &self.lines()[place];
        let others = line.iter().filter(|&&other| !self.is_new_at(other, place));
        others.count() == 0 && self.may_pass(run)
    }

    fn join_turns(&mut self, place: &Place, run: Ordinal) {
        let value = self.runs[run].values[place].clone();
        let rank = |run: Ordinal| self.runs[run].rank;
        let at = self.turns_at.get(place).cloned().unwrap_or_default();
        let known = at.values.get(&value).cloned();
        let turn = match known {
            Some(turn) if rank(run) > rank(turn.first) => turn,
            Some(turn) => {
                let tag = self.tag(place, &value, turn.base, run);
                Turn { tag, first: run, ..turn }
            }
            None => {
                self.arrivals += 1;
                let (base, number) = (at.virtual_time, self.arrivals);
                let tag = self.tag(place, &value, base, run);
                Turn { base, tag, first: run, number }
            }
        };
        let at = self.turns_at.entry(place.clone()).or_default();
        at.waiting.insert(run, value.clone());
        at.values.insert(value, turn);
    }

    /// Takes a run out of the turns of a gate, because it enters (`served`) or waits no more.
    pub(super) fn withdraw(&mut self, place: &Place, run: Ordinal, served: bool) {
        let Some(at) = self.turns_at.get_mut(place) else { return };
        let Some(value) = at.waiting.remove(&run) else { return };
        let turn = at.values[&value].clone();
        if turn.first != run {
            return;
        }
        if served {
            at.virtual_time = at.virtual_time.max(turn.tag);
        }
        let base = if served { at.virtual_time } else { turn.base };
        let same: BTreeSet<Ordinal> =
            at.waiting.iter().filter(|(_, of)| **of == value).map(|(run, _)| *run).collect();
        let next = same.into_iter().min_by_key(|&run| self.runs[run].rank);
        let turn = next.map(|first| {
            let tag = self.tag(place, &value, base, first);
            Turn { base, tag, first, ..turn }
        });
        let at = self.turns_at.get_mut(place).expect("it was just there");
        match turn {
            Some(turn) => drop(at.values.insert(value, turn)),
            None => drop(at.values.remove(&value)),
        }
    }

    /// Returns the position of a run in the queue of a gate that is fair; none if its queue is
    /// ordered by rank.
    pub(super) fn fair_order(&self, run: Ordinal, place: &Place) -> Option<FairOrder> {
        let it = &self.runs[run];
        let (time, arrival) = it.rank;
        self.fair_at(place)?;
        let own = it.values.get(place);
        let at = self.turns_at.get(place);
        let Some(value) = at.and_then(|at| at.waiting.get(&run)) else {
            return Some((if own.is_none() { 0 } else { 3 }, 0, time, arrival));
        };
        let turn = &at?.values[value];
        Some(if turn.first == run {
            (1, turn.tag, time, run as u64)
        } else {
            (2, turn.number.into(), time, arrival)
        })
    }
}
