//! Limits of a transactional step on the connection that writes: forbidden statements, and timeout.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, Error, ErrorCode, Params, Row, Statement,
    hooks::{AuthAction, AuthContext, Authorization},
};
use tidegate_core::row::RowKind;

use crate::{TransactionError, codec::Table};

/// Number of SQLite instructions between two checks of the time: some tens of microseconds.
const INSTRUCTIONS: i32 = 4096;

/// Maximum timeout: longer than any sensible value, and short enough to be added to an `Instant`.
const LONGEST: Duration = Duration::from_hours(24);

/// Pragmas that a step may use, because they only read. SQLite's full-text index uses the first one
/// itself.
const READING: [&str; 2] = ["data_version", "table_info"];

/// Tables of the store that are not in the list of `schema.rs`.
const OTHER_TABLES: [&str; 2] = ["meta", "migration"];

/// Transaction that a step writes in. Tidegate commits it, together with the step's record.
pub struct SqliteTransaction<'a> {
    db: &'a Connection,
    watch: &'a Watch,
}

impl fmt::Debug for SqliteTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTransaction").finish_non_exhaustive()
    }
}

impl SqliteTransaction<'_> {
    /// Runs a statement that returns no rows, and returns the number of rows it changed.
    pub fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.said(self.db.execute(sql, params))
    }

    /// Runs several statements without parameters.
    pub fn execute_batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.said(self.db.execute_batch(sql))
    }

    /// Reads the first row of a statement.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.said(self.db.query_row(sql, params, read))
    }

    /// Prepares a statement, to read many rows or to run it many times.
    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.said(self.db.prepare(sql))
    }

    /// Returns the rowid of the row inserted last.
    pub fn last_insert_rowid(&self) -> i64 {
        self.db.last_insert_rowid()
    }

    /// Replaces the message of an error that `denial` caused: SQLite's own message has no reason.
    fn said<T>(&self, result: rusqlite::Result<T>) -> rusqlite::Result<T> {
        result.map_err(|error| match (error.sqlite_error(), self.watch.state().denied.take()) {
            (Some(code), Some(why)) if code.code == ErrorCode::AuthorizationForStatementDenied => {
                Error::SqliteFailure(*code, Some(why))
            }
            _ => error,
        })
    }
}

/// State that the hooks of the connection read to enforce the limits of a step.
///
/// The hooks are installed once and stay on the connection, because installing them makes SQLite
/// compile all statements again.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Deadline of the running step; `None` while no step runs.
    until: Option<Instant>,
    /// Reason why the last statement was denied.
    denied: Option<String>,
}

impl Watch {
    /// Installs the hooks.
    pub(super) fn over(db: &mut Connection) -> rusqlite::Result<Self> {
        let watch = Self::default();
        let own = watch.clone();
        db.authorizer(Some(move |context: AuthContext<'_>| own.authorize(&context.action)))?;
        let own = watch.clone();
        db.progress_handler(INSTRUCTIONS, Some(move || own.is_late()))?;
        // A statement such as `insert or rollback` can end the transaction; the next statement
        // would then be committed on its own.
        let own = watch.clone();
        db.commit_hook(Some(move || own.state().until.is_some()))?;
        Ok(watch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self) -> bool {
        self.state().until.is_some_and(|until| Instant::now() >= until)
    }

    fn authorize(&self, action: &AuthAction<'_>) -> Authorization {
        let mut state = self.state();
        state.denied = state.until.and_then(|_| denial(action));
        if state.denied.is_some() { Authorization::Deny } else { Authorization::Allow }
    }

    /// Runs the statements of a step in the transaction that is open on the connection.
    pub(super) fn run<T, E>(
        &self,
        db: &Connection,
        limit: Duration,
        step: impl FnOnce(&SqliteTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, TransactionError<E>> {
        let part = Part::begin(self, limit);
        let done = step(&SqliteTransaction { db, watch: self });
        let late = self.is_late();
        drop(part);
        if late {
            return Err(TransactionError::TimedOut(limit));
        }
        let value = done.map_err(TransactionError::Step)?;
        if db.is_autocommit() {
            let reason = "one of its statements rolled it back, and the step went on";
            return Err(TransactionError::Spoiled(reason.to_owned()));
        }
        Ok(value)
    }
}

/// Guard while a step runs: dropping it, also in a panic, ends the limits.
struct Part<'a>(&'a Watch);

impl<'a> Part<'a> {
    fn begin(watch: &'a Watch, limit: Duration) -> Self {
        *watch.state() = State { until: Some(Instant::now() + limit.min(LONGEST)), denied: None };
        Self(watch)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        *self.0.state() = State::default();
    }
}

/// Returns the reason why a step must not do an action; `None` if the action is allowed.
fn denial(action: &AuthAction<'_>) -> Option<String> {
    if let AuthAction::Transaction { .. } = action {
        return Some(
            "a step may not begin, commit or roll back: its transaction is committed with its \
             record, and undone by an error; use a savepoint to undo a part"
                .to_owned(),
        );
    }
    if let AuthAction::Pragma { pragma_name, .. } = action
        && READING.contains(pragma_name)
    {
        return None;
    }
    if let AuthAction::Attach { .. } | AuthAction::Detach { .. } | AuthAction::Pragma { .. } =
        action
    {
        return Some("a step may not attach a file or use a pragma".to_owned());
    }
    if let AuthAction::CreateTempTable { .. }
    | AuthAction::CreateTempIndex { .. }
    | AuthAction::CreateTempTrigger { .. }
    | AuthAction::CreateTempView { .. } = action
    {
        return Some("a step may not create temporary objects: they outlive it".to_owned());
    }
    if let AuthAction::Unknown { code, .. } = action {
        return Some(format!("a step may not do the unknown action {code} of SQLite"));
    }
    let table = changed(action).filter(|table| is_ours(table))?;
    Some(format!("a step may not change `{table}`, which is a table of Tidegate"))
}

/// Returns the table that an action would change.
fn changed<'a>(action: &AuthAction<'a>) -> Option<&'a str> {
    if let AuthAction::Insert { table_name }
    | AuthAction::Update { table_name, .. }
    | AuthAction::Delete { table_name }
    | AuthAction::AlterTable { table_name, .. }
    | AuthAction::DropTable { table_name }
    | AuthAction::CreateIndex { table_name, .. }
    | AuthAction::DropIndex { table_name, .. }
    | AuthAction::CreateTrigger { table_name, .. } = action
    {
        return Some(table_name);
    }
    None
}

fn is_ours(table: &str) -> bool {
    let mut ours = RowKind::ALL.into_iter().map(|kind| Table::of(kind).name).chain(OTHER_TABLES);
    ours.any(|name| table.eq_ignore_ascii_case(name))
}
