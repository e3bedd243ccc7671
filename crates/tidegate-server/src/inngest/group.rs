//! Parallel steps: which steps of a run are under way, and when its function is called again.
//!
//! The SDK of an app keeps nothing between two calls. It plans a group of steps, and each later
//! discovery reports those without a memo again. So a group is never stored: after a crash, a
//! discovery finds the same steps.

use std::collections::BTreeMap;

/// Version of the protocol with a discovery after each member of a group. Later versions have one
/// after the last member, and races are marked.
const AFTER_EACH: i32 = 1;

/// Maximum number of discoveries in a row that bring nothing, while nothing is under way.
const MAX_FRUITLESS: u32 = 3;

/// Members of the group that is under way, and the state of the discovery.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Members, and whether each is one of a race.
    members: BTreeMap<String, bool>,
    is_discovering: bool,
    /// A member has ended since the last discovery.
    has_news: bool,
    /// The next discovery does not wait for other members.
    is_due: bool,
    fruitless: u32,
}

impl Group {
    /// Creates the group of a new activation, which begins with a discovery.
    pub(super) fn new() -> Self {
        Self { is_due: true, ..Self::default() }
    }

    /// Adds a step. Returns `false` if it is under way already: each discovery reports all steps
    /// without a memo again.
    pub(super) fn begin(&mut self, step: &str, race: bool) -> bool {
        self.fruitless = 0;
        self.members.insert(step.to_owned(), race).is_none()
    }

    /// Removes a step that has its record now.
    pub(super) fn end(&mut self, step: &str) {
        let race = self.members.remove(step);
        self.has_news = true;
        self.fruitless = 0;
        self.is_due |= race == Some(true);
    }

    /// Removes a step whose attempt has ended without a record.
    pub(super) fn remove(&mut self, step: &str) {
        self.members.remove(step);
    }

    /// Returns whether no step is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Requests a discovery, also beside other members.
    pub(super) fn discover_again(&mut self) {
        self.is_due = true;
    }

    /// Begins a discovery if it is time for one. Returns `false` if it is not.
    pub(super) fn begin_discovery(&mut self, version: i32) -> bool {
        let each = version == AFTER_EACH && self.has_news;
        let begins = !self.is_discovering && (self.is_due || each || self.is_empty());
        if begins {
            (self.is_discovering, self.has_news, self.is_due) = (true, false, false);
        }
        begins
    }

    /// Ends a discovery. Unless the app has recorded steps meanwhile, it counts as fruitless until a
    /// step begins or ends.
    pub(super) fn end_discovery(&mut self, has_recorded: bool) {
        self.is_discovering = false;
        self.fruitless = if has_recorded { 0 } else { self.fruitless + 1 };
    }

    /// Requests a discovery again that has failed.
    pub(super) fn repeat_discovery(&mut self) {
        (self.is_discovering, self.is_due) = (false, true);
    }

    /// Returns whether the function does not continue: nothing is under way, and discoveries bring
    /// nothing.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_empty() && !self.has_news && self.fruitless >= MAX_FRUITLESS
    }
}

#[cfg(test)]
mod tests {
    use super::Group;

    fn group(version: i32, members: &[(&str, bool)]) -> Group {
        let mut group = Group::new();
        assert!(group.begin_discovery(version), "an activation begins with a discovery");
        group.end_discovery(false);
        for (step, race) in members {
            assert!(group.begin(step, *race));
            assert!(!group.begin(step, *race), "a step that is under way is no second member");
        }
        assert!(!group.begin_discovery(version), "no discovery without news");
        group
    }

    /// INNGEST 5.1: version 2 discovers when nothing is pending, version 1 after each member.
    #[test]
    fn a_discovery_comes_when_the_version_says_so() {
        for (version, race, after_first) in [(2, false, false), (1, false, true), (2, true, true)] {
            let mut group = group(version, &[("a", race), ("b", race)]);
            group.end("a");
            assert_eq!(group.begin_discovery(version), after_first, "{version} {race}");
            if after_first {
                assert!(!group.begin_discovery(version), "one discovery at a time");
                group.end("b");
                assert!(!group.begin_discovery(version), "one discovery at a time");
                group.end_discovery(false);
            } else {
                group.end("b");
            }
            assert!(group.begin_discovery(version), "{version} {race}: the group has ended");
        }
    }

    #[test]
    fn an_attempt_without_a_record_is_no_news() {
        let mut group = group(1, &[("a", false), ("b", false)]);
        group.remove("a");
        assert!(!group.begin_discovery(1));
        group.discover_again();
        assert!(group.begin_discovery(1));
    }

    #[test]
    fn a_failed_discovery_is_not_fruitless() {
        let mut group = Group::new();
        for _ in 0..20 {
            assert!(!group.is_stuck() && group.begin_discovery(2));
            group.repeat_discovery();
        }
        for _ in 0..20 {
            assert!(!group.is_stuck() && group.begin_discovery(2));
            group.end_discovery(true);
        }
    }

    #[test]
    fn a_function_that_does_not_continue_is_noticed() {
        let mut group = group(2, &[("a", false)]);
        group.end("a");
        for n in 0..3 {
            assert!(!group.is_stuck(), "after {n} discoveries");
            assert!(group.begin_discovery(2));
            group.end_discovery(false);
        }
        assert!(group.is_stuck());
        group.begin("b", false);
        assert!(!group.is_stuck());
    }
}
