//! Statements and parameters of scans and counts.

use std::collections::BTreeMap;

use tidegate_core::{
    id::Seq,
    reads::{Count, ReadSet, Scan},
    row::{GateKey, RowKind},
    turn::{Claim, Range},
};

use super::{
    call::{Call, Param, transpose},
    reading::{Part, Touch},
    sql,
};
use crate::{
    StoreError,
    codec::Cell,
    scans::{self, Plain, Request, bytes, int},
};

/// Form of a scan's statement.
enum Shape {
    /// One statement for all scans of this kind; each scan is one element of its array parameters.
    Many(&'static str, RowKind, Vec<Cell>),
    /// One statement for this scan alone.
    Alone(&'static str, RowKind, Vec<Param>),
}

/// Scans that share one statement.
struct Batch {
    kind: RowKind,
    scans: Vec<(Scan, u32)>,
    cells: Vec<Vec<Cell>>,
}

impl Batch {
    fn new(kind: RowKind) -> Self {
        Self { kind, scans: Vec::new(), cells: Vec::new() }
    }
}

/// Returns the statements of scans. Locking scans of queues are left out, because `run_lock` locks
/// queues together with other runs.
pub(super) fn calls<'a>(
    scans: impl IntoIterator<Item = (&'a Scan, &'a u32)>,
    touch: Touch,
) -> Result<Vec<(Call, Part)>, StoreError> {
    let mut batches: BTreeMap<&str, Batch> = BTreeMap::new();
    let mut flight = Vec::new();
    for (scan, &limit) in scans {
        match shape(scan, touch)? {
            Shape::Many(statement, kind, mut cells) => {
                cells.push(int(limit.into()));
                let batch = batches.entry(statement).or_insert_with(|| Batch::new(kind));
                batch.scans.push((scan.clone(), limit));
                batch.cells.push(cells);
            }
            Shape::Alone(statement, kind, mut params) => {
                params.push(Param::Int(limit.into()));
                let locked = touch == Touch::Lock && scan.is_locked();
                let part = Part::Scan { kind, scan: scan.clone(), limit, locked };
                flight.push((Call::new(statement, params), part));
            }
        }
    }
    for (statement, Batch { kind, scans, cells }) in batches {
        flight.push((Call::new(statement, transpose(cells)?), Part::Scans { kind, scans }));
    }
    Ok(flight)
}

fn shape(scan: &Scan, touch: Touch) -> Result<Shape, StoreError> {
    let lanes = |lanes: &[Seq]| Param::ints(lanes.iter().map(|lane| lane.0));
    let (shared, own) = (sql::shared(), sql::own());
    Ok(match scans::request(shared, scan) {
        Request::Plain(Plain { statement, kind, cells, batched: true }) => {
            Shape::Many(statement, kind, cells)
        }
        Request::Plain(Plain { statement, kind, cells, batched: false }) => {
            let params = cells.into_iter().map(Param::single).collect::<Result<_, _>>()?;
            Shape::Alone(statement, kind, params)
        }
        Request::Queue(gate) => {
            Shape::Many(shared.run_queue, RowKind::Run, vec![bytes(gate.as_bytes())])
        }
        Request::Ready(claim) => {
            let lock = touch == Touch::Lock;
            let statement = if lock { own.run_ready_lock } else { shared.run_ready };
            Shape::Alone(statement, RowKind::Run, claim_params(claim))
        }
        Request::Live(of, below) => {
            Shape::Alone(shared.run_newest, RowKind::Run, vec![lanes(of), Param::Int(below.0)])
        }
        Request::Ended(of, states, below) => {
            let states = Param::texts(states.iter().map(|state| (*state).to_owned()));
            let params = vec![lanes(of), states, Param::Int(below.0)];
            Shape::Alone(shared.ended_newest, RowKind::Ended, params)
        }
        Request::Work(ws, reaction) => {
            let lock = touch == Touch::Lock;
            let statement = if lock { own.sub_work_lock } else { shared.sub_work };
            let params = vec![Param::Text(ws.to_string()), Param::Text(reaction.to_owned())];
            Shape::Alone(statement, RowKind::Subscription, params)
        }
    })
}

/// Counts that share one statement.
#[derive(Default)]
struct Counts {
    counts: Vec<(Count, u32)>,
    cells: Vec<Vec<Cell>>,
}

/// Returns the statements of counts.
pub(super) fn counts(reads: &ReadSet) -> Result<Vec<(Call, Part)>, StoreError> {
    let mut kinds: BTreeMap<&str, Counts> = BTreeMap::new();
    for (count, &limit) in &reads.counts {
        let (statement, mut cells) = scans::count(sql::shared(), count);
        cells.push(int(limit.into()));
        let kind = kinds.entry(statement).or_default();
        kind.counts.push((count.clone(), limit));
        kind.cells.push(cells);
    }
    let call = |(statement, Counts { counts, cells })| {
        Ok((Call::new(statement, transpose(cells)?), Part::Counts(counts)))
    };
    kinds.into_iter().map(call).collect()
}

/// Returns the workspace of a claim, and the bounds of its ranges as four arrays.
fn claim_params(claim: &Claim) -> Vec<Param> {
    let ends = |end: fn(&Range) -> Seq| Param::ints(claim.turns.iter().map(|it| end(it).0));
    vec![
        Param::Text(claim.ws.to_string()),
        ends(|(from, _)| from.workflow),
        ends(|(from, _)| from.lane),
        ends(|(_, to)| to.workflow),
        ends(|(_, to)| to.lane),
    ]
}

/// Part of a queue: the gate, the first and the last tier, and the limit.
pub(super) type Line<'a> = (&'a GateKey, i64, i64, u32);

/// Returns the part of a queue that a locking scan reads; none for any other scan.
pub(super) fn line(scan: &Scan, limit: u32) -> Option<Line<'_>> {
    if let Scan::Queue(gate) = scan {
        return Some((gate, i64::MIN, i64::MAX, limit));
    }
    if let Scan::QueueTier(gate, tier) = scan { Some((gate, *tier, *tier, limit)) } else { None }
}

/// Returns the parts of queues as four arrays.
pub(super) fn line_params<'a>(lines: impl Iterator<Item = Line<'a>> + Clone) -> Vec<Param> {
    let keys: Vec<_> = lines.clone().map(|(key, ..)| key.as_bytes().to_vec()).collect();
    let low = Param::ints(lines.clone().map(|(_, low, ..)| low));
    let high = Param::ints(lines.clone().map(|(_, _, high, _)| high));
    vec![Param::blobs(keys), low, high, Param::ints(lines.map(|(.., most)| i64::from(most)))]
}
