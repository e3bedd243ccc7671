//! Draft: a working copy of the rows, on which commands are decided one after another.
//!
//! A command reads rows through the draft and writes its changes into it, so that the next command
//! of the same transaction sees them. A command that needs a row which is not in the snapshot
//! stops with [`Stop::Need`], and its changes are undone.
//!
//! A *probing* draft predicts the reads of a command. It treats every row that is not in the
//! snapshot as absent, and records the read. The snapshot may even be empty.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    catalog::Catalog,
    command::Refusal,
    expected::Expected,
    id::{ChoreId, EventId, RunId, Seq},
    reads::{BLOCK, Change, Count, Found, Latch, Mode, ReadSet, Scan, Snapshot},
    row::{
        Def, Epoch, Event, FairGate, Gate, GateKey, Phase, Place, Rank, Row, RowKey, RowKind, Run,
        Workspace,
    },
    time::Timestamp,
};

/// Reason why a command stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop<E> {
    /// The command needs these reads, which are not in the snapshot.
    Need(Box<ReadSet>),
    /// The transaction is full; the command is decided in the next one.
    Full,
    /// The command is refused, and its changes are undone.
    Refused(E),
}

/// The result of a decision, or of a part of one.
pub type Decided<T, E = Refusal> = Result<T, Stop<E>>;

/// Maximum number of rows that one transaction changes.
pub const MAX_CHANGES: usize = 4000;

/// A snapshot with the changes decided so far.
#[derive(Debug)]
pub struct Draft {
    base: Snapshot,
    /// The changed rows, as they are after the changes.
    changed: BTreeMap<RowKey, Changed>,
    /// The kinds of rows that were ever changed, so that most searches for others end at once.
    kinds: BTreeSet<RowKind>,
    /// Undo log of the current command, applied if the command stops.
    undo: Vec<(RowKey, Option<Changed>)>,
    used: i64,
    salt: u64,
    /// The reads requested while probing.
    probed: Option<RefCell<ReadSet>>,
    /// While probing: what earlier transactions have read.
    expected: Arc<Expected>,
    /// The part of each queue that was read, by the gate's number.
    queues: BTreeMap<Seq, Queue>,
    /// The catalogs of workspaces whose definitions this draft has changed.
    redefined: BTreeMap<Workspace, Arc<Catalog>>,
    /// Gates that the current command has freed and not handed on yet.
    freed: Vec<GateKey>,
    /// The last gate of [`Draft::fair_gate`]: most transactions concern only one.
    fair: RefCell<Option<(GateKey, Arc<FairGate>)>>,
}

/// The runs of a gate's queue that were read or added, in order.
#[derive(Debug, Default)]
struct Queue {
    places: BTreeSet<(Place, Seq)>,
    /// The position of the last run that the snapshot has read.
    horizon: Option<Place>,
    /// Number of runs that this draft has added, minus those that it has removed.
    joined: i64,
}

/// Returns the gate in whose queue the run is, the run's position there, and the run's number.
fn standing(row: Option<&Row>) -> Option<(Seq, Place, Seq)> {
    let run = row?.as_run()?;
    match run.phase {
        Phase::Queued { gate, place } => Some((gate, place, run.id.seq)),
        Phase::Ready | Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => None,
    }
}

/// A row after the changes.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all values have the variant `Row`")]
enum Changed {
    /// The current row.
    Row(Row),
    /// The row was deleted, or never existed.
    Gone,
    /// The row was deleted without having been read; it is certain that it exists.
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
    /// Creates a draft without changes.
    pub fn new(base: Snapshot) -> Self {
        let mut queues: BTreeMap<Seq, Queue> = BTreeMap::new();
        for (scan, found) in &base.scans {
            if !matches!(scan, Scan::Queue(_)) {
                continue;
            }
            for key in &found.keys {
                let row = base.rows.get(key).and_then(Option::as_ref);
                if let Some((gate, place, run)) = standing(row) {
                    let queue = queues.entry(gate).or_default();
                    queue.places.insert((place, run));
                    queue.horizon = Some(place);
                }
            }
        }
        let (changed, undo) = (BTreeMap::new(), Vec::new());
        let redefined = BTreeMap::new();
        let (probed, expected, freed) = (None, Arc::default(), Vec::new());
        let (kinds, fair) = (BTreeSet::new(), RefCell::default());
        let (used, salt) = (0, 0);
        Self {
            base,
            changed,
            kinds,
            undo,
            used,
            salt,
            probed,
            expected,
            queues,
            redefined,
            freed,
            fair,
        }
    }

    /// Creates a probing draft, which records the reads of its commands.
    pub fn probing(base: Snapshot, expected: Arc<Expected>) -> Self {
        Self { probed: Some(RefCell::default()), expected, ..Self::new(base) }
    }

    /// Returns the paths on which a probing draft expects waits for events of this name.
    pub(crate) fn expected_paths(&self, ws: &Workspace, name: &str) -> &[String] {
        self.expected.paths(ws, name)
    }

    /// Returns the reads that were recorded while probing and are not in the snapshot, and the
    /// snapshot.
    pub fn into_probed(self) -> (ReadSet, Snapshot) {
        let mut reads = self.probed.map(RefCell::into_inner).unwrap_or_default();
        let Snapshot { latches, rows, scans, counts, .. } = &self.base;
        reads.latches.retain(|it, mode| latches.get(it).is_none_or(|held| held < mode));
        reads.counts.retain(|it, limit| counts.get(it).is_none_or(|found| found.limit < *limit));
        reads.rows.retain(|key| !rows.contains_key(key));
        reads.scans.retain(|scan, limit| scans.get(scan).is_none_or(|found| found.limit < *limit));
        (reads, self.base)
    }

    /// Returns the snapshot, without the changes.
    pub fn into_base(self) -> Snapshot {
        self.base
    }

    /// Whether the draft predicts reads, so that only the reads of a decision count.
    pub(crate) fn is_probing(&self) -> bool {
        self.probed.is_some()
    }

    /// Records a read if the draft is probing. Returns whether it is.
    fn probe(&self, note: impl FnOnce(ReadSet) -> ReadSet) -> bool {
        let Some(probed) = &self.probed else { return false };
        let reads = probed.take();
        *probed.borrow_mut() = note(reads);
        true
    }

    /// Stops the decision until `reads` are done. A probing draft records them and continues with
    /// `instead`.
    fn without<T, E>(&self, reads: ReadSet, instead: T) -> Decided<T, E> {
        let mut reads = Some(reads);
        let noted = self.probe(|mut noted| {
            noted.merge(reads.take().unwrap_or_default());
            noted
        });
        if noted { Ok(instead) } else { need(reads.unwrap_or_default()) }
    }

    /// Tells a probing draft that the decision will admit the first run of a gate's queue. Each
    /// call makes the prediction read one more run of the queue.
    pub fn expect_queue(&self, gate: &GateKey) {
        self.probe(|reads| {
            let scan = Scan::Queue(gate.clone());
            let wanted = reads.scans.get(&scan).copied().unwrap_or(1);
            reads.scan(scan, wanted + 1)
        });
    }

    /// Decides one command. Keeps its changes if it succeeds, and undoes them otherwise.
    ///
    /// `salt` is the caller's random number for the ids that the command creates.
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

    /// Decides a part of a command. If the part is refused, only its own changes are undone
    /// (spec A2).
    pub fn keep_or_undo<T, E>(
        &mut self,
        decide: impl FnOnce(&mut Self) -> Decided<T, E>,
    ) -> Decided<T, E> {
        let (mark, redefined) = (self.undo.len(), self.redefined.clone());
        let freed = self.freed.clone();
        let mut outcome = decide(self);
        if outcome.is_ok() && self.changed.len() > MAX_CHANGES {
            outcome = Err(Stop::Full);
        }
        if outcome.is_err() {
            for (key, before) in self.undo.split_off(mark).into_iter().rev() {
                self.change(key, before);
            }
            (self.redefined, self.freed) = (redefined, freed);
        }
        outcome
    }

    /// Sets freed gates aside, which the command hands on together with those that it frees next.
    pub(crate) fn set_aside(&mut self, freed: Vec<GateKey>) {
        self.freed.extend(freed);
    }

    /// Returns the gates that were set aside.
    pub(crate) fn take_aside(&mut self) -> Vec<GateKey> {
        std::mem::take(&mut self.freed)
    }

    /// Returns the current time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.base.now
    }

    /// Returns the next sequence number of this transaction.
    pub fn next_seq<E>(&mut self) -> Decided<Seq, E> {
        if self.used >= BLOCK {
            return Err(Stop::Full);
        }
        self.used += 1;
        Ok(Seq(self.base.block.0 + self.used - 1))
    }

    /// Whether a sequence number was given to this transaction.
    pub fn is_new(&self, seq: Seq) -> bool {
        (self.base.block.0..self.base.block.0 + self.used).contains(&seq.0)
    }

    /// Creates a run id.
    pub fn new_run_id<E>(&mut self) -> Decided<RunId, E> {
        Ok(RunId { seq: self.next_seq()?, salt: self.salt })
    }

    /// Creates an event id.
    pub fn new_event_id<E>(&mut self) -> Decided<EventId, E> {
        Ok(EventId { seq: self.next_seq()?, salt: self.salt })
    }

    /// Creates a chore id.
    pub fn new_chore_id<E>(&mut self) -> Decided<ChoreId, E> {
        Ok(ChoreId { seq: self.next_seq()?, salt: self.salt })
    }

    /// Whether the transaction has so many changes that work which can wait is left for a later
    /// transaction.
    pub fn is_crowded(&self) -> bool {
        self.changed.len() > MAX_CHANGES / 2
    }

    /// Returns a workspace's definitions. All decisions of a transaction use the same epoch: if
    /// this draft has changed the definitions, the command stops with [`Stop::Full`] and is decided
    /// in the next transaction.
    pub fn catalog<E>(&self, ws: &Workspace) -> Decided<Arc<Catalog>, E> {
        if self.redefined.contains_key(ws) {
            return Err(Stop::Full);
        }
        self.definitions(ws)
    }

    /// Returns a workspace's definitions with the changes of this draft. For commands that change
    /// definitions, so that many can be registered in one transaction.
    pub fn definitions<E>(&self, ws: &Workspace) -> Decided<Arc<Catalog>, E> {
        match self.redefined.get(ws).or_else(|| self.base.catalogs.get(ws)) {
            Some(catalog) => Ok(catalog.clone()),
            None => need(ReadSet::default().catalog(ws)),
        }
    }

    /// Writes a definition row, and increases the workspace's epoch once per transaction.
    pub fn define(&mut self, def: Def) -> Decided<()> {
        let (ws, catalog) = (def.ws.clone(), self.definitions(&def.ws)?);
        self.next_epoch(&ws)?;
        let epoch = self.base.catalogs.get(&ws).map_or(0, |catalog| catalog.epoch) + 1;
        let catalog = catalog
            .advance(epoch, [def.clone()])
            .map_err(|error| Stop::Refused(Refusal::Unreadable(error.to_string())))?;
        self.redefined.insert(ws, Arc::new(catalog));
        self.put(def);
        Ok(())
    }

    /// Writes a definition row without effect on the decisions of this transaction, which still
    /// use the catalog as it was.
    pub(crate) fn define_later<E>(&mut self, def: Def) -> Decided<(), E> {
        self.latch(Latch::Definitions(def.ws.clone()), Mode::Exclusive)?;
        self.next_epoch(&def.ws)?;
        self.put(def);
        Ok(())
    }

    /// Increases the epoch of a workspace, once per transaction.
    fn next_epoch<E>(&mut self, ws: &Workspace) -> Decided<(), E> {
        let key = RowKey::Epoch(ws.clone());
        if !self.changed.contains_key(&key) {
            let n = match self.row(&key)? {
                Some(Row::Epoch(epoch)) => epoch.n,
                _ => 0,
            };
            self.put(Epoch { ws: ws.clone(), n: n + 1 });
        }
        Ok(())
    }

    /// Returns a row with the changes of this draft.
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

    /// Whether a row does not exist. Unlike [`Draft::row`], a probing draft does not assume so for
    /// a row that was not read.
    pub fn is_absent<E>(&self, key: &RowKey) -> Decided<bool, E> {
        let read = || self.changed.contains_key(key) || self.base.rows.contains_key(key);
        Ok(self.row(key)?.is_none() && read())
    }

    /// Makes sure that the transaction holds a latch.
    pub fn latch<E>(&self, latch: Latch, mode: Mode) -> Decided<(), E> {
        if self.base.latches.get(&latch).is_some_and(|held| *held >= mode) {
            return Ok(());
        }
        if self.probe(|reads| reads.latch(latch.clone(), mode)) {
            return Ok(());
        }
        need(ReadSet::default().latch(latch, mode))
    }

    /// Returns a gate, if there is one.
    pub fn gate<E>(&self, key: &GateKey) -> Decided<Option<&Gate>, E> {
        match self.row(&RowKey::Gate(key.clone()))? {
            Some(Row::Gate(gate)) => Ok(Some(gate)),
            _ => Ok(None),
        }
    }

    /// Decodes the key of a gate with `fair`; none if it is not the key of a gate.
    pub(crate) fn fair_gate(&self, key: &GateKey) -> Option<Arc<FairGate>> {
        let mut last = self.fair.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| known != key) {
            *last = Some((key.clone(), Arc::new(FairGate::new(key)?)));
        }
        last.as_ref().map(|(_, gate)| gate.clone())
    }

    /// Returns a run that has not ended.
    pub fn run<E>(&self, seq: Seq) -> Decided<Option<&Run>, E> {
        match self.row(&RowKey::Run(seq))? {
            Some(Row::Run(run)) => Ok(Some(run)),
            _ => Ok(None),
        }
    }

    /// Returns an event or other input.
    pub fn event<E>(&self, id: EventId) -> Decided<Option<&Event>, E> {
        match self.row(&RowKey::Event(id.seq))? {
            Some(Row::Event(event)) => Ok(Some(event)),
            _ => Ok(None),
        }
    }

    /// Inserts or updates a row. If it is a run, its state is added to the run's trail.
    pub fn put(&mut self, row: impl Into<Row>) {
        let mut row = row.into();
        if let Row::Run(run) = &mut row {
            run.leave_mark(self.now());
        }
        self.set(row.key(), Changed::Row(row));
    }

    /// Deletes a row that was read or written before.
    pub fn delete(&mut self, key: RowKey) {
        self.set(key, Changed::Gone);
    }

    /// Deletes a row without reading it. The caller knows from another row that it exists.
    pub fn delete_known(&mut self, key: RowKey) {
        let new = matches!(self.changed.get(&key), Some(Changed::Row(_)))
            && !matches!(self.base.rows.get(&key), Some(Some(_)));
        self.set(key, if new { Changed::Gone } else { Changed::Erased });
    }

    fn set(&mut self, key: RowKey, row: Changed) {
        let before = self.change(key.clone(), Some(row));
        self.undo.push((key, before));
    }

    /// Applies or undoes the change of a row, and updates the queues.
    fn change(&mut self, key: RowKey, after: Option<Changed>) -> Option<Changed> {
        if matches!(key, RowKey::Run(_)) {
            self.change_queues(&key, after.as_ref());
        }
        match after {
            Some(after) => {
                self.kinds.insert(key.kind());
                self.changed.insert(key, after)
            }
            None => self.changed.remove(&key),
        }
    }

    /// Moves a run from the queue in which it was to the one in which it is after a change.
    fn change_queues(&mut self, key: &RowKey, after: Option<&Changed>) {
        let base = self.base.rows.get(key).and_then(Option::as_ref);
        let row = |changed: Option<&Changed>| match changed {
            Some(changed) => standing(changed.row()),
            None => standing(base),
        };
        let (was, is) = (row(self.changed.get(key)), row(after));
        if was == is {
            return;
        }
        if let Some((gate, place, run)) = was {
            let queue = self.queues.entry(gate).or_default();
            queue.places.remove(&(place, run));
            queue.joined -= 1;
        }
        if let Some((gate, place, run)) = is {
            let queue = self.queues.entry(gate).or_default();
            queue.places.insert((place, run));
            queue.joined += 1;
        }
    }

    /// Returns the run at the front of a gate's queue.
    ///
    /// The changes of this draft are included: runs that have joined or left the queue.
    pub fn head_of_queue<E>(&self, gate: &Gate) -> Decided<Option<(Place, Seq)>, E> {
        Ok(self.queue(gate, 1)?.first().copied())
    }

    /// Returns the first `count` runs in a gate's queue.
    pub fn queue<E>(&self, gate: &Gate, count: usize) -> Decided<Vec<(Place, Seq)>, E> {
        let scan = Scan::Queue(gate.key.clone());
        let probing = self.probe(|reads| reads.scan(scan.clone(), QUEUE_READ));
        // The queue of a new gate consists only of runs that this draft has added.
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let full = match self.base.scans.get(&scan) {
            Some(found) => found.is_full(),
            None if new => false,
            None if probing => return Ok(Vec::new()),
            None => return need(ReadSet::default().scan(scan, QUEUE_READ)),
        };
        let Some(queue) = self.queues.get(&gate.id) else { return Ok(Vec::new()) };
        // After the last position that was read there may be runs that were not read.
        let horizon = queue.horizon.filter(|_| full);
        let known = queue.places.iter().take_while(|at| horizon.is_none_or(|to| at.0 <= to));
        let places: Vec<_> = known.take(count).copied().collect();
        if places.len() < count && full {
            let more = self.base.scans.get(&scan).map_or(QUEUE_READ, |found| found.limit);
            let more = ReadSet::default().scan(scan, more.saturating_mul(4).max(64));
            return self.without(more, places);
        }
        Ok(places)
    }

    /// Returns the first `count` runs behind the first of a value, in the queue of a fair gate.
    pub fn behind<E>(
        &self,
        gate: &Gate,
        share: Seq,
        count: usize,
    ) -> Decided<Vec<(Place, Seq)>, E> {
        let tier = Place::tier_behind(share);
        let scan = Scan::QueueTier(gate.key.clone(), tier);
        let own = |row: &Row| {
            standing(Some(row)).filter(|(at, place, _)| *at == gate.id && place.tier == tier)
        };
        let mut places: BTreeSet<(Place, Seq)> = BTreeSet::new();
        let mut horizon = None;
        if !self.is_new(gate.id) && !self.is_new(share) {
            let limit = u32::try_from(count).unwrap_or(u32::MAX);
            let rows = self.found(&scan, limit)?;
            places.extend(rows.into_iter().filter_map(own).map(|(_, place, run)| (place, run)));
            // After the last position that was read there may be runs that were not read.
            let found = self.base.scans.get(&scan).filter(|found| found.is_full());
            let last = found.and_then(|found| self.base.row(found.keys.last()?));
            horizon = last.and_then(|row| standing(Some(row))).map(|(_, place, _)| place);
        }
        let added = self.queues.get(&gate.id).into_iter().flat_map(|queue| {
            let first = Place { tier, rank: Rank { at: Timestamp::MIN, seq: Seq(i64::MIN) } };
            queue.places.range((first, Seq(i64::MIN))..)
        });
        let added = added.take_while(|(place, _)| place.tier == tier);
        places.extend(added.filter(|(place, _)| horizon.is_none_or(|to| *place <= to)));
        let first: Vec<_> = places.into_iter().take(count).collect();
        match self.base.scans.get(&scan) {
            Some(found) if first.len() < count && found.is_full() => {
                let more = found.limit.saturating_mul(4);
                self.without(ReadSet::default().scan(scan, more), first)
            }
            _ => Ok(first),
        }
    }

    /// Returns the last `count` runs in a gate's queue, the last one first.
    pub fn end_of_queue<E>(&self, gate: &Gate, count: usize) -> Decided<Vec<(Place, Seq)>, E> {
        let scan = Scan::QueueEnd(gate.key.clone());
        let own = |row: &Row| standing(Some(row)).filter(|(at, ..)| *at == gate.id);
        let mut places: BTreeSet<(Place, Seq)> = BTreeSet::new();
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let mut horizon = None;
        if !new {
            let limit = u32::try_from(count).unwrap_or(u32::MAX);
            let rows = self.found(&scan, limit)?;
            places.extend(rows.into_iter().filter_map(own).map(|(_, place, run)| (place, run)));
            // Before the first position that was read there may be runs that were not read.
            let found = self.base.scans.get(&scan).filter(|found| found.is_full());
            let first = found.and_then(|found| self.base.row(found.keys.last()?));
            horizon = first.and_then(|row| standing(Some(row))).map(|(_, place, _)| place);
            // A run that this draft has moved forward may have passed runs that were not read.
            places.retain(|(place, _)| horizon.is_none_or(|from| *place >= from));
        }
        let added = self.queues.get(&gate.id).into_iter().flat_map(|queue| &queue.places);
        places.extend(added.filter(|(place, _)| horizon.is_none_or(|from| *place >= from)));
        let last: Vec<_> = places.into_iter().rev().take(count).collect();
        match self.base.scans.get(&scan) {
            Some(found) if last.len() < count && found.is_full() => {
                let more = ReadSet::default().scan(scan, found.limit.saturating_mul(4));
                self.without(more, last)
            }
            _ => Ok(last),
        }
    }

    /// Returns a run that was read, also without a lock. The caller has the lock of another row on
    /// which the run's state depends.
    pub fn seen_run(&self, seq: Seq) -> Option<&Run> {
        let key = RowKey::Run(seq);
        let row = match self.changed.get(&key) {
            Some(changed) => changed.row(),
            None => self.base.row(&key),
        };
        row.and_then(Row::as_run)
    }

    /// Counts the runs in a gate's queue, with the changes of this draft. Stops at about `most`.
    pub fn length_of_queue<E>(&self, gate: &Gate, most: u32) -> Decided<u32, E> {
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let joined = self.queues.get(&gate.id).map_or(0, |queue| queue.joined);
        // Runs that have left count among those that were there before.
        let counted = most.saturating_add(u32::try_from(-joined).unwrap_or_default());
        let before = if new { 0 } else { self.count(&Count::Queue(gate.key.clone()), counted)? };
        let length = (i64::from(before) + joined).clamp(0, i64::from(most));
        Ok(u32::try_from(length).unwrap_or(most))
    }

    /// Counts the runs before `run` in a gate's queue, up to `most`. If the run is not in the part
    /// of the queue that was read, all runs that were not read are counted.
    pub fn ahead_in_queue<E>(&self, gate: &Gate, run: Seq, most: u32) -> Decided<usize, E> {
        let scan = Scan::Queue(gate.key.clone());
        let Some(queue) = self.queues.get(&gate.id) else { return Ok(0) };
        let known = queue.places.iter().take_while(|(_, seq)| *seq != run).count();
        let own = queue.places.iter().nth(known).map(|(place, _)| *place);
        let new = matches!(self.base.rows.get(&RowKey::Gate(gate.key.clone())), Some(None));
        let found = self.base.scans.get(&scan);
        let whole = found.map_or(new, |found| !found.is_full());
        if whole || queue.horizon.is_some_and(|to| own.is_some_and(|own| own <= to)) {
            return Ok(known);
        }
        let all = self.count(&Count::Queue(gate.key.clone()), most)? as usize;
        let unread = all.saturating_sub(found.map_or(0, |found| found.keys.len()));
        Ok((known + unread).min(most as usize))
    }

    /// Tells a probing draft that the decision will need the length of a gate's queue.
    pub fn expect_length(&self, gate: &GateKey, most: u32) {
        self.probe(|reads| reads.count(Count::Queue(gate.clone()), most));
    }

    /// Returns the rows that a scan has found, as they are after the changes of this draft. Rows
    /// that this draft has added are not included.
    pub fn found<E>(&self, scan: &Scan, limit: u32) -> Decided<Vec<&Row>, E> {
        match self.base.scans.get(scan) {
            Some(found) if found.limit >= limit => Ok(self.rows_of(found)),
            _ if self.probe(|reads| reads.scan(scan.clone(), limit)) => Ok(Vec::new()),
            _ => need(ReadSet::default().scan(scan.clone(), limit)),
        }
    }

    /// Returns a count, up to `limit`. The changes of this draft are not included.
    pub fn count<E>(&self, count: &Count, limit: u32) -> Decided<u32, E> {
        match self.base.counts.get(count) {
            Some(counted) if counted.limit >= limit => Ok(counted.count.min(limit)),
            _ => self.without(ReadSet::default().count(count.clone(), limit), 0),
        }
    }

    /// Returns all rows of a scan. If there are more than `limit`, they are read with a higher
    /// limit.
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

    /// Returns the first `limit` rows of a scan that are `wanted` after the changes of this draft.
    /// Reads more rows if the changes have made the result too short.
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
            None => self.base.row(key),
        };
        found.keys.iter().filter_map(now).collect()
    }

    /// Whether this draft may have changed rows of a kind.
    pub fn has_written(&self, kind: RowKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Returns the rows that this draft has written, from one key to another of the same kind.
    pub fn written(&self, from: RowKey, to: RowKey) -> impl Iterator<Item = &Row> {
        let any = self.has_written(from.kind());
        let changed = any.then(|| self.changed.range(from..=to)).into_iter().flatten();
        changed.filter_map(|(_, changed)| changed.row())
    }

    /// Returns the changes to the snapshot: at most one per row, in lock order.
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

/// Number of runs of a queue that are read at first: the run to admit and the next one.
pub const QUEUE_READ: u32 = 2;

/// Positions in a queue are counted up to this number.
pub const QUEUE_COUNTED: u32 = 1000;

/// Stops a decision until `reads` are done.
pub fn need<T, E>(reads: ReadSet) -> Decided<T, E> {
    Err(Stop::Need(Box::new(reads)))
}

/// Missing reads, collected to be requested together in one round trip.
#[derive(Default)]
pub(crate) struct Missing(ReadSet);

impl Missing {
    /// Returns the value if it could be read; otherwise records the missing reads.
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

    /// Stops until all missing reads are done.
    pub(crate) fn settle<E>(self) -> Decided<(), E> {
        if self.0.is_empty() { Ok(()) } else { need(self.0) }
    }
}
