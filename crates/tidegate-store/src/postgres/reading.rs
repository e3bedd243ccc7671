//! First round trip of a transaction: takes locks, in the same order in all transactions, then
//! reads all other rows.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{
    id::Seq,
    reads::{Count, Counted, Found, ReadSet, Scan, Snapshot},
    row::{Row, RowKey, RowKind, Workspace},
    time::Timestamp,
    turn::Claim,
};

use super::{
    Settings,
    call::{self, Call, Param, decode, key_params},
    connection::{Connection, first_error, only, only_int},
    error::Trouble,
    latch, scans, sql,
};
use crate::{StoreError, catalogs::Catalogs};

/// Whether rows are locked before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// Locks rows, for a transaction that may write.
    Lock,
    /// Reads rows without locks.
    Look,
}

/// Statements of a round trip, each with the meaning of its answer.
#[derive(Debug)]
pub(super) struct Reading {
    calls: Vec<Call>,
    parts: Vec<Part>,
    touch: Touch,
}

/// Meaning of a statement's answer.
#[derive(Debug)]
pub(super) enum Part {
    /// The statement returns no rows.
    Effect,
    /// Rows by key. If a key is not in the answer, its row does not exist.
    Keys { kind: RowKind, keys: Vec<RowKey>, locked: bool },
    /// Rows of one scan.
    Scan { kind: RowKind, scan: Scan, limit: u32, locked: bool },
    /// Rows of several scans of one kind.
    Scans { kind: RowKind, scans: Vec<(Scan, u32)> },
    /// The numbers of rows that counts found.
    Counts(Vec<(Count, u32)>),
    /// Order of the runs in queues. The runs were locked by an earlier statement.
    Lines(Vec<(Scan, u32)>),
    /// Epochs of these workspaces.
    Epochs(Vec<Workspace>),
    /// The time, and a block of sequence numbers.
    Stamp,
    /// The time.
    Clock,
}

/// What the store knows about the reads of a transaction, in addition to its snapshot.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Keys of rows that were read with a lock, also of rows that do not exist.
    pub(super) locked: BTreeSet<RowKey>,
    /// Keys of existing rows that were read by key.
    pub(super) there: BTreeSet<RowKey>,
    /// Workspaces whose definitions are not cached for the epoch that was read, with that epoch.
    pub(super) stale: Vec<(Workspace, i64)>,
}

impl Reading {
    /// Builds the statements for all of `reads`.
    ///
    /// For each table, one statement locks rows in key order. Rows that are protected by the lock
    /// of another row are read by a later statement than the one that locks it (spec R15). The
    /// clock is read last (spec R8).
    pub(super) fn new(reads: &ReadSet, touch: Touch) -> Result<Self, StoreError> {
        let mut reading = Self { calls: Vec::new(), parts: Vec::new(), touch };
        let mut keys: BTreeMap<RowKind, Vec<RowKey>> = BTreeMap::new();
        for key in &reads.rows {
            keys.entry(key.kind()).or_default().push(key.clone());
        }
        let line = |scan: &Scan| touch == Touch::Lock && scans::line(scan, 0).is_some();
        let mut scans: BTreeMap<&Scan, &u32> =
            reads.scans.iter().filter(|(scan, _)| !line(scan)).collect();
        let mut replies = Vec::new();
        if touch == Touch::Lock {
            replies = keys.remove(&RowKind::Reply).unwrap_or_default();
            reading.lock(reads, &mut keys, &mut scans)?;
        }
        for (kind, keys) in keys {
            let call = Call::new(sql::of(kind).read, key_params(&keys)?);
            reading.push(call, Part::Keys { kind, keys, locked: false });
        }
        for (call, part) in scans::calls(scans, touch)? {
            reading.push(call, part);
        }
        for (call, part) in scans::counts(reads)? {
            reading.push(call, part);
        }
        // The reply to a request is read after the rows that are committed together with it. If a
        // retried request saw the effects of its first attempt, but not the reply, it would be
        // refused because of its own first attempt.
        if let Some(statement) = sql::of(RowKind::Reply).lock.filter(|_| !replies.is_empty()) {
            let call = Call::new(statement, key_params(&replies)?);
            let part = Part::Keys { kind: RowKind::Reply, keys: replies, locked: true };
            reading.push(call, part);
        }
        if !reads.catalogs.is_empty() {
            let names = reads.catalogs.iter().map(ToString::to_string);
            let call = Call::new(sql::of(RowKind::Epoch).read, vec![Param::texts(names)]);
            reading.push(call, Part::Epochs(reads.catalogs.iter().cloned().collect()));
        }
        match touch {
            Touch::Lock => reading.push(Call::new(sql::own().tx_stamp, Vec::new()), Part::Stamp),
            Touch::Look => reading.push(Call::new(sql::own().clock_read, Vec::new()), Part::Clock),
        }
        Ok(reading)
    }

    /// Adds the statements that lock rows, table by table. Removes the handled entries from `keys`
    /// and `scans`.
    fn lock(
        &mut self,
        reads: &ReadSet,
        keys: &mut BTreeMap<RowKind, Vec<RowKey>>,
        scans: &mut BTreeMap<&Scan, &u32>,
    ) -> Result<(), StoreError> {
        // Replies are locked after all other tables (spec R15).
        let locked = RowKind::ALL.into_iter().filter(|kind| kind.is_locked());
        for kind in locked.filter(|kind| *kind != RowKind::Reply) {
            let keys = keys.remove(&kind).unwrap_or_default();
            match sql::of(kind).lock {
                Some(_) if keys.is_empty() => {}
                Some(statement) => {
                    let call = Call::new(statement, key_params(&keys)?);
                    self.push(call, Part::Keys { kind, keys, locked: true });
                }
                None => self.lock_runs(reads, keys),
            }
            // These scans skip locked rows and never wait, so they need not follow the lock order
            // within their table.
            let here = |scan: &Scan| {
                (kind == RowKind::Run && matches!(scan, Scan::Ready(_)))
                    || (kind == RowKind::Subscription && matches!(scan, Scan::Work(..)))
            };
            let skipping: Vec<_> =
                scans.iter().filter(|(scan, _)| here(scan)).map(|(&a, &b)| (a, b)).collect();
            scans.retain(|scan, _| !here(scan));
            for (call, part) in scans::calls(skipping, Touch::Lock)? {
                self.push(call, part);
            }
        }
        Ok(())
    }

    /// Adds the statement that locks runs by number and the first runs of queues, in one order.
    fn lock_runs(&mut self, reads: &ReadSet, keys: Vec<RowKey>) {
        let lines: Vec<(&Scan, scans::Line<'_>)> = reads
            .scans
            .iter()
            .filter_map(|(scan, limit)| Some((scan, scans::line(scan, *limit)?)))
            .collect();
        if keys.is_empty() && lines.is_empty() {
            return;
        }
        let numbers = keys.iter().filter_map(|key| {
            let RowKey::Run(seq) = key else { return None };
            Some(seq.0)
        });
        let of_lines = scans::line_params(lines.iter().map(|(_, line)| *line));
        let mut params = vec![Param::ints(numbers)];
        params.extend(of_lines.iter().cloned());
        let part = Part::Keys { kind: RowKind::Run, keys, locked: true };
        self.push(Call::new(sql::own().run_lock, params), part);
        if !lines.is_empty() {
            let scans = lines.iter().map(|(scan, (.., limit))| ((*scan).clone(), *limit)).collect();
            self.push(Call::new(sql::own().run_queue_order, of_lines), Part::Lines(scans));
        }
    }

    fn push(&mut self, call: Call, part: Part) {
        self.calls.push(call);
        self.parts.push(part);
    }

    /// Adds, at the front, the statements that begin the transaction and take its latches.
    pub(super) fn begin(&mut self, settings: &Settings, reads: &ReadSet) {
        let begin = match self.touch {
            Touch::Lock => sql::BEGIN,
            Touch::Look => sql::BEGIN_READ,
        };
        self.begin_by(begin, settings, reads);
    }

    /// Like [`Reading::begin`], but rolls back to the savepoint in the transaction of a step
    /// instead of beginning a transaction.
    pub(super) fn begin_in_step(&mut self, settings: &Settings, reads: &ReadSet) {
        self.begin_by(sql::BACK_TO_SAVEPOINT, settings, reads);
    }

    fn begin_by(&mut self, begin: &'static str, settings: &Settings, reads: &ReadSet) {
        let mut first = vec![Call::new(begin, Vec::new())];
        first.extend(settings.for_transaction());
        if self.touch == Touch::Lock {
            first.extend(latch::lock(&settings.options.schema, &reads.latches));
        }
        self.parts.splice(0..0, first.iter().map(|_| Part::Effect));
        self.calls.splice(0..0, first);
    }

    /// Adds COMMIT, so that the transaction ends in the same flight.
    pub(super) fn end(&mut self) {
        self.push(Call::new(sql::COMMIT, Vec::new()), Part::Effect);
    }

    /// Adds, at the front, a ROLLBACK of the previous transaction, which is still open.
    pub(super) fn leave_last(&mut self) {
        self.parts.insert(0, Part::Effect);
        self.calls.insert(0, Call::new(sql::ROLLBACK, Vec::new()));
    }

    /// Sends all statements in one flight and stores the answers in the snapshot.
    pub(super) async fn run(
        self,
        connection: &Connection,
        catalogs: &Catalogs,
        snapshot: &mut Snapshot,
        held: &mut Held,
    ) -> Result<(), Trouble> {
        let answers = first_error(connection.run(&self.calls).await?)?;
        for (part, rows) in self.parts.into_iter().zip(answers) {
            file(part, &rows, catalogs, snapshot, held)?;
        }
        Ok(())
    }
}

fn file(
    part: Part,
    rows: &[tokio_postgres::Row],
    catalogs: &Catalogs,
    snapshot: &mut Snapshot,
    held: &mut Held,
) -> Result<(), Trouble> {
    match part {
        Part::Effect => {}
        Part::Keys { kind, keys, locked } => {
            for key in keys {
                note(snapshot, held, locked, key, None);
            }
            for row in rows {
                let row = decode(kind, row, 0)?;
                held.there.insert(row.key());
                note(snapshot, held, locked, row.key(), Some(row));
            }
        }
        Part::Scan { kind, scan, limit, locked } => {
            let rows =
                rows.iter().map(|row| decode(kind, row, 0)).collect::<Result<Vec<_>, _>>()?;
            let keys = if let Scan::Ready(claim) = &scan {
                shares(claim, &rows, limit)
            } else {
                rows.iter().map(Row::key).collect()
            };
            for row in rows {
                note_found(snapshot, held, locked, &scan, row);
            }
            snapshot.scans.insert(scan, Found { limit, keys });
        }
        Part::Scans { kind, scans } => {
            let mut results = empty(&scans);
            for row in rows {
                let place = place(row, results.len())?;
                let row = decode(kind, row, 1)?;
                results[place].keys.push(row.key());
                note_found(snapshot, held, false, &scans[place].0, row);
            }
            snapshot.scans.extend(scans.into_iter().map(|(scan, _)| scan).zip(results));
        }
        Part::Counts(counts) => {
            for row in rows {
                let (what, limit) = counts[place(row, counts.len())?].clone();
                let count = u32::try_from(call::int(row, 1)?).unwrap_or(limit);
                snapshot.counts.insert(what, Counted { limit, count });
            }
        }
        Part::Lines(scans) => {
            let mut results = empty(&scans);
            for row in rows {
                let key = RowKey::Run(Seq(call::int(row, 1)?));
                if !matches!(snapshot.rows.get(&key), Some(Some(_)) if held.locked.contains(&key)) {
                    return Err(Trouble::Contended("a queue changed while it was read".into()));
                }
                results[place(row, scans.len())?].keys.push(key);
            }
            snapshot.scans.extend(scans.into_iter().map(|(scan, _)| scan).zip(results));
        }
        Part::Epochs(wanted) => held.stale.extend(stale(wanted, rows, catalogs, snapshot)?),
        Part::Stamp => {
            snapshot.now = Timestamp::from_micros(only_int(rows)?);
            snapshot.block = Seq(call::int(only(rows)?, 1)?);
        }
        Part::Clock => snapshot.now = Timestamp::from_micros(only_int(rows)?),
    }
    Ok(())
}

/// Selects from the locked ready runs those that are within the share of their workflow.
///
/// The statement may return more runs of a workflow than its share, because it cannot know in
/// advance which runs other transactions have locked. These runs are not leased, and stay locked
/// until this transaction ends. A lease that got fewer runs than its limit tries again.
fn shares(claim: &Claim, rows: &[Row], limit: u32) -> Vec<RowKey> {
    let runs = rows.iter().filter_map(Row::as_run);
    claim.take(runs, limit).into_iter().map(|run| RowKey::Run(run.id.seq)).collect()
}

/// Stores a row in the snapshot. A row that was read with a lock is not replaced by one that was
/// read without.
fn note(snapshot: &mut Snapshot, held: &mut Held, locked: bool, key: RowKey, row: Option<Row>) {
    if locked {
        held.locked.insert(key.clone());
    } else if held.locked.contains(&key) {
        return;
    }
    snapshot.rows.insert(key, row);
}

/// Stores a row that a scan found. If the table's rows are locked, but the scan does not lock, the
/// row is stored as a hint.
fn note_found(snapshot: &mut Snapshot, held: &mut Held, locked: bool, scan: &Scan, row: Row) {
    if row.key().is_locked() && !scan.is_locked() {
        snapshot.hints.insert(row.key(), row);
    } else {
        note(snapshot, held, locked, row.key(), Some(row));
    }
}

fn empty(scans: &[(Scan, u32)]) -> Vec<Found> {
    scans.iter().map(|(_, limit)| Found { limit: *limit, keys: Vec::new() }).collect()
}

/// Returns the index of the scan that has found a row. The answer counts scans from 1.
fn place(row: &tokio_postgres::Row, scans: usize) -> Result<usize, StoreError> {
    let place = usize::try_from(call::int(row, 0)?).ok().and_then(|place| place.checked_sub(1));
    place
        .filter(|place| *place < scans)
        .ok_or_else(|| StoreError::Corrupt("a row of no scan".into()))
}

/// Puts cached catalogs into the snapshot. Returns the workspaces whose catalog is not cached for
/// the current epoch (spec R18).
fn stale(
    wanted: Vec<Workspace>,
    rows: &[tokio_postgres::Row],
    catalogs: &Catalogs,
    snapshot: &mut Snapshot,
) -> Result<Vec<(Workspace, i64)>, StoreError> {
    let mut epochs = BTreeMap::new();
    for row in rows {
        epochs.insert(call::text(row, 0)?, call::int(row, 1)?);
    }
    let mut stale = Vec::new();
    for ws in wanted {
        let epoch = epochs.get(&*ws).copied().unwrap_or_default();
        match catalogs.get(&ws, epoch) {
            Some(catalog) => {
                snapshot.catalogs.insert(ws, catalog);
            }
            None => stale.push((ws, epoch)),
        }
    }
    Ok(stale)
}

/// Reads the definitions of workspaces whose epoch has changed, and caches them.
pub(super) async fn load_catalogs(
    connection: &Connection,
    catalogs: &Catalogs,
    stale: Vec<(Workspace, i64)>,
    snapshot: &mut Snapshot,
) -> Result<(), Trouble> {
    if stale.is_empty() {
        return Ok(());
    }
    let statement = sql::shared().def_of_workspace;
    let call = |ws: &Workspace| Call::new(statement, vec![Param::Text(ws.to_string())]);
    let calls: Vec<Call> = stale.iter().map(|(ws, _)| call(ws)).collect();
    let answers = first_error(connection.run(&calls).await?)?;
    for ((ws, epoch), rows) in stale.into_iter().zip(answers) {
        let mut defs = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Row::Def(def) = decode(RowKind::Def, row, 0)? {
                defs.push(def);
            }
        }
        let catalog = catalogs.put(&ws, epoch, defs).map_err(StoreError::from)?;
        snapshot.catalogs.insert(ws, catalog);
    }
    Ok(())
}
