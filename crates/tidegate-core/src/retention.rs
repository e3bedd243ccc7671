//! Retention: deletes ended and expired rows, in small chunks, oldest first.
//!
//! Numbers grow with time, so old rows have the lowest numbers. A pass goes through a table by
//! number, chunk by chunk, and ends at a chunk without old rows. Referenced rows are not deleted.
//! An event is referenced by its runs, live or ended, by its batch and by its window. An ended run
//! is referenced by the runs that compensate it, handle its failure or replay it. A new reference
//! to an old event can only come from a replay, and the replayed run references the event already,
//! or from the delivery of a deferred event, which is not old before it.

use crate::{
    command::Refusal,
    draft::{Decided, Draft},
    id::Seq,
    reads::{Latch, Mode, ReadSet, Scan},
    row::{DeliveryEnd, Epoch, Row, RowKey},
    time::Timestamp,
};

/// Number of deleted rows after which a chunk ends: far below the limit of a transaction.
const ENOUGH: u32 = 1000;

/// Number of steps, output chunks, signals and items of a run that are read at a time, each.
const CHILDREN: u32 = 64;

/// `doctor` reports no false finding if clocks differ, or step back, by at most this time.
pub const CLOCK_GRACE_MS: u64 = 60_000;

/// Kind of rows that retention deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Runs that have ended, with all rows that belong to them.
    Runs,
    /// Events and other inputs.
    Events,
    /// Receipts.
    Receipts,
    /// Stored answers of requests with idempotency keys.
    Replies,
    /// Rows of the audit log.
    Audit,
}

impl Past {
    /// Returns the scan for rows with a number above `after`, oldest first.
    pub fn scan(self, after: Seq) -> Scan {
        match self {
            Self::Runs => Scan::EndedAfter(after),
            Self::Events => Scan::EventsAfter(after),
            Self::Receipts => Scan::ReceiptsAfter(after),
            Self::Replies => Scan::RepliesAfter(after),
            Self::Audit => Scan::AuditAfter(after),
        }
    }
}

/// Returns the number of a row. It is the cursor of a pass.
pub fn number(row: &Row) -> Option<Seq> {
    Old::of(row).map(|old| old.seq)
}

/// Result of one chunk of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The number of deleted rows.
    pub rows: u32,
    /// The cursor of the next chunk; none if the pass has ended.
    pub next: Option<Seq>,
}

/// Returns the reads of the command other than rows.
pub fn reads() -> ReadSet {
    ReadSet::default().latch(latch(), Mode::Exclusive)
}

/// Returns the key of the row that stores the time, in microseconds, before which ended runs may
/// have been deleted, under the current or any earlier setting. It belongs to no workspace.
fn horizon_key() -> RowKey {
    RowKey::Epoch("".into())
}

/// Returns the time before which ended runs may have been deleted, if this is the row that stores
/// it.
fn deleted_until(row: &Row) -> Option<Timestamp> {
    let Row::Epoch(epoch) = row else { return None };
    epoch.ws.is_empty().then(|| Timestamp::from_micros(epoch.n))
}

/// Returns the time before which a receipt may name a deleted run, if this is the row that stores
/// it.
///
/// It is later than the time before which runs were deleted: if the clock steps back while a run is
/// live, the run's end seems earlier than the receipt that names it.
pub fn horizon(row: &Row) -> Option<Timestamp> {
    deleted_until(row).map(|until| until.plus_ms(CLOCK_GRACE_MS))
}

/// Stores that runs which ended before a time may have been deleted. The caller holds the latch.
fn remember(draft: &mut Draft, before: Timestamp) -> Decided<()> {
    let known = draft.row(&horizon_key())?.and_then(deleted_until);
    if known.is_none_or(|known| known < before) {
        draft.put(Epoch { ws: "".into(), n: before.micros() });
    }
    Ok(())
}

/// Returns the latch for ended runs: shared for decisions that add references to them, exclusive to
/// delete them.
pub fn latch() -> Latch {
    // It cannot be the latch of an event's name, because no workspace has an empty name.
    Latch::Topic("".into(), "past".to_owned())
}

/// Deletes rows that ended before a time, among the first `most` rows after the number `after`.
pub fn forget(
    draft: &mut Draft,
    past: Past,
    before: Timestamp,
    after: Seq,
    most: u32,
) -> Decided<Forgotten> {
    let most = most.max(1);
    let scan = past.scan(after);
    let found: Vec<Old> = draft.found(&scan, most)?.into_iter().filter_map(Old::of).collect();
    let any_old = found.iter().any(|old| old.begun < before);
    let Some(last) = found.last().filter(|_| any_old).map(|old| old.seq) else {
        return Ok(Forgotten { rows: 0, next: None });
    };
    let loose: Vec<RowKey> = match past {
        Past::Runs => keys(draft.found(&Scan::LooseEnded(after, last), most)?),
        Past::Events => keys(draft.found(&Scan::LooseEvents(after, last), most)?),
        Past::Receipts | Past::Audit => found.iter().map(|old| old.key.clone()).collect(),
        // The scan gives only hints: a newer request may have used the key again. So the row is
        // read again under lock.
        Past::Replies => {
            let still = |old: &Old| -> Decided<bool> {
                let row = draft.row(&old.key)?.and_then(Old::of);
                Ok(row.is_some_and(|row| row.over < before))
            };
            let mut loose = Vec::new();
            for old in found.iter().filter(|old| old.over < before) {
                if still(old)? {
                    loose.push(old.key.clone());
                }
            }
            loose
        }
    };
    if past == Past::Runs {
        remember(draft, before)?;
    }
    let mut rows = 0;
    let is_old = |old: &&Old| old.over < before;
    let is_loose = |old: &&Old| loose.contains(&old.key);
    for old in found.iter().filter(is_old).filter(is_loose) {
        let (gone, whole) = delete(draft, &old.key)?;
        rows += u32::try_from(gone).unwrap_or(u32::MAX);
        if !whole || rows >= ENOUGH {
            // The next chunk repeats this row if it was not deleted completely, or continues after
            // it.
            let next = if whole { old.seq } else { Seq(old.seq.0.saturating_sub(1)) };
            return Ok(Forgotten { rows, next: Some(next) });
        }
    }
    Ok(Forgotten { rows, next: (found.len() >= most as usize).then_some(last) })
}

fn keys(rows: Vec<&Row>) -> Vec<RowKey> {
    rows.into_iter().map(Row::key).collect()
}

/// Row that retention may delete.
struct Old {
    key: RowKey,
    seq: Seq,
    begun: Timestamp,
    over: Timestamp,
}

impl Old {
    fn of(row: &Row) -> Option<Self> {
        let (seq, begun, over) = if let Row::Ended(it) = row {
            // The run of a deferred request has the number of its input, and may be much younger.
            let is_deferred = it.id.seq == it.source.first().seq;
            let begun = if is_deferred { Timestamp::MIN } else { it.queued_at };
            (it.id.seq, begun, it.ended_at)
        } else if let Row::Event(it) = row {
            // An event that was not delivered yet is not over.
            let over = it.delivery.map(|it| it.end.map_or(Timestamp::MAX, DeliveryEnd::at));
            (it.id.seq, it.at, over.unwrap_or(it.at))
        } else if let Row::Receipt(it) = row {
            (it.seq, it.at, it.at)
        } else if let Row::Reply(it) = row {
            (it.seq, it.at, it.at)
        } else if let Row::Audit(it) = row {
            (it.seq, it.at, it.at)
        } else {
            return None;
        };
        Some(Self { key: row.key(), seq, begun, over })
    }
}

/// Deletes a row and the rows that belong to it. Returns the number of deleted rows, and whether
/// all were deleted.
fn delete(draft: &mut Draft, key: &RowKey) -> Decided<(usize, bool)> {
    let (rows, whole) =
        if let RowKey::Ended(run) = key { delete_children(draft, *run)? } else { (0, true) };
    if whole {
        draft.delete_known(key.clone());
    }
    Ok((rows + usize::from(whole), whole))
}

fn delete_children(draft: &mut Draft, run: Seq) -> Decided<(usize, bool)> {
    let kinds = [Scan::Steps(run), Scan::Chunks(run, 0), Scan::Signals(run), Scan::Items(run)];
    let mut keys: Vec<RowKey> = Vec::new();
    let mut whole = true;
    for scan in kinds {
        let found = draft.found::<Refusal>(&scan, CHILDREN)?;
        whole &= found.len() < CHILDREN as usize;
        keys.extend(found.into_iter().map(Row::key));
    }
    let rows = keys.len();
    for key in keys {
        draft.delete_known(key);
    }
    Ok((rows, whole))
}
