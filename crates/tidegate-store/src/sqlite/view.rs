//! Reads of rows inside one transaction.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use rusqlite::{
    Connection, ToSql, params_from_iter,
    types::{ToSqlOutput, Value, ValueRef},
};
use tidegate_core::{
    catalog::Catalog,
    id::Seq,
    reads::{Count, Scan},
    row::{Row, RowKey, Run, Workspace},
    time::Timestamp,
    turn::{self, Claim, Turn},
};

use super::{error::refused, statements as sql};
use crate::{
    StoreError, Visit,
    catalogs::Catalogs,
    codec::{self, Cell, ColumnType, PAUSED, Table, WAITING},
    single_writer::Source,
};

/// View of the rows inside one transaction.
pub(super) struct View<'a> {
    pub(super) db: &'a Connection,
    pub(super) catalogs: &'a Catalogs,
}

impl Source for View<'_> {
    fn row(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        let table = Table::of(key);
        Ok(rows(self.db, table, sql::of(table).read, &codec::key_cells(key))?.pop())
    }

    #[expect(clippy::too_many_lines, reason = "one line or two for every scan there is")]
    fn scan(&self, scan: &Scan, limit: u32, now: Timestamp) -> Result<Vec<Row>, StoreError> {
        let (table, sql, mut cells) = match scan {
            Scan::Queue(key) => {
                let gate = self.row(&RowKey::Gate(key.clone()))?;
                let Some(Row::Gate(gate)) = gate else { return Ok(Vec::new()) };
                (Table::Run, sql::RUN_QUEUE, vec![seq(gate.id)])
            }
            Scan::Ready(claim) => return self.ready(claim, limit),
            Scan::DueGates(from) => (Table::Gate, sql::GATE_DUE, vec![int(from.micros())]),
            Scan::DueRuns(from) => (Table::Run, sql::RUN_DUE, vec![int(from.micros())]),
            Scan::DueChores(from) => (Table::Chore, sql::CHORE_DUE, vec![int(from.micros())]),
            Scan::Chores(ws, topic) => {
                (Table::Chore, sql::CHORE_OF_TOPIC, vec![text(ws), text(topic)])
            }
            Scan::Owned(engine) => {
                (Table::Run, sql::RUN_OWNED, vec![text(&codec::engine_text(*engine))])
            }
            Scan::Lane(lane, after) => (Table::Run, sql::RUN_LANE, vec![seq(*lane), seq(*after)]),
            Scan::Live(lanes, below) => return self.newest(lanes, None, *below, limit),
            Scan::Ended(lanes, states, below) => {
                return self.newest(lanes, Some(states), *below, limit);
            }
            Scan::Engines => (Table::Engine, sql::ENGINE_WATCHED, Vec::new()),
            Scan::Steps(run) => (Table::Step, sql::STEP_OF_RUN, vec![seq(*run)]),
            Scan::Items(run) => (Table::Item, sql::ITEM_OF_RUN, vec![seq(*run)]),
            Scan::WaitPaths(ws, name) => {
                (Table::WaitPath, sql::WAIT_PATH_OF_NAME, vec![text(ws), text(name)])
            }
            Scan::Waits(ws, name, path, value, run, step) => {
                let filed = [text(ws), text(name), text(path), bytes(value)];
                let cells = filed.into_iter().chain([seq(*run), text(step)]).collect();
                (Table::Wait, sql::WAIT_OF_VALUE, cells)
            }
            Scan::Inbox(run, name) => {
                (Table::Signal, sql::SIGNAL_INBOX, vec![seq(*run), text(name)])
            }
            Scan::Receipts(event) => (Table::Receipt, sql::RECEIPT_OF_EVENT, vec![seq(*event)]),
            Scan::Window(run) => (Table::Gate, sql::GATE_OF_RUN, vec![seq(*run)]),
            Scan::Gates(prefix) => {
                let cells = vec![bytes(prefix), bytes(&codec::prefix_end(prefix))];
                (Table::Gate, sql::GATE_PREFIX, cells)
            }
            Scan::Log(stream, from) => {
                (Table::Log, sql::LOG_OF_STREAM, vec![seq(*stream), int(*from)])
            }
            Scan::Feed(ws, after) => (Table::Log, sql::LOG_FEED, vec![text(ws), int(*after)]),
            Scan::Work(ws, reaction) => (
                Table::Subscription,
                sql::SUB_WORK,
                vec![text(ws), text(reaction), int(now.micros())],
            ),
            Scan::Subs(ws, reaction, stream) => (
                Table::Subscription,
                sql::SUB_OF_WORKSPACE,
                vec![text(ws), text(reaction), text(stream)],
            ),
            Scan::Streams(ws, after) => {
                (Table::Stream, sql::STREAM_OF_WORKSPACE, vec![text(ws), text(after)])
            }
            Scan::Schedules => (Table::Schedule, sql::SCHEDULE_NEXT, Vec::new()),
            Scan::SchedulesOf(ws, app, workflow) => {
                let cells = vec![text(ws), text(app), text(workflow)];
                (Table::Schedule, sql::SCHEDULE_OF_WORKFLOW, cells)
            }
            Scan::Chunks(run, after) => {
                (Table::Chunk, sql::CHUNK_OF_RUN, vec![seq(*run), int((*after).into())])
            }
            Scan::Signals(run) => (Table::Signal, sql::SIGNAL_OF_RUN, vec![seq(*run)]),
            Scan::EventsAfter(after) => (Table::Event, sql::EVENT_AFTER, vec![seq(*after)]),
            Scan::EndedAfter(after) => (Table::Ended, sql::ENDED_AFTER, vec![seq(*after)]),
            Scan::ReceiptsAfter(after) => (Table::Receipt, sql::RECEIPT_AFTER, vec![seq(*after)]),
            Scan::LooseEvents(after, until) => {
                (Table::Event, sql::EVENT_LOOSE, vec![seq(*after), seq(*until)])
            }
            Scan::LooseEnded(after, until) => {
                (Table::Ended, sql::ENDED_LOOSE, vec![seq(*after), seq(*until)])
            }
            Scan::Buriable => (Table::Engine, sql::ENGINE_BURIABLE, Vec::new()),
            Scan::FeedBack(ws, before) => {
                (Table::Log, sql::LOG_FEED_BACK, vec![text(ws), int(*before)])
            }
            Scan::StreamOf(id) => (Table::Stream, sql::STREAM_OF_NUMBER, vec![seq(*id)]),
            Scan::RepliesAfter(after) => (Table::Reply, sql::REPLY_AFTER, vec![seq(*after)]),
            Scan::ApiKeys => (Table::ApiKey, sql::API_KEY_ALL, Vec::new()),
            Scan::Snapshots(id) => (Table::Snapshot, sql::SNAPSHOT_OF_STREAM, vec![seq(*id)]),
            Scan::EventsBelow(ws, below) => {
                (Table::Event, sql::EVENT_NEWEST, vec![text(ws), seq(*below)])
            }
            Scan::ReceiptsBelow(ws, below) => {
                (Table::Receipt, sql::RECEIPT_NEWEST, vec![text(ws), seq(*below)])
            }
            Scan::GatesBetween(from, to) => {
                (Table::Gate, sql::GATE_PREFIX, vec![bytes(from), bytes(to)])
            }
            Scan::RunsOf(event) => (Table::Run, sql::RUN_OF_EVENT, vec![seq(*event)]),
            Scan::EndedOf(event) => (Table::Ended, sql::ENDED_OF_EVENT, vec![seq(*event)]),
            Scan::ItemsOf(event) => (Table::Item, sql::ITEM_OF_EVENT, vec![seq(*event)]),
        };
        cells.push(int(limit.into()));
        rows(self.db, table, sql, &cells)
    }

    fn count(&self, count: &Count, limit: u32) -> Result<u32, StoreError> {
        let (sql, mut cells) = match count {
            Count::Live(lane) => (sql::RUN_COUNT, vec![seq(*lane)]),
            Count::Driven(lane) => (sql::RUN_DRIVEN_COUNT, vec![seq(*lane)]),
            Count::Waiting(lane) => (sql::RUN_PARKED_COUNT, vec![seq(*lane), text(WAITING)]),
            Count::Paused(lane) => (sql::RUN_PARKED_COUNT, vec![seq(*lane), text(PAUSED)]),
            Count::Ready(ws, turn) => {
                (sql::RUN_READY_COUNT, vec![text(ws), seq(turn.workflow), seq(turn.lane)])
            }
            Count::Queue(gate) => (sql::RUN_QUEUE_COUNT, vec![bytes(gate.as_bytes())]),
        };
        cells.push(int(limit.into()));
        let mut statement = self.db.prepare_cached(sql).map_err(refused)?;
        let counted = statement.query_row(params_from_iter(&cells), |row| row.get(0));
        counted.map_err(refused)
    }

    fn catalog(&self, ws: &Workspace) -> Result<Arc<Catalog>, StoreError> {
        let epoch = match self.row(&RowKey::Epoch(ws.clone()))? {
            Some(Row::Epoch(epoch)) => epoch.n,
            _ => 0,
        };
        if let Some(catalog) = self.catalogs.get(ws, epoch) {
            return Ok(catalog);
        }
        let rows = rows(self.db, Table::Def, sql::DEF_OF_WORKSPACE, &[text(ws)])?;
        let defs = rows.into_iter().filter_map(|row| {
            let Row::Def(def) = row else { return None };
            Some(def)
        });
        Ok(self.catalogs.put(ws, epoch, defs.collect())?)
    }
}

impl View<'_> {
    /// Reads ready runs in the order of their turns. A step through the index finds the next lane,
    /// so that neither lanes without ready runs nor the backlog of any lane is read.
    fn ready(&self, claim: &Claim, limit: u32) -> Result<Vec<Row>, StoreError> {
        let (mut first, mut workflows) = (Vec::new(), BTreeSet::new());
        'ranges: for &(mut from, to) in &claim.turns {
            while let Some(run) = self.next_lane(&claim.ws, from, to)? {
                let Turn { workflow, lane } = Turn::of(&run);
                if !workflows.contains(&workflow) && workflows.len() >= limit as usize {
                    break 'ranges;
                }
                workflows.insert(workflow);
                first.push(run);
                from = Turn { workflow, lane: Seq(lane.0.saturating_add(1)) };
            }
        }
        let share = turn::share(limit, workflows.len());
        let mut runs = first;
        if share > 1 {
            for Turn { workflow, lane } in std::mem::take(&mut runs).iter().map(|run| Turn::of(run))
            {
                let cells = [text(&claim.ws), seq(workflow), seq(lane), int(share.into())];
                let found = rows(self.db, Table::Run, sql::RUN_READY, &cells)?;
                runs.extend(found.into_iter().filter_map(as_run));
            }
        }
        Ok(claim.take(runs, limit).into_iter().map(Row::Run).collect())
    }

    /// Returns the first ready run of the first lane from one turn up to another.
    fn next_lane(
        &self,
        ws: &Workspace,
        from: Turn,
        to: Turn,
    ) -> Result<Option<Box<Run>>, StoreError> {
        let bounds = [from.workflow, from.lane, to.workflow, to.lane].map(seq);
        let cells = [&[text(ws)], &bounds[..]].concat();
        let found = rows(self.db, Table::Run, sql::RUN_READY_NEXT, &cells)?;
        Ok(found.into_iter().find_map(as_run))
    }

    /// Reads the newest runs of several lanes, lane by lane as in [`Self::ready`]: live runs, or
    /// runs ended in these states.
    fn newest(
        &self,
        lanes: &[Seq],
        states: Option<&[&str]>,
        below: Seq,
        limit: u32,
    ) -> Result<Vec<Row>, StoreError> {
        let mut runs = Vec::new();
        for lane in lanes.iter().copied().collect::<BTreeSet<Seq>>() {
            let cells = [seq(lane), seq(below), int(limit.into())];
            let Some(states) = states else {
                runs.extend(rows(self.db, Table::Run, sql::RUN_NEWEST, &cells)?);
                continue;
            };
            for state in states {
                let cells = [&cells[..], &[text(state)]].concat();
                runs.extend(rows(self.db, Table::Ended, sql::ENDED_NEWEST, &cells)?);
            }
        }
        runs.sort_by_key(|row| Reverse(row.key()));
        runs.truncate(limit as usize);
        Ok(runs)
    }
}

/// Returns the rows of a statement, in its order.
pub(super) fn rows(
    db: &Connection,
    table: Table,
    sql: &str,
    cells: &[Cell],
) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    each(db, table, sql, cells, |row| rows.push(row))?;
    Ok(rows)
}

fn as_run(row: Row) -> Option<Box<Run>> {
    let Row::Run(run) = row else { return None };
    Some(run)
}

/// Visits the rows of a statement, in its order.
fn each(
    db: &Connection,
    table: Table,
    sql: &str,
    cells: &[Cell],
    mut take: impl FnMut(Row),
) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(refused)?;
    let mut found = statement.query(params_from_iter(cells)).map_err(refused)?;
    while let Some(row) = found.next().map_err(refused)? {
        let columns = table.columns().iter().enumerate();
        let cells = columns.map(|(at, column)| cell(table, *column, row.get_ref(at)));
        take(codec::row(table, cells.collect::<Result<_, _>>()?)?);
    }
    Ok(())
}

/// Visits all rows in key order, in one transaction.
pub(super) fn walk(db: &mut Connection, visit: &mut Visit) -> Result<(), StoreError> {
    let tx = db.transaction().map_err(refused)?;
    for table in Table::ALL {
        each(&tx, table, sql::of(table).dump, &[], |row| visit(&row))?;
    }
    Ok(())
}

fn cell(
    table: Table,
    (name, kind): codec::Column,
    value: rusqlite::Result<ValueRef<'_>>,
) -> Result<Cell, StoreError> {
    let corrupt =
        |reason: &str| StoreError::Corrupt(format!("{}.{name}: {reason}", table.name()).into());
    match (kind, value.map_err(refused)?) {
        (ColumnType::Int, ValueRef::Null) => Ok(Cell::Int(None)),
        (ColumnType::Text, ValueRef::Null) => Ok(Cell::Text(None)),
        (ColumnType::Bytes, ValueRef::Null) => Ok(Cell::Bytes(None)),
        (ColumnType::Int, ValueRef::Integer(number)) => Ok(int(number)),
        (ColumnType::Text, ValueRef::Text(bytes)) => match str::from_utf8(bytes) {
            Ok(it) => Ok(text(it)),
            Err(error) => Err(corrupt(&error.to_string())),
        },
        (ColumnType::Bytes, ValueRef::Blob(it)) => Ok(bytes(it)),
        (_, other) => Err(corrupt(&format!("expected {kind:?}, got {:?}", other.data_type()))),
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Int(Some(number)) => ToSqlOutput::Owned(Value::Integer(*number)),
            Self::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(Some(bytes)) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::Int(None) | Self::Text(None) | Self::Bytes(None) => {
                ToSqlOutput::Owned(Value::Null)
            }
        })
    }
}

fn int(number: i64) -> Cell {
    Cell::Int(Some(number))
}

fn seq(number: Seq) -> Cell {
    int(number.0)
}

fn text(text: &str) -> Cell {
    Cell::Text(Some(text.to_owned()))
}

fn bytes(bytes: &[u8]) -> Cell {
    Cell::Bytes(Some(bytes.to_vec()))
}
