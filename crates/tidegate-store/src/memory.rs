//! In-memory store: the reference for all other stores.
//!
//! It is simple, not fast, so that it is easy to see that it is correct: one map under one lock,
//! and most scans read all rows or all rows of a kind.

mod lease;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tidegate_core::{
    catalog::Catalog,
    id::Seq,
    reads::{BLOCK, Change, Count, ReadSet, Scan, Snapshot},
    row::{
        Def, Engine, EngineId, GateKey, Kind as EventKind, Phase, Place, Row, RowKey, Run,
        Subscription, Workspace,
    },
    time::Timestamp,
    turn::Turn,
};
use tokio::sync::watch;

use crate::{
    Decide, Store, StoreError,
    catalogs::{Catalogs, Redefined},
    clock::{Clock, SystemClock},
    codec,
    single_writer::{Source, fill, settle},
};

/// Store in memory; its rows are lost when the process ends.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    catalogs: Catalogs,
    wakes: watch::Sender<u64>,
    leases: Mutex<lease::Held>,
}

impl std::fmt::Debug for MemoryStore {
    /// Omits the rows, because error texts and logs must not contain the data of runs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

struct State {
    rows: BTreeMap<RowKey, Row>,
    next: i64,
    /// Engines that have sent a heartbeat. If the row of such an engine was deleted, its next
    /// heartbeat does not create it again.
    engines: BTreeSet<EngineId>,
}

impl MemoryStore {
    /// Creates an empty store with this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::new(State { rows: BTreeMap::new(), next: 1, engines: BTreeSet::new() }),
            catalogs: Catalogs::default(),
            wakes: watch::Sender::new(0),
            leases: Mutex::default(),
        }
    }

    /// Locks the state. A poisoned lock is used all the same: a decision that panicked has changed
    /// no row.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn transact(&self, reads: ReadSet, mut decide: Decide) -> Result<(), StoreError> {
        let mut state = self.lock();
        let snapshot =
            Snapshot { now: self.clock.now(), block: Seq(state.next), ..Snapshot::default() };
        state.next += BLOCK;
        let view = View { rows: &state.rows, catalogs: &self.catalogs };
        let changes = settle(&view, reads, &mut decide, snapshot)?;
        let redefined = Redefined::by(&changes);
        apply(&mut state.rows, changes)?;
        self.catalogs.follow(redefined);
        Ok(())
    }

    async fn read(&self, reads: ReadSet) -> Result<Snapshot, StoreError> {
        let state = self.lock();
        let mut snapshot = Snapshot { now: self.clock.now(), ..Snapshot::default() };
        fill(&View { rows: &state.rows, catalogs: &self.catalogs }, &reads, &mut snapshot)?;
        Ok(snapshot)
    }

    async fn heartbeat(&self, engine: EngineId, lease_ms: u32) -> Result<bool, StoreError> {
        let mut state = self.lock();
        if state.engines.insert(engine) {
            let new = Row::Engine(Engine { beat: 0, ..Engine::new(engine, lease_ms) });
            state.rows.entry(new.key()).or_insert(new);
        }
        let Some(Row::Engine(engine)) = state.rows.get_mut(&RowKey::Engine(engine)) else {
            return Ok(false);
        };
        engine.beat += i64::from(!engine.dead);
        Ok(!engine.dead)
    }

    fn catalogs(&self) -> BTreeMap<Workspace, Arc<Catalog>> {
        self.catalogs.all()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.wakes.subscribe()
    }

    fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    async fn dump(&self) -> Result<Vec<Row>, StoreError> {
        Ok(self.lock().rows.values().cloned().collect())
    }
}

/// View of the rows inside one transaction.
struct View<'a> {
    rows: &'a BTreeMap<RowKey, Row>,
    catalogs: &'a Catalogs,
}

impl Source for View<'_> {
    fn row(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, scan: &Scan, limit: u32, now: Timestamp) -> Result<Vec<Row>, StoreError> {
        if let Scan::Ready(claim) = scan {
            let runs = self.rows.range(within(scan)).filter_map(|(_, row)| row.as_run());
            let ready = runs.filter(|run| run.phase == Phase::Ready);
            let taken = claim.take(ready, limit).into_iter();
            return Ok(taken.map(|run| Row::from(run.clone())).collect());
        }
        let loose = loose(scan, self.rows.values());
        let place = |row: &Row| match &loose {
            Some(relied_on) => place_of_loose(scan, row, relied_on),
            None => self.place(scan, row, now),
        };
        let rows = self.rows.range(within(scan)).map(|(_, row)| row);
        let mut placed: Vec<_> =
            rows.filter_map(|row| Some((place(row)?, row.key(), row))).collect();
        placed.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        if matches!(scan, Scan::QueueEnd(_)) {
            placed.reverse();
        }
        Ok(placed.into_iter().take(limit as usize).map(|(_, _, row)| row.clone()).collect())
    }

    fn count(&self, count: &Count, limit: u32) -> Result<u32, StoreError> {
        let gate = if let Count::Queue(key) = count { self.gate_id(key) } else { None };
        let counted = |run: &&Run| match count {
            Count::Live(lane) => run.lane == *lane,
            Count::Driven(lane) => run.lane == *lane && run.owner.is_some(),
            Count::Waiting(lane) => run.lane == *lane && run.phase == Phase::Waiting,
            Count::Paused(lane) => run.lane == *lane && run.phase == Phase::Paused,
            Count::Ready(ws, turn) => {
                run.ws == *ws && Turn::of(run) == *turn && run.phase == Phase::Ready
            }
            Count::Queue(_) => {
                matches!(run.phase, Phase::Queued { gate: at, .. } if Some(at) == gate)
            }
        };
        let runs = self
            .rows
            .range(within(&Scan::DueRuns(Timestamp::MIN)))
            .filter_map(|(_, row)| row.as_run());
        Ok(runs.filter(counted).take(limit as usize).fold(0, |count, _| count + 1))
    }

    fn catalog(&self, ws: &Workspace) -> Result<Arc<Catalog>, StoreError> {
        let epoch = match self.rows.get(&RowKey::Epoch(ws.clone())) {
            Some(Row::Epoch(epoch)) => epoch.n,
            _ => 0,
        };
        if let Some(catalog) = self.catalogs.get(ws, epoch) {
            return Ok(catalog);
        }
        let defs = self.rows.values().filter_map(|row| {
            let Row::Def(def) = row else { return None };
            (def.ws == *ws).then(|| def.clone())
        });
        Ok(self.catalogs.put(ws, epoch, defs.collect())?)
    }
}

/// Returns the range of keys in which a scan searches, so that scans that are made for every run do
/// not read all rows.
fn within(scan: &Scan) -> (Bound<RowKey>, Bound<RowKey>) {
    let next = |run: &Seq| Seq(run.0.saturating_add(1));
    let of_runs = matches!(
        scan,
        Scan::Queue(_)
            | Scan::QueueTier(..)
            | Scan::QueueEnd(_)
            | Scan::Ready(_)
            | Scan::DueRuns(_)
            | Scan::Owned(_)
            | Scan::Lane(..)
            | Scan::Listening(..)
    );
    let (from, to) = if let Scan::Steps(run) = scan {
        (RowKey::Step(*run, String::new()), RowKey::Step(next(run), String::new()))
    } else if let Scan::Items(run) = scan {
        (RowKey::Item(*run, 0), RowKey::Item(next(run), 0))
    } else if let Scan::Log(stream, from) = scan {
        (RowKey::StreamEventRow(*stream, *from), RowKey::StreamEventRow(next(stream), i64::MIN))
    } else if of_runs {
        (RowKey::Run(Seq(i64::MIN)), RowKey::Run(Seq(i64::MAX)))
    } else {
        return (Bound::Unbounded, Bound::Unbounded);
    };
    (Bound::Included(from), Bound::Excluded(to))
}

/// Position of a row in a scan's order; rows with equal positions are ordered by their keys.
type Order = (i64, i64, i64);

/// Position in scans ordered by key.
const BY_KEY: Order = (0, 0, 0);

impl View<'_> {
    /// Returns a row's position in a scan, or `None` if the row does not match the scan.
    #[expect(clippy::too_many_lines, reason = "one or two lines for each kind of scan")]
    fn place(&self, scan: &Scan, row: &Row, now: Timestamp) -> Option<Order> {
        let due = |due: Option<Timestamp>, from: &Timestamp| {
            due.filter(|due| due >= from).map(|due| (due.micros(), 0, 0))
        };
        let by_key = |matches: bool| matches.then_some(BY_KEY);
        match (scan, row) {
            (Scan::Queue(key) | Scan::QueueTier(key, _) | Scan::QueueEnd(key), Row::Run(run)) => {
                let tier = if let Scan::QueueTier(_, tier) = scan { Some(*tier) } else { None };
                let in_tier = |place: Place| tier.is_none_or(|tier| place.tier == tier);
                match (run.phase, self.gate_id(key)?) {
                    (Phase::Queued { gate, place }, id) if gate == id && in_tier(place) => {
                        Some((place.tier, place.rank.at.micros(), place.rank.seq.0))
                    }
                    _ => None,
                }
            }
            (Scan::DueGates(from), Row::Gate(gate)) => due(gate.due, from),
            (Scan::DueRuns(from), Row::Run(run)) => due(run.due(), from),
            (Scan::DueChores(from), Row::Chore(chore)) => due(chore.due, from),
            (
                Scan::WaitPaths(..) | Scan::Waits(..) | Scan::Listening(..) | Scan::Chores(..),
                row,
            ) => by_key(is_filed(scan, row)),
            (Scan::Owned(engine), Row::Run(run)) => by_key(run.owner == Some(*engine)),
            (Scan::Lane(of, after), Row::Run(it)) => by_key(it.lane == *of && it.id.seq > *after),
            (Scan::Live(..) | Scan::Ended(..), _) => listed(scan, row),
            (Scan::Engines, Row::Engine(engine)) => by_key(!engine.dead || self.owns(engine.id)),
            (Scan::Window(run), Row::Gate(gate)) => {
                by_key(gate.id == *run && gate.event().is_some())
            }
            (Scan::Gates(prefix), Row::Gate(gate)) => {
                by_key(gate.key.as_bytes().starts_with(prefix))
            }
            (Scan::Log(stream, from), Row::StreamEventRow(it)) => {
                by_key(it.stream == *stream && it.version >= *from)
            }
            (Scan::Feed(ws, after), Row::StreamEventRow(it)) => {
                (it.ws == *ws && it.pos > *after).then_some((it.pos, 0, 0))
            }
            (Scan::FeedBack(ws, before), Row::StreamEventRow(it)) => {
                (it.ws == *ws && it.pos < *before).then_some((-it.pos, 0, 0))
            }
            (Scan::StreamOf(id), Row::Stream(it)) => by_key(it.id == *id),
            (Scan::Work(ws, reaction), Row::Subscription(sub)) => {
                let matches = (&sub.ws, &sub.reaction) == (ws, reaction) && has_free_work(sub, now);
                matches.then_some((sub.since.micros(), 0, 0))
            }
            (Scan::Subs(ws, reaction, stream), Row::Subscription(it)) => {
                by_key(it.ws == *ws && (&it.reaction, &it.stream) > (reaction, stream))
            }
            (Scan::Streams(ws, after), Row::Stream(it)) => by_key(it.ws == *ws && it.name > *after),
            (Scan::Buriable, Row::Engine(engine)) => by_key(engine.dead && !self.owns(engine.id)),
            (
                Scan::Queue(_)
                | Scan::QueueTier(..)
                | Scan::QueueEnd(_)
                | Scan::Ready(_)
                | Scan::DueGates(_)
                | Scan::DueRuns(_)
                | Scan::DueChores(_)
                | Scan::Owned(_)
                | Scan::Lane(..)
                | Scan::Engines
                | Scan::Window(_)
                | Scan::Gates(_)
                | Scan::Log(..)
                | Scan::Feed(..)
                | Scan::Work(..)
                | Scan::Subs(..)
                | Scan::Streams(..)
                | Scan::Buriable
                | Scan::FeedBack(..)
                | Scan::StreamOf(_),
                _,
            ) => None,
            (Scan::Schedules | Scan::SchedulesOf(..), _) => place_of_schedule(scan, row),
            (
                Scan::Steps(_)
                | Scan::Items(_)
                | Scan::Inbox(..)
                | Scan::Receipts(_)
                | Scan::Chunks(..)
                | Scan::Signals(_)
                | Scan::EventsAfter(_)
                | Scan::EndedAfter(_)
                | Scan::ReceiptsAfter(_)
                | Scan::AuditAfter(_)
                | Scan::LooseEvents(..)
                | Scan::LooseEnded(..)
                | Scan::Snapshots(_)
                | Scan::RepliesAfter(_)
                | Scan::ApiKeys,
                _,
            ) => filed(scan, row),
            (
                Scan::EventsBelow(..)
                | Scan::ChoresBelow(..)
                | Scan::ReceiptsBelow(..)
                | Scan::AuditBelow(..)
                | Scan::AuditOf(..)
                | Scan::GatesBetween(..)
                | Scan::RunsOf(_)
                | Scan::EndedOf(_)
                | Scan::ItemsOf(_),
                _,
            ) => observed(scan, row),
        }
    }

    fn owns(&self, engine: EngineId) -> bool {
        let runs = self.rows.range(within(&Scan::Owned(engine)));
        runs.filter_map(|(_, row)| row.as_run()).any(|run| run.owner == Some(engine))
    }

    fn gate_id(&self, key: &GateKey) -> Option<Seq> {
        match self.rows.get(&RowKey::Gate(key.clone())) {
            Some(Row::Gate(gate)) => Some(gate.id),
            _ => None,
        }
    }
}

/// Returns a schedule's position in the scans of schedules.
fn place_of_schedule(scan: &Scan, row: &Row) -> Option<Order> {
    let Row::Schedule(it) = row else { return None };
    if let Scan::SchedulesOf(ws, app, workflow) = scan {
        return ((&it.ws, &it.app, &it.workflow) == (ws, app, workflow)).then_some(BY_KEY);
    }
    it.next.map(|next| (next.micros(), 0, 0))
}

/// Returns a row's position in scans by run, by event or by number.
fn filed(scan: &Scan, row: &Row) -> Option<Order> {
    match (scan, row) {
        (Scan::Steps(run), Row::Step(it)) => (it.run == *run).then_some(BY_KEY),
        (Scan::Items(run), Row::Item(it)) => (it.run == *run).then_some(BY_KEY),
        (Scan::Inbox(run, name), Row::Signal(it)) => {
            ((&it.run, &it.name) == (run, name)).then_some(BY_KEY)
        }
        (Scan::Receipts(event), Row::Receipt(it)) => (it.event == *event).then_some(BY_KEY),
        (Scan::Chunks(run, after), Row::Chunk(it)) => {
            (it.run == *run && it.seq > *after).then_some((it.seq.into(), 0, 0))
        }
        (Scan::Signals(run), Row::Signal(it)) => (it.run == *run).then_some(BY_KEY),
        (Scan::Snapshots(stream), Row::StreamSnapshot(it)) => {
            (it.stream == *stream).then_some(BY_KEY)
        }
        (Scan::EventsAfter(after), Row::Event(it)) => (it.id.seq > *after).then_some(BY_KEY),
        (Scan::EndedAfter(after), Row::Ended(it)) => (it.id.seq > *after).then_some(BY_KEY),
        (Scan::RepliesAfter(after), Row::Reply(it)) => {
            (it.seq > *after).then_some((it.seq.0, 0, 0))
        }
        (Scan::ApiKeys, Row::ApiKey(_)) => Some(BY_KEY),
        (Scan::ReceiptsAfter(after), Row::Receipt(it)) => (it.seq > *after).then_some(BY_KEY),
        (Scan::AuditAfter(after), Row::Audit(it)) => (it.seq > *after).then_some(BY_KEY),
        _ => None,
    }
}

/// Returns a row's position in the scans of the query API.
fn observed(scan: &Scan, row: &Row) -> Option<Order> {
    let newest = |matches: bool, seq: Seq| matches.then_some((-seq.0, 0, 0));
    let by_key = |matches: bool| matches.then_some(BY_KEY);
    match (scan, row) {
        (Scan::EventsBelow(ws, below), Row::Event(it)) => {
            let matches = it.ws == *ws && it.kind == EventKind::Event && it.id.seq < *below;
            newest(matches, it.id.seq)
        }
        (Scan::ChoresBelow(ws, topic, below), Row::Chore(it)) => {
            let same = it.ws == *ws && it.topic.as_ref() == Some(topic);
            newest(same && it.id.seq < *below, it.id.seq)
        }
        (Scan::ReceiptsBelow(ws, below), Row::Receipt(it)) => {
            newest(it.ws == *ws && it.seq < *below, it.seq)
        }
        (Scan::AuditBelow(ws, below), Row::Audit(it)) => {
            newest(it.ws == *ws && it.seq < *below, it.seq)
        }
        (Scan::AuditOf(ws, subject, below), Row::Audit(it)) => {
            newest(it.ws == *ws && it.subject == *subject && it.seq < *below, it.seq)
        }
        (Scan::GatesBetween(from, to), Row::Gate(it)) => {
            by_key(it.key.as_bytes() >= &**from && it.key.as_bytes() < &**to)
        }
        (Scan::RunsOf(event), Row::Run(it)) => by_key(it.source.first().seq == *event),
        (Scan::EndedOf(event), Row::Ended(it)) => by_key(it.source.first().seq == *event),
        (Scan::ItemsOf(event), Row::Item(it)) => by_key(it.event.seq == *event),
        _ => None,
    }
}

/// Returns a run's position in a list, newest first.
fn listed(scan: &Scan, row: &Row) -> Option<Order> {
    let (lanes, below, run, lane) = match (scan, row) {
        (Scan::Live(lanes, below), Row::Run(run)) => (lanes, below, run.id, run.lane),
        (Scan::Ended(lanes, states, below), Row::Ended(run)) => {
            states.contains(&run.ending.state()).then_some((lanes, below, run.id, run.lane))?
        }
        _ => return None,
    };
    (lanes.contains(&lane) && run.seq < *below).then_some((-run.seq.0, 0, 0))
}

/// Returns whether a row matches a scan of waits, wait paths, listeners or chores.
fn is_filed(scan: &Scan, row: &Row) -> bool {
    match (scan, row) {
        (Scan::WaitPaths(ws, name), Row::WaitPath(it)) => (&it.ws, &it.name) == (ws, name),
        (Scan::Waits(ws, name, path, value, run, step), Row::Wait(it)) => {
            let filed = (&it.ws, &it.name, &it.path, &it.value) == (ws, name, path, value);
            filed && (&it.run, &it.step) > (run, step)
        }
        (Scan::Listening(number, from), Row::Run(it)) => {
            it.listens() == Some(*number) && it.id.seq >= *from
        }
        (Scan::Chores(ws, topic), Row::Chore(it)) => {
            it.ws == *ws && it.topic.as_ref() == Some(topic)
        }
        _ => false,
    }
}

/// Returns the numbers of all referenced rows, for a scan of unreferenced rows; `None` for any
/// other scan.
fn loose<'a>(scan: &Scan, rows: impl Iterator<Item = &'a Row>) -> Option<BTreeSet<Seq>> {
    if matches!(scan, Scan::LooseEvents(..)) {
        return Some(rows.filter_map(event_of).collect());
    }
    let runs = rows.filter_map(Row::as_run);
    let relied_on = |run: &Run| [Some(run.id.seq), run.past()];
    matches!(scan, Scan::LooseEnded(..)).then(|| runs.flat_map(relied_on).flatten().collect())
}

/// Returns the event that a row refers to.
fn event_of(row: &Row) -> Option<Seq> {
    if let Row::Ended(run) = row {
        return Some(run.source.first().seq);
    }
    if let Row::Item(item) = row {
        return Some(item.event.seq);
    }
    let run = row.as_run().map(|run| run.source.first().seq);
    run.or_else(|| row.as_gate()?.event())
}

/// Returns a row's position in a scan of unreferenced rows, which are ordered by number.
fn place_of_loose(scan: &Scan, row: &Row, relied_on: &BTreeSet<Seq>) -> Option<Order> {
    let (seq, after, until) = match (scan, row) {
        (Scan::LooseEvents(after, until), Row::Event(event)) => (event.id.seq, after, until),
        (Scan::LooseEnded(after, until), Row::Ended(run)) => (run.id.seq, after, until),
        _ => return None,
    };
    (seq > *after && seq <= *until && !relied_on.contains(&seq)).then_some(BY_KEY)
}

/// Returns whether a subscription has work that can be done now and has no live lease.
fn has_free_work(sub: &Subscription, now: Timestamp) -> bool {
    let leased = sub.owner.is_some() && sub.until.is_some_and(|until| until > now);
    let early = sub.due.is_some_and(|due| due > now);
    let ahead = sub.since.micros() > now.micros() + 1_000_000;
    sub.want > sub.at && sub.blocked.is_none() && (ahead || (!leased && !early))
}

/// Applies all changes, or none of them.
fn apply(rows: &mut BTreeMap<RowKey, Row>, changes: Vec<Change>) -> Result<(), StoreError> {
    let mut undo = Vec::with_capacity(changes.len());
    for change in changes {
        let key = change.key();
        let before = rows.get(&key).cloned();
        if let Err(error) = make(rows, change) {
            for (key, before) in undo {
                match before {
                    Some(row) => rows.insert(key, row),
                    None => rows.remove(&key),
                };
            }
            return Err(error);
        }
        undo.push((key, before));
    }
    Ok(())
}

fn make(rows: &mut BTreeMap<RowKey, Row>, change: Change) -> Result<(), StoreError> {
    let key = change.key();
    let there = rows.contains_key(&key);
    match change {
        Change::Insert(_) if there => {
            Err(StoreError::Data(format!("{key:?} exists already").into()))
        }
        Change::Update(_) | Change::Delete(_) if !there => {
            Err(StoreError::Data(format!("{key:?} does not exist").into()))
        }
        Change::Insert(row) | Change::Update(row) => {
            codec::check(&row, &codec::cells(&row))?;
            if has_twin(rows, &row) {
                return Err(StoreError::Data(format!("{key:?}: another row has its name").into()));
            }
            rows.insert(key, row);
            Ok(())
        }
        Change::Delete(key) => {
            rows.remove(&key);
            Ok(())
        }
    }
}

/// Returns whether another row has the same second unique key: definitions have one (the name and
/// version), and stream events (the position in the workspace).
fn has_twin(rows: &BTreeMap<RowKey, Row>, row: &Row) -> bool {
    let mut others = rows.values().filter(|other| other.key() != row.key());
    let name = |def: &Def| (def.ws.clone(), def.app.clone(), def.name.clone(), def.version);
    if let Row::Def(def) = row {
        return others.any(|other| matches!(other, Row::Def(other) if name(other) == name(def)));
    }
    if let Row::StreamEventRow(it) = row {
        let here = (&it.ws, it.pos);
        return others
            .any(|other| matches!(other, Row::StreamEventRow(it) if (&it.ws, it.pos) == here));
    }
    false
}
