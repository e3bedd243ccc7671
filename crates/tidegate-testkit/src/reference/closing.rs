//! Gates that runs close because a service has refused their calls (spec L27).

use std::collections::BTreeMap;

use super::{Ordinal, Place, Reference, Time};

impl Reference {
    /// Lets a driven run close gates that it has or will take: the `throttle` or the `concurrency`
    /// limit of its workflow, of several those with a key, or a pool. The later end wins.
    pub fn close_gate(&mut self, run: Ordinal, gate: &str, time: Time) {
        let kind = |place: &Place| match place.control.split(' ').next() {
            Some("run" | "executing") => "concurrency".to_owned(),
            Some("pool") => format!("pool:{}", place.owner),
            control => control.unwrap_or_default().to_owned(),
        };
        let way = self.runs[run].way.iter().map(|(_, place)| place);
        let mut places: Vec<Place> = way.filter(|place| kind(place) == gate).cloned().collect();
        let keyed = |place: &Place| !place.control.ends_with(' ');
        if places.iter().any(keyed) {
            places.retain(keyed);
        }
        for place in places {
            let until = self.closed.entry(place).or_default();
            *until = (*until).max(self.now + time);
        }
    }

    /// Opens the gates whose time is over.
    pub(super) fn open_gates(&mut self) {
        let now = self.now;
        self.closed.retain(|_, until| *until > now);
    }

    /// Returns the gates that runs have closed, and how long they stay closed.
    pub fn closed(&self) -> BTreeMap<Place, Time> {
        let left = self.closed.iter().map(|(at, until)| (at.clone(), *until - self.now));
        left.filter(|(_, left)| *left > 0).collect()
    }
}
