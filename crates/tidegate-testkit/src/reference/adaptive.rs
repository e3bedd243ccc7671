//! Adaptive limits of workflows and actions (spec L28).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Ordinal, Place, Reference, State, Stop, Time,
    fields::{limit_name, limits, ms, number},
};

/// The value of an adaptive limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adapted {
    limit: i128,
    /// Number of changes so far.
    changes: u64,
    successes: i128,
    lowered: Option<Time>,
}

/// The calls of a run at a gate: the number of changes of the limit when they began, and how many
/// of them have succeeded.
pub(super) type Calls = BTreeMap<Place, (u64, i128)>;

impl Reference {
    /// Returns the limit and the `adaptive` settings of a gate by the current release.
    fn adaptive_at(&self, place: &Place) -> Option<(i128, Value)> {
        let def = self.releases.get(&place.owner)?.last()?;
        let limit = limits(def).into_iter().find(|limit| limit_name(limit) == place.control)?;
        Some((number(limit, "limit")?, limit.get("adaptive")?.clone()))
    }

    /// Returns the limit of a gate, given that of the definition.
    pub(super) fn adapted_limit(&self, place: &Place, limit: i128) -> i128 {
        let Some((_, settings)) = self.adaptive_at(place) else {
            return self.limit_in_force(place, limit);
        };
        let own = self.adapted.get(place).map_or(limit, |it| it.limit);
        let own = own.max(bound(&settings, "min")).min(bound(&settings, "max"));
        self.limit_in_force(place, own).min(own)
    }

    /// Returns the limit with which costs are compared.
    pub(super) fn highest_limit(&self, place: &Place, limit: i128) -> i128 {
        match self.adaptive_at(place) {
            Some((_, settings)) => {
                let most = bound(&settings, "max");
                self.limit_in_force(place, most).min(most)
            }
            None => self.limit_in_force(place, limit),
        }
    }

    /// Returns the values of limits that have changed or counted, with their successes.
    pub fn adapted(&self) -> BTreeMap<Place, (i128, i128)> {
        self.adapted.iter().map(|(at, it)| (at.clone(), (it.limit, it.successes))).collect()
    }

    /// Notes that the calls of a run at a gate begin now.
    pub(super) fn begin_calls(&mut self, run: Ordinal, place: &Place) {
        let since = self.adapted.get(place).map_or(0, |it| it.changes);
        let adaptive = self.adaptive_at(place).is_some();
        let calls = &mut self.runs[run].calls;
        calls.remove(place);
        if adaptive {
            calls.insert(place.clone(), (since, 0));
        }
    }

    /// Notes that the calls of a leased run begin now, at the gates that it keeps.
    pub(super) fn begin_again(&mut self, run: Ordinal) {
        let it = &self.runs[run];
        let kept = it.way.iter().take(it.passed);
        let kept = kept.filter(|(stop, _)| matches!(stop, Stop::RunLimit | Stop::WideRunLimit));
        for place in kept.map(|(_, place)| place.clone()).collect::<Vec<_>>() {
            let since = self.adapted.get(&place).map_or(0, |it| it.changes);
            if let Some(calls) = self.runs[run].calls.get_mut(&place)
                && calls.0 != since
            {
                *calls = (since, 0);
            }
        }
    }

    /// Records a successful step of a driven run.
    pub fn succeed(&mut self, run: Ordinal) {
        self.runs[run].calls.values_mut().for_each(|calls| calls.1 += 1);
    }

    /// Lets a driven run meet an overload; it is tried again after a time.
    pub fn overload(&mut self, run: Ordinal, time: Time) {
        for (place, (since, _)) in self.runs[run].calls.clone() {
            self.adapt(&place, since, None);
        }
        self.sleep(run, time);
    }

    /// Counts the successful calls of a run at the gates that it leaves: all after the first `kept`
    /// of its way.
    pub(super) fn count_calls(&mut self, run: Ordinal, kept: usize) {
        let left = self.runs[run].way.iter().skip(kept).map(|(_, place)| place.clone());
        for place in left.collect::<Vec<_>>() {
            if let Some((since, successes)) = self.runs[run].calls.remove(&place)
                && successes > 0
            {
                self.adapt(&place, since, Some(successes));
            }
        }
    }

    /// Counts the successful calls of a run that has ended and is driven no more.
    pub(super) fn count_last_calls(&mut self, run: Ordinal) {
        let it = &self.runs[run];
        if matches!(it.state, State::Ended(_)) && it.stopping.is_none() {
            self.count_calls(run, 0);
        }
    }

    /// Applies successes, or an overload, to a gate.
    fn adapt(&mut self, place: &Place, since: u64, successes: Option<i128>) {
        let Some((start, settings)) = self.adaptive_at(place) else { return };
        let (min, max) = (bound(&settings, "min"), bound(&settings, "max"));
        let fresh = Adapted { limit: start, changes: 0, successes: 0, lowered: None };
        let known = self.adapted.get(place).copied().unwrap_or(fresh);
        let limit = known.limit.max(min).min(max);
        let in_force = self.limit_in_force(place, limit).min(limit);
        if since != known.changes {
            return;
        }
        let mut next = Adapted { limit, ..known };
        match successes {
            None => {
                let cooldown = ms(&settings, "cooldownMs").unwrap_or(1_000_000);
                if known.lowered.is_some_and(|at| self.now < at + cooldown) {
                    return;
                }
                let half = (in_force / 2).max(min);
                if half < limit {
                    next.limit = half;
                    next.changes += 1;
                    next.lowered = Some(self.now);
                } else if known.successes == 0 {
                    return;
                }
                next.successes = 0;
            }
            Some(_) if limit >= max || in_force < limit => return,
            Some(count) => {
                next.successes += count;
                if next.successes >= limit {
                    next.limit += 1;
                    next.changes += 1;
                    next.successes = 0;
                }
            }
        }
        self.adapted.insert(place.clone(), next);
    }
}

fn bound(settings: &Value, name: &str) -> i128 {
    number(settings, name).expect("given")
}
