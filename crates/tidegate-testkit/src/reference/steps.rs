//! Single steps that pass a pool (spec L7). A run has one such step at a time here.

use serde_json::{Value, json};

use super::{
    Ordinal, Place, Reference, State, Stop,
    admit::kind,
    fields::{key_of, place},
};

/// Answer to a step that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has its place.
    Entered,
    /// It has to wait.
    Waits,
    /// It fails.
    Refused,
}

impl Reference {
    /// Whether a step of the run has a place, or the run is queued for it.
    pub fn has_step(&self, run: Ordinal) -> bool {
        self.runs[run].step.is_some()
    }

    /// Lets a step of a driven run ask for a place in a pool.
    pub fn enter(&mut self, run: Ordinal, ask: &Ask<'_>) -> Entry {
        let (at, cost) = (ask.place(), ask.cost);
        let limit = self.limit_of_pool(&at);
        let own = if self.holds(run, &at) { self.cost_at(run, &at) } else { 0 };
        if own + cost > limit {
            return Entry::Refused;
        }
        let inside = (0..self.runs.len()).filter(|&other| self.holds(other, &at));
        let used: i128 = inside.map(|other| self.cost_at(other, &at)).sum();
        let closed = self.is_closed(&at);
        if closed || self.lines().contains_key(&at) || used + cost > limit {
            return Entry::Waits;
        }
        let added = self.add_step(run, ask);
        self.runs[run].passed += usize::from(added.is_some());
        Entry::Entered
    }

    /// Ends the place of a step of a driven run.
    pub fn leave_pool(&mut self, run: Ordinal) {
        self.drop_step(run);
        self.settle();
    }

    /// Parks a driven run that can only wait for a place of its step.
    pub fn park(&mut self, run: Ordinal, ask: &Ask<'_>) {
        self.requeue(run);
        let added = self.add_step(run, ask);
        let it = &mut self.runs[run];
        it.passed = it.passed.min(added.unwrap_or(it.passed));
        it.state = State::Line;
        self.settle();
    }

    /// Adds the gate of a step to those of its run. Returns its position if the run did not have it
    /// already.
    fn add_step(&mut self, run: Ordinal, ask: &Ask<'_>) -> Option<usize> {
        let (gate, cost) = (ask.place(), ask.cost);
        let value = self.value_of_step(&gate, ask.value.and_then(text_of));
        let it = &mut self.runs[run];
        it.step = Some((gate.clone(), cost));
        if let Some(at) = it.way.iter().position(|(_, known)| *known == gate) {
            it.costs[at][0] += cost;
            return None;
        }
        let stop = if gate.key.is_some() { Stop::Narrow } else { Stop::Wide };
        let of_pool = |place: &Place| place.control.starts_with("pool");
        let order = |stop: Stop, place: &Place| {
            let pool = (place.owner.clone(), kind(place), place.key.clone());
            (stop, of_pool(place), of_pool(place).then_some(pool))
        };
        let after = |(known, place): &(Stop, Place)| order(*known, place) > order(stop, &gate);
        let at = it.way.iter().position(after).unwrap_or(it.way.len());
        it.values.extend(value.map(|value| (gate.clone(), value)));
        it.way.insert(at, (stop, gate));
        it.costs.insert(at, vec![cost]);
        Some(at)
    }

    /// Removes the gate of a step, or its part of the cost there.
    pub(super) fn drop_step(&mut self, run: Ordinal) {
        let it = &mut self.runs[run];
        let Some((gate, cost)) = it.step.take() else { return };
        let at = it.way.iter().position(|(_, known)| *known == gate).expect("the step has it");
        it.costs[at][0] -= cost;
        if it.costs[at][0] == 0 {
            it.way.remove(at);
            it.costs.remove(at);
            it.values.remove(&gate);
            it.passed -= usize::from(at < it.passed);
        }
    }
}

/// What a step asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The pool.
    pub pool: &'a str,
    /// The key.
    pub key: Option<&'a Value>,
    /// The units.
    pub cost: i128,
    /// The value of `fair`.
    pub value: Option<&'a Value>,
}

impl Ask<'_> {
    fn place(&self) -> Place {
        let value = self.key.and_then(text_of);
        let control = if value.is_some() { "pool keyed" } else { "pool" };
        place(self.pool, control, value)
    }
}

fn text_of(value: &Value) -> Option<String> {
    key_of(&json!({ "k": value }), "k")
}
