//! What happened, in order: the last of it as text for people, all of it as one number.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    hash::{Hash, Hasher},
};

use tidegate_core::{
    id::RunId,
    reads::Change,
    row::{EngineId, Row},
};

/// How many of the last events a failure shows.
const SHOWN: usize = 60;

/// A step's closure begins or ends in some process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    /// The process.
    pub engine: EngineId,
    /// The run.
    pub run: RunId,
    /// The fence of the lease that it is driven under.
    pub fence: i64,
    /// The step.
    pub step: String,
}

/// The trace of one seed.
#[derive(Debug, Default)]
pub struct Trace {
    hash: Fnv,
    last: VecDeque<String>,
    /// Whether to keep everything, not only the last.
    pub all: bool,
}

impl Trace {
    /// Notes something that is not a commit.
    pub fn note(&mut self, now: u64, what: impl FnOnce() -> String, mark: impl Hash) {
        (now, mark).hash(&mut self.hash);
        // Text costs more than all else; it is made only for those who look.
        if self.all {
            self.last.push_back(format!("{now:>9} {}", what()));
        }
    }

    /// Notes what a commit changed.
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
                    Change::Delete(key) => format!("          - {key:?}"),
                };
                self.last.push_back(line);
            }
        }
    }

    fn row(&mut self, row: &Row) {
        if let Row::Run(run) = row {
            (run.fence, run.owner, run.due(), run.has).hash(&mut self.hash);
        }
        if let Row::Gate(gate) = row {
            (gate.at, gate.due).hash(&mut self.hash);
        }
    }

    /// All of it as one number.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The last of it.
    pub fn tail(&self) -> Vec<String> {
        let skip = self.last.len().saturating_sub(SHOWN);
        self.last.iter().skip(skip).cloned().collect()
    }

    /// As much of it as was kept.
    pub fn lines(&self) -> impl Iterator<Item = &String> {
        self.last.iter()
    }
}

fn short(row: &Row) -> String {
    let mut text = String::new();
    write!(text, "{row:?}").expect("text takes text");
    text
}

/// FNV-1a: the same on every machine and in every build.
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
