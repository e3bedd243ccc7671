//! `View`: reads rows inside one transaction.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use rusqlite::{
    Connection, ToSql, params_from_iter,
    types::{ToSqlOutput, Value, ValueRef},
};
use tidegate_core::{
    catalog::Catalog,
    id::Seq,
    reads::{Count, Scan},
    row::{Row, RowKey, RowKind, Run, Workspace},
    time::Timestamp,
    turn::{self, Claim, Turn},
};

use super::{error::refused, statements as sql};
use crate::{
    StoreError, Visit,
    catalogs::Catalogs,
    codec::{self, Cell, ColumnType, Table},
    scans::{self, Plain, Request, bytes, int, seq, text},
    single_writer::Source,
};

/// View of the rows inside one transaction.
pub(super) struct View<'a> {
    pub(super) db: &'a Connection,
    pub(super) catalogs: &'a Catalogs,
}

impl Source for View<'_> {
    fn row(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        let kind = key.kind();
        Ok(rows(self.db, kind, sql::of(kind).read, &codec::key_cells(key))?.pop())
    }

    fn scan(&self, scan: &Scan, limit: u32, now: Timestamp) -> Result<Vec<Row>, StoreError> {
        let (kind, sql, mut cells) = match scans::request(sql::shared(), scan) {
            Request::Plain(Plain { statement, kind, cells, .. }) => (kind, statement, cells),
            Request::Queue(key) => {
                let gate = self.row(&RowKey::Gate(key.clone()))?;
                let Some(Row::Gate(gate)) = gate else { return Ok(Vec::new()) };
                (RowKind::Run, sql::shared().run_queue, vec![seq(gate.id)])
            }
            Request::Ready(claim) => return self.ready(claim, limit),
            Request::Live(lanes, below) => return self.newest(lanes, None, below, limit),
            Request::Ended(lanes, states, below) => {
                return self.newest(lanes, Some(states), below, limit);
            }
            Request::Work(ws, reaction) => {
                let cells = vec![text(ws), text(reaction), int(now.micros())];
                (RowKind::Subscription, sql::shared().sub_work, cells)
            }
        };
        cells.push(int(limit.into()));
        rows(self.db, kind, sql, &cells)
    }

    fn count(&self, count: &Count, limit: u32) -> Result<u32, StoreError> {
        let (sql, mut cells) = scans::count(sql::shared(), count);
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
        let rows = rows(self.db, RowKind::Def, sql::shared().def_of_workspace, &[text(ws)])?;
        let defs = rows.into_iter().filter_map(|row| {
            let Row::Def(def) = row else { return None };
            Some(def)
        });
        Ok(self.catalogs.put(ws, epoch, defs.collect())?)
    }
}

impl View<'_> {
    /// Reads ready runs by turns: the first run of each workflow, then the second of each, and so
    /// on. One index step finds the next lane with ready runs, so that neither lanes without ready
    /// runs nor whole backlogs are read.
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
                let more = rows(self.db, RowKind::Run, sql::shared().run_ready, &cells)?;
                runs.extend(more.into_iter().filter_map(as_run));
            }
        }
        Ok(claim.take(runs, limit).into_iter().map(Row::Run).collect())
    }

    /// Returns the first ready run of the first lane between two turns that has one.
    fn next_lane(
        &self,
        ws: &Workspace,
        from: Turn,
        to: Turn,
    ) -> Result<Option<Box<Run>>, StoreError> {
        let bounds = [from.workflow, from.lane, to.workflow, to.lane].map(seq);
        let cells = [&[text(ws)], &bounds[..]].concat();
        let runs = rows(self.db, RowKind::Run, sql::own().run_ready_next, &cells)?;
        Ok(runs.into_iter().find_map(as_run))
    }

    /// Reads the newest runs of several lanes, lane by lane: runs that have not ended, or runs that
    /// have ended in one of the given states.
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
                runs.extend(rows(self.db, RowKind::Run, sql::shared().run_newest, &cells)?);
                continue;
            };
            for state in states {
                let cells = [&cells[..], &[text(state)]].concat();
                runs.extend(rows(self.db, RowKind::Ended, sql::shared().ended_newest, &cells)?);
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
    kind: RowKind,
    sql: &str,
    cells: &[Cell],
) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    each(db, kind, sql, cells, |row| rows.push(row))?;
    Ok(rows)
}

fn as_run(row: Row) -> Option<Box<Run>> {
    let Row::Run(run) = row else { return None };
    Some(run)
}

/// Visits the rows of a statement, in its order.
fn each(
    db: &Connection,
    kind: RowKind,
    sql: &str,
    cells: &[Cell],
    mut take: impl FnMut(Row),
) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(refused)?;
    let table = Table::of(kind);
    let mut rows = statement.query(params_from_iter(cells)).map_err(refused)?;
    while let Some(row) = rows.next().map_err(refused)? {
        let columns = table.columns.iter().enumerate();
        let cells = columns.map(|(at, column)| cell(table, *column, row.get_ref(at)));
        take(codec::row(kind, cells.collect::<Result<_, _>>()?)?);
    }
    Ok(())
}

/// Visits all rows in key order, in one transaction.
pub(super) fn walk(db: &mut Connection, visit: &mut Visit) -> Result<(), StoreError> {
    let tx = db.transaction().map_err(refused)?;
    for kind in RowKind::ALL {
        each(&tx, kind, sql::of(kind).dump, &[], |row| visit(&row))?;
    }
    Ok(())
}

fn cell(
    table: &Table,
    (name, kind): codec::Column,
    value: rusqlite::Result<ValueRef<'_>>,
) -> Result<Cell, StoreError> {
    let corrupt =
        |reason: &str| StoreError::Corrupt(format!("{}.{name}: {reason}", table.name).into());
    match (kind, value.map_err(refused)?) {
        (ColumnType::Int, ValueRef::Null) => Ok(Cell::Int(None)),
        (ColumnType::Text, ValueRef::Null) => Ok(Cell::Text(None)),
        (ColumnType::Bytes, ValueRef::Null) => Ok(Cell::Bytes(None)),
        (ColumnType::Int, ValueRef::Integer(number)) => Ok(int(number)),
        (ColumnType::Text, ValueRef::Text(bytes)) => match str::from_utf8(bytes) {
            Ok(valid) => Ok(text(valid)),
            Err(error) => Err(corrupt(&error.to_string())),
        },
        (ColumnType::Bytes, ValueRef::Blob(blob)) => Ok(bytes(blob)),
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
