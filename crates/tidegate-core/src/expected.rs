//! Expected reads: the rows that transactions will probably read, as earlier ones have read and
//! written them.
//!
//! With them the first round trip of a transaction reads more of what its decision needs. They are
//! predictions: a decision requests what is missing, and nothing is decided on them.

use std::{collections::BTreeMap, sync::Arc};

use rpds::RedBlackTreeMapSync;

use crate::{
    id::Seq,
    reads::{Change, ReadSet, Scan, Snapshot},
    row::{GateKey, GateState, Phase, Place, PlannedGate, Row, RowKey, Run, Workspace},
};

/// Maximum number of event names whose paths are remembered. Names beyond it cost a round trip.
const MAX_NAMES: usize = 1000;

/// Maximum number of fair queues that are remembered, and of values of each.
const MAX_QUEUES: usize = 64;
const MAX_VALUES: usize = 256;

/// Map whose copies share what they have in common: every transaction makes a copy.
type Map<K, V> = RedBlackTreeMapSync<K, V>;

/// The expected reads of one engine.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The paths on which runs wait for events, by workspace and event name. With them the first
    /// round trip of a post reads the waits and takes their latches.
    paths: Map<(Workspace, String), Arc<[String]>>,
    /// The values whose turns come next in fair queues.
    queues: Map<GateKey, Turns>,
    /// The queue of each of their runs, and the position there.
    runs: Map<Seq, (GateKey, At)>,
}

/// The values whose turns come next in a fair queue.
#[derive(Clone, Debug, Default)]
struct Turns {
    firsts: Map<At, First>,
    /// Whether the latest transaction has found exactly the expected runs at the front. It has not
    /// if other engines have moved the queue, or if more values wait than are remembered.
    proven: bool,
}

/// Position of a run in a queue, and its number: runs with equal positions are ordered by it.
type At = (Place, Seq);

/// First run of a value in a fair queue.
#[derive(Clone, Debug)]
struct First {
    input: Seq,
    share: GateKey,
    /// The number of the share.
    number: Seq,
}

/// What one transaction has read, from which [`Expected`] learns.
#[derive(Debug, Default)]
pub struct Lesson {
    paths: Vec<((Workspace, String), Vec<String>)>,
    /// The fair queues that the transaction has read, before its changes.
    fronts: Vec<(GateKey, Front)>,
}

/// The front of a fair queue.
#[derive(Debug)]
enum Front {
    /// The runs are the expected ones.
    Expected,
    /// These runs replace the expected ones up to the position.
    Others(At, Vec<(At, First)>),
}

/// Returns the gate at which a run is the first one of its value, its position there, and the
/// number of the value's share; none for any other run.
fn first(run: &Run) -> Option<(&PlannedGate, At, Seq)> {
    let Phase::Queued { place, .. } = run.phase else { return None };
    place.tag()?;
    let need = run.plan.get(run.entered)?;
    Some((need, (place, run.id.seq), need.share.as_ref()?.number?))
}

impl Expected {
    /// Returns the paths of one event name.
    pub(crate) fn paths(&self, ws: &Workspace, name: &str) -> &[String] {
        if self.paths.is_empty() {
            return &[];
        }
        let paths = self.paths.get(&(ws.clone(), name.to_owned()));
        paths.map_or(&[], |paths| paths)
    }

    /// Returns the reads of the turns that these reads will probably serve: the share of each value
    /// and its next runs. Also returns the inputs of the runs that are served.
    pub fn turns(&self, reads: &ReadSet) -> (ReadSet, Vec<Seq>) {
        let (mut more, mut inputs) = (ReadSet::default(), Vec::new());
        if self.queues.is_empty() {
            return (more, inputs);
        }
        for (scan, limit) in &reads.scans {
            let Scan::Queue(gate) = scan else { continue };
            let Some(turns) = self.queues.get(gate).filter(|turns| turns.proven) else { continue };
            // The last run of the queue that is read is the one that finds no room.
            let served = limit.saturating_sub(1);
            let count = turns.firsts.size().min(served as usize);
            let again = served.saturating_sub(u32::try_from(count).unwrap_or(served));
            for First { input, share, number } in turns.firsts.values().take(count) {
                let behind = Scan::QueueTier(gate.clone(), Place::tier_behind(*number));
                more = more.row(RowKey::Gate(share.clone())).scan(behind, 1 + again);
                inputs.push(*input);
            }
        }
        (more, inputs)
    }

    /// Collects what a snapshot says about later reads.
    pub fn lesson(&self, snapshot: &Snapshot) -> Lesson {
        let mut lesson = Lesson::default();
        for scan in snapshot.scans.keys() {
            if let Scan::WaitPaths(ws, name) = scan {
                let path = |row: &Row| {
                    if let Row::WaitPath(row) = row { Some(row.path.clone()) } else { None }
                };
                let paths = snapshot.found(scan).into_iter().filter_map(path).collect();
                lesson.paths.push(((ws.clone(), name.clone()), paths));
            }
            if let Scan::Queue(gate) = scan {
                let front = self.front(gate, &snapshot.found(scan));
                lesson.fronts.extend(front.map(|front| (gate.clone(), front)));
            }
        }
        lesson
    }

    /// Compares the first runs of a queue with the expected ones; none if no value takes turns.
    fn front(&self, gate: &GateKey, queue: &[&Row]) -> Option<Front> {
        let runs = queue.iter().filter_map(|row| row.as_run());
        let firsts: Vec<_> = runs.map_while(|run| Some((run, first(run)?))).collect();
        let (_, (_, last, _)) = firsts.last()?;
        let turns = self.queues.get(gate).filter(|turns| turns.firsts.size() >= firsts.len());
        let same = |turns: &Turns| {
            turns.firsts.keys().zip(&firsts).all(|(known, (_, (_, at, _)))| known == at)
        };
        if turns.is_some_and(same) {
            return Some(Front::Expected);
        }
        let others = firsts.iter().filter_map(|(run, (need, at, number))| {
            let (input, of) = (run.source.first().seq, need.share.as_ref()?);
            Some((*at, First { input, share: need.gate.share(&of.value)?, number: *number }))
        });
        Some(Front::Others(*last, others.collect()))
    }

    /// Returns the expectations after a transaction that has read and changed these rows; none if
    /// they are the same.
    pub fn learn(&self, lesson: Lesson, changes: &[Change]) -> Option<Self> {
        let mut learned: Option<Self> = None;
        for (name, paths) in lesson.paths {
            if self.paths.get(&name).map_or(&[][..], |paths| paths) != paths {
                let learned = learned.get_or_insert_with(|| self.clone());
                if learned.paths.size() >= MAX_NAMES {
                    learned.paths = Map::default();
                }
                learned.paths.insert_mut(name, paths.into());
            }
        }
        if self.queues.is_empty() && lesson.fronts.is_empty() {
            return learned;
        }
        let mut learned = learned.unwrap_or_else(|| self.clone());
        for (gate, front) in lesson.fronts {
            learned.compare(&gate, front);
        }
        learned.follow(changes);
        Some(learned)
    }

    /// Remembers what a transaction has found at the front of a queue.
    fn compare(&mut self, gate: &GateKey, front: Front) {
        let proven = matches!(front, Front::Expected);
        if let Front::Others(last, firsts) = front {
            let before = self.queues.get(gate).into_iter().flat_map(|it| it.firsts.range(..last));
            for (_, run) in before.map(|(at, _)| *at).collect::<Vec<_>>() {
                self.forget(run);
            }
            if !self.queues.contains_key(gate) {
                if self.queues.size() >= MAX_QUEUES {
                    (self.queues, self.runs) = <(Map<_, _>, Map<_, _>)>::default();
                }
                self.queues.insert_mut(gate.clone(), Turns::default());
            }
            for (at, first) in firsts {
                self.expect(gate, at, first);
            }
        }
        if let Some(turns) = self.queues.get_mut(gate) {
            turns.proven = proven;
        }
    }

    /// Applies the changes of a transaction to the queues.
    fn follow(&mut self, changes: &[Change]) {
        let (mut shares, mut runs) = (BTreeMap::new(), Vec::new());
        for change in changes {
            match change {
                Change::Insert(Row::Run(run)) | Change::Update(Row::Run(run)) => {
                    self.forget(run.id.seq);
                    runs.push(run);
                }
                Change::Delete(RowKey::Run(run)) => self.forget(*run),
                // The share of a value is written together with its first run.
                Change::Insert(Row::Gate(gate)) | Change::Update(Row::Gate(gate)) => {
                    if matches!(gate.state, GateState::Share(_)) {
                        shares.insert(gate.id, &gate.key);
                    }
                }
                Change::Insert(_) | Change::Update(_) | Change::Delete(_) => {}
            }
        }
        for run in runs {
            let Some((need, at, number)) = first(run) else { continue };
            let Some(share) = shares.get(&number) else { continue };
            let (input, share) = (run.source.first().seq, GateKey::clone(share));
            self.expect(&need.gate, at, First { input, share, number });
        }
        let empty = self.queues.iter().filter(|(_, turns)| turns.firsts.is_empty());
        for gate in empty.map(|(gate, _)| gate.clone()).collect::<Vec<_>>() {
            self.queues.remove_mut(&gate);
        }
    }

    /// Expects the first run of a value. A queue is remembered from the moment on at which its front
    /// was read.
    fn expect(&mut self, gate: &GateKey, at: At, first: First) {
        self.forget(at.1);
        let Some(turns) = self.queues.get_mut(gate) else { return };
        turns.firsts.insert_mut(at, first);
        self.runs.insert_mut(at.1, (gate.clone(), at));
        let beyond = turns.firsts.last().filter(|_| turns.firsts.size() > MAX_VALUES);
        if let Some((_, run)) = beyond.map(|(at, _)| *at) {
            self.forget(run);
        }
    }

    /// Expects a run no longer at the front of its queue.
    fn forget(&mut self, run: Seq) {
        let Some((gate, at)) = self.runs.get(&run).cloned() else { return };
        self.runs.remove_mut(&run);
        if let Some(turns) = self.queues.get_mut(&gate) {
            turns.firsts.remove_mut(&at);
        }
    }
}

#[cfg(test)]
mod tests;
