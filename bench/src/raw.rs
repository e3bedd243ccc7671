//! The raw limit: the same changes that the engine made, written again without an engine.
//!
//! The rows are encoded beforehand. The measured time contains only the insert, update and delete
//! statements of the store on its tables, in the same transactions as the engine's: no reads, no
//! locks, no decisions.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::{Duration, Instant},
};

use tidegate_core::{reads::Change, row::RowKind};
use tidegate_store::{
    codec::{Cell, ColumnType, Table, cells, key_cells},
    sql::{self, Dialect},
};
use tokio_postgres::Statement;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// Returns the statement that the store uses for this verb on a table.
    fn statement(self, dialect: Dialect, kind: RowKind) -> &'static str {
        let statements = sql::of(dialect, kind);
        match self {
            Self::Insert => statements.insert,
            Self::Update => statements.update,
            Self::Delete => statements.delete,
        }
    }
}

/// The encoded rows that one transaction writes, grouped by kind and verb.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction(Vec<(RowKind, Verb, Vec<Vec<Cell>>)>);

impl Transaction {
    /// Encodes the changes of a transaction.
    pub(crate) fn new(changes: &[Change]) -> Self {
        let mut groups: BTreeMap<(RowKind, Verb), Vec<Vec<Cell>>> = BTreeMap::new();
        // The row of the engine is left out: it is not part of a workload.
        for change in changes.iter().filter(|it| it.key().kind() != RowKind::Engine) {
            let (verb, row) = match change {
                Change::Insert(row) => (Verb::Insert, cells(row)),
                Change::Update(row) => (Verb::Update, cells(row)),
                Change::Delete(key) => (Verb::Delete, key_cells(key)),
            };
            groups.entry((change.key().kind(), verb)).or_default().push(row);
        }
        Self(groups.into_iter().map(|((kind, verb), rows)| (kind, verb, rows)).collect())
    }

    /// Merges several transactions into one. Their rows must be distinct.
    pub(crate) fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        let mut groups: BTreeMap<(RowKind, Verb), Vec<Vec<Cell>>> = BTreeMap::new();
        for (kind, verb, rows) in all.into_iter().flat_map(|one| one.0) {
            groups.entry((kind, verb)).or_default().extend(rows);
        }
        Self(groups.into_iter().map(|((kind, verb), rows)| (kind, verb, rows)).collect())
    }

    /// Returns the number of rows that this transaction writes.
    pub(crate) fn rows(&self) -> usize {
        self.0.iter().map(|(_, _, rows)| rows.len()).sum()
    }
}

/// Writes transactions into a SQLite file that has the store's tables. Returns the time it took.
pub(crate) fn sqlite(
    connection: &rusqlite::Connection,
    all: &[Transaction],
) -> rusqlite::Result<Duration> {
    let started = Instant::now();
    for transaction in all {
        connection.execute_batch("begin immediate")?;
        execute(connection, transaction)?;
        connection.execute_batch("commit")?;
    }
    Ok(started.elapsed())
}

/// Executes the statements of one transaction, without BEGIN and COMMIT.
pub(crate) fn execute(
    connection: &rusqlite::Connection,
    transaction: &Transaction,
) -> rusqlite::Result<()> {
    for (kind, verb, rows) in &transaction.0 {
        let mut statement = connection.prepare_cached(verb.statement(Dialect::Sqlite, *kind))?;
        for row in rows {
            statement.execute(rusqlite::params_from_iter(row.iter().map(value)))?;
        }
    }
    Ok(())
}

fn value(cell: &Cell) -> rusqlite::types::Value {
    use rusqlite::types::Value;
    match cell {
        Cell::Int(Some(n)) => Value::Integer(*n),
        Cell::Text(Some(text)) => Value::Text(text.clone()),
        Cell::Bytes(Some(bytes)) => Value::Blob(bytes.clone()),
        Cell::Int(None) | Cell::Text(None) | Cell::Bytes(None) => Value::Null,
    }
}

type Param = Box<dyn tokio_postgres::types::ToSql + Send + Sync>;

/// Parameters of the statements of one transaction: one list per statement, one array per column.
type Columns = Vec<Vec<Param>>;

/// Writes transactions into a PostgreSQL schema that has the store's tables. Returns the time it
/// took.
pub(crate) async fn postgres(
    client: &tokio_postgres::Client,
    all: &[Transaction],
) -> Result<Duration, tokio_postgres::Error> {
    let prepared = Prepared::new(client, all).await?;
    let columns: Vec<Columns> = all.iter().map(columns).collect();
    let started = Instant::now();
    for (transaction, columns) in all.iter().zip(&columns) {
        prepared.fly(client, transaction, columns).await?;
    }
    Ok(started.elapsed())
}

/// All statements that a list of transactions needs, prepared on one connection.
pub(crate) struct Prepared {
    statements: BTreeMap<(RowKind, Verb), Statement>,
    begin: Statement,
    commit: Statement,
}

impl Prepared {
    pub(crate) async fn new(
        client: &tokio_postgres::Client,
        all: &[Transaction],
    ) -> Result<Self, tokio_postgres::Error> {
        let mut statements = BTreeMap::new();
        for (kind, verb, _) in all.iter().flat_map(|transaction| &transaction.0) {
            if let Entry::Vacant(vacant) = statements.entry((*kind, *verb)) {
                let statement = verb.statement(Dialect::Postgres, *kind);
                vacant.insert(client.prepare(statement).await?);
            }
        }
        let (begin, commit) = (client.prepare("begin").await?, client.prepare("commit").await?);
        Ok(Self { statements, begin, commit })
    }

    /// Sends BEGIN, one statement for each table and verb, and COMMIT in one pipeline.
    pub(crate) async fn fly(
        &self,
        client: &tokio_postgres::Client,
        transaction: &Transaction,
        columns: &Columns,
    ) -> Result<(), tokio_postgres::Error> {
        let params: Vec<Vec<&(dyn tokio_postgres::types::ToSql + Sync)>> = columns
            .iter()
            .map(|columns| columns.iter().map(|column| &**column as _).collect())
            .collect();
        let writes = transaction.0.iter().zip(&params).map(|((kind, verb, _), params)| {
            client.query(&self.statements[&(*kind, *verb)], params)
        });
        let ended = futures_util::future::try_join3(
            client.query(&self.begin, &[]),
            futures_util::future::try_join_all(writes),
            client.query(&self.commit, &[]),
        );
        ended.await.map(drop)
    }
}

/// Returns the parameters of the statements of one transaction.
pub(crate) fn columns(of: &Transaction) -> Columns {
    of.0.iter().map(|(kind, verb, rows)| arrays(Table::of(*kind), *verb, rows)).collect()
}

/// Returns the columns of rows, each column as one array.
fn arrays(table: &Table, verb: Verb, rows: &[Vec<Cell>]) -> Vec<Param> {
    let types = table.columns.iter().map(|(_, kind)| *kind);
    let width = if verb == Verb::Delete { table.key_len } else { table.columns.len() };
    let column = |(at, kind): (usize, ColumnType)| -> Param {
        let cells = rows.iter().map(move |row| &row[at]);
        match kind {
            ColumnType::Int => Box::new(cells.map(int).collect::<Vec<_>>()),
            ColumnType::Text => Box::new(cells.map(text).collect::<Vec<_>>()),
            ColumnType::Bytes => Box::new(cells.map(bytes).collect::<Vec<_>>()),
        }
    };
    types.take(width).enumerate().map(column).collect()
}

fn int(cell: &Cell) -> Option<i64> {
    if let Cell::Int(n) = cell { *n } else { None }
}

fn text(cell: &Cell) -> Option<String> {
    if let Cell::Text(text) = cell { text.clone() } else { None }
}

fn bytes(cell: &Cell) -> Option<Vec<u8>> {
    if let Cell::Bytes(bytes) = cell { bytes.clone() } else { None }
}
