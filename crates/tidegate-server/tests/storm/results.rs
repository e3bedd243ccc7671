//! Results of all rounds, accumulated over all executions of the storm test.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    journal::Journal,
    judge::{Kind, Violation},
};

/// Results of the rounds on one store: their number, faults and violations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) requests: u64,
    pub(crate) runs: u64,
    pub(crate) calls: u64,
    /// Number of repeated calls of a run.
    pub(crate) repeated: u64,
    pub(crate) violations: BTreeMap<String, u64>,
}

/// Results of all stores, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results(pub(crate) BTreeMap<String, Tally>);

impl Tally {
    /// Returns the number of injected faults. Stalls of the machine are not counted.
    pub(crate) fn played(&self) -> u64 {
        self.faults.iter().filter(|(kind, _)| *kind != "stall").map(|(_, count)| count).sum()
    }
}

impl Results {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path);
        text.map_or_else(|_| Self::default(), |text| serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn write(&self, path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_string_pretty(self).unwrap()).unwrap();
    }

    pub(crate) fn add(&mut self, store: &str, journal: &Journal, found: &[Violation], secs: u64) {
        let tally = self.0.entry(store.to_owned()).or_default();
        tally.rounds += 1;
        tally.seconds += secs;
        tally.requests += journal.requests.len() as u64;
        tally.runs += journal.world.runs.len() as u64;
        tally.calls += journal.calls.len() as u64;
        let mut runs = std::collections::BTreeSet::new();
        tally.repeated +=
            journal.calls.iter().filter(|call| !runs.insert(&call.run)).count() as u64;
        for fault in &journal.faults {
            *tally.faults.entry(fault.kind.clone()).or_default() += 1;
        }
        for violation in found {
            *tally.violations.entry(violation.kind.to_string()).or_default() += 1;
        }
    }

    /// Returns the results as a table in text form.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for (store, tally) in &self.0 {
            let faults = tally.faults.iter().map(|(kind, count)| format!("{kind} {count}"));
            let faults: Vec<_> = faults.collect();
            let Tally { rounds, seconds, requests, runs, calls, repeated, .. } = tally;
            let _ = writeln!(
                table,
                "{store}: {} faults in {rounds} rounds, {seconds} s ({})\n  {requests} requests, \
                 {runs} runs, {calls} calls, {repeated} of them repeated",
                tally.played(),
                faults.join(", ")
            );
            let count = |kind: Kind| tally.violations.get(&kind.to_string()).unwrap_or(&0);
            let counts: Vec<_> =
                Kind::ALL.iter().map(|kind| format!("{} {kind}", count(*kind))).collect();
            let _ = writeln!(table, "  {}", counts.join(", "));
        }
        table
    }
}
