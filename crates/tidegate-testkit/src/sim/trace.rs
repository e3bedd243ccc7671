//! The trace of a simulation: the last events as text, and a hash of all events.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

use tidegate_core::{
    id::RunId,
    reads::Change,
    row::{Begun, EngineId, Phase, Row, RowKey},
};

/// Number of events that are shown after a failure.
const SHOWN: usize = 60;

/// A step closure that a process executes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// The process that executes it.
    pub engine: EngineId,
    /// The run of the step.
    pub run: RunId,
    /// The fence of the lease under which the run is driven.
    pub fence: i64,
    /// The id of the step.
    pub step: String,
}

/// The trace of one seed.
#[derive(Debug, Default)]
pub struct Trace {
    hash: Fnv,
    last: VecDeque<String>,
    /// Whether the whole text is kept, not only the end.
    pub all: bool,
}

impl Trace {
    /// Records an event that is not a commit.
    pub fn note(&mut self, now: u64, what: impl FnOnce() -> String, mark: impl Hash) {
        (now, mark).hash(&mut self.hash);
        // Building text is slow, so it is built only if it is shown.
        if self.all {
            self.last.push_back(format!("{now:>9} {}", what()));
        }
    }

    /// Records the changes of a commit.
    pub fn commit(&mut self, changes: &[Change]) {
        for change in changes {
            change.key().hash(&mut self.hash);
            match change {
                Change::Insert(row) | Change::Update(row) => self.row(row),
                Change::Delete(_) => {}
            }
            if self.all {
                let line = match change {
                    Change::Insert(row) => format!("          + {}", short(row)),
                    Change::Update(row) => format!("          = {}", short(row)),
                    Change::Delete(RowKey::Gate(key)) => {
                        format!("          - gate {:?}", key.scope())
                    }
                    Change::Delete(key) => format!("          - {key:?}"),
                };
                self.last.push_back(line);
            }
        }
    }

    fn row(&mut self, row: &Row) {
        if let Row::Run(run) = row {
            (run.fence, run.owner, run.due(), run.entered).hash(&mut self.hash);
        }
        if let Row::Gate(gate) = row {
            (gate.at, gate.due).hash(&mut self.hash);
        }
        if let Row::Subscription(sub) = row {
            (sub.at, sub.want, sub.owner, sub.fence, sub.until).hash(&mut self.hash);
        }
        if let Row::Schedule(schedule) = row {
            (schedule.next, schedule.last).hash(&mut self.hash);
        }
    }

    /// Returns the hash of the whole trace.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// Returns the last events, as text.
    pub fn tail(&self) -> Vec<String> {
        let skip = self.last.len().saturating_sub(SHOWN);
        self.last.iter().skip(skip).cloned().collect()
    }

    /// Returns all text that was kept.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        self.last.iter()
    }
}

/// Formats a row: the relevant fields of a run or a gate, all fields of other rows.
fn short(row: &Row) -> String {
    match row {
        Row::Run(run) => {
            let mut text = format!(
                "run {} {}@{} {} has {}/{} fence {}",
                run.id.seq,
                run.workflow,
                run.version,
                phase(run.phase),
                run.entered,
                run.plan.len(),
                run.fence,
            );
            let mut add = |name: &str, value: Option<String>| {
                text.extend(value.map(|value| format!(" {name} {value}")));
            };
            add("owner", run.owner.map(|owner| owner.to_string()));
            add("due", run.due().map(|due| due.to_string()));
            add("started", run.started.then(String::new));
            add("pausing", run.pausing.then(String::new));
            add("begun", (run.begun != Begun::Untracked).then(|| format!("{:?}", run.begun)));
            add("deaths", (run.deaths > 0).then(|| run.deaths.to_string()));
            add("replaced", run.replaced.map(|old| old.seq.to_string()));
            add("parent", run.parent.as_ref().map(|parent| parent.run.to_string()));
            add("source", Some(run.source.first().seq.to_string()));
            add("waits", (!run.waits.is_empty()).then(|| format!("{:?}", run.waits)));
            text
        }
        Row::Gate(gate) => {
            let scope = gate.key.scope().map(|scope| {
                format!(
                    "{} {:?} {} {}={}",
                    scope.ws, scope.class, scope.name, scope.slot, scope.key
                )
            });
            let due = gate.due.map(|due| format!(" due {due}")).unwrap_or_default();
            let scope = scope.unwrap_or_default();
            format!("gate {} {scope} at {}{due} {:?}", gate.id, gate.at, gate.state)
        }
        other => format!("{other:?}"),
    }
}

fn phase(phase: Phase) -> String {
    match phase {
        Phase::Queued { gate, place } => {
            format!("Line({gate}, {} {} {})", place.tier, place.rank.at, place.rank.seq)
        }
        other => format!("{other:?}"),
    }
}

/// FNV-1a, a hash that is the same on every machine and in every build.
#[derive(Clone, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
