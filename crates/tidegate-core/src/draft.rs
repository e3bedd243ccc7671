//! The working copy on which commands are decided one after another.
//!
//! A command reads rows through the draft and writes its changes back into it, so that the next
//! command of the same transaction sees them. A command that finds a row missing from the
//! snapshot stops with [`Stop::Need`], and its changes are undone.
//!
//! A *probing* draft takes every row that it has not got for absent and notes that it was asked
//! for: what a command would read is found by deciding it once on what is known, be that nothing.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    catalog::Catalog,
    command::Refusal,
    id::{ChoreId, EventId, RunId, Seq},
    reads::{BLOCK, Change, Count, Found, ReadSet, Scan, Snapshot},
    row::{Def, Epoch, Event, Gate, GateKey, Phase, Place, Row, RowKey, Run, Workspace},
    time::Timestamp,
};

/// Why a command went no further.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop<E> {
    /// These are not in the snapshot.
    Need(Box<ReadSet>),
    /// The transaction is full; the command goes into the next.
    Full,
    /// The answer is no, and nothing changes.
    Refused(E),
}

/// The result of a decision, or of a part of one.
pub type Decided<T, E = Refusal> = Result<T, Stop<E>>;

/// The most rows that one transaction changes.
pub const MAX_CHANGES: usize = 4000;

/// A snapshot with the changes decided so far.
#[derive(Debug)]
pub struct Draft {
    base: Snapshot,
    /// Rows as they are after the changes.
    changed: BTreeMap<RowKey, Changed>,
    /// What to put back if the command under way stops.
    undo: Vec<(RowKey, Option<Changed>)>,
    used: i64,
    salt: u64,
    /// What was asked for, while probing.
    probed: Option<RefCell<ReadSet>>,
    /// The lines as far as they are known, by the gate's number.
    lines: BTreeMap<Seq, Line>,
    /// The definitions of workspaces that have changed, as they are after the changes.
    redefined: BTreeMap<Workspace, Arc<Catalog>>,
}

/// A gate's line: who is known to stand in it, in order.
#[derive(Debug, Default)]
struct Line {
    places: BTreeSet<(Place, Seq)>,
    /// The last place that the snapshot read.
    horizon: Option<Place>,
}

/// The line that a run stands in, and where.
fn standing(row: Option<&Row>) -> Option<(Seq, Place, Seq)> {
    let run = row?.as_run()?;
    match run.phase {
        Phase::Queued { gate, place } => Some((gate, place, run.id.seq)),
        Phase::Ready | Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => None,
    }
}

/// A row after the changes.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are rows")]
enum Changed {
    /// As it is now.
    Row(Row),
    /// Deleted, or never there.
    Gone,
    /// Deleted without having been read: it is known to be there.
    Erased,
}

impl Changed {
    fn row(&self) -> Option<&Row> {
        match self {
            Self::Row(row) => Some(row),
            Self::Gone | Self::Erased => None,
        }
    }
}

impl Draft {
    /// A draft of nothing yet.
    pub fn new(base: Snapshot) -> Self {
        let mut lines: BTreeMap<Seq, Line> = BTreeMap::new();
        for (scan, found) in &base.scans {
            if !matches!(scan, Scan::Queue(_)) {
                continue;
            }
            for key in &found.keys {
                let row = base.rows.get(key).and_then(Option::as_ref);
                if let Some((gate, place, run)) = standing(row) {
                    let line = lines.entry(gate).or_default();
                    line.places.insert((place, run));
                    line.horizon = Some(place);
                }
            }
        }
        let (changed, undo) = (BTreeMap::new(), Vec::new());
        let redefined = BTreeMap::new();
        Self { base, changed, undo, used: 0, salt: 0, probed: None, lines, redefined }
    }

    /// A draft that finds out what its commands would read.
    pub fn probing(base: Snapshot) -> Self {
        Self { probed: Some(RefCell::default()), ..Self::new(base) }
    }

    /// What was asked for while probing and is not there yet, and what is there.
    pub fn into_probed(self) -> (ReadSet, Snapshot) {
        let mut reads = self.probed.map(RefCell::into_inner).unwrap_or_default();
        let Snapshot { rows, scans, counts, .. } = &self.base;
        reads.counts.retain(|it, limit| counts.get(it).is_none_or(|found| found.limit < *limit));
        reads.rows.retain(|key| !rows.contains_key(key));
        reads.scans.retain(|scan, limit| scans.get(scan).is_none_or(|found| found.limit < *limit));
        (reads, self.base)
    }

    /// The snapshot, without the changes.
    pub fn into_base(self) -> Snapshot {
        self.base
    }

    /// Notes a read; true while probing.
    fn probe(&self, note: impl FnOnce(ReadSet) -> ReadSet) -> bool {
        let Some(probed) = &self.probed else { return false };
        let reads = probed.take();
        *probed.borrow_mut() = note(reads);
        true
    }

    /// Stops until these are read; while probing notes them and goes on with what there is.
    fn without<T, E>(&self, reads: ReadSet, instead: T) -> Decided<T, E> {
        let mut reads = Some(reads);
        let noted = self.probe(|mut noted| {
            noted.merge(reads.take().unwrap_or_default());
            noted
        });
        if noted { Ok(instead) } else { need(reads.unwrap_or_default()) }
    }

    /// Says while probing that the first of a gate's line will be let in: each time, one more of
    /// them is read, and one to see who is next.
    pub fn expect_line(&self, gate: &GateKey) {
        self.probe(|reads| {
            let scan = Scan::Queue(gate.clone());
            let wanted = reads.scans.get(&scan).copied().unwrap_or(1);
            reads.scan(scan, wanted + 1)
        });
    }

    /// Decides one command: keeps its changes if it succeeds, none of them otherwise.
    ///
    /// `salt` is the caller's random number for the ids that the command makes.
    pub fn attempt<T, E>(
        &mut self,
        salt: u64,
        decide: impl FnOnce(&mut Self) -> Decided<T, E>,
    ) -> Decided<T, E> {
        self.salt = salt;
        let used = self.used;
        let outcome = self.keep_or_undo(decide);
        if outcome.is_err() {
            self.used = used;
        }
        self.undo.clear();
        outcome
    }

    /// Decides a part of a command that may be refused on its own (spec A2).
    pub fn keep_or_undo<T, E>(
        &mut self,
        decide: impl FnOnce(&mut Self) -> Decided<T, E>,
    ) -> Decided<T, E> {
        let (mark, redefined) = (self.undo.len(), self.redefined.clone());
        let mut outcome = decide(self);
        if outcome.is_ok() && self.changed.len() > MAX_CHANGES {
            outcome = Err(Stop::Full);
        }
        if outcome.is_err() {
            for (key, before) in self.undo.split_off(mark).into_iter().rev() {
                self.change(key, before);
            }
            self.redefined = redefined;
        }
        outcome
    }

    /// The store's clock.
    pub fn now(&self) -> Timestamp {
        self.base.now
    }

    /// The next sequence number of this transaction.
    pub fn next_seq<E>(&mut self) -> Decided<Seq, E> {
        if self.used >= BLOCK {
            return Err(Stop::Full);
        }
        self.used += 1;
        Ok(Seq(self.base.block.0 + self.used - 1))
    }

    /// Whether a sequence number is of this transaction.
    pub fn is_new(&self, seq: Seq) -> bool {
        (self.base.block.0..self.base.block.0 + self.used).contains(&seq.0)
    }

    /// A fresh run id.
    pub fn new_run_id<E>(&mut self) -> Decided<RunId, E> {
        Ok(RunId { seq: self.next_seq()?, salt: self.salt })
    }

    /// A fresh event id.
    pub fn new_event_id<E>(&mut self) -> Decided<EventId, E> {
        Ok(EventId { seq: self.next_seq()?, salt: self.salt })
    }

    /// A fresh id for work that is left.
    pub fn new_chore_id<E>(&mut self) -> Decided<ChoreId, E> {
        Ok(ChoreId { seq: self.next_seq()?, salt: self.salt })
    }

    /// Whether so much is changed already that what can be left for later is.
    pub fn is_crowded(&self) -> bool {
        self.changed.len() > MAX_CHANGES / 2
    }

    /// A workspace's definitions. All that a transaction decides by them is decided by one epoch:
    /// once this draft has changed them, the rest goes into the next transaction.
    pub fn catalog<E>(&self, ws: &Workspace) -> Decided<Arc<Catalog>, E> {
        if self.changed.contains_key(&RowKey::Epoch(ws.clone())) {
            return Err(Stop::Full);
        }
        self.definitions(ws)
    }

    /// A workspace's definitions as this draft has changed them, for commands that change them
    /// further: many definitions are registered in one transaction.
    pub fn definitions<E>(&self, ws: &Workspace) -> Decided<Arc<Catalog>, E> {
        match self.redefined.get(ws).or_else(|| self.base.catalogs.get(ws)) {
            Some(catalog) => Ok(catalog.clone()),
            None => need(ReadSet::default().catalog(ws)),
        }
    }

    /// Writes a row of definitions, and the workspace's epoch, once in a transaction.
    pub fn define(&mut self, def: Def) -> Decided<()> {
        let (ws, catalog) = (def.ws.clone(), self.definitions(&def.ws)?);
        let key = RowKey::Epoch(ws.clone());
        if !self.changed.contains_key(&key) {
            let n = match self.row(&key)? {
                Some(Row::Epoch(epoch)) => epoch.n,
                _ => 0,
            };
            self.put(Epoch { ws: ws.clone(), n: n + 1 });
        }
        let epoch = self.base.catalogs.get(&ws).map_or(0, |catalog| catalog.epoch) + 1;
        let catalog = catalog
            .advance(epoch, [def.clone()])
            .map_err(|error| Stop::Refused(Refusal::Unreadable(error.to_string())))?;
        self.redefined.insert(ws, Arc::new(catalog));
        self.put(def);
        Ok(())
    }

    /// A row as it is now.
    pub fn row<E>(&self, key: &RowKey) -> Decided<Option<&Row>, E> {
        if let Some(changed) = self.changed.get(key) {
            return Ok(changed.row());
        }
        let probing = self.probe(|reads| reads.row(key.clone()));
        match self.base.rows.get(key) {
            Some(row) => Ok(row.as_ref()),
            None if probing => Ok(None),
            None => need(ReadSet::default().row(key.clone())),
        }
    }

    /// A gate, if there is one.
    pub fn gate<E>(&self, key: &GateKey) -> Decided<Option<&Gate>, E> {
        match self.row(&RowKey::Gate(key.clone()))? {
            Some(Row::Gate(gate)) => Ok(Some(gate)),
            _ => Ok(None),
        }
    }

    /// A run that has not ended.
    pub fn run<E>(&self, seq: Seq) -> Decided<Option<&Run>, E> {
        match self.row(&RowKey::Run(seq))? {
            Some(Row::Run(run)) => Ok(Some(run)),
            _ => Ok(None),
        }
    }

    /// An event or other input.
    pub fn event<E>(&self, id: EventId) -> Decided<Option<&Event>, E> {
        match self.row(&RowKey::Event(id.seq))? {
            Some(Row::Event(event)) => Ok(Some(event)),
            _ => Ok(None),
        }
    }

    /// Writes a row, new or not. A run leaves a mark where it is.
    pub fn put(&mut self, row: impl Into<Row>) {
        let mut row = row.into();
        if let Row::Run(run) = &mut row {
            run.leave_mark(self.now());
        }
        self.set(row.key(), Changed::Row(row));
    }

    /// Deletes a row that was read or written.
    pub fn delete(&mut self, key: RowKey) {
        self.set(key, Changed::Gone);
    }

    /// Deletes a row that another row says is there, without reading it.
    pub fn delete_known(&mut self, key: RowKey) {
        let new = matches!(self.changed.get(&key), Some(Changed::Row(_)))
            && !matches!(self.base.rows.get(&key), Some(Some(_)));
        self.set(key, if new { Changed::Gone } else { Changed::Erased });
    }

    fn set(&mut self, key: RowKey, row: Changed) {
        let before = self.change(key.clone(), Some(row));
        self.undo.push((key, before));
    }

    /// Changes a row, or takes the change back, and keeps the lines in step.
    fn change(&mut self, key: RowKey, after: Option<Changed>) -> Option<Changed> {
        let base = if matches!(key, RowKey::Run(_)) { self.base.rows.get(&key) } else { None };
        let base = base.and_then(Option::as_ref);
        let row = |changed: Option<&Changed>| match changed {
            Some(changed) => standing(changed.row()),
            None => standing(base),
        };
        let (was, is) = (row(self.changed.get(&key)), row(after.as_ref()));
        if was != is {
            if let Some((gate, place, run)) = was {
                self.lines.entry(gate).or_default().places.remove(&(place, run));
            }
            if let Some((gate, place, run)) = is {
                self.lines.entry(gate).or_default().places.insert((place, run));
            }
        }
        match after {
            Some(after) => self.changed.insert(key, after),
            None => self.changed.remove(&key),
        }
    }

    /// The run at the front of a gate's line.
    ///
    /// Sees the changes of this draft: runs that joined or left the line since the snapshot.
    pub fn head_of_line<E>(&self, gate: &Gate) -> Decided<Option<(Place, Seq)>, E> {
        Ok(self.line(gate, 1)?.first().copied())
    }

    /// The first `count` runs in a gate's line.
    pub fn line<E>(&self, gate: &Gate, count: usize) -> Decided<Vec<(Place, Seq)>, E> {
        let scan = Scan::Queue(gate.key.clone());
        let probing = self.probe(|reads| reads.scan(scan.clone(), LINE_READ));
        // A gate that is new has only the line that this draft gave it.
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let full = match self.base.scans.get(&scan) {
            Some(found) => found.is_full(),
            None if new => false,
            None if probing => return Ok(Vec::new()),
            None => return need(ReadSet::default().scan(scan, LINE_READ)),
        };
        let Some(line) = self.lines.get(&gate.id) else { return Ok(Vec::new()) };
        // Beyond the last place that was read, others may stand in between.
        let horizon = line.horizon.filter(|_| full);
        let known = line.places.iter().take_while(|at| horizon.is_none_or(|to| at.0 <= to));
        let places: Vec<_> = known.take(count).copied().collect();
        if places.len() < count && full {
            let more = self.base.scans.get(&scan).map_or(LINE_READ, |found| found.limit);
            let more = ReadSet::default().scan(scan, more.saturating_mul(4).max(64));
            return self.without(more, places);
        }
        Ok(places)
    }

    /// How many runs stand before one in a gate's line, counted up to `most`. Those that were not
    /// read do, unless its place is among those that were.
    pub fn ahead_in_line<E>(&self, gate: &Gate, run: Seq, most: u32) -> Decided<usize, E> {
        let scan = Scan::Queue(gate.key.clone());
        let Some(line) = self.lines.get(&gate.id) else { return Ok(0) };
        let known = line.places.iter().take_while(|(_, seq)| *seq != run).count();
        let own = line.places.iter().nth(known).map(|(place, _)| *place);
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let found = self.base.scans.get(&scan);
        let whole = found.map_or(new, |found| !found.is_full());
        if whole || line.horizon.is_some_and(|to| own.is_some_and(|own| own <= to)) {
            return Ok(known);
        }
        let all = self.count(&Count::Queue(gate.key.clone()), most)? as usize;
        let unread = all.saturating_sub(found.map_or(0, |found| found.keys.len()));
        Ok((known + unread).min(most as usize))
    }

    /// While probing, says that the length of a gate's line will be asked for.
    pub fn expect_length(&self, gate: &GateKey, most: u32) {
        self.probe(|reads| reads.count(Count::Queue(gate.clone()), most));
    }

    /// What a scan found, as the rows are now. Rows that this draft added are not among them.
    pub fn found<E>(&self, scan: &Scan, limit: u32) -> Decided<Vec<&Row>, E> {
        match self.base.scans.get(scan) {
            Some(found) if found.limit >= limit => Ok(self.rows_of(found)),
            _ => self.without(ReadSet::default().scan(scan.clone(), limit), Vec::new()),
        }
    }

    /// How many rows there are, up to `limit`, without the changes of this draft.
    pub fn count<E>(&self, count: &Count, limit: u32) -> Decided<u32, E> {
        match self.base.counts.get(count) {
            Some(counted) if counted.limit >= limit => Ok(counted.count.min(limit)),
            _ => self.without(ReadSet::default().count(count.clone(), limit), 0),
        }
    }

    /// All that a scan finds, however much it is; `limit` is a first guess.
    pub fn found_all<E>(&self, scan: &Scan, limit: u32) -> Decided<Vec<&Row>, E> {
        let rows = self.found(scan, limit)?;
        match self.base.scans.get(scan) {
            Some(found) if found.is_full() => {
                let more = ReadSet::default().scan(scan.clone(), found.limit.saturating_mul(4));
                self.without(more, rows)
            }
            _ => Ok(rows),
        }
    }

    /// The first `limit` rows of a scan that are still wanted, after the changes of this draft;
    /// reads on where those changes have made what was read too short.
    pub fn found_still<E>(
        &self,
        scan: &Scan,
        limit: u32,
        wanted: impl Fn(&Row) -> bool,
    ) -> Decided<Vec<&Row>, E> {
        let mut rows = self.found(scan, limit)?;
        rows.retain(|row| wanted(row));
        rows.truncate(limit as usize);
        match self.base.scans.get(scan) {
            Some(found) if rows.len() < limit as usize && found.is_full() => {
                let more = ReadSet::default().scan(scan.clone(), found.limit.saturating_mul(4));
                self.without(more, rows)
            }
            _ => Ok(rows),
        }
    }

    fn rows_of(&self, found: &Found) -> Vec<&Row> {
        let now = |key: &RowKey| match self.changed.get(key) {
            Some(changed) => changed.row(),
            None => match self.base.rows.get(key) {
                Some(row) => row.as_ref(),
                None => self.base.hints.get(key),
            },
        };
        found.keys.iter().filter_map(now).collect()
    }

    /// Rows that this draft wrote, of one kind: those between two keys.
    pub fn written(&self, from: RowKey, to: RowKey) -> impl Iterator<Item = &Row> {
        self.changed.range(from..=to).filter_map(|(_, changed)| changed.row())
    }

    /// The net difference, at most one change for a row, in lock order.
    pub fn changes(self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.changed.len());
        for (key, changed) in self.changed {
            let before = self.base.rows.get(&key).and_then(Option::as_ref);
            match (changed, before) {
                (Changed::Row(row), Some(before)) if row == *before => {}
                (Changed::Row(row), Some(_)) => changes.push(Change::Update(row)),
                (Changed::Row(row), None) => changes.push(Change::Insert(row)),
                (Changed::Gone, Some(_)) | (Changed::Erased, _) => {
                    changes.push(Change::Delete(key));
                }
                (Changed::Gone, None) => {}
            }
        }
        changes
    }
}

/// How much of a line is read at first: the one to let in, and the one after.
pub const LINE_READ: u32 = 2;

/// How far down a line places are counted.
pub const LINE_COUNTED: u32 = 1000;

/// Stops a decision until `reads` are there.
pub fn need<T, E>(reads: ReadSet) -> Decided<T, E> {
    Err(Stop::Need(Box::new(reads)))
}

/// Reads that are asked for together: one round for all instead of one for each.
#[derive(Default)]
pub(crate) struct Missing(ReadSet);

impl Missing {
    /// What was read, or the note that it was not.
    pub(crate) fn note<T, E>(&mut self, read: Decided<T, E>) -> Decided<Option<T>, E> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Stop::Need(more)) => {
                self.0.merge(*more);
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Stops until all that was missing is read.
    pub(crate) fn settle<E>(self) -> Decided<(), E> {
        if self.0.is_empty() { Ok(()) } else { need(self.0) }
    }
}
