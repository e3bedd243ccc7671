//! Statements of scans and counts.

use std::collections::BTreeMap;

use tidegate_core::{
    id::Seq,
    reads::{Count, ReadSet, Scan},
    row::{EngineId, GateKey},
    time::Timestamp,
    turn::{Claim, Range},
};

use super::{
    call::{Call, Param, transpose},
    reading::{Part, Touch},
    sql,
};
use crate::{
    StoreError,
    codec::{Cell, PAUSED, Table, WAITING, engine_text, prefix_end},
};

/// Form of a scan's statement.
enum Shape {
    /// One statement for all scans of this kind: one row of the array parameters for each.
    Many(&'static str, Table, Vec<Cell>),
    /// A statement of its own.
    Alone(&'static str, Table, Vec<Param>),
}

/// Scans that share one statement.
struct Kind {
    table: Table,
    scans: Vec<(Scan, u32)>,
    cells: Vec<Vec<Cell>>,
}

impl Kind {
    fn new(table: Table) -> Self {
        Self { table, scans: Vec::new(), cells: Vec::new() }
    }
}

/// Returns the statements of scans. Locking scans of queues are left out: queues are locked with
/// the runs.
pub(super) fn calls<'a>(
    scans: impl IntoIterator<Item = (&'a Scan, &'a u32)>,
    touch: Touch,
) -> Result<Vec<(Call, Part)>, StoreError> {
    let mut many: BTreeMap<&str, Kind> = BTreeMap::new();
    let mut asked = Vec::new();
    for (scan, &limit) in scans {
        match shape(scan, touch) {
            Shape::Many(statement, table, mut cells) => {
                cells.push(Cell::Int(Some(limit.into())));
                let kind = many.entry(statement).or_insert_with(|| Kind::new(table));
                kind.scans.push((scan.clone(), limit));
                kind.cells.push(cells);
            }
            Shape::Alone(statement, table, mut params) => {
                params.push(Param::Int(limit.into()));
                let locked = touch == Touch::Lock && scan.is_locked();
                let part = Part::Scan { table, scan: scan.clone(), limit, locked };
                asked.push((Call::new(statement, params), part));
            }
        }
    }
    for (statement, Kind { table, scans, cells }) in many {
        asked.push((Call::new(statement, transpose(cells)?), Part::Scans { table, scans }));
    }
    Ok(asked)
}

fn shape(scan: &Scan, touch: Touch) -> Shape {
    let lanes = |lanes: &[Seq]| vec![Param::ints(lanes.iter().map(|lane| lane.0))];
    match (scan, touch) {
        (Scan::Queue(gate), _) => Shape::Many(sql::RUN_QUEUE, Table::Run, vec![gate_cell(gate)]),
        (Scan::Ready(claim), _) => {
            let statement = if touch == Touch::Lock { sql::RUN_READY_LOCK } else { sql::RUN_READY };
            Shape::Alone(statement, Table::Run, claim_params(claim))
        }
        (Scan::Work(ws, reaction), _) => {
            let statement = if touch == Touch::Lock { sql::SUB_WORK_LOCK } else { sql::SUB_WORK };
            let params = vec![Param::Text(ws.to_string()), Param::Text(reaction.clone())];
            Shape::Alone(statement, Table::Subscription, params)
        }
        (Scan::DueGates(from), _) => Shape::Alone(sql::GATE_DUE, Table::Gate, since(*from)),
        (Scan::DueRuns(from), _) => Shape::Alone(sql::RUN_DUE, Table::Run, since(*from)),
        (Scan::Live(of, below), _) => {
            let params = [lanes(of), vec![Param::Int(below.0)]].concat();
            Shape::Alone(sql::RUN_NEWEST, Table::Run, params)
        }
        (Scan::Ended(of, states, below), _) => {
            let states = states.iter().map(|state| (*state).to_owned());
            let params = [lanes(of), vec![Param::texts(states), Param::Int(below.0)]].concat();
            Shape::Alone(sql::ENDED_NEWEST, Table::Ended, params)
        }
        (Scan::DueChores(from), _) => Shape::Alone(sql::CHORE_DUE, Table::Chore, since(*from)),
        (Scan::Engines, _) => Shape::Alone(sql::ENGINE_WATCHED, Table::Engine, Vec::new()),
        (Scan::Schedules, _) => Shape::Alone(sql::SCHEDULE_NEXT, Table::Schedule, Vec::new()),
        (Scan::EventsAfter(after), _) => {
            Shape::Alone(sql::EVENT_AFTER, Table::Event, ints([*after]))
        }
        (Scan::EndedAfter(after), _) => {
            Shape::Alone(sql::ENDED_AFTER, Table::Ended, ints([*after]))
        }
        (Scan::RepliesAfter(after), _) => {
            Shape::Alone(sql::REPLY_AFTER, Table::Reply, ints([*after]))
        }
        (Scan::ApiKeys, _) => Shape::Alone(sql::API_KEY_ALL, Table::ApiKey, Vec::new()),
        (Scan::ReceiptsAfter(after), _) => {
            Shape::Alone(sql::RECEIPT_AFTER, Table::Receipt, ints([*after]))
        }
        (Scan::LooseEvents(after, until), _) => {
            Shape::Alone(sql::EVENT_LOOSE, Table::Event, ints([*after, *until]))
        }
        (Scan::LooseEnded(after, until), _) => {
            Shape::Alone(sql::ENDED_LOOSE, Table::Ended, ints([*after, *until]))
        }
        (Scan::Buriable, _) => Shape::Alone(sql::ENGINE_BURIABLE, Table::Engine, Vec::new()),
        (other, _) => hint(other),
    }
}

/// Returns the statement of a scan that locks nothing and can be batched.
#[expect(clippy::too_many_lines, reason = "one line or two for every scan there is")]
fn hint(scan: &Scan) -> Shape {
    let (statement, table, cells) = match scan {
        Scan::Owned(engine) => (sql::RUN_OWNED, Table::Run, vec![engine_cell(*engine)]),
        Scan::Lane(lane, after) => (sql::RUN_LANE, Table::Run, vec![int(lane.0), int(after.0)]),
        Scan::Steps(run) => (sql::STEP_OF_RUN, Table::Step, vec![int(run.0)]),
        Scan::Items(run) => (sql::ITEM_OF_RUN, Table::Item, vec![int(run.0)]),
        Scan::WaitPaths(ws, name) => {
            (sql::WAIT_PATH_OF_NAME, Table::WaitPath, vec![text(ws), text(name)])
        }
        Scan::Chores(ws, topic) => (sql::CHORE_OF_TOPIC, Table::Chore, vec![text(ws), text(topic)]),
        Scan::Waits(ws, name, path, value, run, step) => {
            let filed = [text(ws), text(name), text(path), bytes(value)];
            let cells = filed.into_iter().chain([int(run.0), text(step)]).collect();
            (sql::WAIT_OF_VALUE, Table::Wait, cells)
        }
        Scan::Inbox(run, name) => (sql::SIGNAL_INBOX, Table::Signal, vec![int(run.0), text(name)]),
        Scan::Receipts(event) => (sql::RECEIPT_OF_EVENT, Table::Receipt, vec![int(event.0)]),
        Scan::Window(run) => (sql::GATE_OF_RUN, Table::Gate, vec![int(run.0)]),
        Scan::Gates(prefix) => {
            (sql::GATE_PREFIX, Table::Gate, vec![bytes(prefix), bytes(&prefix_end(prefix))])
        }
        Scan::Log(stream, from) => {
            (sql::LOG_OF_STREAM, Table::Log, vec![int(stream.0), int(*from)])
        }
        Scan::Feed(ws, after) => (sql::LOG_FEED, Table::Log, vec![text(ws), int(*after)]),
        Scan::SchedulesOf(ws, app, workflow) => {
            let cells = vec![text(ws), text(app), text(workflow)];
            (sql::SCHEDULE_OF_WORKFLOW, Table::Schedule, cells)
        }
        Scan::Chunks(run, after) => {
            (sql::CHUNK_OF_RUN, Table::Chunk, vec![int(run.0), int((*after).into())])
        }
        Scan::Signals(run) => (sql::SIGNAL_OF_RUN, Table::Signal, vec![int(run.0)]),
        Scan::Subs(ws, reaction, stream) => (
            sql::SUB_OF_WORKSPACE,
            Table::Subscription,
            vec![text(ws), text(reaction), text(stream)],
        ),
        Scan::Streams(ws, after) => {
            (sql::STREAM_OF_WORKSPACE, Table::Stream, vec![text(ws), text(after)])
        }
        Scan::FeedBack(ws, before) => {
            (sql::LOG_FEED_BACK, Table::Log, vec![text(ws), int(*before)])
        }
        Scan::StreamOf(id) => (sql::STREAM_OF_NUMBER, Table::Stream, vec![int(id.0)]),
        Scan::Snapshots(id) => (sql::SNAPSHOT_OF_STREAM, Table::Snapshot, vec![int(id.0)]),
        Scan::EventsBelow(ws, below) => {
            (sql::EVENT_NEWEST, Table::Event, vec![text(ws), int(below.0)])
        }
        Scan::ReceiptsBelow(ws, below) => {
            (sql::RECEIPT_NEWEST, Table::Receipt, vec![text(ws), int(below.0)])
        }
        Scan::GatesBetween(from, to) => {
            (sql::GATE_PREFIX, Table::Gate, vec![bytes(from), bytes(to)])
        }
        Scan::RunsOf(event) => (sql::RUN_OF_EVENT, Table::Run, vec![int(event.0)]),
        Scan::EndedOf(event) => (sql::ENDED_OF_EVENT, Table::Ended, vec![int(event.0)]),
        Scan::ItemsOf(event) => (sql::ITEM_OF_EVENT, Table::Item, vec![int(event.0)]),
        Scan::Queue(_)
        | Scan::Ready(_)
        | Scan::Work(..)
        | Scan::DueGates(_)
        | Scan::DueRuns(_)
        | Scan::Live(..)
        | Scan::Ended(..)
        | Scan::DueChores(_)
        | Scan::Engines
        | Scan::Buriable
        | Scan::EventsAfter(_)
        | Scan::EndedAfter(_)
        | Scan::LooseEvents(..)
        | Scan::LooseEnded(..)
        | Scan::ReceiptsAfter(_)
        | Scan::RepliesAfter(_)
        | Scan::ApiKeys
        | Scan::Schedules => unreachable!("`shape` has dealt with it"),
    };
    Shape::Many(statement, table, cells)
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
        let (statement, mut cells) = match count {
            Count::Live(lane) => (sql::RUN_COUNT, vec![int(lane.0)]),
            Count::Driven(lane) => (sql::RUN_DRIVEN_COUNT, vec![int(lane.0)]),
            Count::Waiting(lane) => (sql::RUN_PARKED_COUNT, vec![int(lane.0), text(WAITING)]),
            Count::Paused(lane) => (sql::RUN_PARKED_COUNT, vec![int(lane.0), text(PAUSED)]),
            Count::Ready(ws, turn) => {
                let of = vec![text(ws), int(turn.workflow.0), int(turn.lane.0)];
                (sql::RUN_READY_COUNT, of)
            }
            Count::Queue(gate) => (sql::RUN_QUEUE_COUNT, vec![gate_cell(gate)]),
        };
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

/// Returns a workspace and the bounds of the ranges, as four arrays.
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

/// Returns gates and the limit of each queue, as two arrays.
pub(super) fn line_params<'a>(lines: impl IntoIterator<Item = (&'a GateKey, u32)>) -> Vec<Param> {
    let (keys, most): (Vec<_>, Vec<_>) =
        lines.into_iter().map(|(key, most)| (key.as_bytes().to_vec(), i64::from(most))).unzip();
    vec![Param::blobs(keys), Param::ints(most)]
}

fn gate_cell(key: &GateKey) -> Cell {
    bytes(key.as_bytes())
}

fn ints<const N: usize>(numbers: [Seq; N]) -> Vec<Param> {
    numbers.into_iter().map(|number| Param::Int(number.0)).collect()
}

fn since(from: Timestamp) -> Vec<Param> {
    vec![Param::Int(from.micros())]
}

fn engine_cell(engine: EngineId) -> Cell {
    text(&engine_text(engine))
}

fn int(value: i64) -> Cell {
    Cell::Int(Some(value))
}

fn text(value: &str) -> Cell {
    Cell::Text(Some(value.to_owned()))
}

fn bytes(value: &[u8]) -> Cell {
    Cell::Bytes(Some(value.to_vec()))
}
