//! Overrides: limits, pauses and closings that operators put in force (spec L24, L25).

use super::{Ordinal, Place, Reference, State, Stop, Time};

/// The keys that an override is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// One value, as the text of the key of a [`Place`].
    One(String),
    /// The strings with this prefix.
    Prefix(String),
    /// All keys, and the runs without one.
    All,
}

impl Keys {
    /// Returns how specific a match is; none if the key does not match.
    fn matches(&self, key: Option<&str>) -> Option<usize> {
        match (self, key) {
            (Self::One(value), Some(key)) if value == key => Some(usize::MAX),
            (Self::Prefix(prefix), Some(key)) => {
                let text = key.strip_prefix('"')?;
                text.starts_with(prefix.as_str()).then_some(prefix.len())
            }
            (Self::All, _) => Some(0),
            (Self::One(_), _) | (Self::Prefix(_), None) => None,
        }
    }
}

/// What an override is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The gates of a control of a workflow, by the name that a [`Place`] has: its span or
    /// `throttle`, and its path.
    Gates(String, String),
    /// The limit on runs of a pool.
    Pool(String),
    /// All entries into a pool.
    Entries(String),
    /// The first starts of a workflow, by the path of a key, which is empty for all.
    Starts(String, String),
}

/// An override in force.
#[derive(Clone, Debug)]
pub struct Override {
    /// The target.
    pub target: Target,
    /// Its keys.
    pub keys: Keys,
    /// The limit of a `concurrency`.
    pub limit: Option<i128>,
    /// The burst of the first limit of a throttle.
    pub burst: Option<i128>,
    /// Whether the target is paused.
    pub paused: Option<bool>,
    /// The time until which the target is closed.
    pub closed_until: Option<Time>,
    /// The time at which the override ends.
    pub expires: Option<Time>,
}

impl Override {
    fn closing(&self) -> Option<bool> {
        self.closed_until.map(|_| true).or(self.paused)
    }

    fn has_fields(&self) -> bool {
        self.closing().is_some() || self.limit.is_some() || self.burst.is_some()
    }
}

impl Reference {
    /// Puts an override in force, in place of the last one of its target and keys.
    pub fn put_override(&mut self, new: Override) {
        self.overrides.retain(|old| (&old.target, &old.keys) != (&new.target, &new.keys));
        self.overrides.push(new);
        self.settle();
    }

    /// Removes the override of a target and keys. Returns whether there was one.
    pub fn remove_override(&mut self, target: &Target, keys: &Keys) -> bool {
        let count = self.overrides.len();
        self.overrides.retain(|old| (&old.target, &old.keys) != (target, keys));
        self.settle();
        self.overrides.len() < count
    }

    /// Returns the next time at which an override, or its `closedUntil`, ends.
    pub(super) fn override_ends(&self) -> Option<Time> {
        self.overrides.iter().flat_map(|it| [it.expires, it.closed_until]).flatten().min()
    }

    /// Ends the overrides whose time is over.
    pub(super) fn expire_overrides(&mut self) {
        let now = self.now;
        let over = |at: Option<Time>| at.is_some_and(|at| at <= now);
        self.overrides.retain(|it| !over(it.expires));
        for it in &mut self.overrides {
            if over(it.closed_until) {
                it.closed_until = None;
            }
        }
        self.overrides.retain(Override::has_fields);
    }

    /// Returns a field of the most specific override of a target that has it.
    fn field<T>(
        &self,
        target: &Target,
        key: Option<&str>,
        field: impl Fn(&Override) -> Option<T>,
    ) -> Option<T> {
        let of_target = self.overrides.iter().filter(|it| it.target == *target);
        let found = of_target.filter_map(|it| Some((it.keys.matches(key)?, field(it)?)));
        found.max_by_key(|(specific, _)| *specific).map(|(_, value)| value)
    }

    fn target_of(place: &Place) -> Target {
        if place.control.starts_with("pool") {
            return Target::Pool(place.owner.clone());
        }
        Target::Gates(place.owner.clone(), place.control.clone())
    }

    /// Returns the limit on runs in force, given that of the definition.
    pub(super) fn limit_in_force(&self, place: &Place, limit: i128) -> i128 {
        let key = place.key.as_deref();
        self.field(&Self::target_of(place), key, |it| it.limit).unwrap_or(limit)
    }

    /// Returns the burst in force of the first limit of a throttle.
    pub(super) fn burst_in_force(&self, place: &Place, burst: i128) -> i128 {
        let key = place.key.as_deref();
        self.field(&Self::target_of(place), key, |it| it.burst).unwrap_or(burst)
    }

    /// Whether no run enters a gate (spec L25).
    pub(super) fn is_closed(&self, place: &Place) -> bool {
        let closing = |target: &Target, key: Option<&str>| {
            self.field(target, key, Override::closing).unwrap_or(false)
        };
        let key = place.key.as_deref();
        let (owner, control) = (place.owner.clone(), &place.control);
        closing(&Self::target_of(place), key)
            || (control.starts_with("pool") && closing(&Target::Entries(owner), key))
            || self.closed.get(place).is_some_and(|until| *until > self.now)
    }

    /// Whether the first start of a run is paused.
    pub fn is_paused(&self, run: Ordinal) -> bool {
        let it = &self.runs[run];
        if it.started || !self.alive(run) {
            return false;
        }
        let mut paths: Vec<&str> = Vec::new();
        for over in &self.overrides {
            if let Target::Starts(workflow, path) = &over.target
                && *workflow == it.workflow
                && !paths.contains(&path.as_str())
            {
                paths.push(path);
            }
        }
        paths.into_iter().any(|path| {
            let target = Target::Starts(it.workflow.clone(), path.to_owned());
            self.has_path(run, path) && {
                let key = self.key_by_path(run, path);
                self.field(&target, key.as_deref(), Override::closing).unwrap_or(false)
            }
        })
    }

    /// Whether a run has a gate with a key at this path; the empty path is that of all runs.
    fn has_path(&self, run: Ordinal, path: &str) -> bool {
        path.is_empty() || self.place_of_path(run, path).is_some()
    }

    /// Returns the key of a run at a path of its gates.
    fn key_by_path(&self, run: Ordinal, path: &str) -> Option<String> {
        self.place_of_path(run, path)?.key.clone()
    }

    fn place_of_path(&self, run: Ordinal, path: &str) -> Option<&Place> {
        let of_path = |place: &Place| {
            let own = !place.control.starts_with("pool");
            own && place.control.split_once(' ').is_some_and(|(_, known)| known == path)
        };
        let mut places = self.runs[run].way.iter().map(|(_, place)| place);
        places.find(|place| !path.is_empty() && of_path(place))
    }

    /// Whether a run waits for the end of a pause: it has passed its run gates, and nothing more.
    pub fn is_held_back(&self, run: Ordinal) -> bool {
        let it = &self.runs[run];
        let at_start = it.way.get(it.passed).is_none_or(|(stop, _)| *stop >= Stop::Turn);
        matches!(it.state, State::Line | State::Ready) && at_start && self.is_paused(run)
    }

    /// Lets paused runs give their turns and executing places back (spec L25).
    pub(super) fn hold_back(&mut self) {
        if self.overrides.is_empty() {
            return;
        }
        for run in 0..self.runs.len() {
            if self.is_held_back(run) {
                self.give_start_back(run);
            }
        }
    }

    /// Lets an unstarted run give its turn and its executing places back.
    fn give_start_back(&mut self, run: Ordinal) {
        let it = &mut self.runs[run];
        it.state = State::Line;
        let of_run = it.way.iter().filter(|(stop, _)| *stop < Stop::Turn).count();
        it.passed = it.passed.min(of_run);
    }
}
