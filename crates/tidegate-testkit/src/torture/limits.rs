//! Changes of the pool's limit during the test, and their judgement from outside.
//!
//! The rig changes the limit by an override about once a second, and notes when it asked for the
//! change and when it had the answer. In between, the old and the new limit may apply. Samples of
//! the tables show which runs have come into a gate between two of them: then the units inside are
//! at most the greatest limit that may have applied in between. A lower limit evicts no run, so
//! where nobody has come, the units must not have grown.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    overrides::OverrideChange,
};
use tidegate_store::{PostgresOptions, PostgresStore, Store, commit};

use super::{Contest, Dice, WORKSPACE, micros};

/// Time between two changes.
const PERIOD: Duration = Duration::from_secs(1);

/// The limits that overrides set; none removes the override. A run costs at most 5, so that all
/// arrivals are admitted.
const LIMITS: [Option<usize>; 4] = [Some(5), Some(6), Some(9), None];

/// A change of the limit.
#[derive(Clone, Copy, Debug)]
struct Change {
    asked: i64,
    /// The time of the answer; none if the outcome is unknown.
    answered: Option<i64>,
    limit: usize,
}

/// The limits that were in force.
#[derive(Debug)]
pub struct Limits {
    contest: Contest,
    store: Option<Arc<dyn Store>>,
    changes: Vec<Change>,
    next: Instant,
}

/// The holders of each gate in a sample, with their units.
pub type Holders = BTreeMap<String, BTreeMap<String, usize>>;

/// Units in a gate after runs have come into it, and the times of the samples before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time before the sample that did not show the runs.
    pub from: i64,
    /// The time after the sample that showed them.
    pub to: i64,
    /// The gate.
    pub gate: String,
    /// The units inside.
    pub units: usize,
}

impl Limits {
    /// Begins with the limit of the contest.
    pub fn new(contest: Contest) -> Self {
        Self { contest, store: None, changes: Vec::new(), next: Instant::now() + PERIOD }
    }

    /// Number of changes that were made.
    pub fn count(&self) -> usize {
        self.changes.iter().filter(|change| change.answered.is_some()).count()
    }

    /// Changes the limit if it is time to.
    pub async fn change(&mut self, url: &str, schema: &str, dice: &mut Dice) {
        if self.contest != Contest::Pool || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PERIOD;
        if self.store.is_none() {
            let options =
                PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
            let store = PostgresStore::open(url, options).await.expect("PostgreSQL opens");
            self.store = Some(Arc::new(store));
        }
        let Some(store) = &self.store else { return };
        let limit = LIMITS[usize::try_from(dice.below(4)).expect("few")];
        let target = json!({ "pool": "shared", "control": "concurrency" });
        let target = serde_json::from_value(target).expect("a target");
        let change = match limit {
            None => OverrideChange::Remove(target),
            Some(limit) => {
                let fields = serde_json::from_value(json!({ "limit": limit })).expect("fields");
                OverrideChange::Set { target, fields, reason: None, expires_at: None }
            }
        };
        let (ws, change) = (WORKSPACE.into(), Box::new(change));
        let by = Author { name: None, address: None };
        let command = Command::Override { ws, change, by, if_epoch: None };
        let asked = micros();
        let answer = commit(&**store, vec![(command, dice.roll())]).await;
        let answered = match answer.as_deref() {
            Ok([Ok(Answer::Overridden(_))]) => Some(micros()),
            // There was no override to remove, or the pool is not declared yet.
            Ok(_) => return,
            Err(_) => None,
        };
        let limit = limit.unwrap_or(self.contest.limit());
        self.changes.push(Change { asked, answered, limit });
    }

    /// Returns the greatest limit that may have applied at some moment of an interval.
    fn greatest(&self, from: i64, to: i64) -> usize {
        let before = [Change { asked: 0, answered: Some(0), limit: self.contest.limit() }];
        let all: Vec<Change> = before.into_iter().chain(self.changes.iter().copied()).collect();
        let may = |n: usize| {
            let until = all[n + 1..].iter().find_map(|later| later.answered).unwrap_or(i64::MAX);
            all[n].asked <= to && from <= until
        };
        (0..all.len()).filter(|n| may(*n)).map(|n| all[n].limit).max().unwrap_or_default()
    }

    /// Returns the entries that were above every limit that may have been in force.
    pub fn judge(&self, entries: &[Entry]) -> Vec<String> {
        let wrong = entries.iter().filter_map(|entry| {
            let most = self.greatest(entry.from, entry.to);
            let Entry { from, to, gate, units } = entry;
            (*units > most).then(|| {
                format!("gate {gate} got up to {units} units between {from} and {to}, over {most}")
            })
        });
        wrong.collect()
    }

    /// Number of entries that were limited to less than the definition says.
    pub fn lowered(&self, entries: &[Entry]) -> usize {
        let lower = |it: &&Entry| self.greatest(it.from, it.to) < self.contest.limit();
        entries.iter().filter(lower).count()
    }
}

/// Compares two samples. Returns the gates that runs have come into, and those whose units have
/// grown although nobody came.
pub fn entries(
    before: (i64, &Holders),
    after: (i64, &Holders),
    wrong: &mut Vec<String>,
) -> Vec<Entry> {
    let ((from, before), (to, after)) = (before, after);
    let none = BTreeMap::new();
    let mut entries = Vec::new();
    for (gate, holders) in after {
        let known = before.get(gate).unwrap_or(&none);
        let units: usize = holders.values().sum();
        if holders.keys().any(|run| !known.contains_key(run)) {
            entries.push(Entry { from, to, gate: gate.clone(), units });
        } else if units > known.values().sum() {
            wrong.push(format!("the units of gate {gate} have grown, and no run has come"));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(changes: &[(i64, Option<i64>, usize)]) -> Limits {
        let change = |&(asked, answered, limit)| Change { asked, answered, limit };
        let changes = changes.iter().map(change).collect();
        Limits { changes, ..Limits::new(Contest::Pool) }
    }

    #[test]
    fn during_a_change_the_larger_limit_applies() {
        let limits = limits(&[(10, Some(20), 5), (30, None, 9), (50, Some(60), 6)]);
        for (from, to, expected) in
            [(0, 9, 7), (12, 15, 7), (21, 29, 5), (21, 30, 9), (45, 55, 9), (61, 99, 6)]
        {
            assert_eq!(limits.greatest(from, to), expected, "{from} to {to}");
        }
        let entry = |from, to, units| Entry { from, to, gate: "g".to_owned(), units };
        assert_eq!(limits.judge(&[entry(21, 29, 5), entry(61, 99, 6), entry(15, 25, 7)]).len(), 0);
        assert_eq!(limits.judge(&[entry(21, 29, 6), entry(61, 99, 7)]).len(), 2);
        assert_eq!(limits.lowered(&[entry(21, 29, 5), entry(0, 9, 7)]), 1);
    }

    #[test]
    fn units_grow_only_with_a_new_run() {
        let holders = |runs: &[(&str, usize)]| -> Holders {
            let runs = runs.iter().map(|(run, units)| ((*run).to_owned(), *units)).collect();
            [("g".to_owned(), runs)].into()
        };
        let mut wrong = Vec::new();
        let (one, two) = (holders(&[("a", 3)]), holders(&[("a", 3), ("b", 2)]));
        let came = entries((1, &one), (2, &two), &mut wrong);
        assert_eq!(came, [Entry { from: 1, to: 2, gate: "g".to_owned(), units: 5 }]);
        assert!(entries((1, &two), (2, &one), &mut wrong).is_empty() && wrong.is_empty());
        assert!(entries((1, &one), (2, &holders(&[("a", 4)])), &mut wrong).is_empty());
        assert_eq!(wrong.len(), 1);
    }
}
