//! Statements and parameters of scans and counts: one list for both dialects.

use tidegate_core::{
    id::Seq,
    reads::{Count, Scan},
    row::{GateKey, RowKind, Workspace},
    turn::Claim,
};

use crate::{
    codec::{Cell, PAUSED, WAITING, engine_text, prefix_end},
    sql::SharedStatements,
};

/// Scan in the form in which a SQL store runs it.
#[derive(Debug)]
pub(crate) enum Request<'a> {
    /// Scan with the same parameters in both dialects.
    Plain(Plain),
    /// The first runs in a gate's queue.
    Queue(&'a GateKey),
    /// Ready runs by turns: the first run of each workflow, then the second of each, and so on.
    Ready(&'a Claim),
    /// The newest runs of lanes that have not ended, with numbers below the given one.
    Live(&'a [Seq], Seq),
    /// The newest runs of lanes that have ended in one of the states, with numbers below the given
    /// one.
    Ended(&'a [Seq], &'a [&'static str], Seq),
    /// A reaction's streams that have work.
    Work(&'a Workspace, &'a str),
}

/// Statement of a scan, and its parameters without the last one, the limit.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) statement: &'static str,
    /// Kind of the rows that the scan returns.
    pub(crate) kind: RowKind,
    pub(crate) cells: Vec<Cell>,
    /// Whether PostgreSQL's statement runs many scans at once; its parameters are then arrays.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL uses it"))]
    pub(crate) batched: bool,
}

/// Returns the form in which a SQL store runs a scan.
#[expect(clippy::too_many_lines, reason = "one or two lines for each kind of scan")]
pub(crate) fn request<'a>(sql: &SharedStatements, scan: &'a Scan) -> Request<'a> {
    use RowKind as Kind;
    let plain = match scan {
        Scan::Queue(gate) => return Request::Queue(gate),
        Scan::Ready(claim) => return Request::Ready(claim),
        Scan::Live(lanes, below) => return Request::Live(lanes, *below),
        Scan::Ended(lanes, states, below) => return Request::Ended(lanes, states, *below),
        Scan::Work(ws, reaction) => return Request::Work(ws, reaction),

        Scan::QueueTier(gate, tier) => {
            many(sql.run_queue_tier, Kind::Run, [bytes(gate.as_bytes()), int(*tier)])
        }
        Scan::QueueEnd(gate) => many(sql.run_queue_end, Kind::Run, [bytes(gate.as_bytes())]),
        Scan::DueGates(from) => one(sql.gate_due, Kind::Gate, [int(from.micros())]),
        Scan::DueRuns(from) => one(sql.run_due, Kind::Run, [int(from.micros())]),
        Scan::DueChores(from) => one(sql.chore_due, Kind::Chore, [int(from.micros())]),
        Scan::Engines => one(sql.engine_watched, Kind::Engine, []),
        Scan::Buriable => one(sql.engine_buriable, Kind::Engine, []),
        Scan::Schedules => one(sql.schedule_next, Kind::Schedule, []),
        Scan::ApiKeys => one(sql.api_key_all, Kind::ApiKey, []),
        Scan::EventsAfter(after) => one(sql.event_after, Kind::Event, [seq(*after)]),
        Scan::EndedAfter(after) => one(sql.ended_after, Kind::Ended, [seq(*after)]),
        Scan::ReceiptsAfter(after) => one(sql.receipt_after, Kind::Receipt, [seq(*after)]),
        Scan::AuditAfter(after) => one(sql.audit_after, Kind::Audit, [seq(*after)]),
        Scan::RepliesAfter(after) => one(sql.reply_after, Kind::Reply, [seq(*after)]),
        Scan::LooseEvents(after, until) => {
            one(sql.event_loose, Kind::Event, [seq(*after), seq(*until)])
        }
        Scan::LooseEnded(after, until) => {
            one(sql.ended_loose, Kind::Ended, [seq(*after), seq(*until)])
        }

        Scan::Owned(engine) => many(sql.run_owned, Kind::Run, [text(&engine_text(*engine))]),
        Scan::Listening(number, from) => {
            many(sql.run_listening, Kind::Run, [int(*number), seq(*from)])
        }
        Scan::Lane(lane, after) => many(sql.run_lane, Kind::Run, [seq(*lane), seq(*after)]),
        Scan::RunsOf(event) => many(sql.run_of_event, Kind::Run, [seq(*event)]),
        Scan::EndedOf(event) => many(sql.ended_of_event, Kind::Ended, [seq(*event)]),
        Scan::Steps(run) => many(sql.step_of_run, Kind::Step, [seq(*run)]),
        Scan::Items(run) => many(sql.item_of_run, Kind::Item, [seq(*run)]),
        Scan::ItemsOf(event) => many(sql.item_of_event, Kind::Item, [seq(*event)]),
        Scan::Signals(run) => many(sql.signal_of_run, Kind::Signal, [seq(*run)]),
        Scan::Inbox(run, name) => many(sql.signal_inbox, Kind::Signal, [seq(*run), text(name)]),
        Scan::Chunks(run, after) => {
            many(sql.chunk_of_run, Kind::Chunk, [seq(*run), int((*after).into())])
        }
        Scan::Chores(ws, topic) => many(sql.chore_of_topic, Kind::Chore, [text(ws), text(topic)]),
        Scan::ChoresBelow(ws, topic, below) => {
            many(sql.chore_newest, Kind::Chore, [text(ws), text(topic), seq(*below)])
        }
        Scan::WaitPaths(ws, name) => {
            many(sql.wait_path_of_name, Kind::WaitPath, [text(ws), text(name)])
        }
        Scan::Waits(ws, name, path, value, run, step) => {
            let cells = [text(ws), text(name), text(path), bytes(value), seq(*run), text(step)];
            many(sql.wait_of_value, Kind::Wait, cells)
        }
        Scan::Receipts(event) => many(sql.receipt_of_event, Kind::Receipt, [seq(*event)]),
        Scan::ReceiptsBelow(ws, below) => {
            many(sql.receipt_newest, Kind::Receipt, [text(ws), seq(*below)])
        }
        Scan::AuditBelow(ws, below) => many(sql.audit_newest, Kind::Audit, [text(ws), seq(*below)]),
        Scan::AuditOf(ws, subject, below) => {
            let cells = [text(ws), text(subject), seq(*below)];
            many(sql.audit_of_subject, Kind::Audit, cells)
        }
        Scan::EventsBelow(ws, below) => {
            many(sql.event_newest, Kind::Event, [text(ws), seq(*below)])
        }
        Scan::Window(run) => many(sql.gate_of_run, Kind::Gate, [seq(*run)]),
        Scan::Gates(prefix) => {
            many(sql.gate_prefix, Kind::Gate, [bytes(prefix), bytes(&prefix_end(prefix))])
        }
        Scan::GatesBetween(from, to) => many(sql.gate_prefix, Kind::Gate, [bytes(from), bytes(to)]),
        Scan::Log(stream, from) => {
            many(sql.log_of_stream, Kind::StreamEventRow, [seq(*stream), int(*from)])
        }
        Scan::Feed(ws, after) => many(sql.log_feed, Kind::StreamEventRow, [text(ws), int(*after)]),
        Scan::FeedBack(ws, before) => {
            many(sql.log_feed_back, Kind::StreamEventRow, [text(ws), int(*before)])
        }
        Scan::Snapshots(stream) => {
            many(sql.snapshot_of_stream, Kind::StreamSnapshot, [seq(*stream)])
        }
        Scan::StreamOf(number) => many(sql.stream_of_number, Kind::Stream, [seq(*number)]),
        Scan::Streams(ws, after) => {
            many(sql.stream_of_workspace, Kind::Stream, [text(ws), text(after)])
        }
        Scan::Subs(ws, reaction, stream) => {
            let cells = [text(ws), text(reaction), text(stream)];
            many(sql.sub_of_workspace, Kind::Subscription, cells)
        }
        Scan::SchedulesOf(ws, app, workflow) => {
            let cells = [text(ws), text(app), text(workflow)];
            many(sql.schedule_of_workflow, Kind::Schedule, cells)
        }
    };
    Request::Plain(plain)
}

/// Returns the statement of a count, and its parameters without the last one, the limit.
/// PostgreSQL's statements run many counts at once.
pub(crate) fn count(sql: &SharedStatements, count: &Count) -> (&'static str, Vec<Cell>) {
    match count {
        Count::Live(lane) => (sql.run_count, vec![seq(*lane)]),
        Count::Driven(lane) => (sql.run_driven_count, vec![seq(*lane)]),
        Count::Waiting(lane) => (sql.run_parked_count, vec![seq(*lane), text(WAITING)]),
        Count::Paused(lane) => (sql.run_parked_count, vec![seq(*lane), text(PAUSED)]),
        Count::Ready(ws, turn) => {
            (sql.run_ready_count, vec![text(ws), seq(turn.workflow), seq(turn.lane)])
        }
        Count::Queue(gate) => (sql.run_queue_count, vec![bytes(gate.as_bytes())]),
    }
}

/// Creates a scan that PostgreSQL runs with one statement per scan.
fn one<const N: usize>(statement: &'static str, kind: RowKind, cells: [Cell; N]) -> Plain {
    Plain { statement, kind, cells: cells.into(), batched: false }
}

/// Creates a scan that PostgreSQL runs together with all scans of the same kind, in one statement.
fn many<const N: usize>(statement: &'static str, kind: RowKind, cells: [Cell; N]) -> Plain {
    Plain { statement, kind, cells: cells.into(), batched: true }
}

pub(crate) fn int(number: i64) -> Cell {
    Cell::Int(Some(number))
}

pub(crate) fn seq(number: Seq) -> Cell {
    int(number.0)
}

pub(crate) fn text(text: &str) -> Cell {
    Cell::Text(Some(text.to_owned()))
}

pub(crate) fn bytes(bytes: &[u8]) -> Cell {
    Cell::Bytes(Some(bytes.to_vec()))
}
