//! The gates of a run's plan, in the order of spec G9: holders, queues and throttle turns.

use serde_json::Value;

use super::{
    Fold, Ordinal, Place, Reference, State, Stop, Time,
    fields::{
        from_data, limit_name, limits, ms, number, number_of, policy, policy_name, queue_of, text,
    },
};

impl Reference {
    // ------------------------------------------------------------------ towards the start
    // (spec G9)

    /// Admits every run that can pass its gate, in the order of the gates, the best rank first.
    /// Then flushes the folds that are no longer held (spec F4).
    pub(super) fn settle(&mut self) {
        while self.let_one_pass() || self.flush_one() {}
        if !std::mem::take(&mut self.aside).is_empty() {
            while self.let_one_pass() || self.flush_one() {}
        }
        for run in 0..self.runs.len() {
            let it = &self.runs[run];
            let passed = it.state == State::Line && it.passed == it.way.len();
            if passed && !self.is_held_back(run) {
                self.runs[run].state = State::Ready;
            }
        }
    }

    /// Admits the next run, through as many gates as it can pass.
    fn let_one_pass(&mut self) -> bool {
        self.hold_back();
        if self.any_fair {
            self.update_turns();
        }
        let waiting = self.by_rank(|run| run.state == State::Line && run.passed < run.way.len());
        let may = waiting.into_iter().filter(|&run| self.may_pass(run));
        let next = may.min_by_key(|&run| {
            let (stop, place) = &self.runs[run].way[self.runs[run].passed];
            // Of throttles those of one key come first (spec L5).
            let wide_turn = *stop == Stop::Turn && place.control.ends_with(' ');
            (*stop, wide_turn, place.control.clone())
        });
        next.is_some_and(|next| {
            while self.runs[next].passed < self.runs[next].way.len() && self.may_pass(next) {
                let (_, place) = self.runs[next].way[self.runs[next].passed].clone();
                self.withdraw(&place, next, true);
                self.begin_calls(next, &place);
                self.runs[next].passed += 1;
            }
            true
        })
    }

    /// Lets a new run pass as many gates as it can, and applies the bound of the queue in which it
    /// has to wait. Returns `false` if the run has to be refused (spec L19).
    pub(super) fn fits_queue(&mut self, run: Ordinal) -> bool {
        while self.let_one_pass() {}
        let it = &mut self.runs[run];
        it.stood = it.passed;
        let it = &self.runs[run];
        let waits = it.state == State::Line && !self.is_held_back(run);
        let Some((_, place)) = it.way.get(it.passed).filter(|_| waits) else { return true };
        let Some((most, mode)) = queue_of(self.current(&it.workflow), place) else { return true };
        let line = &self.lines()[place];
        if line.len() <= most {
            return true;
        }
        let mut victims = line.iter().copied().filter(|&other| {
            let other_run = &self.runs[other];
            let own = other_run.workflow == it.workflow;
            other != run && own && !other_run.started && other_run.stood == other_run.passed
        });
        let victim = match mode.as_str() {
            "dropOldest" => victims.next(),
            "dropNewest" => victims.next_back(),
            _ => None,
        };
        if let Some(victim) = victim {
            self.claims.retain(|_, (_, of)| *of != victim);
            self.cut(victim);
        }
        victim.is_some()
    }

    /// Whether a fold that a gate has refused would be refused again (spec F4, L19).
    fn blocks(&self, fold: &Fold, place: &Place, version: i128) -> bool {
        let def = self.current(&fold.workflow);
        let by_mode = matches!(place.control.as_str(), "singleton" | "policy");
        let Some((most, _)) = queue_of(def, place) else {
            return by_mode && self.busy(place, version);
        };
        let waiting = self.lines().get(place).map_or(0, Vec::len);
        let inside = (0..self.runs.len()).filter(|&run| self.holds(run, place));
        let inside: Vec<i128> = inside.map(|run| self.cost_at(run, place)).collect();
        let limit = limits(def).into_iter().find(|limit| limit_name(limit) == place.control);
        // The cost of the run, and a limit from its data, are known only when it is made.
        let unknown = |it: &Value| it.get("cost").is_some() || it["limit"].is_object();
        let unknown = limit.is_some_and(unknown);
        let limit = limit.map_or(1, |limit| self.limit_at(place, limit));
        let fits = !unknown && inside.iter().sum::<i128>() < limit;
        let fits = !self.is_closed(place) && (inside.is_empty() || fits);
        waiting >= most && (waiting > 0 || !fits)
    }

    fn flush_one(&mut self) -> bool {
        let free = self.folds.iter().position(|fold| {
            let blocked = fold.blocked.as_ref();
            blocked.is_some_and(|(place, version)| !self.blocks(fold, place, *version))
        });
        free.is_some_and(|at| {
            self.folds[at].blocked = None;
            self.flush(at);
            true
        })
    }

    /// Whether a queued run is the first in its queue, and the gate has room.
    pub(super) fn may_pass(&self, run: Ordinal) -> bool {
        let it = &self.runs[run];
        let (stop, place) = &it.way[it.passed];
        if self.is_closed(place) || self.is_held_back(run) || self.aside.contains(&run) {
            return false;
        }
        let first = self.lines()[place][0] == run;
        let inside = (0..self.runs.len()).filter(|&other| self.holds(other, place));
        if *stop == Stop::Turn {
            return first && self.conforms(place, &self.let_through(place), &it.costs[it.passed]);
        }
        match place.control.as_str() {
            "handoff" => self.hands_over(run, place),
            "singleton" if self.handoff_of(run).is_some() => {
                inside.filter(|&other| self.runs[other].version == it.version).count() == 0
            }
            "singleton" | "policy" => first && inside.count() == 0,
            name => {
                let limits = limits(self.current(&it.workflow));
                let limit = limits.into_iter().find(|limit| limit_name(limit) == name);
                let limit = limit.map(|limit| self.limit_at(place, limit));
                let limit =
                    if name.starts_with("pool") { Some(self.limit_of_pool(place)) } else { limit };
                let inside: Vec<i128> = inside.map(|other| self.cost_at(other, place)).collect();
                let used: i128 = inside.iter().sum();
                // An empty gate admits any cost: the limit may be lower than at the arrival.
                let fits = |limit| inside.is_empty() || used + it.costs[it.passed][0] <= limit;
                first && limit.is_none_or(fits)
            }
        }
    }

    /// Returns the limit of a gate: that of the definition, or of the admitted event with the
    /// highest number, in the range of the definition (spec L12).
    fn limit_at(&self, place: &Place, entry: &Value) -> i128 {
        let limit = &entry["limit"];
        let limit = match (number(limit, "min"), number(limit, "max"), self.given.get(place)) {
            (Some(min), Some(max), Some((_, given))) => (*given).max(min).min(max),
            (Some(_), ..) => number(limit, "default").expect("given"),
            (None, ..) => number(entry, "limit").expect("given"),
        };
        self.adapted_limit(place, limit)
    }

    /// Returns the limit of a pool's gate.
    pub(super) fn limit_of_pool(&self, place: &Place) -> i128 {
        self.limit_in_force(place, self.pools[&place.owner].limit)
    }

    /// Sets the limits of the gates that an admitted run has not passed by its data (spec L12).
    pub(super) fn give(&mut self, run: Ordinal, def: &Value, data: &Value) {
        let it = &self.runs[run];
        // A deferred event has the number of its delivery (spec L23).
        let event = number_of(data);
        let number = self.delivered.iter().position(|known| *known == event).expect("delivered");
        let coming: Vec<Place> = it.way.iter().skip(it.passed).map(|it| it.1.clone()).collect();
        for place in coming {
            let limit = limits(def).into_iter().find(|limit| limit_name(limit) == place.control);
            let Some(limit) = limit.filter(|limit| limit["limit"].is_object()) else { continue };
            let given = (number, from_data(&limit["limit"], data).expect("checked"));
            let known = self.given.entry(place).or_insert(given);
            *known = (*known).max(given);
        }
    }

    /// Returns the sort key of a run in a queue: first a run that replaces another, then by rank.
    /// At a handoff, runs of an older release come first.
    pub(super) fn order(&self, run: Ordinal, place: &Place) -> (usize, (Time, u64)) {
        let it = &self.runs[run];
        let tier = match place.control.as_str() {
            "handoff" => it.release,
            "policy" => usize::from(!it.in_place),
            _ => 0,
        };
        // The queue of a session is ordered by arrival alone (spec policies).
        let (at, arrival) = it.rank;
        (tier, (if place.control == "policy" { 0 } else { at }, arrival))
    }

    /// Whether a run may take its handoff gate, by the policy of the current release.
    fn hands_over(&self, run: Ordinal, place: &Place) -> bool {
        let policy = text(&self.current(&self.runs[run].workflow)["handoff"], "onNewVersion");
        let coexist = policy.as_deref() == Some("coexist");
        let same = |other: Ordinal| self.runs[other].version == self.runs[run].version;
        let counts = |other: &Ordinal| *other != run && (!coexist || same(*other));
        let inside = (0..self.runs.len()).filter(|&other| self.holds(other, place));
        let before = self.lines()[place].clone().into_iter();
        let before = before.take_while(|&other| other != run);
        inside.chain(before).filter(counts).count() == 0
    }

    /// Returns whether a run holds a gate (spec G2, G7).
    pub(super) fn holds(&self, run: Ordinal, place: &Place) -> bool {
        let it = &self.runs[run];
        let Some(at) = it.way.iter().position(|(_, stop)| stop == place) else { return false };
        at < it.passed && (self.alive(run) || it.stopping.is_some())
    }

    /// Puts a run back into the queues of its executing gates (spec G3). It gets them back before
    /// the runs that wait for the place of its step enter (spec G4).
    pub(super) fn requeue(&mut self, run: Ordinal) {
        let step = self.runs[run].step.clone();
        self.drop_step(run);
        let own = |place: &Place| self.runs[run].way.iter().any(|(_, known)| known == place);
        if let Some((place, _)) = step.filter(|(place, _)| !own(place)) {
            self.aside = self.lines().remove(&place).unwrap_or_default();
        }
        let it = &mut self.runs[run];
        it.passed = it.way.iter().filter(|(stop, _)| *stop <= Stop::Turn).count();
        it.state = State::Line;
        let kept = it.passed;
        self.count_calls(run, kept);
    }

    /// Cancels a run; its engine has not stopped driving it yet (spec G7).
    pub(super) fn cut(&mut self, run: Ordinal) {
        if let State::Driven(engine) = self.runs[run].state {
            self.runs[run].stopping = Some(engine);
        }
        self.runs[run].state = State::Ended("cancelled");
        self.count_last_calls(run);
    }

    /// Returns the cost of a run at a gate with one limit.
    pub(super) fn cost_at(&self, run: Ordinal, place: &Place) -> i128 {
        let it = &self.runs[run];
        let at = it.way.iter().position(|(_, stop)| stop == place).expect("a gate of the run");
        it.costs[at][0]
    }

    /// Returns the gates of the run's throttles, with its costs.
    pub(super) fn turns_of(&self, run: Ordinal) -> Vec<(Place, Vec<i128>)> {
        let it = &self.runs[run];
        let turns = it.way.iter().zip(&it.costs).filter(|((stop, _), _)| *stop == Stop::Turn);
        turns.map(|((_, place), costs)| (place.clone(), costs.clone())).collect()
    }

    /// Returns the units of the runs that a throttle admitted and that have not started.
    fn let_through(&self, place: &Place) -> Vec<i128> {
        let let_through = |run: Ordinal| {
            let it = &self.runs[run];
            let at = it.way.iter().position(|(_, stop)| stop == place);
            self.alive(run) && !it.started && at.is_some_and(|at| at < it.passed)
        };
        let mut units = Vec::new();
        for run in (0..self.runs.len()).filter(|&run| let_through(run)) {
            let costs = self.turns_of(run).into_iter().find(|(turn, _)| turn == place);
            for (n, cost) in costs.into_iter().flat_map(|(_, costs)| costs).enumerate() {
                units.resize(units.len().max(n + 1), 0);
                units[n] += cost;
            }
        }
        units
    }

    /// Returns the time at which a throttle admits this run, if it is the first in the queue.
    pub(super) fn turn_due(&self, run: Ordinal) -> Option<Time> {
        let it = &self.runs[run];
        let (stop, place) = it.way.get(it.passed)?;
        let waits = it.state == State::Line && *stop == Stop::Turn;
        let waits = waits && !self.is_held_back(run) && !self.is_closed(place);
        if !waits || self.lines()[place][0] != run {
            return None;
        }
        self.fits_at(place, &self.let_through(place), &it.costs[it.passed])
    }

    /// Returns the time at which a run leaves the queue of its session by `maxWaitMs`.
    fn gives_up_at(&self, run: Ordinal) -> Option<Time> {
        let it = &self.runs[run];
        let mut missing = it.way.iter().skip(it.passed);
        let busy = missing.any(|(_, place)| place.control == "policy");
        let def = self.current(&it.workflow);
        let waits = busy && it.state == State::Line && policy_name(def) == Some("queue");
        Some(it.admitted + ms(policy(def).filter(|_| waits)?, "maxWaitMs")?)
    }

    /// Returns the time at which a run that has not started is cancelled, and whether that is by
    /// `startWithinMs` (spec L20).
    pub(super) fn leaves_at(&self, run: Ordinal) -> Option<(Time, bool)> {
        let it = &self.runs[run];
        let expires = it.expires.filter(|_| self.alive(run) && !it.started).map(|at| (at, true));
        let gives_up = self.gives_up_at(run).map(|at| (at, false));
        expires.into_iter().chain(gives_up).min_by_key(|(at, expires)| (*at, !expires))
    }

    /// Cancels a run whose time in the queue is over; an expired run frees its claim.
    pub(super) fn leave(&mut self, run: Ordinal) {
        if self.leaves_at(run).is_some_and(|(_, expires)| expires) {
            self.claims.retain(|_, (_, of)| *of != run);
        }
        self.cut(run);
    }

    /// Returns the handoff gate of a run.
    pub(super) fn handoff_of(&self, run: Ordinal) -> Option<&Place> {
        let mut places = self.runs[run].way.iter().map(|(_, place)| place);
        places.find(|place| place.control == "handoff")
    }
}
